"""load_profile: the kind is told by the content, and what cannot be used is refused with the remedy."""

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError, ProfileError, ToolError
from mavcg.hardware.board import Board
from mavcg.program.profiling.load import load_profile
from mavcg.program.profiling.perf_data import check_header, read_perf_data
from mavcg.program.profiling.profile import Profile
from mavcg.program.profiling.profile_file import save_profile
from mavcg.program.profiling.ranking import hot, rank
from tests.conftest import examples

SIMPLEPERF = (
    "Cmdline: /system/bin/simpleperf record -- ./app\nArch: arm64\nEvent: cpu-cycles (type 0, config 0)\nSamples: 200\n"
    "Event count: 1000000\n\nOverhead,Sample,Command,Pid,Tid,Shared Object,Symbol\n"
    "60.00%,120,app,9,9,/data/l.so,f<int, 2>\n40.00%,80,app,9,9,/data/l.so,g\n"
)
TEXT_FILES = (
    "perf-script.txt",
    "perf-script-callgraph.txt",
    "perf-report.txt",
    "perf-report-cpu.txt",
    "perf-report-children.txt",
    "callgrind.out",
)


@pytest.mark.parametrize("name", TEXT_FILES)
def test_kind_is_told_by_content(data: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "anything.at-all"
    shutil.copyfile(data / name, path)
    top = [f.demangled.partition("(float")[0] for f in rank(load_profile(path))[:2]]
    assert set(top) == {"nn::relu", "nn::Gemm<float, 3>::operator()"}


def test_simpleperf_and_byte_order_mark(tmp_path: Path) -> None:
    for start in ("", "\ufeff"):
        path = tmp_path / "report.csv"
        path.write_text(start + SIMPLEPERF, encoding="utf-8")
        assert [(f.symbol, round(f.share, 9)) for f in rank(load_profile(path))] == [("f<int, 2>", 0.6), ("g", 0.4)]


def test_board_gives_shares_per_core(data: Path, exynos: Board) -> None:
    profile = load_profile(data / "perf-script.txt", exynos)
    assert profile.board == "exynos9820"
    for function in rank(profile):
        assert function.share_by_core == pytest.approx({"cortex-a55": function.share})


def test_linkage_names_from_the_binary(data: Path, hot_program: Path) -> None:
    profile = load_profile(data / "perf-script.txt", binaries=[hot_program])
    assert {f.symbol for f in hot(profile)} == {"_ZN2nn4reluEPfi", "_ZNK2nn4GemmIfLi3EEclEPKfS3_Pfi"}


def test_binary_that_is_none(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="not an ELF file with function symbols"):
        load_profile(data / "perf-script.txt", binaries=[data / "hot.cpp"])
    with pytest.raises(ProfileError, match="not an ELF file with function symbols"):
        load_profile(data / "perf-script.txt", binaries=[tmp_path / "absent"])


def test_stripped_binary(tmp_path: Path) -> None:
    lines = [f"app 1 [000] {n}.0: 10 cycles: {n + 4096:x} [unknown] (/t/app)" for n in range(95)]
    lines += [f"app 1 [000] {n}.0: 10 cycles: ffff [unknown] ([kernel.kallsyms])" for n in range(5)]
    path = tmp_path / "script.txt"
    path.write_text("\n".join(lines))
    with pytest.raises(
        ProfileError, match=r"100% of the samples in /t/app have no function name: it is stripped; profile"
    ):
        load_profile(path)
    path.write_text("\n".join(line.replace("/t/app", "[unknown]") for line in lines))
    with pytest.raises(
        ProfileError, match="95% of the samples lie in no known file .*; run perf script on the machine"
    ):
        load_profile(path)


def test_a_few_unnamed_functions_are_no_error(tmp_path: Path) -> None:
    path = tmp_path / "script.txt"
    lines = [f"app 1 [000] {n}.0: 10 cycles: 10 {'f' if n % 2 else '[unknown]'} (/t/app)\n" for n in range(10)]
    path.write_text("".join(lines))
    assert rank(load_profile(path))[0].share == 0.5


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "empty; record again"),
        (b" \n\n", "empty; record again"),
        (
            b"hello\nworld\n",
            "not a profile that mavcg knows: its first line reads 'hello'; tried .*perf.data, callgrind",
        ),
        (b"\x7fELF\x02\x01\x01\0", r"it is a program or library \(to profile it: mavcg profile -- ./PROGRAM ARGS\)"),
        (b"\x1f\x8b\x08\0\0\0", "ends within its packed data"),
        (b"{}", "its format is not mavcg-profile"),
        (b'{"a"', "not JSON"),
        (b"PERFILE2", "truncated: 8 bytes, fewer than a perf.data header"),
        (b"PERFILE2" + b"\xff" * 200, "garbled: its header is 18446744073709551615 bytes long"),
        (
            b"PERFILE2" + struct.pack("<QQQQQQ", 104, 128, 104, 128, 232, 0) + bytes(48),
            "holds no data: .* let perf finish",
        ),
        (
            b"2ELIFREP" + struct.pack(">QQQQQQ", 104, 128, 104, 128, 232, 9999) + bytes(48),
            "truncated: .* 10231 bytes, the",
        ),
        (
            b"PERFILE2" + struct.pack("<QQQQQQ", 104, 128, 104, 128, 104, 9999) + bytes(48),
            "truncated: .* 10103 bytes, the",
        ),
    ],
)
def test_unusable_files_are_refused_with_a_reason(tmp_path: Path, content: bytes, error: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ProfileError, match=error):
        load_profile(path)


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="absent: cannot be read: No such file or directory; give a file of"):
        load_profile(tmp_path / "absent")
    with pytest.raises(ProfileError, match="cannot be read: Is a directory"):
        load_profile(tmp_path)
    with pytest.raises(ProfileError, match="cannot be read: .*null"):
        load_profile(Path("a\0b"))


