"""`mavcg tune --runner`, from the command line to the database: over ssh and adb, interrupted, gone on with."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mavcg.choose.algorithms.costs.database_file import open_db
from mavcg.lab.runners.bench_program import BenchProgram
from mavcg.lab.runners.open import LocalTransport
from mavcg.lab.runners.shell_runner import FOLDER_VARIABLE, ShellRunner
from mavcg.lab.tuning import measured_core
from mavcg.toolchain.target import host_target

ROOT = Path(__file__).parents[4]


def seen_from_elsewhere() -> tuple[str, int] | None:
    """This machine's last core and its CPU by the files of /proc and /sys, which are all that a runner elsewhere reads:
    instructions that a hypervisor masks do not show there."""
    with ShellRunner(LocalTransport()) as runner:
        return next(((cpu.core, cpu.cpu) for cpu in reversed(runner.facts("/.").cpus) if cpu.core), None)


HERE = seen_from_elsewhere()
pytestmark = pytest.mark.skipif(HERE is None, reason="this machine's core is none of ours")


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A board of the user's, with the core of this machine and one that it has not; costs are the test's own."""
    assert HERE is not None
    other = {"x86_64": "haswell", "aarch64": "cortex-a53"}[host_target().arch]
    folder = tmp_path / "profiles" / "boards"
    folder.mkdir(parents=True)
    (folder / "desk.toml").write_text(
        f'name = "desk"\nsoc = "a desk"\ntarget = "{host_target().arch}-linux-gnu.2.17"\nsource = "a test"\n'
        f'[[clusters]]\ncore = "{other}"\ncpus = "8-9"\n[[clusters]]\ncore = "{HERE[0]}"\ncpus = "0-{HERE[1]}"\n'
    )
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path / "profiles"))
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return "desk"


@pytest.fixture
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "ssh":
        name: str = request.getfixturevalue("sshd").name
        return name
    request.getfixturevalue("device")
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    return "adb"


@pytest.mark.sample(1)
@pytest.mark.parametrize("where", ["ssh", "adb"], indirect=True)
def test_a_core_of_a_board_is_measured_and_kept(
    board: str, where: str, model: Path, mavcg: Any, fake_bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert HERE is not None
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False) if where == "adb" else None

    def build(jobs: Sequence[Any], *rest: Any) -> BenchProgram:
        return BenchProgram(fake_bench.of(len(jobs)), len(jobs))

    monkeypatch.setattr(measured_core, "build_program", build)
    fake_bench.does(f"cpu {HERE[1]}")
    words = ["tune", model, "--board", board, "--runner", where, "--core", HERE[0], "--family", "sum2d"]
    done = mavcg(*words, "--export", tmp_path / "costs.json", "--json")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    (core,) = document["cores"]
    assert (core["core"], core["cpus"], document["runner"], document["board"]) == (HERE[0], [HERE[1]], where, "desk")
    assert core["measured"] > 0 and document["exported"] == 2 * core["measured"]
    assert "has no CPUs 8-9, which desk has" in done.stderr
    assert {call["--cpu"] for call in fake_bench.calls} == {str(HERE[1])}
    kept = json.loads((tmp_path / "costs.json").read_text())["costs"]
    assert all(each["host"].startswith(where) and each["core"] == HERE[0] for each in kept)
    again = json.loads(mavcg(*words, "--resume", "--json").stdout)
    assert (again["measured"], again["already"]) == (0, core["measured"])


def test_a_core_that_the_machine_has_not(board: str, model: Path, mavcg: Any) -> None:
    done = mavcg(
        "tune", model, "--board", board, "--core", "haswell" if host_target().arch == "x86_64" else "cortex-a53"
    )
    assert done.status == 2 and "cores there: " in done.stderr and done.stdout == ""


@pytest.mark.parametrize("where", ["ssh", "adb"], indirect=True)
def test_what_a_machine_says_of_itself(board: str, where: str, mavcg: Any) -> None:
    assert HERE is not None
    document = json.loads(mavcg("tune", "--runner", where, "--board", board, "--check", "--json").stdout)
    assert (document["arch"], document["board"], document["runner"]) == (host_target().arch, "desk", where)
    assert {cpu["core"] for cpu in document["cpus"] if cpu["cpu"] == HERE[1]} == {HERE[0]}
    assert any("CPUs 8-9" in words for words in document["differences"])
    shown = mavcg("tune", "--runner", where, "--check")
    assert HERE[0] in shown.stdout and where in shown.stdout and shown.status == 0


def test_a_board_that_cannot_be_reached_is_one_line(board: str, model: Path, mavcg: Any) -> None:
    done = mavcg("tune", model, "--board", board, "--runner", "ssh:nobody@127.0.0.1:1")
    assert done.status == 2 and done.stdout == ""
    assert "refused on port 1" in done.stderr


@pytest.mark.long
def test_ctrl_c_keeps_what_is_known_and_leaves_nothing(board: str, sshd: Any, model: Path, tmp_path: Path) -> None:
    """The command as a process of its own, over ssh, its program compiled and run for good."""
    assert HERE is not None
    command = [sys.executable, "-m", "mavcg.cli", "tune", str(model), "--board", board, "--core", HERE[0]]
    command += ["--runner", sshd.name, "--db", str(tmp_path / "costs.sqlite")]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 500
    while process.poll() is None and time.monotonic() < until:
        if (tmp_path / "costs.sqlite").exists():
            with open_db(tmp_path / "costs.sqlite") as database:
                if len(database) >= 4:
                    break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert "measurements are left, and" in said[1] and "`mavcg tune` with --resume continues" in said[1]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("mavcg-")] == []
    with open_db(tmp_path / "costs.sqlite") as database:
        known = len(database)
    done = subprocess.run([*command, "--resume", "--json"], cwd=ROOT, capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    assert document["left"] == 0 and document["already"] == known // 2
    assert os.listdir(tmp_path / "profiles") == ["boards"]
