"""Recording: real runs under perf and callgrind, and what versions of perf that are not here would say."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.errors import ProfileError, ToolError
from mavcg.program.profiling.profile import profile_of
from mavcg.program.profiling.ranking import hot, rank
from mavcg.program.profiling.record import RecordOptions, check_program, describe_exit, record

BOTH = {"_ZN2nn4reluEPfi", "_ZNK2nn4GemmIfLi3EEclEPKfS3_Pfi"}

# A perf that records nothing itself: it runs what follows `--` and hands out a recording made before, or text.
FAKE_RECORD = """out=perf.data
while [ "$1" != -- ]; do
  [ "$1" = -o ] && out=$2
  [ "$1" = -e ] && event=$2
  shift
done
shift
"""


def test_perf_records_the_program_and_hands_on_its_status(perf: str, hot_program: Path, tmp_path: Path) -> None:
    script = tmp_path / "fails.sh"
    script.write_text(f"#!/bin/sh\n{hot_program} 3000\nexit 3\n")
    script.chmod(0o755)
    kept = tmp_path / "kept.data"
    recording = record([str(script)], options=RecordOptions(frequency_hz=500, keep=kept, call_graph=True))
    assert recording.exit_status == 3
    profile = profile_of(recording.reading, None, "p")
    assert BOTH <= {f.symbol for f in rank(profile) if f.clonable}
    assert profile.frame["cpu"].notna().all() and profile.command == str(script)
    assert kept.read_bytes().startswith(b"PERFILE2")


@pytest.mark.long
def test_perf_of_a_program_that_is_killed(perf: str) -> None:
    busy = "import os, signal, time\nwhile time.process_time() < 0.2: pass\nos.kill(os.getpid(), 9)"
    recording = record([sys.executable, "-c", busy], options=RecordOptions(frequency_hz=200))
    assert describe_exit(recording.exit_status) == "signal 9"


@pytest.mark.long
def test_perf_of_a_stripped_program(perf: str, build_hot: Callable[..., Path]) -> None:
    recording = record([str(build_hot("-s")), "600"], options=RecordOptions(frequency_hz=500))
    with pytest.raises(ProfileError, match="hot have no function name: it is stripped; profile the binary as the"):
        profile_of(recording.reading, None, "p")


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_callgrind_counts_exactly(hot_program: Path) -> None:
    once, twice = (record([str(hot_program), n], "callgrind").reading for n in ("2", "4"))
    counts = [{f.symbol: f.samples for f in rank(profile_of(r, None, "p"))} for r in (once, twice)]
    for symbol in BOTH:
        assert counts[1][symbol] == 2 * counts[0][symbol]
    assert {f.symbol for f in hot(profile_of(twice, None, "p"))} >= {"_ZNK2nn4GemmIfLi3EEclEPKfS3_Pfi"}
    assert (once.kind, once.event, once.command) == ("instructions", "Ir", f"{hot_program} 2")


def test_callgrind_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="valgrind: is not installed; install it"):
        record([sys.executable], "callgrind")


def test_perf_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"perf: perf is not installed; install it .*--with callgrind"):
        record([sys.executable])


NOT_PERMITTED = """cat >&2 <<END
Error:
Access to performance monitoring and observability operations is limited.
Consider adjusting /proc/sys/kernel/perf_event_paranoid setting to open
END
exit 255"""


def test_perf_not_permitted(fake_tool: Callable[[str, str], Path]) -> None:
    fake_tool("perf", NOT_PERMITTED)
    with pytest.raises(ToolError, match=r"not permitted to record.*sysctl kernel.perf_event_paranoid=1 .*callgrind"):
        record(["true"])


def test_perf_of_another_kernel(fake_tool: Callable[[str, str], Path]) -> None:
    fake_tool("perf", "echo 'WARNING: perf not found for kernel 6.8.0-31' >&2; exit 2")
    with pytest.raises(
        ToolError, match=r"perf: cannot record cpu-clock at 1999 Hz: WARNING: perf not found for kernel"
    ):
        record(["true"])


def test_clock_where_there_are_no_counters(fake_tool: Callable[[str, str], Path], tmp_path: Path) -> None:
    fake_tool(
        "perf",
        f"""if [ "$1" = script ]; then echo "app 1 [000] 1.0: 5 cpu-clock: 10 f (/t/app)"; exit; fi
{FAKE_RECORD}
echo "event $event" >> {tmp_path}/log
[ -z "$event" ] && {{ echo "The cycles event is not supported." >&2; exit 255; }}
printf 'PERFILE2\\020\\0\\0\\0\\0\\0\\0\\0' > "$out"
"$@" """,
    )
    recording = record(["true"])
    assert (recording.reading.event, recording.exit_status) == ("cpu-clock", 0)
    assert (tmp_path / "log").read_text().split("\n")[:3] == ["event ", "event cpu-clock", "event cpu-clock"]


def test_nothing_recorded_names_how_the_program_ended(fake_tool: Callable[[str, str], Path], tmp_path: Path) -> None:
    fake_tool("perf", f'{FAKE_RECORD}\n[ "$1" = true ] && exit 0\n"$@"')
    script = tmp_path / "fails"
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o755)
    with pytest.raises(ProfileError, match="perf recorded nothing; the program ended with exit status 7: run it alone"):
        record([str(script)])


def test_programs_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").write_text("x")
    (tmp_path / "folder").mkdir()
    runnable = tmp_path / "app"
    runnable.write_text("#!/bin/sh\n")
    runnable.chmod(0o755)
    for command, error in [
        ([], "no command; give one after --"),
        (["./absent"], "./absent: program not found; give its path"),
        (["./plain"], "./plain: not executable; run chmod"),
        (["./folder"], "./folder: a folder, not a program"),
        (["app"], "app: program not found on PATH; for the one in this folder write ./app"),
    ]:
        with pytest.raises(ProfileError, match=error):
            check_program(command)
    check_program(["./app"])
