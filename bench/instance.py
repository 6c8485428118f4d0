# SPDX-License-Identifier: MIT OR Apache-2.0
"""A plain tracefs instance, as anybody can make one: the floor of what recording the kernel costs."""

import contextlib
import os
import pathlib
import subprocess
import time

import processes

TRACEFS = pathlib.Path("/sys/kernel/tracing")
KERNEL_LACK = pathlib.Path(__file__).resolve().parent.parent / "tools" / "kernel-lack"


def missing() -> str | None:
    """Why the kernel cannot be recorded here, if so."""
    return processes.command([KERNEL_LACK]).strip() or None


class Instance:
    """Records events into rings of its own while it is a context. Nobody reads them unless `reader` is given."""

    def __init__(self, events: list[str], pid: int | None = None, subbuf_kib: int = 64, subbuf_count: int = 64) -> None:
        self.events, self.pid = events, pid
        self.subbuf_kib, self.subbuf_count = subbuf_kib, subbuf_count
        self.folder = TRACEFS / "instances" / f"bench-{os.getpid()}"

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def __enter__(self) -> "Instance":
        self.folder.mkdir()
        # The clock of Piste's recordings.
        clocks = (self.folder / "trace_clock").read_text()
        self.write("trace_clock", "x86-tsc" if "x86-tsc" in clocks else "mono")
        with contextlib.suppress(OSError):  # Kernels before 6.8 have sub-buffers of a page.
            self.write("buffer_subbuf_size_kb", str(self.subbuf_kib))
        self.write("buffer_size_kb", str(self.subbuf_kib * self.subbuf_count))
        if self.pid is not None:
            self.write("set_event_pid", str(self.pid))
        for event in self.events:
            with contextlib.suppress(FileNotFoundError):  # Not every kernel has every event.
                self.write(f"events/{event}/enable", "1")
        return self

    def __exit__(self, *_) -> None:
        self.write("tracing_on", "0")
        self.write("events/enable", "0")
        deadline = time.monotonic() + processes.PATIENCE_S
        while True:
            try:
                self.folder.rmdir()
                return
            except OSError:  # A reader has it open still.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)


class Reader:
    """Moves what an instance records to a file (/dev/null: reads without writing) while it is a context."""

    def __init__(self, program: pathlib.Path, instance: Instance, output: pathlib.Path) -> None:
        self.arguments = [program, instance.folder, output]

    def __enter__(self) -> "Reader":
        self.process = subprocess.Popen(self.arguments, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "running\n":
            raise processes.Failed(f"{self.arguments[0]} did not run")
        return self

    def __exit__(self, *_) -> None:
        processes.end(self.process)
        self.process.stdout.close()
