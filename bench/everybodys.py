# SPDX-License-Identifier: MIT OR Apache-2.0
"""Root's pisted as every user of a computer reaches it, and what it does for them meanwhile: how long root's questions and
other users' starts take, and which of their events are recorded."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import private_place
import processes
from programs import Built, Program
from results import Figure, Results
from tracers import Piste, Tracer

ATTACKER = 65_531
OTHER = 65_532
# An answer that takes longer counts as one that takes so long.
ANSWER_LIMIT_S = 10.0
# For thousands of programs in several sessions.
DESCRIPTOR_COUNT = 65_536
PAUSE_S = 0.01
BURST_EVENTS = 10_000
# More than any program records.
WITHOUT_END = 1 << 40


def missing() -> str | None:
    """Why nobody can be anybody else here, if so."""
    if os.geteuid() != 0:
        return "only root can become another user"
    if not private_place.entered():
        return "needs a private /run (`unshare --mount`), which is not allowed here"
    return None if shutil.which("setpriv") else "no setpriv here (Debian: util-linux)"


def ring_set_count_max() -> int:
    """How many pisted can have here (docs/internals/security.md). Raises the limit on open files where that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, max(hard, DESCRIPTOR_COUNT)))
    return (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 128) // 4


class EverybodysPiste(Piste):
    """Its programs, its library and its run folder are where everybody can enter; everybody may ask it."""

    def __init__(self, build: pathlib.Path, built: Built, folder: pathlib.Path) -> None:
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="piste-bench-", dir="/run"))
        self.place.chmod(0o755)
        super().__init__(self.place, self.place)
        self.traces = folder
        (self.place / "bin").mkdir()
        for program in (build / "bin" / "piste", build / "bin" / "pisted", built.tiny["Piste"], built.attack, built.paced):
            shutil.copy(program, self.place / "bin")
        shutil.copy(built.start, self.place / "bin")
        shutil.copytree(build / "lib", self.place / "lib", symlinks=True)
        self.environment["LD_LIBRARY_PATH"] = str(self.place / "lib")

    def program(self, built: pathlib.Path) -> pathlib.Path:
        """Where everybody finds a measured program."""
        return self.place / "bin" / built.name

    def start(self) -> None:
        super().start()
        self.run_folder.chmod(0o755)
        (self.run_folder / "control.sock").chmod(0o666)

    def record(self, session: str, events: list[str], folder: pathlib.Path | None = None) -> pathlib.Path:
        """Starts a session that records these events with the settings that a channel has by default."""
        trace = (folder or self.traces) / f"trace-{session}"
        shutil.rmtree(trace, ignore_errors=True)
        self.piste("create", session, "-o", trace)
        self.piste("enable-event", "-s", session, "-u", *events)
        self.piste("start", "-s", session)
        return trace

    def status(self, session: str) -> dict:
        return json.loads(self.piste("status", "-s", session, "--json"))

    def end(self, session: str) -> dict:
        """Stops and destroys a session. Returns its last status."""
        self.piste("stop", "-s", session)
        status = self.status(session)
        self.piste("destroy", "-s", session)
        return status

    def count(self, trace: pathlib.Path, event: str, liar: int | None = None) -> int:
        """The events of that name in a trace, without those that a process may have written into its rings as if it had any."""
        stats = ["stats", "--json", "--event", event]
        if liar is not None:
            stats += ["--filter", f"vpid != {liar}"]
        return json.loads(self.piste(*stats, trace))["events"]

    def __enter__(self) -> "EverybodysPiste":
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.stop()
        self.remove()

    def remove(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)


def as_user(user: int, arguments: list) -> list:
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--", *arguments]


