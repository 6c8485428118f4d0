# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an event costs the thread that records it: disabled, and in flight-recorder mode."""

import contextlib
import pathlib
from dataclasses import dataclass

import processes
from programs import Built, Program
from results import Bar, Figure, Results
from tracers import Tracer

NAME = "event-cost"


@dataclass(frozen=True)
class Row:
    name: str
    program: str  # "floor", "prototype", or a tracer.
    variant: str
    expected_ns: float
    threads: int = 1


CLOCK = Row("clock read alone", "floor", "clock", 9)
FLOOR = Row("floor: clock, 8-byte store", "floor", "floor", 9)
FLOOR_WORDS = Row("floor: clock, 72-byte store", "floor", "floor_words", 10)
SURVEY = Row("survey's lower bound: clock_gettime, copy", "floor", "survey", 20)
PROTOTYPE = {
    1: Row("prototype ring", "prototype", "plain", 12),
    2: Row("prototype ring, 2 threads", "prototype", "plain", 12, 2),
}
FPRINTF = Row("fprintf to /dev/null", "floor", "fprintf", 40)

# Of each tracer. Expected: ns of Piste, ns of LTTng-UST.
EVENTS = [
    ("disabled event", "disabled", 1, (0.3, 0.3)),
    ("event of 4 bytes", "plain", 1, (10, 100)),
    ("event of 4 bytes, 2 threads", "plain", 2, (10, 100)),
    ("event of 4 bytes, contexts", "contexts", 1, (11, 110)),
    ("event of 4 bytes, contexts, 2 threads", "contexts", 2, (11, 110)),
    ("event of 64 bytes, array", "array", 1, (12, 110)),
    ("event of 64 bytes, 8 fields", "fields", 1, (13, 150)),
    ("formatted event", "formatted", 1, (50, 200)),
    ("event of which a filter passes 1 %", "filtered", 1, (6, 30)),
]
PISTE: dict[tuple[str, int], Row] = {}
LTTNG: dict[tuple[str, int], Row] = {}
for label, variant, threads, (piste_ns, lttng_ns) in EVENTS:
    PISTE[variant, threads] = Row(f"Piste: {label}", "Piste", variant, piste_ns, threads)
    LTTNG[variant, threads] = Row(f"LTTng-UST: {label}", "LTTng-UST", variant, lttng_ns, threads)
ROWS = [CLOCK, FLOOR, FLOOR_WORDS, SURVEY, FPRINTF, *PROTOTYPE.values()]
ROWS += [row for pair in zip(PISTE.values(), LTTNG.values(), strict=True) for row in pair]


def run(results: Results, tracers: list[Tracer], built: Built, _folder: pathlib.Path) -> None:
    with contextlib.ExitStack() as stack:
        programs: dict[tuple[str, int], Program] = {("floor", 1): stack.enter_context(Program([built.floor]))}
        for threads in PROTOTYPE:
            programs["prototype", threads] = stack.enter_context(Program([built.prototype, str(threads)]))
        for tracer in tracers:
            stack.enter_context(tracer)
            tracer.record_in_memory()
            for threads in (1, 2):
                command = [built.events[tracer.name], str(threads)]
                programs[tracer.name, threads] = stack.enter_context(Program(command, tracer.environment))
        rows = [row for row in ROWS if (row.program, row.threads) in programs]
        samples: dict[Row, list[float]] = {row: [] for row in rows}
        for number in range(1 + results.scale.rounds):
            for row in rows:
                count = int(results.scale.round_ms * 1e6 / row.expected_ns)
                elapsed = programs[row.program, row.threads].round(row.variant, count, warm_up=count // 4)
                # The first round touches the memory of the rings for the first time.
                if number > 0:
                    samples[row].append(elapsed.cpu_ns)
        for tracer in tracers:
            check_recorded(tracer)
    figures = {row: results.add(NAME, row.name, "ns", samples[row]) for row in rows}
    compare(results, figures)


def check_recorded(tracer: Tracer) -> None:
    """That events went to the channels: a session which records nothing would be fast."""
    snapshot = tracer.snapshot()
    for channel in ("plain", "contexts"):
        streams = snapshot.rglob(f"{channel}_*")
        if not any(stream.is_file() and stream.stat().st_size for stream in streams if stream.parent.name != "index"):
            raise processes.Failed(f"{tracer.name} recorded nothing in channel {channel}")


def compare(results: Results, figures: dict[Row, Figure]) -> None:
    def ratio(name: str, above: Row, below: Row, bar: Bar | None = None) -> None:
        results.ratio(name, figures.get(above), figures.get(below), bar)

    def quotient(above: Row, below: Row) -> float:
        return figures[above].median / figures[below].median

    plain, plain_2, contexts, contexts_2 = ("plain", 1), ("plain", 2), ("contexts", 1), ("contexts", 2)
    ratio("Piste / LTTng-UST, disabled", PISTE["disabled", 1], LTTNG["disabled", 1], Bar(at_most=1))
    ratio("Piste / prototype ring", PISTE[plain], PROTOTYPE[1], Bar(at_most=1.15))
    ratio("Piste / prototype ring, 2 threads", PISTE[plain_2], PROTOTYPE[2], Bar(at_most=1.15))
    # Where a second locked instruction costs much, no ring with several writers is near the floor.
    near = quotient(PROTOTYPE[1], FLOOR) <= 1.1
    ratio("prototype ring / floor", PROTOTYPE[1], FLOOR)
    ratio("Piste / floor", PISTE[plain], FLOOR, Bar(at_most=1.2) if near else None)
    ratio("LTTng-UST / Piste", LTTNG[plain], PISTE[plain], Bar(at_least=6))
    ratio("LTTng-UST / floor", LTTNG[plain], FLOOR)
    ratio("prototype ring, 2 threads / 1 thread", PROTOTYPE[2], PROTOTYPE[1])
    two_threads = Bar(at_most=quotient(PROTOTYPE[2], PROTOTYPE[1]) + 0.05)
    ratio("Piste, 2 threads / 1 thread", PISTE[plain_2], PISTE[plain], two_threads)
    ratio("Piste / tracef, formatted event", PISTE["formatted", 1], LTTNG["formatted", 1], Bar(at_most=0.6))
    ratio("Piste / survey's lower bound", PISTE[plain], SURVEY)
    ratio("Piste with contexts / floor", PISTE[contexts], FLOOR)
    ratio("LTTng-UST / Piste, with contexts", LTTNG[contexts], PISTE[contexts])
    ratio("Piste with contexts, 2 threads / 1 thread", PISTE[contexts_2], PISTE[contexts])
    ratio("Piste / floor, 64 bytes, array", PISTE["array", 1], FLOOR_WORDS)
    ratio("LTTng-UST / Piste, 64 bytes, array", LTTNG["array", 1], PISTE["array", 1])
    ratio("LTTng-UST / Piste, 64 bytes, 8 fields", LTTNG["fields", 1], PISTE["fields", 1])
    ratio("Piste, 1 % passes a filter / event of 4 bytes", PISTE["filtered", 1], PISTE[plain], Bar(at_most=0.6))
    ratio("LTTng-UST / Piste, 1 % passes a filter", LTTNG["filtered", 1], PISTE["filtered", 1])
    ratio("Piste formatted / fprintf", PISTE["formatted", 1], FPRINTF)
