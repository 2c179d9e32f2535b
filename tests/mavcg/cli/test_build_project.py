"""`mavcg build` with a mavcg.toml of several tables: models, launched builds, what wins, and whose key is at fault."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import mavcg as package
from mavcg.cli.build_project import make_project_request
from mavcg.model import request
from mavcg.objects.elf import function_symbols
from mavcg.program.buildfile import BuildFile, ModelTable, read_project

HOT = """\
int dot(const short *a, const short *b, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
"""
MAIN = """\
int dot(const short *, const short *, int);
static short a[4096];
int main(void) {
    volatile int sum = 0;
    for (int i = 0; i < 4096; i++) a[i] = i;
    for (int i = 0; i < 25000; i++) sum += dot(a, a, 4096);
    return 0;
}
"""
MAKEFILE = """\
CC = gcc
CFLAGS = -O2
app: main.o dot.o
\t$(CC) -o $@ $^
"""


def config(text: str, folder: Path = Path()) -> None:
    (folder / "mavcg.toml").write_text(text)


@pytest.fixture
def model(here: Path, tiny_onnx: Path) -> str:
    """tiny.onnx in the current folder, and a [[model]] table for it."""
    shutil.copy(tiny_onnx, here / "tiny.onnx")
    return '[[model]]\nfile = "tiny.onnx"\ncores = ["generic"]\n'


@pytest.mark.long
def test_models_and_a_program_by_one_file(mavcg: Any, kernel: Path, model: str, cores: Sequence[str]) -> None:
    sources = f'[build]\nsources = ["kernel.c"]\nhot = ["dot"]\ncores = ["{cores[0]}"]\n'
    more = 'output = "two.so"\nshapes = ["image=2x4x6x6"]\nthreads = 2\n'
    config(f"{sources}{model}{model}{more}")
    ended = mavcg("build", "--json")

    assert ended.status == 0, ended.stderr
    document = json.loads(ended.stdout)
    folder = kernel.parent
    assert Path(document["output"]).resolve() == folder / f"lib{folder.name}.so"
    assert [function["name"] for function in document["functions"]] == ["dot"]
    assert [Path(m["output"]).name for m in document["models"]] == ["libtiny.so", "two.so"]
    assert [m["inputs"][0]["type"] for m in document["models"]] == ["f32[1,4,6,6]", "f32[2,4,6,6]"]
    with package.load(folder / "two.so", threads=2) as loaded:
        assert [tuple(i.shape) for i in loaded.inputs] == [(2, 4, 6, 6), (2, 3)]


def test_models_alone_take_the_same_two_words(mavcg: Any, here: Path, model: str) -> None:
    config(model)
    profiled = mavcg("profile", "--json")
    assert profiled.status == 0 and json.loads(profiled.stdout)["functions"] == []
    assert "nothing to profile: it names models only" in profiled.stderr

    built = mavcg("build")
    assert built.status == 0 and "libtiny.so for " in built.stdout
    assert (here / "libtiny.so").is_file() and (here / "tiny.h").is_file()


@pytest.mark.long
def test_paths_are_relative_to_the_file_and_options_win(
    mavcg: Any, here: Path, model: str, monkeypatch: pytest.MonkeyPatch, cores: Sequence[str]
) -> None:
    config(model)
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    ended = mavcg("build", "../mavcg.toml", "--cores", cores[1], "-o", "mine.so", "--json")
    assert ended.status == 0, ended.stderr
    assert json.loads(ended.stdout)["models"][0]["versions"] == ["generic", cores[1]]
    assert (here / "elsewhere" / "mine.so").is_file() and not (here / "libtiny.so").exists()


@pytest.mark.long
@pytest.mark.parametrize("options", [[], ["--partial", "--also", "calls.onnx", "--min-share", "0"]])
def test_a_partial_build_by_a_file(mavcg: Any, here: Path, model: str, options: list[str]) -> None:
    config(model if options else f'{model}partial = true\nalso = "calls.onnx"\nmin_share = 0\n')
    ended = mavcg("build", *options, "--json")

    assert ended.status == 0, ended.stderr
    (report,) = json.loads(ended.stdout)["models"]
    assert Path(report["also"]).resolve() == here / "calls.onnx" and (here / "calls.onnx").is_file()
    symbols = {name for name, _ in function_symbols(here / "libtiny.so")}
    assert report["subgraphs"] and "RegisterCustomOps" in symbols and "mavcg_model_api" not in symbols


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ("", ("host", ())),
        ('target = "aarch64-linux-gnu"\n', (None, ("generic",))),
        ('board = "rk3588"\n', ("rk3588", ())),
        ('cores = ["cortex-a55"]\n', (None, ("cortex-a55",))),
    ],
)
def test_a_model_without_a_machine_is_for_this_one(
    here: Path, tiny_onnx: Path, keys: str, chosen: tuple[str | None, tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`mavcg build MODEL` without --board does the same."""
    shutil.copy(tiny_onnx, here / "tiny.onnx")
    config(f'[[model]]\nfile = "tiny.onnx"\n{keys}')
    asked = list[Any]()
    real = request.make_model_request

    def noted(file: Path, output: str, options: Any, selection: Any) -> Any:
        asked.append((options.board, options.cores))
        return real(file, output, options, selection)

    monkeypatch.setattr(request, "make_model_request", noted)
    make_project_request(read_project(here / "mavcg.toml"), BuildFile(), ModelTable(""), None)
    assert asked == [chosen]


PROGRAM = '[build]\nsources = ["kernel.c"]\nhot = ["dot"]\n'


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ('[build]\nboard = "host"', [], "mavcg.toml: there is nothing to build; add [build] with sources"),
        (f'{PROGRAM}board = "nosuch"', [], "mavcg.toml: build.board nosuch: no such board"),
        (f'{PROGRAM}board = "rk3588"', ["--board", "nosuch"], "mavcg: --board nosuch: no such board"),
        (f'{PROGRAM}cores = ["nosuch"]', [], "mavcg.toml: build.cores nosuch: no such core"),
        (PROGRAM, [], "mavcg.toml: build: no cores are named; give --cores A,B,.. or --board NAME"),
        (f'{PROGRAM}board = "rk3588"\noutput = "a.b"', [], "mavcg.toml: build.output a.b: names neither"),
        (f'{PROGRAM}board = "rk3588"\ntune = "x"', [], "mavcg.toml: build.tune x: not one of"),
        ('[build]\nsources = ["*.z"]\nhot = ["f"]\nboard = "rk3588"', [], "mavcg.toml: build.sources *.z: matches no"),
        ('[[model]]\nfile = "no.onnx"\nboard = "rk3588"', [], "mavcg.toml: model[0].file = 'no.onnx': does not exist"),
        (
            '[[model]]\nfile = "tiny.onnx"\nboard = "rk3588"\nalso = "y.onnx"',
            [],
            "mavcg.toml: model[0].also",
        ),
        (
            '[[model]]\nfile = "tiny.onnx"\nboard = "rk3588"\npartial = true\nmin_share = 101',
            [],
            "mavcg.toml: model[0].min_share 101: give percent",
        ),
        (
            '[[model]]\nfile = "tiny.onnx"\nboard = "rk3588"\n' * 2,
            ["--partial", "--also", "y.onnx"],
            "names 2 models; give each [[model]] a key `also`",
        ),
        ('[[model]]\nfile = "tiny.onnx"\nboard = "x"', [], "mavcg.toml: model[0].board x: no such board"),
        (
            '[[model]]\nfile = "tiny.onnx"\nboard = "rk3588"\nthreads = 0',
            [],
            "mavcg.toml: model[0].threads 0: give 1 to",
        ),
        (
            '[[model]]\nfile = "tiny.onnx"\nboard = "rk3588"\nmax_size = "4 bytes"',
            [],
            "model[0].max_size 4 bytes: is no",
        ),
        ('[[model]]\nfile = "tiny.onnx"\nboard = "rk3588"\nshapes = ["a"]', [], "model[0].shapes a: is not NAME=DIM"),
        (
            '[[model]]\nfile = "tiny.onnx"\nboard = "rk3588"\nmax_workspace = -1',
            [],
            "model[0].max_workspace = -1: is no",
        ),
        (
            f'{PROGRAM}board = "rk3588"\nmax_functions = 0\nprofile = "x"',
            [],
            "build.max_functions 0: allows no version",
        ),
        (f'{PROGRAM}board = "rk3588"', ["--threads", "2"], "--threads: is for models; name a model"),
        (f'{PROGRAM}board = "rk3588"\ncommand = ["make"]', [], "mavcg.toml: build.command builds the program itself"),
        (
            '[[model]]\nfile = "tiny.onnx"\n[[model]]\nfile = "tiny.onnx"',
            ["-o", "x.so"],
            "mavcg.toml names 2 models; give each [[model]] a key `output`",
        ),
        (
            '[build]\nsources = ["kernel.c"]\nboard = "rk3588"',
            [],
            "mavcg.toml: no hot function is named: build.hot is not given, and there is no profile "
            "mavcg-profile.json; add [profile] with command = [..] and run `mavcg profile`, or name functions by hot",
        ),
        (
            '[profile]\ncommand = ["./app"]\n[build]\nsources = ["kernel.c"]\nboard = "rk3588"',
            [],
            "there is no profile mavcg-profile.json; run `mavcg profile`, or name functions by hot",
        ),
        (
            '[build]\ncommand = ["make"]\nhot = ["dot"]\nboard = "rk3588"',
            ["--board", "rk3399"],
            "build: board given as an option, but build.command of mavcg.toml runs compilers that read that file alone",
        ),
        ('[build]\ncommand = ["./no"]\nhot = ["f"]\nboard = "rk3588"', [], "build.command = ./no: cannot be run in ."),
    ],
)
def test_faults_name_file_table_and_key(
    mavcg: Any, kernel: Path, model: str, text: str, options: list[str], message: str
) -> None:
    config(text)
    ended = mavcg("build", *options)
    assert ended.status == 2 and ended.stdout == "" and message in ended.stderr
    assert not list(kernel.parent.glob("*.so"))