GOOD_HEADER = b"PERFILE2" + struct.pack("<QQQQQQ", 104, 128, 104, 128, 104, 64) + bytes(48 + 64)


def test_perf_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(GOOD_HEADER)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="perf is not installed; install it .*; or import the text of perf script"):
        load_profile(path)


def test_perf_that_refuses_or_dies(tmp_path: Path, fake_tool: Callable[[str, str], Path]) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(GOOD_HEADER)
    fake_tool("perf", "echo 'incompatible file format (rerun with -v to learn more)' >&2; exit 255")
    with pytest.raises(ProfileError, match=r"perf cannot read it: incompatible file format .*import that text"):
        load_profile(path)
    fake_tool("perf", "kill -SEGV $$")
    with pytest.raises(ProfileError, match="perf cannot read it: it died of signal 11"):
        load_profile(path)


def test_fields_that_were_not_recorded_are_left_out(tmp_path: Path, fake_tool: Callable[[str, str], Path]) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(GOOD_HEADER)
    script = """case "$*" in
    *cpu,*) echo "Samples for 'cycles' event do not have CPU attribute set. Cannot print 'cpu' field." >&2; exit 255;;
    *period*) echo "Samples do not have PERIOD attribute set. Cannot print 'period' field." >&2; exit 255;;
    *) echo "app 1 1.0: cycles: 10 f (/t/app)";;
    esac"""
    fake_tool("perf", script)
    frame = read_perf_data(path).frame
    assert list(frame["symbol"]) == ["f"] and frame["cpu"].isna().all()


def test_header_of_a_pipe_is_accepted() -> None:
    check_header(b"PERFILE2" + struct.pack("<Q", 16) + bytes(88), 10**6, "p")


@pytest.fixture(scope="session")
def recorded(perf: str, hot_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A perf.data of the program, callers included."""
    path = tmp_path_factory.mktemp("recorded") / "perf.data"
    command = [
        perf,
        "record",
        "-q",
        "-g",
        "-e",
        "cpu-clock",
        "-F",
        "500",
        "-o",
        str(path),
        "--",
        str(hot_program),
        "3000",
    ]
    subprocess.run(command, check=True)
    return path


def test_perf_data_gives_linkage_names_and_self_cost(recorded: Path, hot_program: Path) -> None:
    profile = load_profile(recorded)
    own = [f for f in rank(profile) if f.clonable][:2]
    assert {f.symbol for f in own} == {"_ZN2nn4reluEPfi", "_ZNK2nn4GemmIfLi3EEclEPKfS3_Pfi"}
    assert sum(f.share for f in own) > 0.7
    assert {f.object for f in own} == {str(hot_program)}
    assert hot(profile)[0] == own[0]
    assert profile.event == "cpu-clock" and profile.records > 20


def accepts_or_refuses(path: Path, content: bytes) -> None:
    """Whatever the file holds: a profile, or an error for people."""
    path.write_bytes(content)
    try:
        profile = load_profile(path)
    except MavcgError as error:
        assert str(error)
        return
    assert isinstance(profile, Profile) and profile.total > 0
    assert sum(f.share for f in rank(profile)) == pytest.approx(1)
    save_profile(profile, path.with_suffix(".json"))
    assert load_profile(path.with_suffix(".json")).total == pytest.approx(profile.total)


EDITS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 80),
        st.binary(max_size=12)
        | st.sampled_from([b"\n", b" ", b"0", b"9" * 30, b"%", b"(", b")", b"\0", b"\xff", b"#", b":"]),
    ),
    min_size=1,
    max_size=8,
)


def mutated(content: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """The content with pieces cut out and others put in: at a fraction of its length, so many bytes, these instead."""
    for where, cut, put in edits:
        at = int(where * len(content))
        content = content[:at] + put + content[at + cut :]
    return content


FUZZ = settings(max_examples=examples(60, 8))


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", [*TEXT_FILES, "simpleperf", "json"])
@FUZZ
@given(edits=EDITS)
def test_mutated_files_never_end_in_a_traceback(
    data: Path, tmp_path: Path, name: str, edits: list[tuple[float, int, bytes]]
) -> None:
    if name == "simpleperf":
        content = SIMPLEPERF.encode()
    elif name == "json":
        save_profile(load_profile(data / "callgrind.out"), tmp_path / "good.json")
        content = (tmp_path / "good.json").read_bytes()
    else:
        content = (data / name).read_bytes()[:5000]
    accepts_or_refuses(tmp_path / "file", mutated(content, edits))


@settings(max_examples=examples(15, 5))
@given(edits=EDITS)
def test_mutated_perf_data_never_ends_in_a_traceback(
    recorded: Path, tmp_path: Path, edits: list[tuple[float, int, bytes]]
) -> None:
    accepts_or_refuses(tmp_path / "file", mutated(recorded.read_bytes(), edits))


@FUZZ
@given(content=st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    accepts_or_refuses(tmp_path / "file", content)
