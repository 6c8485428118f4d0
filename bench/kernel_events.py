# SPDX-License-Identifier: MIT OR Apache-2.0
"""What recording the kernel costs: added to a system call of the traced thread, of the consumer's time, and on disk.

A thread calls getppid in a loop, and two events of each call are recorded: its entry and its return. Beside Piste: the same tracefs
instance with nobody reading (what the kernel itself costs), with its pages moved to a file, perf record and strace.
"""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

import instance
import processes
from instance import Instance, Reader
from programs import Built, Elapsed, Program
from results import Bar, Results
from tracers import Piste, Tracer

NAME = "kernel-events"
EVENTS = ["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"]
ROUNDS_IN_A_BLOCK = 5
# It takes about a hundred times as long.
STRACE_SHARE = 100
NOBODY = "nobody"
BARE = "instance, nobody reading"
SPLICE = "instance, spliced to a file"
PISTE = "Piste"
ADDRESSES = "Piste, addresses"
NAMES = "Piste, names"
PERF = "perf record"
STRACE = "strace"


def run(results: Results, tracers: list[Tracer], built: Built, folder: pathlib.Path) -> None:
    lack = instance.missing()
    if lack:
        results.leave_out("the kernel's events", lack)
        return
    piste = next(tracer for tracer in tracers if isinstance(tracer, Piste))
    with piste, Program([built.calls, "1"]) as program:
        cost(results, piste, built, program, folder)
        names(results, piste, program)
        consumer(results, piste, program)
        size(results, piste, program, folder)


def cost(results: Results, piste: Piste, built: Built, program: Program, folder: pathlib.Path) -> None:
    pid = program.process.pid
    tracers: dict[str, Callable[[], contextlib.AbstractContextManager]] = {
        NOBODY: contextlib.nullcontext,
        BARE: lambda: Instance(EVENTS, pid),
        SPLICE: lambda: spliced(built.splice, pid, folder / "spliced"),
        # From the same events as the instance's; `names` has what BPF records.
        PISTE: lambda: recorded(piste, pid, "--no-strings"),
    }
    if shutil.which("perf"):
        tracers[PERF] = lambda: perf_record(pid, folder / "perf.data")
    else:
        results.leave_out(PERF, "no perf here (Debian: linux-perf)")
    if shutil.which("strace"):
        tracers[STRACE] = lambda: strace(pid)
    rounds = rounds_of(results, tracers, program, "call", results.scale.kernel_calls)
    samples = {name: [elapsed.cpu_ns for elapsed in rounds[name]] for name in tracers}
    figures = {name: results.add(NAME, f"getppid, {name}", "ns", samples[name]) for name in tracers}
    call = figures[NOBODY].median
    added = {
        name: results.add(NAME, f"added by {name}", "ns", [sample - call for sample in samples[name]])
        for name in tracers
        if name != NOBODY
    }
    results.ratio("added to a system call, Piste / bare instance", added[PISTE], added[BARE], Bar(at_most=1.1))
    results.ratio("added to a system call, Piste / splice", added[PISTE], added[SPLICE])
    results.ratio("added to a system call, perf record / Piste", added.get(PERF), added[PISTE])
    results.ratio("added to a system call, strace / Piste", added.get(STRACE), added[PISTE])