class Talker:
    """A program that says "running", and something more when its standard input closes; a context that ends it."""

    def __init__(self, arguments: list, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            arguments, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if not self.process.stdout.readline().startswith("running"):
            processes.end(self.process)
            raise processes.Failed(f"{arguments} did not run")

    def is_running(self) -> bool:
        return self.process.poll() is None

    def finish(self) -> list[str]:
        """The lines that it says at the end."""
        said, _ = self.process.communicate(timeout=processes.PATIENCE_S)
        return said.splitlines()

    def __enter__(self) -> "Talker":
        return self

    def __exit__(self, *_) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        processes.end(self.process)
        self.process.stdout.close()


def attack(piste: EverybodysPiste, built: Built, what: list[str]) -> Talker:
    """One process of a user's: attacks, or `hog THREADS`."""
    return Talker(as_user(ATTACKER, [piste.program(built.attack), *what]), piste.environment)


def paced(piste: EverybodysPiste, built: Built, event: str, events: int, interval_us: int) -> Talker:
    """Another user's program, which records so many of an event, `first` or `second`, in bursts that fit into its ring."""
    arguments = [piste.program(built.paced), event, str(events), str(BURST_EVENTS), str(interval_us)]
    return Talker(as_user(OTHER, arguments), piste.environment)


@dataclass
class Service:
    """What root and another user got meanwhile."""

    answer_ms: list[float] = field(default_factory=list)
    start_ms: list[float] = field(default_factory=list)
    made: int = 0  # Events of the other user's program.
    lost: int = 0  # Of them, those not in the trace.
    starts_lost: int = 0  # Programs that the trace lacks.


class Customers:
    """Root, who asks, and another user, who starts programs; a context."""

    def __init__(self, piste: EverybodysPiste, built: Built, question: list[str]) -> None:
        self.piste, self.question = piste, question
        self.tiny = piste.program(built.tiny["Piste"])
        self.starter = Program(as_user(OTHER, [piste.program(built.start)]), piste.environment)

    def visit(self, service: Service, while_true: Callable[[], bool]) -> None:
        """One after the other, once at least."""
        while True:
            service.answer_ms.append(self.ask())
            service.start_ms.append(int(self.starter.ask(str(self.tiny))) / 1e6)
            if not while_true():
                return
            time.sleep(PAUSE_S)

    def ask(self) -> float:
        """How many milliseconds the answer takes."""
        command = [self.piste.binaries / "piste", *self.question]
        began = time.monotonic()
        try:
            done = subprocess.run(
                command,
                env=self.piste.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=ANSWER_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return ANSWER_LIMIT_S * 1000
        if done.returncode != 0:
            print(f"`piste {' '.join(self.question)}` was refused: {done.stderr.strip()}", file=sys.stderr)
            return ANSWER_LIMIT_S * 1000
        return (time.monotonic() - began) * 1000

    def __enter__(self) -> "Customers":
        self.starter.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self.starter.__exit__(*error)


@contextlib.contextmanager
def serving(tracers: list[Tracer], built: Built, folder: pathlib.Path) -> Iterator[EverybodysPiste]:
    """A pisted of everybody's, which must be there still at the end. Its traces are in the folder."""
    build = next(tracer.binaries.parent for tracer in tracers if isinstance(tracer, Piste))
    with EverybodysPiste(build, built, folder) as piste:
        yield piste
        if piste.daemon.poll() is not None:
            raise processes.Failed(f"pisted has ended with status {piste.daemon.returncode}")


def show(results: Results, benchmark: str, situation: str, question: str, service: Service) -> tuple[Figure, Figure]:
    """The figures of the answers and of the starts."""
    return (
        results.add(benchmark, f"{question}, {situation}", "ms", service.answer_ms),
        results.add(benchmark, f"start of a program, {situation}", "ms", service.start_ms),
    )


def count_losses(
    piste: EverybodysPiste, trace: pathlib.Path, event: str, service: Service, liar: int | None = None
) -> None:
    """What the trace lacks of what the customers and a paced program did."""
    service.lost = missing_of(service.made, piste.count(trace, event, liar), "events")
    recorded = piste.count(trace, "bench:tiny", liar)
    service.starts_lost = missing_of(len(service.start_ms), recorded, "starts")


def missing_of(made: int, recorded: int, what: str) -> int:
    if recorded > made:
        raise processes.Failed(f"{recorded} {what} are recorded of {made}")
    return made - recorded
