"""Commits that are too large to read, or have no reason, are found; moves and generated files do not count."""

import subprocess
from pathlib import Path

import pytest

from scripts.commit_check import warnings


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    run(tmp_path, "init", "-q")
    return tmp_path


def run(folder: Path, *words: str) -> None:
    author = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, name: str, lines: int, message: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name} {number}\n" for number in range(lines)))
    run(folder, "add", "-A")
    run(folder, "commit", "-qm", message)


def test_large_commits_and_those_without_a_reason_are_named(repository: Path) -> None:
    commit(repository, "small.py", 300, "Small")
    commit(repository, "reasoned.py", 1500, "Reasoned\n\nBecause.")
    commit(repository, "bare.py", 301, "Bare")
    commit(repository, "large.py", 1501, "Large\n\nBecause.")
    commit(repository, "bench/results/rows.json", 5000, "Generated")
    run(repository, "mv", "large.py", "moved.py")
    run(repository, "commit", "-qm", "Moved")

    told = [sentence.partition(" ")[2] for sentence in warnings(repository)]
    assert told == [
        "changes 1501 lines, and is not of moves or generated files alone: Large",
        "changes 301 lines and gives no reason: Bare",
    ]


def test_a_folder_without_history_has_none(tmp_path: Path) -> None:
    assert list(warnings(tmp_path)) == []
