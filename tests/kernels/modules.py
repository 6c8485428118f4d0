# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds the kernel modules of other tracers for one of the kernels: Debian's packages with their sources, with the headers of the kernel."""

import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from kernels import Failed, Kernel, Store

# What the recorder needs, and the tracepoints that the comparison records. The other probes take minutes, and the one for timers does not compile
# with every kernel.
PROBES = ("kprobes", "kretprobes", "uprobes", "probe-sched", "probe-irq", "probe-statedump")
# The script of `piste bench`, and the function that it probes.
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "crates" / "bench" / "src" / "peers" / "systemtap.stp"
FUNCTION = "__x64_sys_getppid"


@dataclass(frozen=True)
class Tracer:
    """A tracer with modules."""

    name: str
    # Of the release that this machine has, like the tracer's programs.
    package: str
    settings: tuple[str, ...] = ()
    # Changes the sources, in a folder, before they are built.
    prepare: Callable[[pathlib.Path], None] = lambda _: None


def build(store: Store, kernel: Kernel, tracer: Tracer) -> pathlib.Path:
    """The folder with a tracer's modules for a kernel, which is in the store. They are built once."""
    home = store.get(kernel)
    release = (home / "release").read_text()
    folder, built = home / f"{tracer.name}-modules", home / tracer.name
    if (built / "complete").exists():
        return built
    for old in (folder, built):
        shutil.rmtree(old, ignore_errors=True)
    common = re.sub(r"-\w+$", "-common", release)
    store.update()
    store.unpack([f"linux-headers-{release}", f"linux-headers-{common}", f"linux-kbuild-{kernel.version}"], folder / "headers")
    store.unpack([tracer.package], folder / "source", of_this_machine=True)
    headers = use_here(folder / "headers", release)
    source = next((folder / "source" / "usr" / "src").iterdir())
    tracer.prepare(source)
    print(f"building the modules of {tracer.name} for Linux {release}: up to some minutes", flush=True)
    with (home / f"{tracer.name}.log").open("w") as log:
        command = ["make", "-C", headers, f"M={source}", f"-j{os.cpu_count()}", *tracer.settings, "modules"]
        if subprocess.run(command, stdout=log, stderr=log, check=False).returncode != 0:
            raise Failed(f"the modules of {tracer.name} cannot be built for Linux {release}: see {log.name}")
    built.mkdir()
    for module in source.rglob("*.ko"):
        shutil.copy(module, built)
    shutil.rmtree(folder)
    (built / "complete").touch()
    return built


def use_here(root: pathlib.Path, release: str) -> pathlib.Path:
    """Headers that were not installed name their places absolutely."""
    headers = root / "usr" / "src" / f"linux-headers-{release}"
    makefile = headers / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{root}/usr/src/"))
    return headers


def compile_systemtap(store: Store, kernel: Kernel) -> None:
    """Compiles SystemTap's module on this machine, into a cache where stap finds it in the guest: an emulated machine needs minutes."""
    home = store.get(kernel)
    release = (home / "release").read_text()
    folder = home / "systemtap"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        store.update()
        names = [f"linux-headers-{release}", re.sub(r"-\w+$", "-common", f"linux-headers-{release}"), f"linux-kbuild-{kernel.version}"]
        store.unpack(names, folder / "unpacked")
        headers = use_here(folder / "unpacked", release)
        # As the kernel's build leaves it; stap looks for names only.
        (headers / "System.map").write_text(f"{0:016x} T {FUNCTION}\n")
        (folder / "headers").symlink_to(headers)
        runtime = shutil.copytree("/usr/share/systemtap/runtime", folder / "runtime")
        # Updates of Linux 6.1 have renamed a function, which SystemTap 4.8 does not know.
        source = runtime / "stp_task_work.c"
        text = source.read_text()
        for old in ("task_work_cancel(task, func)", 'task_work_cancel")', "typeof(&task_work_cancel)", "define task_work_cancel ("):
            text = text.replace(old, old.replace("task_work_cancel", "task_work_cancel_func"))
        source.write_text(text.replace("stp_task_work_cancel_func(", "stp_task_work_cancel("))
        (folder / "complete").touch()
    print(f"compiling SystemTap's module for Linux {release}", flush=True)
    environment = os.environ | {"SYSTEMTAP_DIR": str(folder), "SYSTEMTAP_RUNTIME": str(folder / "runtime")}
    command = ["stap", "-p4", "-r", (folder / "headers").resolve(), SCRIPT, FUNCTION]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"SystemTap's module cannot be compiled: {done.stderr.strip()}")


def choose_probes(source: pathlib.Path) -> None:
    """Leaves out LTTng's probes that are not needed."""
    kbuild = source / "src" / "probes" / "Kbuild"
    begin, _, _ = kbuild.read_text().partition("obj-")
    kbuild.write_text(begin + "".join(f"obj-$(CONFIG_LTTNG) += lttng-{probe}.o\n" for probe in PROBES))


LTTNG = Tracer("lttng", "lttng-modules-dkms", ("CONFIG_LTTNG=m",), choose_probes)
SYSDIG = Tracer("sysdig", "falcosecurity-scap-dkms")
