"""The packages of the corpus: bench/corpus/packages.toml, and their sources from Debian's archives."""

import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.debian import package_file, source_tarball
from mavcg.errors import MavcgError
from mavcg.files.decode import read_toml

TABLE = Path(__file__).with_name("packages.toml")
_CRATES = "usr/share/cargo/registry"  # in the packages that Debian has of Rust's crates, which are sources


@dataclass(frozen=True)
class Package:
    """A source package of Debian, and how it is built and used; the commands are those of a shell.

    source: its name; of a Rust crate, that of the package with its sources. build: makes its programs. work: a second
    of typical work. check: its own tests, "" for none. needs: programs without which it is left out. arm: whether it is
    built for AArch64 too. objects: those of a Rust crate, by their paths, that $IR makes; `mavcg launch` adds no
    versions to them.
    """

    source: str
    build: str
    work: str
    check: str = ""
    needs: tuple[str, ...] = ()
    arm: bool = True
    objects: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Table:
    package: tuple[Package, ...]


def read_packages(names: Sequence[str] = ()) -> tuple[Package, ...]:
    """Return the packages of the table, or those of these names. Raises: MavcgError for a name that it lacks."""
    packages = read_toml(TABLE, "mend the table").decode(_Table).package
    known = {package.source: package for package in packages}
    if unknown := sorted(set(names) - set(known)):
        raise MavcgError(f"corpus: no package {', '.join(unknown)}; there are {', '.join(known)}")
    return tuple(known[name] for name in names) if names else packages


def unpack(package: Package, folder: Path) -> str:
    """Unpack a package's sources into a new folder. Returns: the version of upstream. Raises: MavcgError if something
    that it needs is missing, or its sources cannot be had."""
    if missing := [name for name in package.needs if shutil.which(name) is None]:
        raise MavcgError(f"needs {', '.join(missing)}")
    found = package_file(package.source) if package.objects else source_tarball(package.source)
    if isinstance(found, str):
        raise MavcgError(found)
    unpacked = folder.parent / "unpacked"
    if package.objects:
        subprocess.run(["dpkg-deb", "-x", str(found), str(unpacked)], check=True)
        (sources,) = (unpacked / _CRATES).iterdir()
    else:
        with tarfile.open(found) as archive:
            archive.extractall(unpacked, filter="data")
        entries = list(unpacked.iterdir())
        sources = entries[0] if len(entries) == 1 else unpacked
    sources.rename(folder)
    shutil.rmtree(unpacked, ignore_errors=True)
    return found.name.split("_")[1].split(".orig")[0]
