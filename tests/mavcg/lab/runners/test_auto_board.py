"""Programs recorded on a board: what the script does there, with a perf and a simpleperf whose samples are known."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mavcg.errors import ProfileError, ToolError
from mavcg.lab.runners.auto_board import RunsThere
from mavcg.lab.runners.facts import CpuFacts, MachineFacts
from mavcg.lab.runners.open import LocalTransport
from mavcg.lab.runners.shell_runner import ShellRunner
from mavcg.program.profiling.record import RecordOptions

FACTS = MachineFacts("aarch64", "Linux 6.1", "Some Board", (CpuFacts(0, "cortex-a55", "midr", governor="performance"),))
RECORD = """#!/bin/sh
# Says how it was called, runs the command, and leaves a recording.
echo "$0 $*" | sed 's/.*bin.//' >> {calls}
case "$*" in *probe.data*) exit {probe} ;; esac
while [ "$1" != -o ]; do shift; done
echo samples > "$2"
while case "$1" in env|taskset|./*) false ;; *) true ;; esac; do shift; done
"$@"
"""
PERF = """#!/bin/sh
if [ "$1" = script ]; then
    echo 'app 1 [000] 1.0: 250 cpu-clock: 10 dot.cortex-a55+0x4 (/tmp/libhot.so)'
    echo 'app 1 [000] 2.0: 250 cpu-clock: 10 main+0x4 (/tmp/app)'
    exit 0
fi
"""
SIMPLEPERF = """#!/bin/sh
if [ "$1" = report ]; then
    printf 'Cmdline: simpleperf record\\nArch: arm64\\nEvent: cpu-clock (type 1, config 0)\\n'
    printf 'Samples: 4\\nEvent count: 1000\\n\\n'
    printf 'Overhead,Sample,Shared Object,Symbol\\n75.00%%,3,/tmp/libhot.so,dot.cortex-a55\\n25.00%%,1,/tmp/app,main\\n'
    exit 0
fi
"""
TOOLS = ("sh", "env", "rm", "chmod", "true", "mkdir", "cat", "wc", "sed", "cp", "kill", "taskset")


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RunsThere]]:
    """board(perf=.., simpleperf=..): runs through a shell that finds these recorders and few other programs."""
    bin_folder, folder = tmp_path / "bin", tmp_path / "project"
    bin_folder.mkdir()
    folder.mkdir()
    for name in TOOLS:
        (bin_folder / name).symlink_to(shutil.which(name) or pytest.skip(f"needs {name}"))
    monkeypatch.setenv("PATH", str(bin_folder))
    monkeypatch.setenv("MAVCG_RUNNER_FOLDER", str(tmp_path))
    runner = ShellRunner(LocalTransport())
    runner.wrapper = ("sh",)
    calls = tmp_path / "calls"

    def make(probe: int = 0, **recorders: str) -> RunsThere:
        for name, head in recorders.items():
            text = RECORD.format(calls=calls, probe=probe).partition("\n")[2]
            (bin_folder / name).write_text(f"{head}{text}")
            (bin_folder / name).chmod(0o755)
        (folder / "app").write_text(
            '#!/bin/sh\necho printed\necho "$MAVCG_CPU_MAP|$MAVCG_LIBRARY|$LD_LIBRARY_PATH|$*" > '
            f"{tmp_path}/told\ncat data.txt > {tmp_path}/seen\nexit 3\n"
        )
        (folder / "data.txt").write_text("numbers")
        (folder / "libhot.so").write_text("")
        return RunsThere(runner, FACTS).using(folder, folder / "libhot.so")

    yield make
    runner.close()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("mavcg-")]  # nothing stays


@pytest.mark.parametrize("name", ["perf", "simpleperf"])
def test_program_library_and_files_go_there_and_samples_come_back(
    board: Callable[..., RunsThere], tmp_path: Path, name: str
) -> None:
    runs = board(probe=1, **{name: {"perf": PERF, "simpleperf": SIMPLEPERF}[name]})

    done = runs.record(["./app", "data.txt", "-n", "7"], RecordOptions(99), (0,), "cortex-a55")

    assert (tmp_path / "told").read_text() == "*=cortex-a55|./libhot.so|.|data.txt -n 7\n"
    assert (tmp_path / "seen").read_text() == "numbers"
    assert done.exit_status == 3 and done.reading.command == "./app data.txt -n 7"
    shares = dict(zip(done.reading.frame["symbol"], done.reading.frame["samples"], strict=True))
    assert (
        shares
        == {"perf": {"dot.cortex-a55": 250, "main": 250}, "simpleperf": {"dot.cortex-a55": 750, "main": 250}}[name]
    )
    call = (tmp_path / "calls").read_text().splitlines()[-1]
    assert "-e cpu-clock" in call and "taskset 1 ./app data.txt -n 7" in call and " 99 " in call  # the probe had failed


def test_counters_are_used_where_they_work_and_an_event_that_is_named_is_not_probed(
    board: Callable[..., RunsThere], tmp_path: Path
) -> None:
    runs = board(perf=PERF)
    runs.record(["./app"], RecordOptions(99))
    assert " -e " not in (tmp_path / "calls").read_text().splitlines()[-1]
    (tmp_path / "calls").unlink()
    runs.record(["./app"], RecordOptions(99, "cycles"))
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert "-e cycles" in call and "taskset" not in call


def test_a_board_without_a_recorder_is_named(board: Callable[..., RunsThere]) -> None:
    with pytest.raises(ToolError, match="local: neither perf nor simpleperf is installed"):
        board().record(["./app"], RecordOptions())


def test_a_recorder_that_may_not_record_is_named_with_its_words(
    board: Callable[..., RunsThere], tmp_path: Path
) -> None:
    runs = board(perf="#!/bin/sh\necho 'access to performance counters is limited' >&2\nexit 255\n")
    with pytest.raises(ToolError, match=r"nothing was recorded \(access to performance counters is limited\)"):
        runs.record(["./app"], RecordOptions(99, "cycles"))


def test_the_program_must_be_a_file_here(board: Callable[..., RunsThere]) -> None:
    with pytest.raises(ProfileError, match=r"ls: is not a file in .*built for local"):
        board().check(["ls"])
    board().check(["./app"])


def test_conditions_of_a_time(board: Callable[..., RunsThere]) -> None:
    assert board().describe((0,)) == "local: Some Board CPU 0 governor performance"
    assert os.environ["PATH"].endswith("bin")
