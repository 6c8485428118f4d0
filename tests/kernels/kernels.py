# SPDX-License-Identifier: MIT OR Apache-2.0
"""Downloads the kernels, which are Debian's packages, with apt. Only the image and the modules that a guest needs are kept."""

import lzma
import os
import pathlib
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass

# What a guest needs to mount the host's files and a disk. The modules on which these depend are found by themselves.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_blk", "ext4", "crc32c_generic", "crc32c-intel")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass(frozen=True)
class Kernel:
    name: str
    suite: str
    flavour: str

    @property
    def version(self) -> str:
        return self.name.removesuffix("-rt")

    @property
    def is_realtime(self) -> bool:
        return self.name.endswith("-rt")

    def matches(self, package: str) -> bool:
        pattern = rf"linux-image-{re.escape(self.version)}\.\d+(-\d+)?(\+deb\d+)?-{self.flavour}"
        return re.fullmatch(pattern, package) is not None


KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel("5.10", "bullseye-security", "amd64"),
        Kernel("6.1", "bookworm-security", "amd64"),
        Kernel("6.1-rt", "bookworm-security", "rt-amd64"),
        Kernel("6.12-rt", "trixie", "rt-amd64"),
        Kernel("7.3", "trixie-backports", "amd64"),
    )
}


class Failed(Exception):
    """A kernel cannot be downloaded."""


class Store:
    """The folder with the kernels. A kernel is downloaded once; delete its folder to get a newer one."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.is_updated = False
        self.lock = threading.Lock()

    def get(self, kernel: Kernel) -> pathlib.Path:
        """The folder of a kernel, with `vmlinuz`, `release` and `modules/`, whose files are named in the order in which they load."""
        home = self.folder / kernel.name
        complete = home / "complete"
        with self.lock:
            if not complete.exists() or complete.read_text() != " ".join(MODULES):
                shutil.rmtree(home, ignore_errors=True)
                self.download(kernel, home)
                complete.write_text(" ".join(MODULES))
        return home

    def download(self, kernel: Kernel, home: pathlib.Path) -> None:
        packages = self.packages(kernel)
        unpacked = home / "unpacked"
        self.unpack(packages, unpacked)
        image = next(iter([*unpacked.glob("boot/vmlinuz-*"), *unpacked.glob("usr/lib/modules/*/vmlinuz")]), None)
        if image is None:
            raise Failed(f"{packages[0]} has no vmlinuz")
        shutil.copy(image, home / "vmlinuz")
        (home / "release").write_text(packages[0].removeprefix("linux-image-"))
        keep_modules(unpacked, home / "modules")
        shutil.rmtree(unpacked)

    def unpack(self, packages: list[str], folder: pathlib.Path, of_this_machine: bool = False) -> None:
        """Downloads packages and unpacks them to a folder. Those of this machine's own release fit what is installed here."""
        print(f"downloading {' '.join(packages)}", flush=True)
        folder.mkdir(parents=True)
        download = run if of_this_machine else self.apt
        download("apt-get", "download", *packages, folder=folder)
        for package in folder.glob("*.deb"):
            run("dpkg-deb", "-x", str(package), str(folder))
            package.unlink()

    def packages(self, kernel: Kernel) -> list[str]:
        """The packages of the newest release of a kernel. Since Debian 14, the image and the modules are in separate packages."""
        self.update()
        names = self.apt("apt-cache", "pkgnames", "linux-").split()
        images = sorted(filter(kernel.matches, names), key=lambda name: [int(part) for part in re.findall(r"\d+", name)])
        if not images:
            raise Failed(f"Debian's {kernel.suite} has no kernel {kernel.name}")
        release = images[-1].removeprefix("linux-image-")
        parts = [f"linux-binary-{release}", f"linux-modules-{release}"]
        return [images[-1], *(part for part in parts if part in names)]

    def update(self) -> None:
        if self.is_updated:
            return
        for folder in ("lists/partial", "archives/partial"):
            (self.folder / "apt" / folder).mkdir(parents=True, exist_ok=True)
        lines = [
            f"deb [arch=amd64 signed-by={KEYRING} check-valid-until=no] {mirror(suite)} {suite} main\n"
            for suite in sorted({kernel.suite for kernel in KERNELS.values()})
        ]
        (self.folder / "apt" / "sources.list").write_text("".join(lines))
        self.apt("apt-get", "update", "-qq")
        self.is_updated = True

    def apt(self, command: str, *arguments: str, folder: pathlib.Path | None = None) -> str:
        """Runs apt with lists of its own, apart from those of this machine."""
        own = self.folder / "apt"
        options = {
            "Dir::Etc::SourceList": own / "sources.list",
            "Dir::Etc::SourceParts": "-",
            "Dir::State::Lists": own / "lists",
            "Dir::Cache": own,
            "Dir::Cache::Archives": own / "archives",
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            # The folder belongs to the user who runs this.
            "APT::Sandbox::User": "root",
        }
        given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return run(command, *given, *arguments, folder=folder)


def mirror(suite: str) -> str:
    """The mirror from which this machine gets Debian's packages."""
    sites = run("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Origin: Debian").split()
    wanted = [site for site in sites if site.rstrip("/").endswith("-security") == suite.endswith("-security")]
    if not wanted:
        raise Failed("apt knows no mirror of Debian here (see /etc/apt)")
    return wanted[0]


def keep_modules(unpacked: pathlib.Path, folder: pathlib.Path) -> None:
    """Copies MODULES and their dependencies, numbered in load order."""
    folder.mkdir()
    plain = {}
    for path in unpacked.glob("**/modules/*/kernel/**/*.ko*"):
        plain[path.name.split(".ko")[0].replace("-", "_")] = path
    kept: dict[str, bytes] = {}

    def keep(name: str) -> None:
        name = name.replace("-", "_")
        # A module that is not in the package is built into the kernel.
        if name in kept or name not in plain:
            return
        kept[name] = b""
        content = decompressed(plain[name])
        needed = re.findall(rb"\0depends=([^\0]*)\0", content) + re.findall(rb"\0softdep=pre: ([^\0]*)\0", content)
        for other in re.split(r"[ ,]+", " ".join(text.decode() for text in needed)):
            keep(other)
        (folder / f"{len(list(folder.iterdir())):02}-{name}.ko").write_bytes(content)

    for name in MODULES:
        keep(name)


def decompressed(path: pathlib.Path) -> bytes:
    content = path.read_bytes()
    match path.suffix:
        case ".xz":
            return lzma.decompress(content)
        case ".zst":
            return subprocess.run(["zstd", "-dcq"], input=content, stdout=subprocess.PIPE, check=True).stdout
    return content


def run(*command: str, folder: pathlib.Path | None = None) -> str:
    environment = os.environ | {"LC_ALL": "C"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command[:2])} failed: {done.stderr.strip()}")
    return done.stdout
