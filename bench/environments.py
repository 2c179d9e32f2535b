"""Virtual environments of benches, beside the cached models: for other runtimes, and for PyTorch's exports."""

import fcntl
import os
import shutil
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.wheels import pip

READY = "ready"  # holds what is installed; written last, so that an environment half made is made anew


@contextmanager
def environment(home: Path, contents: str, install: Sequence[str]) -> Iterator[Path]:
    """Return the interpreter of the environment in `home`.

    A lock keeps other processes from changing or deleting it. It is created, and created again if it has other
    `contents`. contents: identifies what is installed, such as a digest of the requirements. install: arguments of `pip
    install`. Raises: MavcgError if pip fails.
    """
    home.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(home.with_name(f"{home.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        python, ready = home / "bin" / "python", home / READY
        if not ready.exists() or ready.read_text() != contents:
            shutil.rmtree(home, ignore_errors=True)
            venv.create(home, with_pip=True)
            pip("install", *install, python=str(python))
            ready.write_text(contents)
        yield python
    finally:
        os.close(lock)


def drop_environment(home: Path, largest_bytes: int) -> None:
    """Delete the environment in `home` if its files are larger than this, as soon as no process uses it."""
    if not home.exists():
        return
    lock = os.open(home.with_name(f"{home.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if sum(f.lstat().st_size for f in home.rglob("*") if f.is_file()) > largest_bytes:
            shutil.rmtree(home)
    finally:
        os.close(lock)
