"""Runners of all kinds behave alike: what runs there, what comes back, and that nothing stays."""

import os
import signal
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mavcg.lab.runners.open import open_runner
from mavcg.lab.runners.shell_runner import FOLDER_VARIABLE, ShellRunner
from mavcg.lab.runners.transport import Silent

BOARDS = Path(__file__).parents[3] / "boards"


@pytest.fixture(params=["local", "ssh", "adb", "old adb"])
def runner(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShellRunner]:
    """One of each kind; .folders() are the folders that are left where temporary ones are made."""
    there = tmp_path / "there"
    there.mkdir()
    if "adb" in request.param:
        device = request.getfixturevalue("device")
        device.see("R58M device" + (" old" if "old" in request.param else ""))
        there, name = device.root / "data/local/tmp", "adb"
    else:
        monkeypatch.setenv(FOLDER_VARIABLE, str(there))
        name = request.getfixturevalue("sshd").name if request.param == "ssh" else "local"
    with open_runner(name) as found:
        yield found
    assert list(there.iterdir()) == []


def program(tmp_path: Path, text: str, name: str = "program") -> Path:
    path = tmp_path / name
    path.write_text("#!/bin/sh\n" + textwrap.dedent(text))
    return path


def test_a_program_gets_its_words_as_they_are_and_its_files(runner: ShellRunner, tmp_path: Path) -> None:
    words = ["a b", "$HOME", "`id`", "'", '"', ";exit 7", "*", "--", "é", ""]
    sent, fetched = tmp_path / "sent", tmp_path / "fetched"
    sent.write_bytes(bytes(range(256)))
    script = program(tmp_path, 'for w in "$@"; do printf "<%s>\\n" "$w"; done; cat in > out; echo more >> out\n')
    lines: list[str] = []
    done = runner.run(script, words, files_in={"in": sent}, files_out={"out": fetched}, on_line=lines.append)
    assert lines == [f"<{word}>" for word in words]
    assert (done.status, done.stdout.replace(b"\r", b"").decode().splitlines()) == (0, lines)
    assert fetched.read_bytes() == bytes(range(256)) + b"more\n"


@pytest.mark.sample(1)
def test_a_status_is_the_programs_own(runner: ShellRunner, tmp_path: Path) -> None:
    script = program(tmp_path, '[ "$1" = kill ] && kill -9 $$\nexit "$1"\n')
    assert [runner.run(script, [str(status)]).status for status in (0, 255)] == [0, 255]
    killed = runner.run(script, ["kill"])
    assert killed.status == 137 and killed.how == "was ended by signal 9 (killed)"
    assert runner.run(program(tmp_path, "echo it runs\n", "another"), []).stdout.strip() == b"it runs"


def test_facts_are_those_of_a_recorded_board(runner: ShellRunner) -> None:
    found = runner.facts(str(BOARDS / "exynos9820"))
    assert [cpu.core for cpu in found.cpus] == ["cortex-a55"] * 4 + ["cortex-a75"] * 2 + ["exynos-m4"] * 2
    assert [cpu.most_khz for cpu in found.cpus][::4] == [1950000, 2314000]
    assert found.cpus[0].how == "sysfs midr_el1 0x411fd050" and found.cores == ("cortex-a55", "cortex-a75", "exynos-m4")
    hotplug = runner.facts(str(BOARDS / "odd-hotplug"))
    assert [cpu.online for cpu in hotplug.cpus] == [True] * 6 + [False] * 2


def test_a_silent_program_is_ended(runner: ShellRunner, tmp_path: Path) -> None:
    number = tmp_path / "number"
    script = program(tmp_path, f"echo $$ > {number}; echo begun; sleep 60\n")
    with pytest.raises(Silent, match="no output for 1 s"):
        runner.run(script, [], silence_s=0.7)
    runner.close()
    process = Path("/proc", number.read_text().strip())
    last = time.monotonic() + 30
    while process.exists() and time.monotonic() < last:
        time.sleep(0.05)
    assert not process.exists()


def test_what_a_reader_raises_ends_the_program(runner: ShellRunner, tmp_path: Path) -> None:
    def stop(line: str) -> None:
        raise KeyboardInterrupt

    mark = tmp_path / "mark"
    with pytest.raises(KeyboardInterrupt):
        runner.run(program(tmp_path, f"echo begun; sleep 2; touch {mark}\n"), [], on_line=stop)
    assert not mark.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_told_to_end_leaves_the_machine_clean(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    before = signal.getsignal(number)
    mark = tmp_path / "mark"
    with pytest.raises(KeyboardInterrupt), open_runner("local") as runner:
        runner.run(
            program(tmp_path, f"echo begun; sleep 2; touch {mark}\n"),
            [],
            on_line=lambda line: os.kill(os.getpid(), number),
        )

    assert signal.getsignal(number) == before
    assert not mark.exists() and not [each for each in tmp_path.iterdir() if each.is_dir()]
