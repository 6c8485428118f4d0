# SPDX-License-Identifier: MIT OR Apache-2.0
"""The measured programs, in C: building them, and asking them for rounds (crates/bench/src/measured/rounds.h)."""

import contextlib
import os
import pathlib
import subprocess
from dataclasses import dataclass

import processes

SOURCES = pathlib.Path(__file__).resolve().parent / "measured"
# Those that `piste bench` has, too.
SHARED = SOURCES.parent.parent / "crates" / "bench" / "src" / "measured"
ROUNDS = ["rounds.c", "counters.c"]
# A loop of a few instructions takes twice as long where it happens to lie across two cache lines.
CFLAGS = ["-std=gnu11", "-O2", "-falign-loops=64", "-g", "-Wall", "-Wextra"]


@dataclass(frozen=True)
class Built:
    """Paths of the programs. `events` and `tiny` have one for each tracer, by its name; tiny["untraced"] has none."""

    start: pathlib.Path
    calls: pathlib.Path
    splice: pathlib.Path
    attack: pathlib.Path
    paced: pathlib.Path
    events: dict[str, pathlib.Path]
    tiny: dict[str, pathlib.Path]


def build(tree: pathlib.Path, tracers: list[str]) -> Built:
    """Builds the programs of those tracers into the build tree `tree`."""
    flags = {
        "Piste": [f"-I{tree}/include", f"-L{tree}/lib", f"-Wl,-rpath,{tree}/lib", "-lpiste"],
        "LTTng-UST": [f"-I{SOURCES}", f"-I{SHARED}", "-llttng-ust", "-llttng-ust-common", "-ldl"],
    }
    sources = {"Piste": ["piste.c"], "LTTng-UST": ["lttng.c", "lttng-formatted.c"]}
    define = {"Piste": ["-DPISTE"], "LTTng-UST": ["-DLTTNG"]}
    folder = tree / "bench"
    folder.mkdir(exist_ok=True)
    rounds = [compile_program(folder / f"{source}.o", [source], ["-c"]) for source in ROUNDS]
    return Built(
        start=compile_program(folder / "start", ["start.c"], []),
        calls=compile_program(folder / "calls", ["calls.c"], [*rounds, "-lpthread"]),
        splice=compile_program(folder / "splice", ["splice.c"], ["-lpthread"]),
        attack=compile_program(folder / "attack", ["attack.c"], [f"-I{tree}/include", "-lpthread"]),
        paced=compile_program(folder / "paced", ["paced.c"], flags["Piste"]),
        events={
            tracer: compile_program(folder / f"events-{tracer}", sources[tracer], [*rounds, *flags[tracer], "-lpthread"])
            for tracer in tracers
        },
        tiny={"untraced": compile_program(folder / "tiny-untraced", ["tiny.c"], [])}
        | {
            tracer: compile_program(folder / f"tiny-{tracer}", ["tiny.c"], [*define[tracer], *flags[tracer]])
            for tracer in tracers
        },
    )


def compile_program(program: pathlib.Path, sources: list[str], flags: list[str]) -> pathlib.Path:
    compiler = os.environ.get("CC", "cc")
    paths = [next(folder / source for folder in (SOURCES, SHARED) if (folder / source).exists()) for source in sources]
    processes.command([compiler, *CFLAGS, "-o", program, *paths, *flags])
    return program


@dataclass(frozen=True)
class Elapsed:
    """How long a round took, for each event."""

    cpu_ns: float
    wall_ns: float


class Program:
    """A running program that answers lines; a context that ends it."""

    def __init__(self, arguments: list, environment: dict[str, str] | None = None) -> None:
        self.arguments = arguments
        self.process = subprocess.Popen(
            arguments, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self, line: str) -> str:
        try:
            self.process.stdin.write(line + "\n")
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise processes.Failed(f"{self.arguments[0]} ended when it was asked for '{line}'")
        return answer

    def round(self, variant: str, count: int, warm_up: int = 0) -> Elapsed:
        cpu_ns, wall_ns = self.ask(f"round {variant} {warm_up} {count}").split()[:2]
        return Elapsed(int(cpu_ns) / count, int(wall_ns) / count)

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_) -> None:
        """It ends by itself when nobody asks any more."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(processes.PATIENCE_S)
        except subprocess.TimeoutExpired:
            processes.end(self.process)
        self.process.stdout.close()
