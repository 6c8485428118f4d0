# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that record nothing cost nothing: CPU time of pisted and its consumers while thousands of them are recorded.

While anything records, the consumer wakes up a thousand times a second, which alone takes 1 to 2 % of a CPU on a virtual machine. The
bars hold what thousands of silent programs take beyond a single one.

Beside a hog: sessions without a program, while every CPU computes.
"""

import contextlib
import os
import pathlib
import subprocess
import time

import everybodys
import processes
from everybodys import EverybodysPiste
from programs import Built
from results import Bar, Results
from tracers import Tracer

NAME = "hostile-silent"
# Of sessions: percent of a CPU, beyond one program.
BARS = {1: Bar(at_most=1), 8: Bar(at_most=2)}
SETTLE_S = 1


def run(results: Results, tracers: list[Tracer], built: Built, folder: pathlib.Path) -> None:
    lack = everybodys.missing()
    if lack:
        results.leave_out("silent programs", lack)
        return
    seconds = results.scale.silent_s
    for sessions, bar in BARS.items():
        programs = min(results.scale.silent_programs, everybodys.ring_set_count_max() // sessions)
        with everybodys.serving(tracers, built, folder) as piste:
            for number in range(sessions):
                piste.record(f"silent-{number}", ["bench:tiny"])
            cpus = str(len(os.sched_getaffinity(0)))
            with everybodys.attack(piste, built, ["hog", cpus]):
                beside_hog = cpu_percent(piste, seconds)
            of_sessions = f"{sessions} session{'s'[: sessions > 1]}: CPU"
            percent = {}
            for count in (1, programs):
                with silent_programs(piste, built, count):
                    check(piste, count, sessions)
                    percent[count] = cpu_percent(piste, seconds)
                name = f"{count} silent program{'s'[: count > 1]}, {of_sessions}"
                results.add(NAME, name, "%", [percent[count]])
        name = f"{programs} silent programs beyond one, {of_sessions}"
        results.hold(NAME, name, "%", percent[programs] - percent[1], bar, beside_hog)


@contextlib.contextmanager
def silent_programs(piste: EverybodysPiste, built: Built, count: int):
    """Each has recorded one event, and waits."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            program = subprocess.Popen(
                [piste.program(built.tiny["Piste"]), "wait"], env=piste.environment, stdout=subprocess.PIPE, text=True
            )
            stack.callback(processes.end, program)
            stack.callback(program.stdout.close)
            if program.stdout.readline() != "running\n":
                raise processes.Failed(f"{program.args[0]} did not run")
        yield


def check(piste: EverybodysPiste, programs: int, sessions: int) -> None:
    """That all are recorded by all sessions."""
    for number in range(sessions):
        recorded = piste.status(f"silent-{number}")["programs"]
        if recorded != programs:
            raise processes.Failed(f"session {number} records {recorded} programs of {programs}")


def cpu_percent(piste: EverybodysPiste, seconds: float) -> float:
    """Of one CPU, by pisted and the processes of its own."""
    time.sleep(SETTLE_S)
    before = {pid: processes.cpu_ns(pid) for pid in piste.daemons()}
    began = time.monotonic_ns()
    time.sleep(seconds)
    elapsed_ns = time.monotonic_ns() - began
    return sum(processes.cpu_ns(pid) - before.get(pid, 0) for pid in piste.daemons()) / elapsed_ns * 100
