# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an event costs the thread that records it, disabled and in flight-recorder mode: the figures of `piste bench`, held to bars."""

import json
import pathlib

import processes
from programs import Built
from results import Bar, Figure, Results
from tracers import Tracer

NAME = "event-cost"

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Rows of `piste bench` that no ratio needs.
NOT_SHOWN = {"none", "piste-discard", "piste-block"}

# A row: its name, threads and bytes of payload.
Key = tuple[str, int, int]


def key(name: str, threads: int = 1, payload_bytes: int = 4) -> Key:
    return (name, threads, payload_bytes)


def run(results: Results, tracers: list[Tracer], _built: Built, _folder: pathlib.Path) -> None:
    peers = ["floor", "prototype", "piste", *("lttng" for tracer in tracers if tracer.name == "LTTng-UST")]
    command = [ROOT / "build" / "bin" / "piste", "--json", "bench", *peers, "--threads", "1,2", "--payload", "64"]
    report = json.loads(processes.command([*command, "--quick"] if results.scale.shows_only else command))
    for lack in report["failed"] + report["absent"]:
        raise processes.Failed(f"piste bench cannot measure {lack['peer']}: {lack['reason']}")
    figures = {}
    for row in report["rows"]:
        if row["name"] not in NOT_SHOWN:
            title = title_of(row)
            figures[row["name"], row["threads"], row["payload_bytes"]] = results.add(NAME, title, "ns", row["repetitions_ns"])
    if any(row["uses_disturbed"] for row in report["rows"]):
        results.leave_out("undisturbed rounds", "the CPUs were slowed down or shared in too many of them; the figures contain them")
    compare(results, figures)


def title_of(row: dict) -> str:
    threads = f", {row['threads']} threads" if row["threads"] > 1 else ""
    payload = f", {row['payload_bytes']} bytes" if row["payload_bytes"] != 4 else ""
    return row["title"] + payload + threads


def compare(results: Results, figures: dict[Key, Figure]) -> None:
    def ratio(name: str, above: Key, below: Key, bar: Bar | None = None) -> None:
        results.ratio(name, figures.get(above), figures.get(below), bar)

    def quotient(above: Key, below: Key) -> float:
        return figures[above].median / figures[below].median

    floor, plain, plain_2 = key("floor"), key("piste"), key("piste", threads=2)
    prototype, prototype_2 = key("prototype"), key("prototype", threads=2)
    contexts, contexts_2 = key("piste-contexts"), key("piste-contexts", threads=2)
    array = "piste", 1, 64
    ratio("Piste / LTTng-UST, disabled", key("piste-disabled"), key("lttng-disabled"), Bar(at_most=1))
    ratio("Piste / prototype ring", plain, prototype, Bar(at_most=1.15))
    ratio("Piste / prototype ring, 2 threads", plain_2, prototype_2, Bar(at_most=1.15))
    # Where a second locked instruction costs much, no ring with several writers is near the floor.
    near = quotient(prototype, floor) <= 1.1
    ratio("prototype ring / floor", prototype, floor)
    ratio("Piste / floor", plain, floor, Bar(at_most=1.2) if near else None)
    ratio("LTTng-UST / Piste", key("lttng"), plain, Bar(at_least=6))
    ratio("LTTng-UST / floor", key("lttng"), floor)
    ratio("prototype ring, 2 threads / 1 thread", prototype_2, prototype)
    two_threads = Bar(at_most=quotient(prototype_2, prototype) + 0.05)
    ratio("Piste, 2 threads / 1 thread", plain_2, plain, two_threads)
    ratio("Piste / tracef, formatted event", key("piste-formatted"), key("tracef"), Bar(at_most=0.45))
    ratio("Piste / survey's lower bound", plain, key("survey"))
    ratio("Piste with contexts / floor", contexts, floor)
    ratio("LTTng-UST / Piste, with contexts", key("lttng-contexts"), contexts)
    ratio("Piste with contexts, 2 threads / 1 thread", contexts_2, contexts)
    ratio("Piste / floor, 64 bytes", array, key("floor", payload_bytes=64))
    ratio("LTTng-UST / Piste, 64 bytes", key("lttng", payload_bytes=64), array)
    ratio("Piste, 1 % passes a filter / event of 4 bytes", key("piste-filtered"), plain, Bar(at_most=0.6))
    ratio("LTTng-UST / Piste, 1 % passes a filter", key("lttng-filtered"), key("piste-filtered"))
    ratio("Piste formatted / fprintf", key("piste-formatted"), key("fprintf"))
