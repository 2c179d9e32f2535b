"""Packages of Debian, by apt-get and the archives that this machine's apt is set up with; kept in the cache."""

import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mavcg.files.store import code_folder

_SECONDS = 120


class AptError(Exception):
    """An error of apt-get, whose text says what cannot be had, and why."""


def source_tarball(package: str) -> Path | str:
    """The upstream tarball of a Debian source package; why it cannot be had, where it cannot."""
    kept = code_folder() / "test-sources"
    if found := _tarballs(kept, package):
        return found[-1]
    try:
        with _own_apt(kept, "deb-src") as apt:
            try:
                _call([*apt, "source", "--download-only", package], kept)
            except AptError:  # mirrors may lack the files of security updates; the release's own version has no update
                _call([*apt, "source", "--download-only", f"{package}/{_release()}"], kept)
    except AptError as error:
        return str(error)
    return max(_tarballs(kept, package), default=f"apt-get source {package} brought no .orig.tar")


def package_file(package: str) -> Path | str:
    """The .deb of a package for this machine; why it cannot be had, where it cannot."""
    kept = code_folder() / "test-sources"
    if not (found := sorted(kept.glob(f"{package}_*.deb"))):
        try:
            with _own_apt(kept, "deb") as apt:
                _call([*apt, "download", package], kept)
        except AptError as error:
            return str(error)
        found = sorted(kept.glob(f"{package}_*.deb"))
    return found[-1] if found else f"apt-get download {package} brought no .deb"


def _release() -> str:
    """The code name of this machine's Debian. Raises: AptError where it has none."""
    try:
        return platform.freedesktop_os_release()["VERSION_CODENAME"]
    except (OSError, KeyError):
        raise AptError("this system has no code name") from None


def _tarballs(folder: Path, package: str) -> list[Path]:
    return sorted(path for path in folder.glob(f"{package}_*.orig.tar.*") if path.suffix != ".asc")  # a signature


def unpacked_packages(architecture: str, packages: Sequence[str]) -> Path | str:
    """A folder with the files of Debian's packages for another architecture, for emulation; why it cannot be had."""
    kept = code_folder() / f"test-packages-{architecture}"
    root = kept / "root"
    if root.is_dir():
        return root
    if shutil.which("dpkg-deb") is None:
        return "needs dpkg-deb"
    shutil.rmtree(kept, ignore_errors=True)
    try:
        with _own_apt(kept, "deb", architecture) as apt:
            _call([*apt, "download", *packages], kept)
            made = kept / "unpacked"
            for package in kept.glob("*.deb"):
                _call(["dpkg-deb", "-x", str(package), str(made)], kept)
    except AptError as error:
        return str(error)
    made.rename(root)  # last, so that what is there is whole
    return root


@contextmanager
def _own_apt(kept: Path, kind: str, architecture: str = "") -> Iterator[list[str]]:
    """Set up apt-get with lists of its own, some 10 MB, in a folder that is deleted afterwards: the machine's lists and
    settings stay as they are. kind: "deb" or "deb-src". Yields its command. Raises: AptError."""
    if shutil.which("apt-get") is None:
        raise AptError("needs apt-get")
    apt = kept / "apt"
    for folder in ("state/lists/partial", "cache/archives/partial", "sources"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    options: dict[str, object] = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": apt / "sources",
        "Dir::State": apt / "state",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "",
    }
    if architecture:
        (apt / "status").touch()  # nothing is installed
        options |= {"APT::Architecture": architecture, "APT::Architectures::": architecture}
        options["Dir::State::status"] = apt / "status"
    command = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    try:
        if not _write_archives(apt / "sources", kind):
            raise AptError("apt has no archives")
        _call([*command, "update"], kept)
        yield command
    finally:
        shutil.rmtree(apt)


def _call(command: Sequence[str], folder: Path) -> None:
    words = " ".join([command[0], *(word for word in command[1:] if not word.startswith("-o"))])
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise AptError(f"{words} took more than {_SECONDS} s") from None
    if done.returncode:
        raise AptError(f"{words}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")


def _write_archives(folder: Path, kind: str) -> bool:
    """This machine's archives as archives of a kind; False where it has none."""
    for path in Path("/etc/apt/sources.list.d").glob("*.sources"):
        (folder / path.name).write_text(re.sub(r"^Types:.*$", f"Types: {kind}", path.read_text(), flags=re.M))
    for path in (Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*.list")):
        if path.is_file():
            lines = re.findall(r"^deb .*$", path.read_text(), re.M)
            (folder / f"{path.stem}.list").write_text("".join(f"{kind} {line[4:]}\n" for line in lines))
    return any(path.stat().st_size for path in folder.iterdir())
