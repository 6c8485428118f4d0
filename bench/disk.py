# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recording to disk: the bytes that an event takes, and how many events a second get there when none may be lost."""

import contextlib
import pathlib

import processes
from programs import Built, Program
from results import Results
from tracers import Tracer

NAME = "disk"


def run(results: Results, tracers: list[Tracer], built: Built, _folder: pathlib.Path) -> None:
    """One thread records as fast as it can; a full ring holds it up."""
    count = results.scale.disk_events
    rates: dict[str, list[float]] = {tracer.name: [] for tracer in tracers}
    bytes_each = {}
    with contextlib.ExitStack() as daemons:
        for tracer in tracers:
            daemons.enter_context(tracer)
        traces = {tracer.name: tracer.record_on_disk("wait") for tracer in tracers}
        with contextlib.ExitStack() as stack:
            programs = {
                tracer.name: stack.enter_context(Program([built.events[tracer.name], "1"], tracer.environment))
                for tracer in tracers
            }
            for _ in range(results.scale.disk_rounds):
                for name, program in programs.items():
                    rates[name].append(1e3 / program.round("disk", count).wall_ns)
        for tracer in tracers:
            lost = tracer.end_session()
            if lost:
                raise processes.Failed(f"{tracer.name} lost {lost} events of a program that waits for space")
            files = (file for file in traces[tracer.name].rglob("*") if file.is_file())
            bytes_each[tracer.name] = sum(file.stat().st_size for file in files) / (count * results.scale.disk_rounds)
    rate = {name: results.add(NAME, f"{name}: events to disk without loss", "M/s", rates[name]) for name in rates}
    size = {name: results.add(NAME, f"{name}: event of 4 bytes on disk", "bytes", [bytes_each[name]]) for name in rates}
    results.ratio("Piste / LTTng-UST, bytes of an event on disk", size["Piste"], size.get("LTTng-UST"))
    results.ratio("Piste / LTTng-UST, events to disk without loss", rate["Piste"], rate.get("LTTng-UST"))
