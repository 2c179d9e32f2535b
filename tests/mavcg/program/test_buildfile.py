"""mavcg.toml: what is read, and that every fault is named with its key."""

import json
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.program.buildfile import (
    PROFILE_NAME,
    BuildFile,
    ModelTable,
    ProfileTable,
    ProjectFile,
    read_build_file,
    read_project,
)

PROFILE = """\
[profile]
command = ["./app", "a b"]
build = ["make", "-j2"]
board = "rk3588"
output = "kept.json"
recorder = "callgrind"
frequency = 500
event = "cpu-clock"
"""
BUILD = """\
[build]
output = "lib.so"
sources = ["a.c", "src/*.cpp"]
ir = ["k.bc"]
compile_commands = "build/compile_commands.json"
command = ["make"]
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
max_seconds = 600
max_memory = "8GB"
min_gain = 2
max_growth = 10.5
rounding = "per-core"
versions = "all"
only_hot = true
query_driver = ["/opt/arm/bin/*"]
keep_slower = true
link_options = ["-Wl,-z,now"]
version_script = "lib.map"
libraries = ["m"]
library_dirs = ["lib"]
soname = "lib.so.1"
runtime = "shared"
strip = true
tune = "best"
"""
MODEL = """\
[[model]]
file = "net.onnx"
output = "libnet.so"
board = "exynos9820"
cores = ["cortex-a55"]
target = "aarch64-linux-gnu"
shapes = ["x=1x3x8x8"]
states = ["past_*=present_*"]
threads = 2
tune = "off"
max_error = 0
precision = "f16"
calibrate = "photographs"
stored_weights = "bf16"
versions = "all"
strategy = "engine"
db = "costs.json"
max_workspace = 4096
max_size = "4MB"
max_arena = "2MB"
depth_first = "off"
max_seconds = 60.5
max_memory = 8000000000
strip = true
weights = "net.caffemodel"
partial = true
ignore_declared_shapes = true
also = "net.mavcg.onnx"
min_share = 2
"""
WHOLE = f"{PROFILE}\n{BUILD}\n{MODEL}"
TABLES = {
    "profile": ("[profile]", ProfileTable),
    "build": ("[build]", BuildFile),
    "model[0]": ("[[model]]", ModelTable),
}
# For each key a value of a wrong type, and what the right one is.
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "profile": {
        **{key: ("7", "a string") for key in ("board", "output", "recorder", "event")},
        **{key: ('"make"', "a list of strings") for key in ("command", "build")},
        "frequency": ("1.5", "a whole number"),
    },
    "build": {
        **{key: ("7", "a string") for key in ("output", "compile_commands", "compiler", "profile", "board", "target")},
        **{key: ('["x"]', "a string") for key in ("measurements", "rounding", "versions", "tune")},
        **{key: ('"x"', "a list of strings") for key in ("sources", "ir", "flags", "command", "query_driver")},
        **{key: ("[1]", "a list of strings") for key in ("hot", "cores")},
        **{key: ("true", "a number") for key in ("threshold", "min_gain", "max_growth", "max_seconds")},
        "max_memory": ("1.5", "a whole number or a string"),
        "max_functions": ("1.5", "a whole number"),
        **{key: ("1", "true or false") for key in ("only_hot", "keep_slower")},
        "strip": ("1", "true or false"),
        **{key: ("7", "a list of strings") for key in ("link_options", "libraries", "library_dirs")},
        **{key: ("7", "a string") for key in ("version_script", "soname", "runtime")},
    },
    "model[0]": {
        **{
            key: ("7", "a string")
            for key in (
                "file",
                "output",
                "board",
                "target",
                "tune",
                "strategy",
                "db",
                "weights",
                "depth_first",
                "precision",
                "calibrate",
                "stored_weights",
                "versions",
            )
        },
        **{key: ('"x"', "a list of strings") for key in ("cores", "shapes", "states")},
        **{key: ("1.5", "a whole number or a string") for key in ("threads", "max_size", "max_arena", "max_memory")},
        **{key: ("true", "a number") for key in ("max_error", "max_seconds")},
        "max_workspace": ("1.5", "a whole number"),
        "strip": ("1", "true or false"),
        **{key: ("1", "true or false") for key in ("partial", "ignore_declared_shapes")},
        "also": ("7", "a string"),
        "min_share": ("true", "a number"),
    },
}


