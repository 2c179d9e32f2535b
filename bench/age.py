"""The rule by which a figure is old: its record is of more than 30 days or 200 commits ago."""

import datetime
import functools
import subprocess
import sys
from pathlib import Path

from bench.records import Record

MOST_DAYS, MOST_COMMITS = 30, 200
GRACE = 40


def is_old(record: Record, root: Path, today: datetime.date | None = None, grace: int = 0) -> bool:
    """Return whether a record's date or commit lies too far back; root: the checkout that it belongs to.

    grace: so many commits more, and days in the same share, are forgiven.

    Commits do not count where the history does not tell: no git, no repository of this root, a shallow clone. Where it
    does not have the record's commit (made on a branch that was rebased since), those made after the record's date do.
    Raises: ValueError where the record has no date.
    """
    made = datetime.date.fromisoformat(record.date[:10])
    now = today or datetime.datetime.now(datetime.UTC).date()
    days, commits = MOST_DAYS + MOST_DAYS * grace // MOST_COMMITS, MOST_COMMITS + grace
    return (now - made).days > days or _commits_since(record, root) > commits


def _commits_since(record: Record, root: Path) -> int:
    """Return the number of commits of HEAD that followed a record; 0 where that is not known."""
    if not _has_history(root):
        return 0
    known = _commit_of_history(record.commit.removesuffix("-dirty"), root)
    followed = [f"{known}..HEAD"] if known else [f"--since={record.date}", "HEAD"]
    return int(_git(root, "rev-list", "--count", *followed, "--") or sys.maxsize)


@functools.cache
def _commit_of_history(name: str, root: Path) -> str:
    """Return the whole name of a commit that HEAD has; nothing where it has none of this name."""
    whole = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}")
    return whole if whole and _git(root, "merge-base", whole, "HEAD") == whole else ""


@functools.cache
def _has_history(root: Path) -> bool:
    top = _git(root, "rev-parse", "--show-toplevel")
    return bool(top) and Path(top) == root.resolve() and _git(root, "rev-parse", "--is-shallow-repository") == "false"


def _git(root: Path, *words: str) -> str:
    """Return what git says; nothing where it fails or is not there."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
