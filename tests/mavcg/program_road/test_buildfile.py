"""mavcg.toml: what is read, and that every fault is named with its key."""

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.program_road.buildfile import BuildFile, read_build_file

WHOLE = """\
[build]
output = "lib.so"
sources = ["a.c", "src/*.cpp"]
ir = ["k.bc"]
compile_commands = "build/compile_commands.json"
flags = ["-O3", "-DX=1"]
compiler = "clang-19"
hot = ["gemm", "nn::*"]
profile = "app.json"
threshold = 2.5
max_functions = 7
cores = ["cortex-a55"]
board = "exynos9820"
target = "aarch64-linux-android"
measurements = "gains.json"
min_gain = 2
max_growth = 10.5
rounding = "per-core"
only_hot = true
tune = "best"
"""
# For each key a value of a wrong type, and what the right one is.
WRONG = {
    **{key: ("7", "a string") for key in ("output", "compile_commands", "compiler", "profile", "board", "target")},
    **{key: ('["x"]', "a string") for key in ("measurements", "rounding", "tune")},
    **{key: ('"x"', "a list of strings") for key in ("sources", "ir", "flags")},
    **{key: ("[1]", "a list of strings") for key in ("hot", "cores")},
    **{key: ("true", "a number") for key in ("threshold", "min_gain", "max_growth")},
    "max_functions": ("1.5", "a whole number"),
    "only_hot": ("1", "true or false"),
}


def read(folder: Path, text: str) -> BuildFile:
    (folder / "mavcg.toml").write_text(text)
    return read_build_file(folder / "mavcg.toml")


def test_every_key_is_read(tmp_path: Path) -> None:
    file = read(tmp_path, WHOLE)
    assert file.sources == ("a.c", "src/*.cpp") and file.flags == ("-O3", "-DX=1")
    assert (file.threshold, file.max_functions, file.min_gain, file.max_growth) == (2.5, 7, 2, 10.5)
    assert (file.output, file.board, file.rounding) == ("lib.so", "exynos9820", "per-core")
    assert all(getattr(file, field.name) not in (None, ()) for field in fields(BuildFile))


def test_an_empty_table_says_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "[build]\n") == BuildFile()


def test_wrong_types_are_known_for_every_key() -> None:
    assert set(WRONG) == {field.name for field in fields(BuildFile)}


@pytest.mark.parametrize("key", list(WRONG))
def test_a_value_of_a_wrong_type_names_file_key_and_value(tmp_path: Path, key: str) -> None:
    value, wanted = WRONG[key]
    with pytest.raises(MavcgError) as told:
        read(tmp_path, f"[build]\n{key} = {value}\n")
    shown = {"true": "True", '"x"': "'x'", '["x"]': "['x']"}.get(value, value)
    assert str(told.value) == f"{tmp_path}/mavcg.toml: build.{key} = {shown}: is not {wanted}; correct it"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[build]\nhott = ['x']", "build.hott is not known; keys are output, sources, ir"),
        ("[biuld]\nhot = ['x']", "[biuld] is not known; there is one table, [build]"),
        ("", "has no [build] table; add it"),
        ("build = 3", "has no [build] table"),
        ("[[build]]\nhot = ['x']", "has no [build] table"),
        ("[build]\nhot = [", "not TOML ("),
        ("[build]\nhot = ['a']\nhot = ['b']", "not TOML ("),
        ("[build]\nhot = ['a', 'b\x01']", "not TOML ("),
        ("a = " + "[" * 100_000, "not TOML ("),
        ('[build]\nsources = ["a\\u0000.c"]', "build.sources = ['a\\x00.c']: holds a zero byte"),
        ('[build]\noutput = "a\\u0000.so"', "build.output = 'a\\x00.so': holds a zero byte"),
        (f"[build]\noutput = {list(range(100))}", "build.output = [0, 1, 2"),
    ],
)
def test_faults_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(MavcgError) as told:
        read(tmp_path, text)
    assert str(told.value).startswith(f"{tmp_path}/mavcg.toml: {message}")
    assert len(str(told.value)) < 500


def test_what_is_no_text_is_no_toml(tmp_path: Path) -> None:
    (tmp_path / "mavcg.toml").write_bytes(b"[build]\noutput = '\xff'")
    with pytest.raises(MavcgError, match=r"mavcg.toml: not TOML \("):
        read_build_file(tmp_path / "mavcg.toml")


@pytest.mark.parametrize(("name", "why"), [("absent.toml", "No such file"), (".", "Is a directory")])
def test_what_cannot_be_read(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(MavcgError, match=rf"cannot be read \({why}.*; write one, or give options"):
        read_build_file(tmp_path / name)


@given(st.text(alphabet=st.sampled_from("[]{}=.\"'\\#, \nbuildhotsources0-9_tru\0é"), max_size=60))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.toml"
    path.write_text(text)
    for document in (text, "[build]\n" + text):
        path.write_text(document)
        try:
            read_build_file(path)
        except MavcgError as error:
            assert str(error).startswith(f"{path}: ")