def project(folder: Path, text: str) -> ProjectFile:
    (folder / "mavcg.toml").write_text(text)
    return read_project(folder / "mavcg.toml")


def read(folder: Path, text: str) -> BuildFile:
    (folder / "mavcg.toml").write_text(text)
    return read_build_file(folder / "mavcg.toml")


def test_every_key_is_read(tmp_path: Path) -> None:
    file = project(tmp_path, WHOLE)
    assert file.profile == ProfileTable(
        ("./app", "a b"), ("make", "-j2"), "rk3588", "kept.json", "callgrind", 500, "cpu-clock"
    )
    build = file.build
    assert build is not None
    assert build.sources == ("a.c", "src/*.cpp") and build.flags == ("-O3", "-DX=1")
    assert (build.threshold, build.max_functions, build.min_gain, build.max_growth) == (2.5, 7, 2, 10.5)
    assert (build.output, build.board, build.rounding) == ("lib.so", "exynos9820", "per-core")
    (model,) = file.models
    assert (model.file, model.output, model.threads, model.max_error) == ("net.onnx", "libnet.so", 2, 0)
    assert (model.shapes, model.max_size) == (("x=1x3x8x8",), "4MB")
    for table in (file.profile, build, model):
        assert all(getattr(table, field.name) not in (None, ()) for field in fields(table))


def test_an_empty_table_says_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "[build]\n") == BuildFile()
    assert project(tmp_path, "") == ProjectFile(tmp_path / "mavcg.toml")


def test_the_kept_profile_lies_beside_the_file(tmp_path: Path) -> None:
    assert project(tmp_path, "").profile_name == PROFILE_NAME
    assert project(tmp_path, '[profile]\noutput = "p/a.json"\n[build]\nprofile = "b.json"').profile_name == "p/a.json"
    assert project(tmp_path, '[profile]\ncommand = ["x"]\n[build]\nprofile = "b.json"').profile_name == "b.json"


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ('[profile]\ncommand = ["x"]\n[build]', PROFILE_NAME),
        ('[profile]\noutput = "p.json"\n[build]', "p.json"),
        ('[profile]\ncommand = ["x"]\n[build]\nhot = ["f"]', None),
        ('[profile]\ncommand = ["x"]\n[build]\nprofile = "b.json"', "b.json"),
        ("[build]", None),
    ],
)
def test_a_build_takes_the_kept_profile_where_nothing_else_says_what_is_hot(
    tmp_path: Path, text: str, profile: str | None
) -> None:
    assert read(tmp_path, text).profile == profile


def test_without_a_profile_table_the_default_place_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / PROFILE_NAME).write_text("{}")
    assert read(tmp_path, "[build]").profile == PROFILE_NAME


@pytest.mark.parametrize(
    ("text", "build", "model"),
    [
        ('profile.board = "a"\nbuild.board = "b"\nmodel = [{file = "m", board = "c"}]', ("b", ()), ("c", ())),
        ('profile.board = "a"\nbuild.board = "b"\nmodel = [{file = "m"}]', ("b", ()), ("b", ())),
        ('profile.board = "a"\nbuild.tune = "off"\nmodel = [{file = "m"}]', ("a", ()), ("a", ())),
        ('profile.board = "a"\nbuild.cores = ["d"]\nmodel = [{file = "m"}]', (None, ("d",)), (None, ("d",))),
        ('build.board = "b"\nmodel = [{file = "m", cores = ["d"]}]', ("b", ()), (None, ("d",))),
        ('build.tune = "off"\nmodel = [{file = "m"}]', (None, ()), (None, ())),
    ],
)
def test_boards_are_inherited(
    tmp_path: Path, text: str, build: tuple[str | None, tuple[str, ...]], model: tuple[str | None, tuple[str, ...]]
) -> None:
    file = project(tmp_path, text)
    assert file.build is not None
    assert (file.build.board, file.build.cores) == build
    assert (file.models[0].board, file.models[0].cores) == model


def test_models_keep_their_order(tmp_path: Path) -> None:
    file = project(tmp_path, '[[model]]\nfile = "b.onnx"\nthreads = "auto"\n[[model]]\nfile = "a.tflite"\n')
    assert [(model.file, model.threads) for model in file.models] == [("b.onnx", "auto"), ("a.tflite", None)]


