# SPDX-License-Identifier: MIT OR Apache-2.0
"""The disk of one session stops: another session on another disk loses nothing, programs that both record start, and root is answered.
When the disk goes on, so does its session, and counts what it lost."""

import pathlib

import everybodys
import frozen_disk
import processes
from everybodys import Customers, EverybodysPiste, Service
from frozen_disk import FrozenDisk
from programs import Built
from results import Bar, Figure, Results
from tracers import Tracer

NAME = "hostile-disk"
QUESTION = "piste list"
ANSWER_BAR = Bar(at_most=100)
START_BAR = Bar(at_most=20)
NOTHING = Bar(at_most=0)
# Sessions, and what they record.
ON_FROZEN_DISK = "frozen"
BESIDE = "beside"
EVENTS = {ON_FROZEN_DISK: ["bench:first", "bench:tiny"], BESIDE: ["bench:second", "bench:tiny"]}
# 0.2 and 1 M events a second.
FROZEN_INTERVAL_US = 50_000
BESIDE_INTERVAL_US = 10_000


def run(results: Results, tracers: list[Tracer], built: Built, folder: pathlib.Path) -> None:
    lack = everybodys.missing() or frozen_disk.missing()
    if lack:
        results.leave_out("a frozen disk", lack)
        return
    frozen, lost, uncounted = beside_frozen_disk(results, tracers, built, folder)
    hog = beside_hog(results, tracers, built, folder)
    situation = "disk of another session frozen"
    answers, starts = everybodys.show(results, NAME, situation, QUESTION, frozen)
    hog_answers, hog_starts = everybodys.show(results, NAME, "hog of 1 thread", QUESTION, hog)
    hold(results, f"{QUESTION}, 99 %, a disk frozen", answers, ANSWER_BAR, hog_answers)
    hold(results, "start of a program, 99 %, a disk frozen", starts, START_BAR, hog_starts)
    results.hold(NAME, "events lost by a session on another disk", "", frozen.lost, NOTHING, hog.lost)
    results.hold(NAME, "programs not recorded on another disk", "", frozen.starts_lost, NOTHING, hog.starts_lost)
    results.hold(NAME, "frozen disk: events neither written nor counted", "", uncounted, NOTHING)
    results.hold(NAME, "frozen disk: events lost and counted", "", lost, None)


def hold(results: Results, name: str, figure: Figure, bar: Bar, hog: Figure) -> None:
    results.hold(NAME, name, "ms", figure.percentile(99), bar, hog.percentile(99))


def beside_frozen_disk(
    results: Results, tracers: list[Tracer], built: Built, folder: pathlib.Path
) -> tuple[Service, int, int]:
    """What the session beside gets; of the session on the disk, the events that it lost, and those that it did not count."""
    with FrozenDisk(folder) as disk, everybodys.serving(tracers, built, folder) as piste:
        trace = piste.record(ON_FROZEN_DISK, EVENTS[ON_FROZEN_DISK], disk.folder)
        with everybodys.paced(piste, built, "first", everybodys.WITHOUT_END, FROZEN_INTERVAL_US) as program:
            wait_for_more(piste, 0)
            service = serve_beside(results, piste, built, disk)
            wait_for_more(piste, written(piste))
            made = int(program.finish()[0]) + len(service.start_ms)
        lost = sum(channel["discarded_events"] for channel in piste.end(ON_FROZEN_DISK)["channels"])
        recorded = sum(piste.count(trace, event) for event in EVENTS[ON_FROZEN_DISK])
    return service, lost, everybodys.missing_of(made, recorded + lost, "events")


def serve_beside(results: Results, piste: EverybodysPiste, built: Built, disk: FrozenDisk) -> Service:
    trace = piste.record(BESIDE, EVENTS[BESIDE])
    with Customers(piste, built, ["list"]) as customers:
        disk.freeze()
        try:
            service = serve(results, piste, built, customers)
        finally:
            disk.thaw()
    piste.end(BESIDE)
    everybodys.count_losses(piste, trace, "bench:second", service)
    return service


def beside_hog(results: Results, tracers: list[Tracer], built: Built, folder: pathlib.Path) -> Service:
    with everybodys.serving(tracers, built, folder) as piste:
        trace = piste.record(BESIDE, EVENTS[BESIDE])
        with Customers(piste, built, ["list"]) as customers, everybodys.attack(piste, built, ["hog", "1"]):
            service = serve(results, piste, built, customers)
        piste.end(BESIDE)
        everybodys.count_losses(piste, trace, "bench:second", service)
    return service


def serve(results: Results, piste: EverybodysPiste, built: Built, customers: Customers) -> Service:
    """While another program records its events."""
    service = Service()
    count = results.scale.frozen_events
    with everybodys.paced(piste, built, "second", count, BESIDE_INTERVAL_US) as program:
        customers.visit(service, program.is_running)
        service.made = int(program.finish()[0])
    return service


def written(piste: EverybodysPiste) -> int:
    return sum(channel["events"] for channel in piste.status(ON_FROZEN_DISK)["channels"])


def wait_for_more(piste: EverybodysPiste, count: int) -> None:
    processes.wait_until("the session on the frozen disk goes on", lambda: written(piste) > count)
