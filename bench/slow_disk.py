# SPDX-License-Identifier: MIT OR Apache-2.0
"""A disk that reads no faster than a chosen rate, by the kernel's I/O controller (Documentation/admin-guide/cgroup-v2.rst, `io.max`;
cgroup-v1/blkio-controller.rst): on a virtual machine the disk is often the host's memory."""

import contextlib
import os
import pathlib
from typing import Self

CGROUPS = pathlib.Path("/sys/fs/cgroup")


class SlowDisk:
    """For the processes that call `enter`, while it is a context. `lack` says why the disk keeps its own speed, if so."""

    def __init__(self, folder: pathlib.Path, bytes_per_second: int) -> None:
        self.lack: str | None = None
        name = f"piste-bench-{os.getpid()}"
        # Of version 1 the controller has a hierarchy of its own.
        if (CGROUPS / "blkio" / "cgroup.procs").exists():
            self.group, limit, value = CGROUPS / "blkio" / name, "blkio.throttle.read_bps_device", f"{bytes_per_second}"
        else:
            self.group, limit, value = CGROUPS / name, "io.max", f"rbps={bytes_per_second}"
        try:
            self.group.mkdir()
            (self.group / limit).write_text(f"{whole_disk(folder)} {value}\n")
        except OSError as error:
            self.lack = f"the kernel does not slow this disk ({error})"

    def enter(self) -> None:
        """The process that calls this, and those it starts from then on."""
        if not self.lack:
            (self.group / "cgroup.procs").write_text(f"{os.getpid()}\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        with contextlib.suppress(OSError):
            self.group.rmdir()


def whole_disk(folder: pathlib.Path) -> str:
    """Major and minor number of the disk that a folder lies on: limits are for disks, not for their partitions."""
    device = os.stat(folder).st_dev
    place = pathlib.Path("/sys/dev/block") / f"{os.major(device)}:{os.minor(device)}"
    if (place / "partition").exists():
        place = place.resolve().parent
    return (place / "dev").read_text().strip()