def names(results: Results, piste: Piste, program: Program) -> None:
    """open, read and close of a file: what is recorded of the memory that arguments point to adds to it, here the name. By the wall clock: a thread that
    strace stops waits most of the time."""
    pid = program.process.pid
    tracers: dict[str, Callable[[], contextlib.AbstractContextManager]] = {
        NOBODY: contextlib.nullcontext,
        ADDRESSES: lambda: recorded(piste, pid, "--no-strings"),
        NAMES: lambda: recorded(piste, pid),
    }
    if shutil.which("strace"):
        tracers[STRACE] = lambda: strace(pid)
    rounds = rounds_of(results, tracers, program, "file", results.scale.kernel_calls // 10)
    samples = {name: [elapsed.wall_ns for elapsed in rounds[name]] for name in tracers}
    figures = {name: results.add(NAME, f"open, read, close, {name}", "ns", samples[name]) for name in tracers}
    results.ratio("open, read, close, with names / with addresses", figures[NAMES], figures[ADDRESSES], Bar(at_most=1.5))
    file = figures[NOBODY].median
    added = {
        name: results.add(NAME, f"added to open, read, close by {name}", "ns", [sample - file for sample in samples[name]])
        for name in tracers
        if name != NOBODY
    }
    results.ratio("added to open, read, close, strace / names", added.get(STRACE), added[NAMES], Bar(at_least=20))


def rounds_of(
    results: Results, tracers: dict[str, Callable[[], contextlib.AbstractContextManager]], program: Program, variant: str, calls: int
) -> dict[str, list[Elapsed]]:
    """Blocks of rounds, interleaved: a tracer is started, a few rounds run, it is ended, then the next."""
    rounds: dict[str, list[Elapsed]] = {name: [] for name in tracers}
    for _ in range(results.scale.kernel_blocks):
        for name, tracer in tracers.items():
            count = calls // (STRACE_SHARE if name == STRACE else 1)
            with tracer():
                rounds[name] += [program.round(variant, count, warm_up=count // 4) for _ in range(ROUNDS_IN_A_BLOCK)]
    return rounds


def consumer(results: Results, piste: Piste, program: Program) -> None:
    """CPU time of the kernel consumer, from the start of recording to the last event on disk. Its events are as many as were made."""
    costs, rates = [], []
    for _ in range(results.scale.kernel_consumer_rounds):
        with recorded(piste, program.process.pid) as session:
            before = processes.cpu_ns(session.consumer())
            began = time.monotonic()
            program.round("call", results.scale.kernel_consumer_calls)
            rates.append(2 * results.scale.kernel_consumer_calls / (time.monotonic() - began) / 1e6)
            session.stop()
            used = processes.cpu_ns(session.consumer()) - before
        expected = 2 * results.scale.kernel_consumer_calls
        if not expected <= session.events + session.lost:
            raise processes.Failed(f"{session.events} events recorded and {session.lost} lost of {expected}")
        costs.append(used / session.events)
        results.hold(NAME, f"lost of {expected} events", "", session.lost, Bar(at_most=0))
    figure = results.add(NAME, "kernel consumer, for each event", "ns CPU", costs)
    results.add(NAME, "events of one thread flat out to disk", "M/s", rates)
    results.hold(NAME, "kernel consumer, for each event", "ns", figure.median, Bar(at_most=60))


def size(results: Results, piste: Piste, program: Program, folder: pathlib.Path) -> None:
    """Of the files, for each event in them."""
    count = results.scale.kernel_calls
    with recorded(piste, program.process.pid) as session:
        program.round("call", count)
        session.stop()
        bytes_of_piste = session.bytes / session.events
    ours = results.add(NAME, "event on disk, Piste", "bytes", [bytes_of_piste])
    if shutil.which("perf"):
        data = folder / "perf.data"
        with perf_record(program.process.pid, data):
            program.round("call", count)
        said = processes.command(["perf", "report", "--stats", "-i", data])
        events = sum(int(number) for number in re.findall(r"SAMPLE events:\s+(\d+)", said)[:1])
        theirs = results.add(NAME, "event on disk, perf record", "bytes", [data.stat().st_size / events])
        results.ratio("bytes of an event on disk, Piste / perf record", ours, theirs, Bar(at_most=0.35))


class Recorded:
    """A session of Piste's that records the calls of one process."""

    def __init__(self, piste: Piste) -> None:
        self.piste, self.events, self.lost, self.bytes = piste, 0, 0, 0

    def consumer(self) -> int:
        return next(pid for pid in self.piste.daemons() if b"--kernel-consumer" in command_line(pid))

    def stop(self) -> None:
        self.piste.piste("stop")
        status = json.loads(self.piste.piste("status", "--json"))
        channel = next(each for each in status["channels"] if each["settings"]["domain"] == "kernel")
        self.events, self.lost, self.bytes = (channel[key] for key in ("events", "discarded_events", "bytes"))


@contextlib.contextmanager
def recorded(piste: Piste, pid: int, *options: str) -> Iterator[Recorded]:
    piste.piste("create", "bench", "-o", piste.new_trace())
    piste.piste("enable-channel", "-k", *options, "bench")
    piste.piste("enable-event", "-k", "-c", "bench", "--syscall", "*")
    piste.piste("track", "-k", "--pid", str(pid))
    piste.piste("start")
    yield Recorded(piste)
    piste.piste("destroy")


@contextlib.contextmanager
def spliced(program: pathlib.Path, pid: int, output: pathlib.Path) -> Iterator[None]:
    with Instance(EVENTS, pid) as bare, Reader(program, bare, output):
        yield


@contextlib.contextmanager
def perf_record(pid: int, output: pathlib.Path) -> Iterator[None]:
    events = [argument for event in EVENTS for argument in ("-e", event.replace("/", ":"))]
    yield from attached(["perf", "record", "-q", *events, "-p", str(pid), "-o", output], until=perf_attached)


@contextlib.contextmanager
def strace(pid: int) -> Iterator[None]:
    yield from attached(["strace", "-q", "-o", "/dev/null", "-p", str(pid)], until=lambda _: is_traced(pid))


def attached(arguments: list, until: Callable[[int], bool]) -> Iterator[None]:
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        processes.wait_until(f"{arguments[0]} has attached", lambda: until(process.pid))
        yield
    finally:
        process.terminate()
        process.wait()


def perf_attached(perf: int) -> bool:
    """It polls its rings from then on."""
    with contextlib.suppress(OSError):
        return "perf_event" in str([link.readlink() for link in pathlib.Path(f"/proc/{perf}/fd").iterdir()]) and (
            "poll" in pathlib.Path(f"/proc/{perf}/wchan").read_text()
        )
    return False


def is_traced(pid: int) -> bool:
    return "TracerPid:\t0\n" not in pathlib.Path(f"/proc/{pid}/status").read_text()


def command_line(pid: int) -> bytes:
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
