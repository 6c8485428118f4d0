# SPDX-License-Identifier: MIT OR Apache-2.0
"""Resident memory: of the daemons with nothing to do, and for each registered program."""

import contextlib
import pathlib
import subprocess
import time

import processes
from programs import Built
from results import Bar, Figure, Results
from tracers import Tracer

NAME = "memory"
SETTLE_S = 0.5


def run(results: Results, tracers: list[Tracer], built: Built, _folder: pathlib.Path) -> None:
    idle = {tracer.name: measure_idle(results, tracer) for tracer in tracers}
    grown = {tracer.name: measure_programs(results, tracer, built.tiny[tracer.name]) for tracer in tracers}
    results.hold(NAME, "Piste: memory for each program", "kB", grown["Piste"].median, Bar(at_most=8))
    results.ratio("Piste / LTTng-UST, memory for each program", grown["Piste"], grown.get("LTTng-UST"))
    results.ratio("Piste / LTTng-UST, idle memory", idle["Piste"], idle.get("LTTng-UST"), Bar(at_most=1))


def measure_idle(results: Results, tracer: Tracer) -> Figure:
    """With an active session, so that all of the tracer's processes are there, and no program."""
    with tracer:
        tracer.record_on_disk("discard")
        time.sleep(SETTLE_S)
        kilobytes = processes.resident_bytes(tracer.daemons()) / 1000
    return results.add(NAME, f"{tracer.name}: daemon and consumer, idle", "kB", [kilobytes])


def measure_programs(results: Results, tracer: Tracer, program: pathlib.Path) -> Figure:
    """What registered programs add to the daemon, without a session."""
    count = results.scale.programs
    with contextlib.ExitStack() as stack:
        stack.enter_context(tracer)
        before = processes.resident_bytes(tracer.daemons())
        for _ in range(count):
            running = subprocess.Popen([program, "wait"], env=tracer.environment, stdout=subprocess.PIPE, text=True)
            stack.callback(processes.end, running)
            # A program comes so far when it is registered.
            if running.stdout.readline() != "running\n":
                raise processes.Failed(f"{program} did not run")
        time.sleep(SETTLE_S)
        kilobytes = (processes.resident_bytes(tracer.daemons()) - before) / 1000 / count
    return results.add(NAME, f"{tracer.name}: memory for each of {count} programs", "kB", [kilobytes])
