"""The parts of `mavcg launch` below the command: where its settings lie, and what is hot."""

import subprocess
import sys
from pathlib import Path

import pytest

from mavcg.errors import MavcgError
from mavcg.objects.inspection import loaded_bytes
from mavcg.program.buildfile import BuildFile
from mavcg.program.launching import (
    LaunchOptions,
    find_config,
    hot_of,
    run_compiler,
    version_object,
)
from mavcg.toolchain.zig import zig_program
from tests.conftest import zig_cache


def test_the_nearest_build_file_counts(tmp_path: Path) -> None:
    deep = tmp_path / "a/b/c"
    deep.mkdir(parents=True)
    (tmp_path / "mavcg.toml").write_text("")
    assert find_config(deep) == tmp_path / "mavcg.toml"
    (tmp_path / "a/b/mavcg.toml").write_text("")
    assert find_config(deep) == tmp_path / "a/b/mavcg.toml"
    (deep / "mavcg.toml").mkdir()  # a folder is no build file
    assert find_config(deep) == tmp_path / "a/b/mavcg.toml"


@pytest.mark.parametrize("status", [0, 1, 3, 127])
def test_the_compilers_exit_status_is_passed_on(status: int) -> None:
    assert run_compiler([sys.executable, "-c", f"raise SystemExit({status})"]) == status


def test_a_compiler_that_a_signal_ends_says_it_as_shells_do() -> None:
    assert run_compiler([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]) == 137


PROFILE = """\
app 1 [000] 1.0: 70 cycles: 10 gemm+0x4 (/data/app)
app 1 [000] 1.1: 30 cycles: 10 _ZN2nn4reluEPfi+0x4 (/data/app)
"""


@pytest.fixture
def cache(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", zig_cache())
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    (here / "perf.txt").write_text(PROFILE)
    return here / "cache/mavcg"


def test_named_functions_and_those_of_the_profile_are_hot(cache: Path, here: Path) -> None:
    hot = hot_of(BuildFile(hot=("a", "b,c"), profile="perf.txt"), here)
    assert [(h.given_name, h.named_by_user) for h in hot] == [
        ("a", True),
        ("b", True),
        ("c", True),
        ("gemm", False),
        ("_ZN2nn4reluEPfi", False),
    ]


def test_what_was_ranked_is_remembered_as_it_was(cache: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = BuildFile(profile="perf.txt", threshold=40.0)
    first = hot_of(file, here)
    assert [(h.given_name, h.share) for h in first] == [("gemm", 0.7)]
    monkeypatch.setattr("mavcg.program.request.profile_hot", lambda *_: pytest.fail("ranked again"))
    assert hot_of(file, here) == first


@pytest.mark.parametrize("change", ["threshold", "max_functions", "profile"])
def test_what_was_ranked_otherwise_is_not_taken(cache: Path, here: Path, change: str) -> None:
    assert len(hot_of(BuildFile(profile="perf.txt"), here)) == 2
    if change == "threshold":
        assert len(hot_of(BuildFile(profile="perf.txt", threshold=40), here)) == 1
    elif change == "max_functions":
        assert len(hot_of(BuildFile(profile="perf.txt", max_functions=1), here)) == 1
    else:
        (here / "perf.txt").write_text(PROFILE.replace("gemm", "conv2d"))
        assert hot_of(BuildFile(profile="perf.txt"), here)[0].given_name == "conv2d"


@pytest.mark.parametrize("text", ["", "{", "7", '[{"no": "such"}]', '["x"]', "\0"])
def test_a_garbled_memory_is_made_again(cache: Path, here: Path, text: str) -> None:
    file = BuildFile(profile="perf.txt")
    first = hot_of(file, here)
    (remembered,) = cache.glob("hot/*")
    remembered.write_text(text)
    assert hot_of(file, here) == first


def test_a_missing_profile_is_named(here: Path) -> None:
    with pytest.raises(MavcgError, match=r"absent.json: cannot be read \(No such file.*make it by `mavcg profile -o`"):
        hot_of(BuildFile(profile="absent.json"), here)


@pytest.mark.parametrize(
    "command",
    [
        ["gcc", "-E", "x.c"],
        ["gcc", "a.o", "-o", "a"],
        ["gcc", "-c", "absent.c", "-o", "absent.o"],  # whose object is not there
        ["gcc", "-c", "a.s"],
        ["ld", "-r", "a.o"],
        ["gcc"],
        ["true"],
    ],
)
def test_commands_without_an_object_of_ours_do_nothing(here: Path, command: list[str]) -> None:
    assert version_object(command, LaunchOptions(None)) is None


def test_growth_is_counted_beside_the_compilers_own_object(
    cache: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "x.c").write_text(
        "float dot(const float *a, const float *b, long n) {\n"
        "    float sum = 0;\n    for (long i = 0; i < n; i++) sum += a[i] * b[i];\n    return sum;\n}\n"
    )
    (here / "mavcg.toml").write_text('[build]\nhot = ["dot"]\ncores = ["cortex-a55"]\n')
    command = [zig_program(), "cc", "-target", "aarch64-linux-gnu", "-O2", "-c", "x.c"]
    subprocess.run(command, check=True)
    before = loaded_bytes(here / "x.o")
    monkeypatch.setattr("mavcg.program.build_module.compile_plain", lambda *_: pytest.fail("compiled again"))
    message = version_object(command, LaunchOptions(here / "mavcg.toml"))
    assert message and f"({before} to " in message, message
