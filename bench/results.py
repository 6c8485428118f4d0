# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures, what they are held to, and how both are shown."""

import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
from dataclasses import asdict, dataclass

from scale import Scale


@dataclass(frozen=True)
class Figure:
    """The samples of one quantity."""

    benchmark: str
    name: str
    unit: str
    samples: list[float]

    def percentile(self, percent: float) -> float:
        ordered = sorted(self.samples)
        return ordered[round(percent / 100 * (len(ordered) - 1))]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


@dataclass(frozen=True)
class Bar:
    """What a value is held to, once it is rounded to what is shown."""

    at_most: float | None = None
    at_least: float | None = None

    def met(self, value: float) -> bool:
        shown = round(value, 2)
        return (self.at_most is None or shown <= self.at_most) and (self.at_least is None or shown >= self.at_least)

    def __str__(self) -> str:
        return f"<= {self.at_most:g}" if self.at_most is not None else f">= {self.at_least:g}"


@dataclass(frozen=True)
class Comparison:
    benchmark: str
    name: str
    unit: str  # Empty: a ratio.
    value: float
    bar: Bar | None
    beside_hog: float | None = None  # The same beside a plain CPU hog of as many threads.


class Results:
    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self.figures: list[Figure] = []
        self.comparisons: list[Comparison] = []
        self.left_out: list[dict[str, str]] = []

    def add(self, benchmark: str, name: str, unit: str, samples: list[float]) -> Figure:
        figure = Figure(benchmark, name, unit, samples)
        self.figures.append(figure)
        return figure

    def ratio(self, name: str, above: Figure | None, below: Figure | None, bar: Bar | None = None) -> None:
        """Of the medians. Nothing when one of them was left out."""
        if above and below:
            self.hold(above.benchmark, name, "", above.median / below.median, bar)

    def hold(
        self, benchmark: str, name: str, unit: str, value: float, bar: Bar | None, beside_hog: float | None = None
    ) -> None:
        """Shows a value among the comparisons, held to the bar if there is one."""
        self.comparisons.append(Comparison(benchmark, name, unit, value, bar, beside_hog))

    def leave_out(self, what: str, why: str) -> None:
        self.left_out.append({"what": what, "why": why})

    def table(self) -> str:
        held = [comparison for comparison in self.comparisons if comparison.bar]
        free = [comparison for comparison in self.comparisons if not comparison.bar]
        lines = [f"{'':52}{'value':>10}      bar", *map(self.line_of, held), "", *map(self.line_of, free)]
        lines += ["", f"{'':52}{'median':>10}{'min':>10}{'95 %':>10}"]
        for figure in self.figures:
            numbers = (figure.median, min(figure.samples), figure.percentile(95))
            lines.append(f"{figure.name:52}" + "".join(f"{number:10.2f}" for number in numbers) + f"  {figure.unit}")
        lines += [f"\nLeft out: {left['what']}: {left['why']}." for left in self.left_out]
        if self.scale.shows_only:
            lines.append("\n--quick: the benchmarks run; their figures say nothing.")
        return "\n".join(lines)

    def line_of(self, comparison: Comparison) -> str:
        verdict = {True: "met", False: "MISSED", None: ""}[self.met(comparison)]
        value = f"{comparison.value:10.2f} {comparison.unit:4}"
        line = f"{comparison.name:52}{value} {comparison.bar or ''}  {verdict}".rstrip()
        if comparison.beside_hog is not None:
            line = f"{line:84}  beside a hog: {comparison.beside_hog:.2f}"
        return line

    def met(self, comparison: Comparison) -> bool | None:
        """None: there is nothing to meet, or too little was measured to say."""
        return None if comparison.bar is None or self.scale.shows_only else comparison.bar.met(comparison.value)

    def json(self) -> str:
        document = {
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "scale": asdict(self.scale),
            "comparisons": [
                {
                    "benchmark": comparison.benchmark,
                    "name": comparison.name,
                    "value": comparison.value,
                    "unit": comparison.unit or "ratio",
                    "bar": str(comparison.bar) if comparison.bar else None,
                    "met": self.met(comparison),
                    "beside_hog": comparison.beside_hog,
                }
                for comparison in self.comparisons
            ],
            "figures": [
                {
                    "benchmark": figure.benchmark,
                    "name": figure.name,
                    "unit": figure.unit,
                    "samples": len(figure.samples),
                    "minimum": min(figure.samples),
                    "p25": figure.percentile(25),
                    "median": figure.median,
                    "p75": figure.percentile(75),
                    "p95": figure.percentile(95),
                    "p99": figure.percentile(99),
                    "maximum": max(figure.samples),
                }
                for figure in self.figures
            ],
            "left_out": self.left_out,
        }
        return json.dumps(document, indent=2) + "\n"


def machine() -> dict[str, object]:
    model = [line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "processor": model[0].split(":", 1)[1].strip() if model else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "compiler": first_line([os.environ.get("CC", "cc"), "--version"]),
        "lttng": first_line(["lttng", "--version"]),
        "revision": first_line(["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty"]),
        "load": os.getloadavg()[0],
    }


def first_line(arguments: list[str]) -> str | None:
    try:
        return (subprocess.run(arguments, capture_output=True, text=True).stdout.splitlines() or [None])[0]
    except FileNotFoundError:
        return None
