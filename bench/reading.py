# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reading traces: counting and text, one thread, against babeltrace2 on the same trace; two cores; a part of the time of a large trace; memory.

What one thread takes is CPU time, of the process and of the kernel for it; what two threads take is wall time. Rounds are interleaved.
Insights are CPU time, too.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import time
from dataclasses import dataclass

import kernel_events
import processes
from instance import missing
from programs import Built, Program
from results import Bar, Results
from tracers import Piste, Tracer

NAME = "reading"
MIXED = ["disk", "fields", "formatted"]
# So that events of all kinds are found all over the trace.
MIXED_ROUNDS = 30
KERNEL_ROUNDS = 50


@dataclass(frozen=True)
class Ran:
    cpu_s: float
    wall_s: float
    peak_mb: float


def run(results: Results, tracers: list[Tracer], built: Built, folder: pathlib.Path) -> None:
    piste = next(tracer for tracer in tracers if isinstance(tracer, Piste))
    traces = {}
    with piste:
        traces["user"] = user_trace(piste, built, folder / "user", results.scale.reading_user_events, MIXED)
        lack = missing()
        if lack:
            results.leave_out("reading a trace of the kernel", lack)
        else:
            traces["kernel"] = kernel_trace(piste, built, folder / "kernel", results.scale.reading_kernel_events)
    command = piste.binaries / "piste"
    if not shutil.which("babeltrace2"):
        results.leave_out("reading, against babeltrace2", "no babeltrace2 here (Debian: babeltrace2)")
    else:
        for name, trace in traces.items():
            against_babeltrace2(results, command, name, trace)
    for name, trace in traces.items():
        two_threads(results, command, name, trace)
    if "kernel" in traces:
        insights(results, command, traces["kernel"])
    start(results, command, traces["user"])
    for trace in traces.values():
        shutil.rmtree(trace)
    needed = 2 * results.scale.reading_large_bytes
    if shutil.disk_usage(folder).free < needed:
        results.leave_out("reading a large trace", f"less than {needed} bytes are free in {folder}")
        return
    with piste:
        # 64 bytes, and header and contexts.
        large = user_trace(piste, built, folder / "large", results.scale.reading_large_bytes // 80, ["fields"])
    large_trace(results, command, large)
    shutil.rmtree(large)


def user_trace(piste: Piste, built: Built, trace: pathlib.Path, events: int, variants: list[str]) -> pathlib.Path:
    """About as many events, with the default contexts."""
    piste.piste("create", "bench", "-o", trace)
    piste.channel("reading", "--block=forever")
    piste.piste("enable-event", "-u", "-c", "reading", "bench:disk", "bench:fields", "piste:printf")
    piste.piste("start")
    with Program([built.events["Piste"], "1"], piste.environment) as program:
        for _ in range(MIXED_ROUNDS):
            for variant in variants:
                program.round(variant, events // MIXED_ROUNDS // len(variants))
    piste.piste("stop")
    piste.piste("destroy")
    return trace


def kernel_trace(piste: Piste, built: Built, trace: pathlib.Path, events: int) -> pathlib.Path:
    with Program([built.calls, "1"]) as program, kernel_events.recorded(piste, program.process.pid) as session:
        for _ in range(KERNEL_ROUNDS):
            program.round("call", events // KERNEL_ROUNDS // 2)
            # The consumer keeps up with calls as anybody makes them, not with this.
            time.sleep(0.01)
        session.stop()
    return (piste.folder / "trace").rename(trace)


def against_babeltrace2(results: Results, piste: pathlib.Path, name: str, trace: pathlib.Path) -> None:
    counter = ["babeltrace2", "-c", "sink.utils.counter", trace]
    # It says how far it is now and then; the last number is the sum.
    counted = int(re.findall(r"(\d+) Event messages", processes.command(counter))[-1])
    ours = events_of(piste, trace)["events"]
    if counted != ours:
        raise processes.Failed(f"babeltrace2 counts {counted} events, piste {ours}")
    commands = {
        "counting, babeltrace2": counter,
        "counting, Piste": [piste, "stats", "--threads", "1", trace],
        "text, babeltrace2": ["babeltrace2", trace],
        "text, Piste": [piste, "view", trace],
    }
    rounds: dict[str, list[Ran]] = {what: [] for what in commands}
    for _ in range(results.scale.reading_rounds):
        for what, command in commands.items():
            rounds[what].append(measured(command))
    figure = {
        what: results.add(NAME, f"{name}: {what}", "ns", [1e9 * ran.cpu_s / counted for ran in rounds[what]])
        for what in commands
    }
    for what, bar in {"counting": 20, "text": 12}.items():
        theirs, ours = figure[f"{what}, babeltrace2"], figure[f"{what}, Piste"]
        results.ratio(f"{what}, {name} events, babeltrace2 / Piste", theirs, ours, Bar(at_least=bar))


def two_threads(results: Results, piste: pathlib.Path, name: str, trace: pathlib.Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        results.leave_out(f"counting {name} events on two cores", "one CPU here")
        return
    rounds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(results.scale.reading_short_rounds):
        for threads, walls in rounds.items():
            walls.append(1e3 * measured([piste, "stats", "--threads", str(threads), trace]).wall_s)
    one, two = (
        results.add(NAME, f"{name}: counting, {threads} threads", "ms", walls) for threads, walls in rounds.items()
    )
    results.ratio(f"counting {name} events, one thread / two", one, two, Bar(at_least=1.8))


def insights(results: Results, piste: pathlib.Path, trace: pathlib.Path) -> None:
    """All detectors in one pass."""
    events = events_of(piste, trace)["events"]
    rounds = [measured([piste, "insights", trace]) for _ in range(results.scale.reading_short_rounds)]
    figure = results.add(NAME, "kernel: insights", "ns", [1e9 * ran.cpu_s / events for ran in rounds])
    results.hold(NAME, "insights, CPU time for each event of the kernel", "ns", figure.median, Bar(at_most=200))
    peak = max(ran.peak_mb for ran in rounds)
    results.hold(NAME, "insights, peak resident memory", "MB", peak, Bar(at_most=300))


def start(results: Results, piste: pathlib.Path, trace: pathlib.Path) -> None:
    walls = [1e3 * measured([piste, "view", "-n", "1", trace]).wall_s for _ in range(results.scale.reading_short_rounds)]
    figure = results.add(NAME, "first line of piste view", "ms", walls)
    results.hold(NAME, "first line of piste view", "ms", figure.median, Bar(at_most=30))


def large_trace(results: Results, piste: pathlib.Path, trace: pathlib.Path) -> None:
    """A hundredth of its time, and all of it; the index is there."""
    summary = events_of(piste, trace)
    begin = int(summary["begin_ns"])
    length = int(summary["end_ns"]) - begin
    size = sum(file.stat().st_size for file in trace.rglob("*") if file.is_file())
    rounds = []
    for index in range(results.scale.reading_short_rounds):
        first = begin + length * (index % 90 + 5) // 100
        rounds.append(measured([piste, "view", "--begin", first, "--end", first + length // 100, trace]))
    figure = results.add(NAME, "1 % of a large trace as text", "ms", [1e3 * ran.wall_s for ran in rounds])
    results.hold(NAME, f"1 % of the time of {size / 1e9:.1f} GB as text", "ms", figure.median, Bar(at_most=500))
    whole = [measured([piste, "stats", trace]), measured([piste, "view", trace])]
    peak = max(ran.peak_mb for ran in [*rounds, *whole])
    results.hold(NAME, f"peak resident memory, {size / 1e9:.1f} GB", "MB", peak, Bar(at_most=200))


def events_of(piste: pathlib.Path, trace: pathlib.Path) -> dict:
    return json.loads(processes.command([piste, "stats", "--json", trace]))


def measured(arguments: list) -> Ran:
    """Runs a command whose output nobody reads."""
    began = time.monotonic()
    process = subprocess.Popen(
        [str(argument) for argument in arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise processes.Failed(f"`{arguments[0]} {arguments[1]} ...` ended with status {process.returncode}")
    return Ran(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024)
