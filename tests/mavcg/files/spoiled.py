"""Ways in which a kept file is no longer one that only this user has written."""

import os
from pathlib import Path


def make_writable(path: Path) -> None:
    path.chmod(0o660)


def link_elsewhere(path: Path) -> None:
    other = path.with_name("other")
    path.rename(other)
    path.symlink_to(other)


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


SPOILED = (make_writable, link_elsewhere, make_pipe)