def test_wrong_types_are_known_for_every_key() -> None:
    for name, (_, kind) in TABLES.items():
        assert set(WRONG[name]) == {field.name for field in fields(kind)}


@pytest.mark.parametrize(("table", "key"), [(table, key) for table, keys in WRONG.items() for key in keys])
def test_a_value_of_a_wrong_type_names_file_key_and_value(tmp_path: Path, table: str, key: str) -> None:
    value, right = WRONG[table][key]
    file = 'file = "m"\n' if table == "model[0]" and key != "file" else ""
    with pytest.raises(MavcgError) as told:
        project(tmp_path, f"{TABLES[table][0]}\n{file}{key} = {value}\n")
    written = tomllib.loads(f"value = {value}")["value"]
    if isinstance(written, list) and right == "a list of strings":
        key, written, right = f"{key}[0]", written[0], "a string"
    assert str(told.value) == f"{tmp_path}/mavcg.toml: {table}.{key}: {json.dumps(written)} is not {right}; correct it"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[build]\nhott = ['x']", "build.hott: no such key; did you mean hot?"),
        ("[profile]\ncomand = ['x']", "profile.comand: no such key; did you mean command?"),
        ("[[model]]\nfile = 'a'\n[[model]]\nfiel = 'x'", "model[1].fiel: no such key; did you mean file?"),
        ("[[model]]\nboard = 'host'", "model[0].file: missing; give it as a string"),
        ("[biuld]\nhot = ['x']", "biuld: no such key; did you mean build?"),
        ("", "has no [build] table; add it"),
        ("build = 3", "build: 3 is not a table; write it as [build]"),
        ("[[build]]\nhot = ['x']", 'build: [{"hot": ["x"]}] is not a table; write it as [build]'),
        ("profile = 'p.json'", 'profile: "p.json" is not a table; write it as [profile]'),
        ("model = 'm.onnx'", 'model: "m.onnx" is not a list of tables; write it as [[model]]'),
        ("[model]\nfile = 'm'", 'model: {"file": "m"} is not a list of tables; write it as [[model]]'),
        ("[profile]\ncommand = []", "profile.command: [] names no program; write command = ["),
        ("[profile]\nbuild = ['', 'x']", 'profile.build: ["", "x"] names no program'),
        ("[build]\ncommand = []", "build.command: [] names no program"),
        ("[build]\nhot = [", "not TOML ("),
        ("[build]\nhot = ['a']\nhot = ['b']", "not TOML ("),
        ("[build]\nhot = ['a', 'b\x01']", "not TOML ("),
        ("a = " + "[" * 100_000, "not TOML ("),
        ('[build]\nsources = ["a\\u0000.c"]', 'build.sources[0]: "a\\u0000.c" holds a zero byte'),
        ('[build]\noutput = "a\\u0000.so"', 'build.output: "a\\u0000.so" holds a zero byte'),
        ('[[model]]\nfile = "a\\u0000"', 'model[0].file: "a\\u0000" holds a zero byte'),
        (f"[build]\noutput = {list(range(100))}", "build.output: [0, 1, 2"),
    ],
)
def test_faults_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(MavcgError) as told:
        read(tmp_path, text)
    assert str(told.value).startswith(f"{tmp_path}/mavcg.toml: {message}")
    assert len(str(told.value)) < 500


def test_what_is_no_text_is_no_toml(tmp_path: Path) -> None:
    (tmp_path / "mavcg.toml").write_bytes(b"[build]\noutput = '\xff'")
    with pytest.raises(MavcgError, match=r"mavcg.toml: cannot be read \(not UTF-8 text, byte 18\)"):
        read_build_file(tmp_path / "mavcg.toml")


@pytest.mark.parametrize(("name", "why"), [("absent.toml", "No such file"), (".", "Is a directory")])
def test_what_cannot_be_read(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(MavcgError, match=rf"cannot be read \({why}.*; write one, or give options"):
        read_build_file(tmp_path / name)


@given(st.text(alphabet=st.sampled_from("[]{}=.\"'\\#, \nbuildhotsourcesmodelprofile0-9_tru\0é"), max_size=60))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.toml"
    path.write_text(text)
    for document in (text, "[build]\n" + text, "[[model]]\n" + text, "[profile]\n" + text):
        path.write_text(document)
        try:
            read_build_file(path)
        except MavcgError as error:
            assert str(error).startswith(f"{path}: ")
