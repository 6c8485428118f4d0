# SPDX-License-Identifier: MIT OR Apache-2.0
"""The two tracers, each with a daemon of its own in a temporary folder, and the sessions that the benchmarks need.

Which channel records an event of the measured programs goes by its name:

    bench:plain, bench:array, bench:fields, the formatted event     channel without contexts, in memory
    bench:filtered                                                  the same channel, one event of 100
    bench:contexts                                                  channel with contexts, in memory
    bench:disk, bench:tiny                                          channel without contexts, on disk
    bench:disabled                                                  none

Both tracers have rings of the same size.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
from typing import Literal

import private_place
import processes

SUBBUF_BYTES = 256 * 1024
SUBBUF_COUNT = 4
# Of bench:filtered: one event of 100 passes.

OnFull = Literal["discard", "wait"]


class Tracer:
    """What both have in common. A daemon runs between start() and stop()."""

    name: str
    daemon: subprocess.Popen | None = None

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder / self.name
        self.folder.mkdir()
        self.environment = dict(os.environ)

    def start(self) -> None:
        raise NotImplementedError

    def record_on_disk(self, on_full: OnFull) -> pathlib.Path:
        """Starts recording to a new folder, which it returns."""
        raise NotImplementedError

    def end_session(self) -> int:
        """Returns how many events were lost."""
        raise NotImplementedError

    def stop(self) -> None:
        started = processes.family(self.daemon.pid)
        processes.end(self.daemon)
        for pid in started[1:]:
            # A consumer with work to do outlives its daemon.
            processes.kill_orphan(pid)

    def __enter__(self) -> "Tracer":
        self.start()
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def daemons(self) -> list[int]:
        """The daemon and its consumer."""
        return processes.family(self.daemon.pid)

    def new_trace(self) -> pathlib.Path:
        trace = self.folder / "trace"
        shutil.rmtree(trace, ignore_errors=True)
        return trace

    def run_daemon(self, arguments: list) -> None:
        self.daemon = subprocess.Popen(
            arguments,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


class Piste(Tracer):
    name = "Piste"

    def __init__(self, build: pathlib.Path, folder: pathlib.Path) -> None:
        super().__init__(folder)
        self.binaries = build / "bin"
        self.run_folder = self.folder / "run"
        self.environment["PISTE_RUNDIR"] = str(self.run_folder)

    def daemons(self) -> list[int]:
        """Without the children that ask whether the kernel answers, and end."""
        return [pid for pid in super().daemons() if processes.name_of(pid).startswith("pisted")]

    def piste(self, *arguments) -> str:
        return processes.command([self.binaries / "piste", *arguments], self.environment)

    def start(self) -> None:
        # A new folder: in the old one it would go on with the sessions of before.
        shutil.rmtree(self.run_folder, ignore_errors=True)
        self.run_folder.mkdir(mode=0o700)
        self.run_daemon([self.binaries / "pisted"])
        processes.wait_until("pisted listens", (self.run_folder / "control.sock").exists)

    def channel(self, name: str, *options: str) -> None:
        size = [f"--subbuf-size={SUBBUF_BYTES}", f"--num-subbuf={SUBBUF_COUNT}"]
        self.piste("enable-channel", "-u", name, *size, *options)

    def record_on_disk(self, on_full: OnFull) -> pathlib.Path:
        trace = self.new_trace()
        self.piste("create", "bench", "-o", trace)
        full = "--discard" if on_full == "discard" else "--block=forever"
        self.channel("disk", "--no-default-contexts", full)
        self.piste("enable-event", "-u", "-c", "disk", "bench:disk", "bench:tiny")
        self.piste("start")
        return trace

    def end_session(self) -> int:
        self.piste("stop")
        status = json.loads(self.piste("status", "--json"))
        self.piste("destroy")
        return sum(channel["discarded_events"] for channel in status["channels"])


class Lttng(Tracer):
    name = "LTTng-UST"

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        self.environment.update(HOME=str(self.folder), LTTNG_HOME=str(self.folder), LTTNG_UST_ALLOW_BLOCKING="1")

    @staticmethod
    def missing() -> str | None:
        """Why it cannot be measured here, if so."""
        if not private_place.entered():
            return "needs a private /run (`unshare --mount`), which is not allowed here"
        for program in ("lttng", "lttng-sessiond"):
            if not shutil.which(program):
                return f"no {program} here (Debian: lttng-tools)"
        compiler = os.environ.get("CC", "cc")
        header = ["-E", "-include", "lttng/tracepoint.h", "-x", "c", "/dev/null"]
        if subprocess.run([compiler, *header], capture_output=True).returncode != 0:
            return "no lttng/tracepoint.h here (Debian: liblttng-ust-dev)"
        return None

    def lttng(self, *arguments) -> str:
        return processes.command(["lttng", "--no-sessiond", *arguments], self.environment)

    def start(self) -> None:
        self.run_daemon(["lttng-sessiond", "--no-kernel", "--quiet"])
        processes.wait_until("lttng-sessiond listens", self.answers)

    def answers(self) -> bool:
        try:
            self.lttng("list")
        except processes.Failed:
            return False
        return True

    def daemons(self) -> list[int]:
        """Without their helpers for files of other users, lttng-runas, which Piste has no part like."""
        return [pid for pid in super().daemons() if processes.name_of(pid) in ("lttng-sessiond", "lttng-consumerd")]

    def channel(self, name: str, *options: str) -> None:
        size = [f"--subbuf-size={SUBBUF_BYTES}", f"--num-subbuf={SUBBUF_COUNT}"]
        self.lttng("enable-channel", "-u", name, *size, *options)

    def event(self, channel: str, *names: str) -> None:
        self.lttng("enable-event", "-u", "-c", channel, ",".join(names))

    def record_on_disk(self, on_full: OnFull) -> pathlib.Path:
        trace = self.new_trace()
        self.lttng("create", "bench", f"--output={trace}")
        self.channel("disk", *(["--discard"] if on_full == "discard" else ["--discard", "--blocking-timeout=inf"]))
        self.event("disk", "bench:disk", "bench:tiny")
        self.lttng("start")
        return trace

    def end_session(self) -> int:
        self.lttng("stop")
        said = self.lttng("list", "bench")
        self.lttng("destroy", "bench")
        return sum(int(count) for count in re.findall(r"(?:Discarded events|Lost packets): (\d+)", said))
