"""From mavcg.toml and options to what is built: what wins, what paths are relative to, what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.program.buildfile import BuildFile
from mavcg.program.request import make_request, merge, profile_hot
from mavcg.program.version_choice import MIN_GAIN, VersionLimits
from mavcg.program.version_growth import DEFAULT_FREE_BYTES, DEFAULT_MAX_GROWTH
from mavcg.toolchain.target import host_target

FILE = BuildFile(
    output="lib.so", sources=("k.c",), hot=("f",), cores=("cortex-a55",), flags=("-O2",), threshold=3.0, min_gain=2.0
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project's folder, with k.c, a.cpp and src/b.c."""
    (tmp_path / "src").mkdir()
    for name in ("k.c", "a.cpp", "src/b.c"):
        (tmp_path / name).write_text("int f(void) { return 1; }\n")
    return tmp_path


def test_options_win_over_the_file_one_by_one() -> None:
    merged = merge(FILE, BuildFile(hot=("g",), threshold=9.0))
    assert merged == replace(FILE, hot=("g",), threshold=9.0)
    assert merge(FILE, BuildFile()) == FILE


def test_a_zero_is_given_and_nothing_is_not() -> None:
    assert merge(FILE, BuildFile(min_gain=0.0)).min_gain == 0.0
    assert merge(FILE, BuildFile(sources=())).sources == FILE.sources


def test_cores_and_board_replace_each_other() -> None:
    on_board = replace(FILE, cores=(), board="rk3588")
    assert merge(on_board, BuildFile(cores=("cortex-a53",))).board is None
    assert merge(FILE, BuildFile(board="rk3588")).cores == ()


def test_paths_are_relative_to_the_folder(folder: Path) -> None:
    request, board = make_request(FILE, folder)
    assert board is None
    assert request.output == folder / "lib.so"
    assert [unit.source for unit in request.units] == [folder / "k.c"]
    assert request.units[0].directory == folder
    assert "-O2" in request.units[0].flags and "-O3" not in request.units[0].flags


def test_sources_are_optimised_when_nobody_says_how(folder: Path) -> None:
    request, _ = make_request(replace(FILE, flags=("-DX=1",)), folder)
    assert "-O3" in request.units[0].flags


def test_patterns_match_many_files_each_once(folder: Path) -> None:
    request, _ = make_request(replace(FILE, sources=("k.c", "**/*.c", "*.cpp")), folder)
    assert [unit.source.name for unit in request.units] == ["k.c", "b.c", "a.cpp"]
    assert [unit.is_cxx for unit in request.units] == [False, False, True]


def test_a_file_whose_name_looks_like_a_pattern_is_itself(folder: Path) -> None:
    (folder / "k[1].c").write_text("int f(void) { return 1; }\n")
    request, _ = make_request(replace(FILE, sources=("k[1].c",)), folder)
    assert [unit.source.name for unit in request.units] == ["k[1].c"]


def test_a_board_names_cores_and_target(folder: Path) -> None:
    request, board = make_request(replace(FILE, cores=(), board="exynos9820"), folder)
    assert board is not None and board.name == "exynos9820"
    assert [core.name for core in request.cores] == ["cortex-a55", "cortex-a75", "exynos-m4"]
    assert request.target.zig_name == board.target


def test_cores_choose_the_target(folder: Path) -> None:
    arm, _ = make_request(FILE, folder)
    x86, _ = make_request(replace(FILE, cores=("haswell",)), folder)
    given, _ = make_request(replace(FILE, target="aarch64-linux-musl"), folder)
    host = host_target()
    assert arm.target.zig_name == ("aarch64-linux-gnu.2.17" if host.arch != "aarch64" else host.zig_name)
    assert x86.target.arch == "x86_64" and given.target.zig_name == "aarch64-linux-musl"


def test_generic_among_the_cores_is_left_out(folder: Path) -> None:
    request, _ = make_request(replace(FILE, cores=("generic", "cortex-a55", "cortex-a55")), folder)
    assert [core.name for core in request.cores] == ["cortex-a55"]


def test_defaults_and_limits(folder: Path) -> None:
    plain, _ = make_request(replace(FILE, min_gain=None), folder)
    given, _ = make_request(replace(FILE, max_growth=3.5, rounding="per-core"), folder, jobs=3)
    assert plain.limits == VersionLimits(MIN_GAIN, DEFAULT_MAX_GROWTH, DEFAULT_FREE_BYTES)
    assert not plain.per_core_rounding
    assert given.limits == VersionLimits(given.limits.min_gain, 3.5) and given.limits.min_gain == pytest.approx(0.02)
    assert given.per_core_rounding and given.workers == 3


