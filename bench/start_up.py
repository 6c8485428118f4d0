# SPDX-License-Identifier: MIT OR Apache-2.0
"""How much longer a program takes from fork to exit because it has an event.

That is measured without a daemon, with one, and while the program is recorded to disk.
"""

import contextlib
import pathlib

from programs import Built, Program
from results import Bar, Results
from tracers import Tracer

NAME = "start-up"
BAR = Bar(at_most=0.4)


def run(results: Results, tracers: list[Tracer], built: Built, _folder: pathlib.Path) -> None:
    measure(results, tracers, built, "no daemon", None)
    with contextlib.ExitStack() as stack:
        for tracer in tracers:
            stack.enter_context(tracer)
        measure(results, tracers, built, "with a daemon", BAR)
        for tracer in tracers:
            tracer.record_on_disk("discard")
        measure(results, tracers, built, "recorded", BAR)


def measure(results: Results, tracers: list[Tracer], built: Built, situation: str, bar: Bar | None) -> None:
    """In each round, every program is started once."""
    samples: dict[str, list[float]] = {name: [] for name in ["untraced", *(tracer.name for tracer in tracers)]}
    with contextlib.ExitStack() as stack:
        starters = {"untraced": stack.enter_context(Program([built.start]))}
        for tracer in tracers:
            starters[tracer.name] = stack.enter_context(Program([built.start], tracer.environment))
        for _ in range(results.scale.starts):
            for name, starter in starters.items():
                samples[name].append(int(starter.ask(str(built.tiny[name]))) / 1000)
    figures = {name: results.add(NAME, f"{name}: start-up, {situation}", "us", samples[name]) for name in samples}
    added = {tracer.name: figures[tracer.name].median - figures["untraced"].median for tracer in tracers}
    for name, added_us in added.items():
        results.hold(NAME, f"{name}: added start-up, {situation}", "us", added_us, None)
    if "LTTng-UST" in added:
        name = f"Piste / LTTng-UST, added start-up, {situation}"
        results.hold(NAME, name, "", added["Piste"] / added["LTTng-UST"], bar)
