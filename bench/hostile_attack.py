# SPDX-License-Identifier: MIT OR Apache-2.0
"""One user's process does its worst to root's pisted (measured/attack.c): root is answered, other users' programs start and are
recorded.

All attacks at once, each alone, and, for comparison, a process that only computes, in as many threads.
"""

import pathlib
import time

import everybodys
import processes
from everybodys import Customers, Service
from programs import Built
from results import Bar, Figure, Results
from tracers import Tracer

NAME = "hostile-attack"
QUESTION = "piste status"
ANSWER_BAR = Bar(at_most=200)
START_BAR = Bar(at_most=20)
NOTHING = Bar(at_most=0)
# 0.2 M events a second.
INTERVAL_US = 50_000


def run(results: Results, tracers: list[Tracer], built: Built, folder: pathlib.Path) -> None:
    lack = everybodys.missing()
    if lack:
        results.leave_out("attacks", lack)
        return
    attacks = processes.command([built.attack, "list"]).split()
    threads = str(len(attacks))

    def beside(situation: str, what: list[str], seconds: float) -> tuple[Service, Figure, Figure]:
        service = serve_beside(tracers, built, folder, what, seconds)
        return service, *everybodys.show(results, NAME, situation, QUESTION, service)

    scale = results.scale
    everything, answers, starts = beside("all attacks", ["all"], scale.attack_s)
    hog, hog_answers, hog_starts = beside(f"hog of {threads} threads", ["hog", threads], scale.attack_s)
    hold(results, f"99 %, {threads} attacks", answers, starts, hog_answers, hog_starts)
    hold_losses(results, f"{threads} attacks", [everything], hog)

    alone = {name: beside(name, [name], scale.attack_alone_s) for name in attacks}
    hog, hog_answers, hog_starts = beside("hog of 1 thread", ["hog", "1"], scale.attack_alone_s)
    answers = max((figures[1] for figures in alone.values()), key=percentile_99)
    starts = max((figures[2] for figures in alone.values()), key=percentile_99)
    hold(results, "99 %, worst alone", answers, starts, hog_answers, hog_starts)
    hold_losses(results, "each alone", [figures[0] for figures in alone.values()], hog)


def percentile_99(figure: Figure) -> float:
    return figure.percentile(99)


def hold(
    results: Results, situation: str, answers: Figure, starts: Figure, hog_answers: Figure, hog_starts: Figure
) -> None:
    for figure, beside_hog, what, bar in (
        (answers, hog_answers, QUESTION, ANSWER_BAR),
        (starts, hog_starts, "start of a program", START_BAR),
    ):
        name = f"{what}, {situation}"
        results.hold(NAME, name, "ms", percentile_99(figure), bar, percentile_99(beside_hog))


def hold_losses(results: Results, situation: str, services: list[Service], hog: Service) -> None:
    lost = sum(service.lost for service in services)
    starts_lost = sum(service.starts_lost for service in services)
    results.hold(NAME, f"others' events lost, {situation}", "", lost, NOTHING, hog.lost)
    results.hold(NAME, f"others' programs not recorded, {situation}", "", starts_lost, NOTHING, hog.starts_lost)


def serve_beside(
    tracers: list[Tracer], built: Built, folder: pathlib.Path, what: list[str], seconds: float
) -> Service:
    """A new pisted, and every program's events recorded, the attacker's too."""
    service = Service()
    with everybodys.serving(tracers, built, folder) as piste:
        trace = piste.record("all", ["*"])
        with (
            Customers(piste, built, ["status"]) as customers,
            everybodys.paced(piste, built, "first", everybodys.WITHOUT_END, INTERVAL_US) as program,
            everybodys.attack(piste, built, what) as attack,
        ):
            end = time.monotonic() + seconds
            customers.visit(service, lambda: time.monotonic() < end)
            service.made = int(program.finish()[0])
            attack.finish()
        piste.end("all")
        everybodys.count_losses(piste, trace, "bench:first", service, liar=attack.process.pid)
    return service
