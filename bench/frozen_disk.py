# SPDX-License-Identifier: MIT OR Apache-2.0
"""A disk that stops, as a broken one or one across a network does: ext4 in a file, frozen with fsfreeze. Whoever writes to it waits, and
cannot be killed, until it is thawed.

A helper thaws it and takes it away when this process ends in any way, SIGKILL included, and thaws it after LIMIT_S in any case.
"""

import os
import pathlib
import shutil
import subprocess
from typing import Self

import processes

DISK_BYTES = 2 << 30
LIMIT_S = 120
PROGRAMS = ("fsfreeze", "mkfs.ext4", "mount", "timeout")
# Standard input closes when the disk is no longer wanted. `mount -o loop` gives the loop device back with the mount.
HELPER = """
trap '' INT TERM HUP
timeout "$2" cat
fsfreeze --unfreeze "$1"
cat
fsfreeze --unfreeze "$1"
umount "$1" || umount --lazy "$1"
"""


def missing() -> str | None:
    """Why no disk can be frozen here, if so."""
    if os.geteuid() != 0:
        return "only root can freeze a disk"
    if not pathlib.Path("/dev/loop-control").exists():
        return "the kernel has no loop devices here"
    lacking = [program for program in PROGRAMS if not shutil.which(program)]
    return f"no {', '.join(lacking)} here" if lacking else None


class FrozenDisk:
    """Mounted at `folder` while it is a context. `folder` is in the folder that is given, which holds its bytes."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.file, self.folder = folder / "disk", folder / "mounted"

    def __enter__(self) -> Self:
        self.folder.mkdir(exist_ok=True)
        with self.file.open("wb") as file:
            file.truncate(DISK_BYTES)
        processes.command(["mkfs.ext4", "-q", "-F", self.file])
        processes.command(["mount", "-o", "loop", self.file, self.folder])
        self.helper = subprocess.Popen(
            ["sh", "-c", HELPER, "sh", self.folder, str(LIMIT_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def freeze(self) -> None:
        processes.command(["fsfreeze", "--freeze", self.folder])

    def thaw(self) -> None:
        processes.command(["fsfreeze", "--unfreeze", self.folder])

    def __exit__(self, *_) -> None:
        self.helper.stdin.close()
        self.helper.wait(processes.PATIENCE_S)
        self.file.unlink()
