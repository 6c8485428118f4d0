# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds LTTng's kernel modules for one of the kernels: Debian's source package, with the headers of the kernel."""

import os
import pathlib
import re
import shutil
import subprocess

from kernels import Failed, Kernel, Store

# What the recorder needs, and the tracepoints that the comparison records. The other probes take minutes, and the one for timers does not compile
# with every kernel.
PROBES = ("kprobes", "kretprobes", "uprobes", "probe-sched", "probe-irq", "probe-statedump")


def build(store: Store, kernel: Kernel) -> pathlib.Path:
    """The folder with the modules of a kernel, which is in the store. They are built once."""
    home = store.get(kernel)
    release = (home / "release").read_text()
    folder, built = home / "lttng-modules", home / "lttng"
    if (built / "complete").exists():
        return built
    for old in (folder, built):
        shutil.rmtree(old, ignore_errors=True)
    common = re.sub(r"-\w+$", "-common", release)
    store.update()
    store.unpack([f"linux-headers-{release}", f"linux-headers-{common}", f"linux-kbuild-{kernel.version}"], folder / "headers")
    store.unpack(["lttng-modules-dkms"], folder / "source", of_this_machine=True)
    headers = use_here(folder / "headers", release)
    source = next((folder / "source" / "usr" / "src").iterdir())
    choose_probes(source / "src" / "probes" / "Kbuild")
    print(f"building LTTng's modules for Linux {release}: some minutes", flush=True)
    with (home / "lttng.log").open("w") as log:
        command = ["make", "-C", headers, f"M={source}", f"-j{os.cpu_count()}", "CONFIG_LTTNG=m", "modules"]
        if subprocess.run(command, stdout=log, stderr=log, check=False).returncode != 0:
            raise Failed(f"LTTng's modules cannot be built for Linux {release}: see {log.name}")
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


def choose_probes(kbuild: pathlib.Path) -> None:
    """Leaves out the probes that are not compared."""
    begin, _, _ = kbuild.read_text().partition("obj-")
    kbuild.write_text(begin + "".join(f"obj-$(CONFIG_LTTNG) += lttng-{probe}.o\n" for probe in PROBES))
