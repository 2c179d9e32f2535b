"""Which figures are old: by days, by commits, and where the history does not tell."""

import datetime
import os
import subprocess
from pathlib import Path

import pytest

from bench.age import MOST_COMMITS, MOST_DAYS, is_old
from tests.bench.made_records import made

TODAY = datetime.date(2026, 11, 28)
NAMES = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder: Path, *words: str, given: str | None = None) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], env={**os.environ, **NAMES}, input=given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of MOST_COMMITS + 2 commits."""
    folder = tmp_path_factory.mktemp("history")
    git(folder, "init", "-q", "-b", "main")
    who = "committer a <a@b> 1700000000 +0000\ndata 1\nx\n"
    git(folder, "fast-import", "--quiet", given=f"commit refs/heads/main\n{who}" * (MOST_COMMITS + 2))
    return folder


def commit(history: Path, before: int) -> str:
    """Return the commit that so many others follow."""
    return git(history, "rev-parse", "--short", f"main~{before}")


@pytest.mark.parametrize(("days", "old"), [(0, False), (MOST_DAYS, False), (MOST_DAYS + 1, True)])
def test_days(tmp_path: Path, days: int, old: bool) -> None:
    date = f"{TODAY - datetime.timedelta(days)} 10:00 UTC"
    assert is_old(made(date=date), tmp_path, TODAY) == old


@pytest.mark.parametrize(("commits", "old"), [(0, False), (MOST_COMMITS, False), (MOST_COMMITS + 1, True)])
@pytest.mark.parametrize("dirty", ["", "-dirty"])
def test_commits(history: Path, commits: int, old: bool, dirty: str) -> None:
    assert is_old(made(commit=commit(history, commits) + dirty), history, TODAY) == old


def test_grace_forgives_so_many_commits_and_their_share_of_days(history: Path, tmp_path: Path) -> None:
    late = made(commit=commit(history, MOST_COMMITS + 1))
    assert not is_old(late, history, TODAY, grace=1)
    days = f"{TODAY - datetime.timedelta(MOST_DAYS + 1)} 10:00 UTC"
    assert is_old(made(date=days), tmp_path, TODAY, grace=1)  # less than a day's share
    assert not is_old(made(date=days), tmp_path, TODAY, grace=MOST_COMMITS // MOST_DAYS + 1)


@pytest.fixture
def rebased(history: Path) -> str:
    """A commit of the history's repository that main does not have."""
    return git(history, "commit-tree", "main^{tree}", "-p", "main~5", "-m", "elsewhere")


@pytest.mark.parametrize("name", ["", "0123456789", "--all", None])
def test_where_a_history_does_not_have_the_commit_those_after_its_date_count(
    history: Path, rebased: str, name: str | None
) -> None:
    unknown = rebased if name is None else name
    assert not is_old(made(commit=unknown, date=f"{TODAY} 10:00 UTC"), history, TODAY)
    before = datetime.date(2023, 11, 14)  # of the repository's commits, all of one second
    assert is_old(made(commit=unknown, date=f"{before} 10:00 UTC"), history, before)
    after = before + datetime.timedelta(1)
    assert not is_old(made(commit=unknown, date=f"{after} 10:00 UTC"), history, after)


def test_a_shallow_clone_does_not_tell(history: Path, tmp_path: Path) -> None:
    far = commit(history, MOST_COMMITS + 1)
    git(tmp_path, "clone", "-q", "--depth", "3", f"file://{history}", "clone")

    assert not is_old(made(commit=far), tmp_path / "clone", TODAY)
    assert is_old(made(commit=far, date="2026-10-01 10:00 UTC"), tmp_path / "clone", TODAY)


def test_a_folder_of_another_repository_does_not_tell(history: Path) -> None:
    inside = history / "unpacked"
    inside.mkdir()
    assert not is_old(made(commit="0123456789"), inside, TODAY)


def test_a_machine_without_git_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert not is_old(made(commit="0123456789"), tmp_path, TODAY)
