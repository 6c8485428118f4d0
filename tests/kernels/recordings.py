# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads what the checks left behind on one kernel: logs and recordings. `piste` and babeltrace2 run on the host here."""

import collections
import json
import pathlib
import re
import subprocess

from guest import ROOT, Ended
from kernels import Kernel

PISTE = ROOT / "build" / "bin" / "piste"
Json = dict


class Wrong(Exception):
    """A recording does not show what it must; says what was expected and what was found."""


class Skipped(Exception):
    """A check cannot run on this kernel."""


class Recordings:
    """The folder that one guest has written."""

    def __init__(self, kernel: Kernel, release: str, out: pathlib.Path, ended: Ended) -> None:
        self.kernel = kernel
        self.release = release
        self.out = out
        self.ended = ended
        status = out / "status"
        lines = [line.split() for line in status.read_text().splitlines()] if status.exists() else []
        self.status = {check: int(number) for check, number, _ in lines}

    def log(self, check: str) -> str:
        path = self.out / "log" / check
        return path.read_text(errors="replace") if path.exists() else ""

    def file(self, name: str) -> str:
        return (self.out / name).read_text(errors="replace")

    def events(self, trace: str, *options: str) -> list[Json]:
        lines = self.read("view", trace, "--format", "ndjson", *options)
        return [json.loads(line) for line in lines.splitlines()]

    def counts(self, trace: str) -> collections.Counter[str]:
        return collections.Counter(event["name"] for event in self.events(trace))

    def analysis(self, name: str, trace: str, *options: str) -> Json:
        command = [PISTE, "analyze", name, self.out / "traces" / trace, "--json", *options]
        return json.loads(succeed(command))

    def read(self, command: str, trace: str, *options: str) -> str:
        return succeed([PISTE, command, self.out / "traces" / trace, *options])

    def whole(self, trace: str) -> collections.Counter[str]:
        """Counts the events by name, and checks what holds for every trace: all readers can read it, and all system calls have names."""
        counts = self.counts(trace)
        self.read("stats", trace)
        if "sched_switch" in counts:
            self.read("insights", trace)
        others = subprocess.run(["babeltrace2", self.out / "traces" / trace], capture_output=True, text=True, errors="replace", check=False)
        expect(f"events of {trace} in babeltrace2", len(others.stdout.splitlines()), counts.total())
        said = [line for line in others.stderr.splitlines() if re.search("WARN|ERROR|CAUSED", line)]
        # What was lost is judged by the output of `record`.
        complaints = [line for line in said if "Tracer discarded" not in line]
        expect(f"complaints of babeltrace2 about {trace}", complaints, [])
        unnamed = sorted(name for name in counts if "unknown" in name or name in ("sys_enter", "sys_exit"))
        expect(f"calls without a name in {trace}", unnamed, [])
        return counts


def succeed(command: list) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise Wrong(f"`{' '.join(map(str, command[1:3]))}` ended with status {done.returncode}: {done.stderr.strip()[:400]}")
    return done.stdout


def expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise Wrong(f"{what}: expected {expected}, found {found}")


def expect_at_least(what: str, found: int, least: int) -> None:
    if found < least:
        raise Wrong(f"{what}: expected at least {least}, found {found}")


def without_state(counts: collections.Counter[str]) -> collections.Counter[str]:
    """Leaves out the events of the state dump."""
    return collections.Counter({name: count for name, count in counts.items() if not name.startswith("lttng_statedump_")})
