"""The packages of the corpus: bench/corpus/packages.toml, and their sources from Debian's archives."""

import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.debian import source_tarball
from mavcg.errors import MavcgError
from mavcg.files.decode import read_toml

TABLE = Path(__file__).with_name("packages.toml")


@dataclass(frozen=True)
class Package:
    """A source package of Debian, and how it is built and used; the commands are those of a shell.

    source: its name. build: makes its programs. work: a second of typical work. check: its own tests, "" for none.
    needs: programs without which it is left out. arm: whether it is built for AArch64 too.
    """

    source: str
    build: str
    work: str
    check: str = ""
    needs: tuple[str, ...] = ()
    arm: bool = True


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
    tarball = source_tarball(package.source)
    if isinstance(tarball, str):
        raise MavcgError(tarball)
    with tarfile.open(tarball) as archive:
        archive.extractall(folder.parent / "unpacked", filter="data")
    entries = list((folder.parent / "unpacked").iterdir())
    (entries[0] if len(entries) == 1 else folder.parent / "unpacked").rename(folder)
    shutil.rmtree(folder.parent / "unpacked", ignore_errors=True)
    return tarball.name.split("_")[1].split(".orig")[0]