def test_every_table_is_checked_before_the_first_is_built(mavcg: Any, kernel: Path, model: str, cores: Any) -> None:
    config(f'{PROGRAM}cores = ["{cores[0]}"]\n{model}[[model]]\nfile = "tiny.onnx"\nboard = "nosuch"\n')
    ended = mavcg("build")
    assert ended.status == 2 and "model[1].board nosuch" in ended.stderr
    assert not list(kernel.parent.glob("*.so"))


def test_named_sources_take_the_profile_that_was_kept_here(mavcg: Any, kernel: Path, cores: Sequence[str]) -> None:
    options = ("--source", "kernel.c", "--cores", cores[0], "-o", "k.so", "--json")
    assert "no hot function is named" in mavcg("build", *options).stderr
    Path("mavcg-profile.json").write_text("app 1 [000] 1.0: 80 cycles: 10 dot+0x4 (/data/app)\n")
    ended = mavcg("build", *options)
    assert [f["name"] for f in json.loads(ended.stdout)["functions"]] == ["dot"]


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_a_launched_build_reads_the_profile_that_was_kept(
    mavcg: Any, here: Path, cores: Sequence[str], gcc: object, perf: str, run_program: Any
) -> None:
    for name, text in (("dot.c", HOT), ("main.c", MAIN), ("Makefile", MAKEFILE)):
        (here / name).write_text(text)
    config(
        '[profile]\nbuild = ["make", "-s", "CC=mavcg launch --strict gcc"]\ncommand = ["./app"]\nfrequency = 500\n'
        f'[build]\ncommand = ["make", "-s", "-B", "CC=mavcg launch gcc"]\ncores = ["{cores[0]}", "{cores[1]}"]\n'
        "threshold = 30\n"  # a busy machine's few samples may name main, too
    )
    assert mavcg("build").status == 2  # there is no profile yet
    for again in range(2):  # the second profile is of the program with versions: they count as their function
        profiled = mavcg("profile", "--json")
        assert profiled.status == 0 and "plain object" not in profiled.stderr, profiled.stderr
        assert json.loads(profiled.stdout)["profile"] == "mavcg-profile.json"

        built = mavcg("build", "--json")
        assert built.status == 0, built.stderr
        document = json.loads(built.stdout)
        assert document["launched"]["command"] == ["make", "-s", "-B", "CC=mavcg launch gcc"]
        assert document["launched"]["objects"] == [{"object": str(here / "dot.o"), "functions": ["dot"]}], again
        assert {f"dot.{core}" for core in cores} <= {name for name, _ in function_symbols(here / "app")}

    config(f'[build]\ncommand = ["make", "-s", "-B"]\nhot = ["dot"]\ncores = ["{cores[0]}"]\n')
    plain = mavcg("build", "--json")
    assert plain.status == 0 and json.loads(plain.stdout)["launched"]["objects"] == []
    assert "mavcg.toml: build.command: no object got versions: is `mavcg launch` the build's" in plain.stderr
