# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs a guest: QEMU with one of the kernels. The CPU is emulated, so that no virtualization is needed."""

import pathlib
import subprocess
import threading
from dataclasses import dataclass

import initramfs

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS_MAX = 1800
DISK_BYTES = 512 << 20
# The clock of a guest may be wrong (see `init`).
BOOTS_MAX = 4
# With several emulation threads, QEMU 7.2 keeps stale translations of code that the kernel has patched, and hangs.
ACCELERATOR = "tcg,thread=single"
# Without `tsc=reliable`, the kernel of an emulated machine uses the HPET as its clock.
COMMAND_LINE = "console=ttyS0 loglevel=5 panic=-1 softlockup_panic=1 mitigations=off tsc=reliable"


@dataclass(frozen=True)
class Ended:
    """How a guest ended: the output of its console, and what went wrong."""

    console: str
    problem: str | None


class Guests:
    """Keeps track of the running guests, so that all of them can be stopped."""

    def __init__(self) -> None:
        self.running: set[subprocess.Popen[bytes]] = set()
        self.lock = threading.Lock()
        self.are_ending = False

    def run(self, kernel: pathlib.Path, out: pathlib.Path, script: str, append: str = "", memory: str = "3G") -> Ended:
        """Boots a kernel, runs a script of tests/kernels as root, with the folder `out` at /tmp/out, and waits for the end."""
        image, disk, console = out / "initramfs", out / "disk", out / "console"
        image.write_bytes(initramfs.make(kernel / "modules"))
        with disk.open("wb") as file:
            file.truncate(DISK_BYTES)
        share = "mount_tag={},security_model=none,multidevs=remap"
        command = [
            # If this process is killed, the guest must not stay behind.
            *("setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"),
            *("-machine", "q35", "-accel", ACCELERATOR, "-cpu", "max", "-smp", "2", "-m", memory),
            *("-nodefaults", "-no-reboot", "-display", "none", "-serial", f"file:{console}"),
            *("-kernel", str(kernel / "vmlinuz"), "-initrd", str(image)),
            *("-append", f"{COMMAND_LINE} lab.tree={ROOT} lab.script={script} {append}"),
            *("-virtfs", f"local,path=/,readonly=on,{share.format('host')}"),
            *("-virtfs", f"local,path={out},{share.format('out')}"),
            *("-drive", f"file={disk},if=virtio,format=raw,cache=unsafe"),
        ]
        for _ in range(BOOTS_MAX):
            problem = self.wait(command, out / "qemu")
            said = console.read_text(errors="replace") if console.exists() else ""
            if "lab: the clock is wrong" not in said:
                break
        image.unlink()
        disk.unlink()
        if problem is None and "lab: powers off" not in said:
            problem = f"the guest did not end by itself; its last words: {last_line(said)!r}"
        return Ended(said, problem)

    def wait(self, command: list[str], log: pathlib.Path) -> str | None:
        with log.open("wb") as output:
            with self.lock:
                if self.are_ending:
                    return "it was not started"
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
                self.running.add(process)
            try:
                status = process.wait(SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return f"the guest took longer than {SECONDS_MAX} s"
            finally:
                self.running.discard(process)
        return None if status == 0 else f"QEMU ended with status {status}: {log.read_text(errors='replace').strip()}"

    def end_all(self) -> None:
        with self.lock:
            self.are_ending = True
            for process in list(self.running):
                process.kill()


def last_line(text: str) -> str:
    """What the lab's own scripts said last, or whoever else did."""
    lines = text.strip().splitlines()
    own = [line for line in lines if line.startswith("lab: ")]
    return (own or lines or [""])[-1]