def test_a_compiler_may_have_words(folder: Path) -> None:
    request, _ = make_request(replace(FILE, compiler="clang-19 --gcc-toolchain=/opt"), folder)
    assert request.compiler.command == ("clang-19", "--gcc-toolchain=/opt")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sources": ()}, "build: there is nothing to build; give --source FILE, --ir FILE or --compile-commands"),
        ({"cores": ()}, "build: no cores are named; give --cores A,B,.. or --board NAME"),
        ({"cores": ("generic",)}, "--cores: no core named"),
        ({"cores": ("cortex-a5",)}, "--cores cortex-a5: no such core; did you mean cortex-a"),
        ({"cores": ("cortex-a55", "haswell")}, "a library has one architecture, but cortex-a55 is aarch64, haswell is"),
        ({"cores": (), "board": "exynos982"}, "--board exynos982: no such board; did you mean exynos9820"),
        ({"hot": ()}, "build: no hot function is named; give --profile FILE"),
        ({"hot": ("a,,b",)}, "--hot 'a,,b': holds an empty name"),
        ({"output": None}, "build: no output is named; give -o LIBRARY.so"),
        ({"output": "lib.dll"}, "lib.dll: names neither a shared library (.so) nor an object (.o)"),
        ({"output": "."}, "names neither a shared library"),
        ({"output": "dir.so"}, "dir.so: is a folder; name a file in it"),
        ({"target": "armv7"}, "--target armv7: not a target; give ARCH-SYSTEM"),
        ({"target": "x86_64-linux-gnu"}, "--cores cortex-a55: is aarch64, and the target x86_64-linux-gnu is not"),
        ({"sources": ("absent.c",)}, "absent.c: is not there; name a C, C++ or assembly file"),
        ({"sources": ("src",)}, "src: is a folder; name a C, C++ or assembly file"),
        ({"sources": ("*.cc",)}, "--source *.cc: matches no file; correct the pattern"),
        ({"sources": ("data.txt",)}, "data.txt, which is not C or C++; name a C, C++ or assembly file, or give IR"),
        ({"compile_commands": "absent.json"}, "absent.json: cannot be read (No such file"),
        ({"profile": "absent.json"}, "absent.json: cannot be read"),
        ({"profile": "data.txt"}, "data.txt: not a profile that mavcg knows"),
        ({"measurements": "absent.json"}, "absent.json: cannot be read"),
        ({"min_gain": -1.0}, "--min-gain -1: is not a percentage of 0 or more"),
        ({"max_growth": float("nan")}, "--max-growth nan: is not a percentage"),
        ({"max_growth": float("inf")}, "--max-growth inf: is not a percentage"),
        ({"rounding": "loose"}, "--rounding loose: is neither exact nor per-core"),
    ],
)
def test_faults_are_named_with_the_way_out(folder: Path, changes: dict[str, Any], message: str) -> None:
    (folder / "dir.so").mkdir()
    (folder / "data.txt").write_text("no profile\n")
    with pytest.raises(MavcgError) as told:
        make_request(replace(FILE, **changes), folder)
    assert message in str(told.value) and "; " in str(told.value)


PROFILE = """\
app 1 [000] 1.0: 60 cycles: 10 gemm+0x4 (/data/app)
app 1 [000] 1.1: 30 cycles: 10 _ZN2nn4reluEPfi+0x4 (/data/app)
app 1 [000] 1.1: 6 cycles: 10 pool+0x4 (/data/app)
app 1 [000] 1.2: 4 cycles: ff do_syscall_64 ([kernel.kallsyms])
"""


@pytest.fixture
def profile(folder: Path) -> Path:
    (folder / "perf.txt").write_text(PROFILE)
    return folder / "perf.txt"


def test_what_a_profile_calls_hot(profile: Path) -> None:
    hot = profile_hot(profile, None, None)
    assert [(h.given_name, h.share, h.why) for h in hot] == [
        ("gemm", 0.6, "60.0% of the run"),
        ("_ZN2nn4reluEPfi", 0.3, "30.0% of the run"),
        ("pool", 0.06, "6.0% of the run"),
    ]
    assert not any(h.named_by_user for h in hot)


def test_threshold_and_number_of_hot_functions(profile: Path) -> None:
    assert [h.given_name for h in profile_hot(profile, 10, None)] == ["gemm", "_ZN2nn4reluEPfi"]
    assert [h.given_name for h in profile_hot(profile, 0, 1)] == ["gemm"]
    with pytest.raises(MavcgError, match="no function of the program itself is over 90 %; lower --threshold"):
        profile_hot(profile, 90, None)


@pytest.mark.parametrize("threshold", [-1.0, 101.0, float("nan"), float("inf")])
def test_a_threshold_is_a_share(profile: Path, threshold: float) -> None:
    with pytest.raises(MavcgError, match=r"--threshold .*: is not a share in percent; give 0 to 100"):
        profile_hot(profile, threshold, None)


@pytest.mark.parametrize("number", [0, -3])
def test_at_least_one_function(profile: Path, number: int) -> None:
    with pytest.raises(MavcgError, match=f"--max-functions {number}: allows no version; give 1 or more"):
        profile_hot(profile, None, number)


def test_named_functions_come_before_those_of_the_profile(folder: Path, profile: Path) -> None:
    request, _ = make_request(replace(FILE, profile="perf.txt"), folder)
    assert [h.given_name for h in request.hot] == ["f", "gemm", "_ZN2nn4reluEPfi", "pool"]
    assert [h.named_by_user for h in request.hot] == [True, False, False, False]


def commands(folder: Path) -> BuildFile:
    entries = [
        {"directory": str(folder), "file": name, "arguments": ["gcc", "-O2", "-c", name, "-o", f"{Path(name).stem}.o"]}
        for name in ("k.c", "src/b.c")
    ]
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return replace(FILE, sources=(), compile_commands="compile_commands.json")


def test_all_of_a_compile_commands_file(folder: Path) -> None:
    request, _ = make_request(commands(folder), folder)
    assert [unit.source.name for unit in request.units] == ["k.c", "b.c"]


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_only_what_is_hot_of_a_compile_commands_file(folder: Path, run_program: Any) -> None:
    (folder / "k.c").write_text("int g(void) { return 1; }\n")
    file = replace(commands(folder), only_hot=True)
    for name in ("k.c", "src/b.c"):
        assert run_program("gcc", "-c", name, "-o", f"{Path(name).stem}.o", cwd=folder).status == 0
    request, _ = make_request(file, folder)
    assert [unit.source.name for unit in request.units] == ["b.c"]
    with pytest.raises(MavcgError, match="--only-hot: no file of compile_commands.json holds a hot function; nowhere"):
        make_request(replace(file, hot=("nowhere",)), folder)
