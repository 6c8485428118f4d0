# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the initramfs of a guest: busybox, the modules that mount the host's files, and `init`. Needs no root."""

import gzip
import pathlib
import stat

INIT = pathlib.Path(__file__).with_name("init")
BUSYBOX = pathlib.Path("/bin/busybox")


class Archive:
    """A cpio archive in the form that Linux reads (newc)."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.inode = 1

    def add(self, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        self.inode += 1
        path = name.encode() + b"\0"
        numbers = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
        self.content += b"070701" + "".join(f"{number:08X}" for number in numbers).encode() + path
        self.pad()
        self.content += data
        self.pad()

    def pad(self) -> None:
        self.content += b"\0" * (-len(self.content) % 4)

    def finish(self) -> bytes:
        self.add("TRAILER!!!", 0)
        return bytes(self.content)


def make(modules: pathlib.Path) -> bytes:
    archive = Archive()
    for folder in ("bin", "dev", "modules"):
        archive.add(folder, stat.S_IFDIR | 0o755)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add("bin/busybox", stat.S_IFREG | 0o755, BUSYBOX.read_bytes())
    archive.add("init", stat.S_IFREG | 0o755, INIT.read_bytes())
    for module in sorted(modules.iterdir()):
        archive.add(f"modules/{module.name}", stat.S_IFREG | 0o644, module.read_bytes())
    return gzip.compress(archive.finish(), 1)
