# SPDX-License-Identifier: MIT OR Apache-2.0
"""System calls of a thread that records to disk: as many for many events as for few."""

import pathlib
import shutil

import processes
from programs import Built, Program
from results import Bar, Results
from tracers import Tracer

NAME = "system-calls"


def run(results: Results, tracers: list[Tracer], built: Built, folder: pathlib.Path) -> None:
    if not shutil.which("strace"):
        results.leave_out("system calls", "no strace here (Debian: strace)")
        return
    few = results.scale.traced_events
    for tracer in tracers:
        calls_of_few, calls_of_many = count_calls(tracer, built.events[tracer.name], folder / "strace", [few, 2 * few])
        results.add(NAME, f"{tracer.name}: system calls, {few} events", "calls", [calls_of_few])
        results.add(NAME, f"{tracer.name}: system calls, {2 * few} events", "calls", [calls_of_many])
        bar = Bar(at_most=0) if tracer.name == "Piste" else None
        results.hold(NAME, f"{tracer.name}: system calls for {few} more events", "", calls_of_many - calls_of_few, bar)


def count_calls(tracer: Tracer, program: pathlib.Path, output: pathlib.Path, counts: list[int]) -> list[int]:
    """Of the recording thread in rounds of so many events, those of asking and answering included."""
    strace = ["strace", "-ff", "-o", output, program, "1"]
    with tracer:
        tracer.record_on_disk("discard")
        with Program(strace, tracer.environment) as traced:
            # What happens only once happens in the first round.
            for count in [counts[0], *counts]:
                traced.round("disk", count)
        tracer.end_session()
    return calls_between_answers(output)[1 : 1 + len(counts)]


def calls_between_answers(output: pathlib.Path) -> list[int]:
    calls = [0]
    for line in main_thread(output).read_text(errors="replace").splitlines():
        if line.startswith(("---", "+++")):  # Signals, and the end.
            continue
        calls[-1] += 1
        if line.startswith("write(1, "):
            calls.append(0)
    return calls


def main_thread(output: pathlib.Path) -> pathlib.Path:
    """strace writes a file for each thread; the first began with execve()."""
    for file in output.parent.glob(f"{output.name}.*"):
        if file.read_text(errors="replace").startswith("execve("):
            output = file.rename(output)
        else:
            file.unlink()
    if not output.exists():
        raise processes.Failed("strace wrote no file of the recording thread")
    return output
