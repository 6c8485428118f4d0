# SPDX-License-Identifier: MIT OR Apache-2.0
"""Adds the libraries, the man pages and the documentation, and names the systems that the wheel works on: those of this processor whose glibc
has what the programs use (PEP 600)."""

import pathlib
import platform
import re
import subprocess

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What manylinux lets a wheel expect of a system, as far as the programs use it. tools/wheel adds the other libraries.
EXPECTED = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libc.so.6", "libgcc_s.so.1", "libm.so.6"}


class Platform(BuildHookInterface):
    def initialize(self, version, build_data):
        root = pathlib.Path(self.root)
        files = [*root.glob("scripts/*"), *root.glob("data/lib/**/*.so*")]
        said = subprocess.run(["objdump", "-p", *files], check=True, capture_output=True, text=True).stdout
        others = set(re.findall(r"NEEDED +(\S+)", said)) - EXPECTED - {file.name for file in files}
        if others:
            raise RuntimeError(f"the programs use libraries that not every system has: {sorted(others)}")
        major, minor = max(tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", said))
        # Beside the environment's bin: piste looks for its helpers in ../lib/piste, and man for its pages in ../share/man.
        data = root / "data"
        build_data["shared_data"] = {str(file): str(file.relative_to(data)) for file in data.rglob("*") if file.is_file()}
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"
