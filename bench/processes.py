# SPDX-License-Identifier: MIT OR Apache-2.0
"""Processes: running commands, reading about processes, and ending every process that was started, by its id."""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable

PR_SET_CHILD_SUBREAPER = 36
PATIENCE_S = 60


class Failed(Exception):
    """Something that was to be measured did not run."""


def adopt_orphans() -> None:
    """Makes daemons that a child leaves behind children of this process, so that end_all() finds them. SIGTERM ends as
    Ctrl-C does."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def children(pid: int) -> list[int]:
    listed: list[int] = []
    for thread in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # It has ended meanwhile.
            listed += [int(child) for child in thread.read_text().split()]
    return listed


def family(pid: int) -> list[int]:
    """The process and all its descendants."""
    return [pid] + [member for child in children(pid) for member in family(child)]


def name_of(pid: int) -> str:
    """Empty when it has ended."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def end_all() -> None:
    """Asks everything that runs to end, and kills what does not; what that orphans comes here and is ended too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    deadline = time.monotonic() + PATIENCE_S
    asked: set[int] = set()
    while remaining := children(os.getpid()):
        for pid in remaining:
            if pid not in asked or time.monotonic() > deadline:
                os.kill(pid, signal.SIGTERM if time.monotonic() <= deadline else signal.SIGKILL)
                asked.add(pid)
        while reap():
            pass
        time.sleep(0.01)


def reap() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def end(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def kill_orphan(pid: int) -> None:
    """Kills a process that has come to this one (adopt_orphans), unless it has ended. Its id is not used again
    before it is reaped."""
    if pid in children(os.getpid()):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def command(arguments: list, environment: dict[str, str] | None = None) -> str:
    """Runs a command and returns what it prints."""
    done = subprocess.run(arguments, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        line = " ".join(str(argument) for argument in arguments)
        raise Failed(f"`{line}` ended with status {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def wait_until(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"waited {PATIENCE_S} s in vain until {what}")
        time.sleep(0.01)


def resident_bytes(pids: list[int]) -> int:
    """Together. Pages that they share count for each."""
    return sum(resident_bytes_of(pid) for pid in pids)


def resident_bytes_of(pid: int) -> int:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise Failed(f"process {pid} has no resident memory")


def cpu_ns(pid: int) -> int:
    """Of all its threads."""

    def of_thread(folder: pathlib.Path) -> int:
        try:
            return int((folder / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            # It has ended meanwhile.
            return 0

    return sum(map(of_thread, pathlib.Path(f"/proc/{pid}/task").iterdir()))
