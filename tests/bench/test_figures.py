"""`make figures`: one figure measured in a fresh copy of the repository, and what goes on, fails or is refused."""

import datetime
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import figures, records
from bench.figures import chosen, is_known, measure, measured
from bench.pages import Headline, plan_of
from bench.records import ROOT
from mavcg.errors import MavcgError
from tests.bench.made_records import made

QUICKEST = "dispatch"
FOLDERS = ("bench", "docs", "examples", "kernels", "mavcg", "passes", "profiles", "runtime", "scripts")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A fresh folder with what the repository has, and the environment of this one."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "build"))
    for name in ("README.md", "Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.long
def test_a_figure_is_measured_and_printed_with_its_date_and_machine(copy: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    wanted = f"FIGURES=--only {QUICKEST} --again --json"
    command = ["make", "--silent", "--old-file=.venv/.ready", "figures", wanted]  # the environment is there
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "1 of 1, bench.dispatch --record" in done.stderr and ": done, " in done.stderr
    (figure,) = json.loads(done.stdout)
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    assert (figure["name"], figure["date"], figure["command"]) == (QUICKEST, today, "bench.dispatch --record")
    line = f"| {figure['value']} | {today} | none | {figure['machine']} |"
    for page in ("README.md", "docs/figures.md"):
        assert line in (copy / page).read_text(), page
    assert records.read(copy / "bench/results/dispatch.json").date.startswith(today)
    check = subprocess.run([sys.executable, "-m", "bench.figures_check"], cwd=copy, capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr


def headline(name: str, bench: str, seconds: int = 30) -> Headline:
    return Headline(name, bench, seconds, "none", "what", "value")


def test_names_are_chosen_in_the_order_of_the_page() -> None:
    known = plan_of().headline
    assert [each.name for each in chosen(None, known)] == [each.name for each in known]
    assert [each.name for each in chosen("blas,networks", known)] == ["networks", "blas"]
    with pytest.raises(MavcgError, match="--only blass: there is no such figure; there are networks, eight_"):
        chosen("dispatch,blass", known)


def test_figures_of_one_bench_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(figures, "measured", lambda each: ran.append(each.name))

    assert list(measure([headline("a", "bench.x"), headline("b", "bench.x"), headline("c", "bench.y")], True)) == []
    assert ran == ["b", "c"]


@pytest.mark.long
def test_a_bench_that_fails_is_said_and_the_next_one_runs(capfd: pytest.CaptureFixture[str]) -> None:
    fails, works = headline("a", "bench.figures --only nothing"), headline("b", "bench.figures --list")

    assert list(measure([fails, works], True)) == ["bench.figures --only nothing ended with status 2"]
    assert "2 of 2, bench.figures --list: done" in capfd.readouterr().err


def test_a_bench_that_takes_more_than_three_times_its_share_is_ended() -> None:
    assert measured(headline("a", "bench.figures --list", seconds=0)) == "took more than 0 s"


def test_what_is_of_today_and_of_this_commit_and_machine_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "commit", lambda: "0123abcd")
    monkeypatch.setattr(figures, "machine", lambda: {"processor": "A", "cpus": "2"})
    path, today = tmp_path / "x.json", f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d} 00:00 UTC"

    def known(**changed: str) -> bool:
        records.write(path, made(**{"date": today, **changed}))
        return is_known(path)

    assert not is_known(path)
    assert known()
    assert not known(date="2026-11-01 00:00 UTC")
    assert not known(commit="89abcdef")
    monkeypatch.setattr(figures, "commit", lambda: "0123abcd-dirty")
    assert not known(commit="0123abcd-dirty")
    monkeypatch.setattr(figures, "commit", lambda: "0123abcd")
    monkeypatch.setattr(figures, "machine", lambda: {"processor": "B", "cpus": "2"})
    assert not known()
