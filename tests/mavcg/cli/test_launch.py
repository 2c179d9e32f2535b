"""`mavcg launch` in builds that know nothing of it: make, CMake, C++ with templates and exceptions, odd commands."""

import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mavcg.assembly import tuning
from mavcg.cli.app import run
from mavcg.objects.elf import function_symbols, notes
from mavcg.passes.asm.tune import Tuned, tune
from mavcg.passes.ir.arithmetic import explicit_fmuladd
from mavcg.program import version_jobs
from mavcg.program.version_growth import DEFAULT_FREE_BYTES, DEFAULT_MAX_GROWTH
from mavcg.toolchain import codegen
from tests.conftest import zig_cache

EDGE_APP = Path(__file__).parents[3] / "examples/edge_app"
QUICK = "CXXFLAGS=-O1"  # as edge_app_objects, for the files of the example that are not hot
LAUNCH = [sys.executable, "-m", "mavcg.cli", "launch"]
COLD = "int cool(int x) { return x + 1; }\n"
DOT = "int dot(const short *a, const short *b, int n)"
HOT = DOT + " { int s = 0; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s; }\n"


@pytest.fixture
def project(here: Path, cores: Sequence[str], gcc: object) -> Path:
    """A folder with hot.c, cold.c, main.c and a mavcg.toml that names dot for two cores."""
    (here / "hot.c").write_text(HOT)
    (here / "cold.c").write_text(COLD)
    (here / "main.c").write_text(f"{DOT};\nint main(void) {{ short a[40] = {{3, 4}}; return dot(a, a, 40); }}\n")
    config(here, "dot", cores)
    return here


def config(folder: Path, hot: str, cores: Sequence[str], more: str = "") -> None:
    names = ", ".join(f'"{core}"' for core in cores)
    (folder / "mavcg.toml").write_text(f'[build]\nhot = ["{hot}"]\ncores = [{names}]\nruntime = "static"\n{more}')


def launch(mavcg: Any, *words: str) -> Any:
    return mavcg("launch", *words)


def labels(binary: Path, function: str) -> set[str]:
    """The versions of a function that a binary holds."""
    return {
        name.removeprefix(f"{function}.") for name, _ in function_symbols(binary) if name.startswith(f"{function}.")
    }


def versions_run(stderr: str) -> dict[str, str]:
    words = [line.split() for line in stderr.splitlines() if line.startswith("mavcg: ")]
    return {w[1]: w[2] for w in words}


def test_a_hot_file_gets_versions_and_a_cold_one_gccs_own_object(
    mavcg: Any, project: Path, cores: Sequence[str], run_program: Any
) -> None:
    assert launch(mavcg, "gcc", "-O2", "-c", "cold.c", "-o", "cold.o") == launch(mavcg, "true")
    assert run_program("gcc", "-O2", "-c", "cold.c", "-o", "plain.o").status == 0
    assert (project / "cold.o").read_bytes() == (project / "plain.o").read_bytes()

    hot = launch(mavcg, "gcc", "-O2", "-c", "hot.c", "-o", "hot.o")
    assert hot.status == 0 and hot.stdout == ""
    versions, cost = hot.stderr.split("; ")
    assert versions == f"mavcg: hot.o: dot (generic, {cores[0]}, {cores[1]})"
    assert re.fullmatch(r"growth [1-9]\d* % \(\d+ to \d+ bytes, \d+\.\d s of CPU time\)\n", cost)
    assert {"generic", *cores} <= labels(project / "hot.o", "dot")

    assert run_program("gcc", "main.c", "hot.o", "cold.o", "-o", "app").status == 0
    ran = run_program("./app", MAVCG_TRACE="1", MAVCG_CPU_MAP="*=generic")
    assert ran.status == 25 and versions_run(ran.stderr) == {"dot": "generic"}


def test_a_file_that_is_compiled_again_has_its_versions_kept(
    mavcg: Any, project: Path, cores: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their code: another comment changes none of them. The object has the same bytes."""
    monkeypatch.setenv("MAVCG_CACHE", str(project / "cache"))
    command = ("gcc", "-O2", "-c", "hot.c", "-o", "hot.o")
    assert launch(mavcg, *command).status == 0
    before = (project / "hot.o").read_bytes()

    monkeypatch.setattr(codegen, "_compile_text", lambda job: pytest.fail(f"{job.what} again"))
    (project / "hot.c").write_text((project / "hot.c").read_text() + "/* a comment */\n")
    assert launch(mavcg, *command).status == 0
    assert (project / "hot.o").read_bytes() == before and {"generic", *cores} <= labels(project / "hot.o", "dot")


TWO_HOT = HOT + HOT.replace("dot(", "warm(").replace("return", "\n  return")


def misreturn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the IR of each version of warm() return a type that is not the function's."""
    explicit = explicit_fmuladd

    def failing(text: str, fused: Collection[str]) -> str:
        made = explicit(text, fused)
        return made.replace("ret i32", "ret i64") if "define hidden i32 @warm." in made else made

    monkeypatch.setattr(version_jobs, "explicit_fmuladd", failing)


def unprintable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the machine passes print an instruction for warm() that there is not."""

    def failing(text: str, *options: object, **more: object) -> Tuned:
        made = tune(text, *options, **more)  # type: ignore[arg-type]
        return replace(made, text=made.text.replace("\tret\n", "\tretreat\n")) if "warm." in text else made

    monkeypatch.setattr(tuning, "tune", failing)


def undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the machine passes fail on warm()."""

    def failing(text: str, *options: object, **more: object) -> Tuned:
        return tune(text[1 // ("warm." not in text) :], *options, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(tuning, "tune", failing)


ONLY_WARM = r"mavcg: hot.o:\n  dot \(generic, .*\)\n  warm left as it was: "


@pytest.mark.parametrize(("flags", "line"), [((), 2), (("-g",), 3)], ids=["the function's line", "with -g the code's"])
def test_a_function_that_cannot_have_versions_leaves_the_others_theirs(
    mavcg: Any, project: Path, cores: Sequence[str], monkeypatch: pytest.MonkeyPatch, flags: Sequence[str], line: int
) -> None:
    (project / "hot.c").write_text(TWO_HOT)
    config(project, 'dot", "warm', cores)
    misreturn(monkeypatch)
    ended = launch(mavcg, "--strict", "gcc", "-O2", *flags, "-c", "hot.c")
    assert ended.status == 0 and {"generic", *cores} <= labels(project / "hot.o", "dot")
    told = rf"{ONLY_WARM}hot\.c:{line}: .* in line \d+ of its IR: ret i64 %\w+"
    assert re.match(told, ended.stderr) and not labels(project / "hot.o", "warm")


@pytest.mark.spread
@pytest.mark.parametrize("verb", ["build", "launch"])
@pytest.mark.parametrize(
    ("fault", "why"),
    [(undone, "by a fault of mavcg.*ZeroDivisionError"), (unprintable, "does not assemble: unrecognized")],
)
def test_a_fault_of_the_machine_passes_leaves_the_other_functions_theirs(
    mavcg: Any,
    here: Path,
    gcc: object,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[pytest.MonkeyPatch], None],
    why: str,
    verb: str,
) -> None:
    (here / "hot.c").write_text(TWO_HOT)
    target = "aarch64-linux-musl"
    config(here, 'dot", "warm', ["cortex-a53"], f'target = "{target}"\n')
    monkeypatch.setenv("MAVCG_CACHE", str(here / "cache"))  # no schedule of an earlier build is taken
    fault(monkeypatch)
    if verb == "build":
        words = ["--source", "hot.c", "--target", target, "--hot", "dot,warm", "--cores", "cortex-a53"]
        ended = mavcg("build", *words, "-o", "hot.o")
        told = " ".join(ended.stdout.split())
    else:
        compiler = [sys.executable, "-m", "ziglang", "cc", "-target", target]
        ended = launch(mavcg, "--strict", *compiler, "-O2", "-c", "hot.c")
        told = ended.stderr
    assert ended.status == 0, ended.stderr
    assert labels(here / "hot.o", "dot") >= {"generic", "cortex-a53"} and not labels(here / "hot.o", "warm")
    assert re.search(rf"hot\.c:2: .*{why}", told), ended


def test_a_response_file_and_no_named_output(mavcg: Any, project: Path, cores: Sequence[str]) -> None:
    (project / "words").write_text("-O2 -c 'hot.c'")
    assert launch(mavcg, "gcc", "@words").status == 0
    assert {"generic", *cores} <= labels(project / "hot.o", "dot")


@pytest.mark.parametrize(
    ("command", "made"),
    [
        (["gcc", "-E", "hot.c", "-o", "hot.i"], "hot.i"),
        (["gcc", "-M", "hot.c", "-o", "hot.d"], "hot.d"),
        (["gcc", "-S", "cold.c", "-o", "cold.s"], "cold.s"),
        (["gcc", "-O2", "-fsyntax-only", "hot.c"], ""),
        (["gcc", "--version"], ""),
        (["gcc", "-c", "-o", "/dev/null", "hot.c"], ""),
    ],
)
def test_commands_that_make_no_object_of_one_source_are_left_alone(
    mavcg: Any, project: Path, command: list[str], made: str
) -> None:
    ended = launch(mavcg, *command)
    assert ended.status == 0 and ended.stderr == ""
    if made.endswith(".o"):
        assert not notes(project / made)
    elif made:
        assert (project / made).stat().st_size > 10


@pytest.mark.long
def test_several_sources_of_one_command_are_versioned_each(
    mavcg: Any, project: Path, cores: Sequence[str], run_program: Any
) -> None:
    (project / "warm.c").write_text(HOT.replace("dot(", "dot2("))
    config(project, "dot*", cores)
    ended = launch(mavcg, "--strict", "gcc", "-O2", "-c", "hot.c", "cold.c", "-DX", "warm.c")
    assert ended.status == 0
    lines = re.sub(r"growth \d+ % \(\d+ to [^)]*\)", "growth", ended.stderr).replace("\n  ", "; ").split("; ")
    versions = f"(generic, {cores[0]}, {cores[1]})"
    assert lines == [f"mavcg: hot.o: dot {versions}", "growth", f"warm.o: dot2 {versions}", "growth\n"]
    assert not notes(project / "cold.o")
    assert run_program("gcc", "main.c", "hot.o", "cold.o", "warm.o", "-o", "app").status == 0
    assert run_program("./app").status == 25


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("gcc -O2 -S hot.c", "hot.s: dot: is assembly, which may not hold versions; let one command compile"),
        ("gcc -O2 -S -o x.asm hot.c", "x.asm: dot: is assembly"),
        ("gcc -O2 -c -x c - -o in.o", "in.o: dot: compiled from standard input, which cannot be read again"),
        ("gcc -c made.s", "made.o: dot: assembled, not compiled"),
    ],
)
def test_what_gets_no_versions_says_why(project: Path, run_program: Any, command: str, message: str) -> None:
    assert run_program("gcc", "-S", "hot.c", "-o", "made.s").status == 0
    line = f"{' '.join(LAUNCH)} {{}} {command} < hot.c"
    plain = run_program("sh", "-c", line.format(""))
    assert (
        plain.status == 0
        and plain.stderr.startswith("mavcg: the compiler's object stays: ")
        and message in plain.stderr
    )
    assert run_program("sh", "-c", line.format("--strict")).status == 2


@pytest.mark.long
def test_cold_assembly_and_cold_standard_input_are_left_alone(project: Path, run_program: Any) -> None:
    for command in ("gcc -S cold.c", "gcc -c -x c - -o in.o", "gcc -c cold.s"):
        ended = run_program("sh", "-c", f"{' '.join(LAUNCH)} --strict {command} < cold.c")
        assert ended.status == 0 and ended.stderr == "", command


@pytest.mark.parametrize("word", ["-target", "--target="])
@pytest.mark.sample(1)
def test_zig_compiles_for_the_target_that_it_is_told(mavcg: Any, project: Path, word: str) -> None:
    from mavcg.objects.elf import open_elf
    from mavcg.toolchain.target import host_target

    target, cores = (
        ("aarch64-linux-musl", ["cortex-a55", "cortex-a76"])
        if host_target().arch == "x86_64"
        else ("x86_64-linux-musl", ["haswell", "znver3"])
    )
    config(project, "dot", cores)
    said = [f"{word}{target}"] if word.endswith("=") else [word, target]
    command = [sys.executable, "-m", "ziglang", "cc", *said, "-O2", "-c", "hot.c", "-o", "hot.o"]
    ended = launch(mavcg, "--strict", *command)
    assert ended.status == 0 and f"hot.o: dot (generic, {cores[0]}" in ended.stderr, ended.stderr
    machine = {"aarch64": "EM_AARCH64", "x86_64": "EM_X86_64"}[target.partition("-")[0]]
    assert open_elf(project / "hot.o")["e_machine"] == machine and notes(project / "hot.o")


def test_link_steps_are_left_alone(mavcg: Any, project: Path) -> None:
    assert launch(mavcg, "gcc", "-c", "hot.c").status == 0
    assert launch(mavcg, "gcc", "-c", "main.c").stderr == ""
    linked = launch(mavcg, "gcc", "main.o", "hot.o", "-o", "app")
    assert linked.status == 0 and linked.stderr == "" and notes(project / "app")


def test_compiling_and_linking_at_once_says_what_it_misses(mavcg: Any, project: Path) -> None:
    ended = launch(mavcg, "gcc", "main.c", "hot.c", "-o", "app")
    assert ended.status == 0
    assert "app: dot: compiled and linked by one command; compile to an object first (-c)" in ended.stderr
    assert launch(mavcg, "gcc", "-shared", "-fPIC", "cold.c", "-o", "libcold.so").stderr == ""


def test_link_time_optimisation_says_what_it_misses(mavcg: Any, project: Path) -> None:
    ended = launch(mavcg, "gcc", "-flto", "-c", "hot.c")
    assert ended.status == 0
    assert "hot.o: GCC's -flto leaves code generation to its own linker plugin, and versions are made" in ended.stderr
    fat = launch(mavcg, "gcc", "-flto", "-ffat-lto-objects", "-c", "hot.c")
    assert fat.status == 0 and notes(project / "hot.o")


def test_the_compilers_errors_and_warnings_pass_through(mavcg: Any, project: Path, run_program: Any) -> None:
    (project / "bad.c").write_text("int f( {\n")
    for name, *flags in (("bad.c",), ("hot.c", "-Wall", "-DUNUSED=static int x;", "-include", "unused.h")):
        (project / "unused.h").write_text("static int unused_variable;\n")
        command = ["gcc", *flags, "-c", name, "-o", "out.o"]
        plain, launched = run_program(*command), launch(mavcg, *command)
        assert launched.status == plain.status
        assert launched.stderr.startswith(plain.stderr) and plain.stderr
    assert not (project / "bad.o").exists()


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "launch: no compiler is named; usage: mavcg launch"),
        (["--nonsense", "gcc"], 2, "launch --nonsense: is not an option of mavcg launch"),
        (["--max-growth", "much", "gcc"], 2, "launch --max-growth much: is not a percentage of 0 or more"),
        (["--max-growth=-1", "gcc"], 2, "launch --max-growth -1: is not a percentage of 0 or more"),
        (["no-such-compiler", "-c", "hot.c"], 127, "no-such-compiler: cannot be run (No such file or directory)"),
        (["sh", "-c", "exit 3"], 3, ""),
        (["sh", "-c", "kill -9 $$"], 137, ""),
    ],
)
def test_exit_status(mavcg: Any, project: Path, words: list[str], status: int, message: str) -> None:
    ended = launch(mavcg, *words)
    assert ended.status == status and message in ended.stderr and ended.stdout == ""


def test_help(mavcg: Any) -> None:
    for word in ("--help", "-h"):
        ended = launch(mavcg, word)
        assert ended.status == 0 and "CMAKE_C_COMPILER_LAUNCHER" in ended.stdout
        default, free = f"{DEFAULT_MAX_GROWTH:g}", str(DEFAULT_FREE_BYTES)
        assert f"Default {default}, and {free} bytes in a smaller file" in ended.stdout


def test_help_of_build_states_the_same_bound(mavcg: Any) -> None:
    words = re.sub(r"[\s│|]+", " ", mavcg("build", "--help").stdout)
    assert f"Default {DEFAULT_MAX_GROWTH:g}, and {DEFAULT_FREE_BYTES} bytes in a smaller file" in words


@pytest.mark.long
def test_growth_is_bounded_by_default(mavcg: Any, project: Path, cores: Sequence[str]) -> None:
    """Functions whose versions are more than the file and the free bytes."""
    names = [f"dot{n}" for n in range(24)]
    (project / "hot.c").write_text("".join(HOT.replace("dot(", f"{name}(") for name in names))
    config(project, "dot*", cores)
    made = launch(mavcg, "gcc", "-O3", "-c", "hot.c").stderr

    percent, single, multi = map(int, re.findall(r"growth (\d+) % \((\d+) to (\d+) bytes", made)[0])
    assert 0 < multi - single <= max(single * DEFAULT_MAX_GROWTH / 100, DEFAULT_FREE_BYTES)
    assert percent == round(100 * (multi - single) / single)
    assert re.search(r"bytes would exceed --max-growth 100 %, and gain least per byte", made)


def test_growth_is_bounded_by_the_option(mavcg: Any, project: Path) -> None:
    """A bound that leaves no version."""
    none = launch(mavcg, "--max-growth=0", "gcc", "-O3", "-c", "hot.c").stderr
    assert "growth 0 % (" in none and "would exceed --max-growth 0 %" in none


UNVERSIONABLE = "int dot(int n, ...) { return n; }\n"


def test_what_cannot_be_versioned_keeps_the_plain_object(
    mavcg: Any, project: Path, cores: Sequence[str], run_program: Any
) -> None:
    """A source that gcc takes and clang does not: a nested function."""
    (project / "hot.c").write_text(DOT + " { int twice(int x) { return x + n; } return twice(a[0] * b[0]); }\n")
    plain = run_program("gcc", "-c", "hot.c", "-o", "plain.o")
    assert plain.status == 0

    kept = launch(mavcg, "gcc", "-c", "hot.c", "-o", "hot.o")
    assert kept.status == 0 and kept.stderr.startswith("mavcg: the compiler's object stays: ")
    assert "function definition is not allowed here" in kept.stderr
    assert (project / "hot.o").read_bytes() == (project / "plain.o").read_bytes()

    strict = launch(mavcg, "--strict", "gcc", "-c", "hot.c", "-o", "hot.o")
    assert strict.status == 2 and (project / "hot.o").read_bytes() == (project / "plain.o").read_bytes()


def test_a_refused_function_keeps_the_plain_object(mavcg: Any, project: Path, run_program: Any) -> None:
    (project / "hot.c").write_text(UNVERSIONABLE)
    assert run_program("gcc", "-c", "hot.c", "-o", "plain.o").status == 0
    ended = launch(mavcg, "gcc", "-c", "hot.c", "-o", "hot.o")
    assert ended.status == 0 and "the compiler's object stays: hot.o: dot left as it was: " in ended.stderr
    assert (project / "hot.o").read_bytes() == (project / "plain.o").read_bytes()
    assert launch(mavcg, "--strict", "gcc", "-c", "hot.c", "-o", "hot.o").status == 2


def test_a_function_that_comes_out_equal_keeps_the_plain_object(
    mavcg: Any, project: Path, cores: Sequence[str], run_program: Any
) -> None:
    config(project, "cool", cores)
    assert run_program("gcc", "-c", "cold.c", "-o", "plain.o").status == 0
    ended = launch(mavcg, "--strict", "gcc", "-c", "cold.c")
    assert ended.status == 0
    assert ended.stderr.startswith("mavcg: cold.o: cool (one version for all); growth 0 % (")
    assert ended.stderr.endswith(" s of CPU time); the compiler's own object stays\n")
    assert (project / "cold.o").read_bytes() == (project / "plain.o").read_bytes()
    assert not list(project.glob(".mavcg-*"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "mavcg.toml: not found in "),
        ("[build", "mavcg.toml: not TOML ("),
        ("[build]\nhot = ['dot']\n", "no cores are named"),
        ("[build]\nhot = ['dot']\ncores = ['cortex']\n", "--cores cortex: no such core"),
        ("[build]\nprofile = 'absent.json'\ncores = ['CORE']\n", "absent.json: cannot be read"),
        ("[build]\nhot = ['dot']\ncores = ['CORE']\nmeasurements = 'absent.json'\n", "absent.json: cannot be read"),
    ],
)
def test_a_bad_build_file_breaks_no_build(
    mavcg: Any, project: Path, cores: Sequence[str], text: str | None, message: str
) -> None:
    (project / "mavcg.toml").unlink()
    if text is not None:
        (project / "mavcg.toml").write_text(text.replace("CORE", cores[0]))
    ended = launch(mavcg, "gcc", "-c", "hot.c")
    assert ended.status == 0 and (project / "hot.o").is_file() and not notes(project / "hot.o")
    assert ended.stderr.startswith("mavcg: the compiler's object stays: ") and message in ended.stderr
    assert launch(mavcg, "--strict", "gcc", "-c", "hot.c").status == 2


def test_where_the_build_file_is_looked_for(
    mavcg: Any, project: Path, cores: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = project / "build/sub"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    command = ["gcc", "-c", "../../hot.c", "-o", "hot.o"]
    assert launch(mavcg, *command).status == 0 and notes(deep / "hot.o")

    config(deep, "cool", cores)  # the nearest counts
    assert launch(mavcg, *command).stderr == "" and not notes(deep / "hot.o")

    assert launch(mavcg, "--config", "../../mavcg.toml", *command).status == 0 and notes(deep / "hot.o")
    assert launch(mavcg, *command).stderr == ""
    monkeypatch.setenv("MAVCG_CONFIG", str(project / "mavcg.toml"))
    assert launch(mavcg, *command).status == 0 and notes(deep / "hot.o")
    assert "nowhere.toml: cannot be read" in launch(mavcg, "--config=nowhere.toml", *command).stderr


def test_a_build_for_another_machine_keeps_its_objects(mavcg: Any, project: Path) -> None:
    from mavcg.toolchain.target import host_target

    config(project, "dot", ["cortex-a55" if host_target().arch == "x86_64" else "haswell"])
    ended = launch(mavcg, "gcc", "-c", "hot.c")
    assert ended.status == 0 and not notes(project / "hot.o")


def test_a_fault_of_ours_breaks_no_build(mavcg: Any, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mavcg.program.program.make_versions", lambda *_: 1 / 0)
    ended = launch(mavcg, "gcc", "-c", "hot.c")
    assert ended.status == 0 and (project / "hot.o").is_file()
    assert "the compiler's object stays: a fault of mavcg: ZeroDivisionError" in ended.stderr


@pytest.mark.parametrize("name", ["cold.c", "cold.cpp"])
def test_a_file_without_hot_functions_costs_few_imports(project: Path, run_program: Any, name: str) -> None:
    (project / "cold.cpp").write_text(COLD)
    command = [sys.executable, "-X", "importtime", "-m", "mavcg.cli", "launch", "g++", "-c", name]
    ended = run_program(*command)
    assert ended.status == 0
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "mavcg.program.launching" in imported
    heavy = {"typer", "pandas", "llvmlite", "rich", "matplotlib", "elftools.elf.elffile", "secrets"}
    parts = ("program", "request", "bitcode", "hot_functions", "profiling.demangle")
    assert not imported & (heavy | {f"mavcg.program.{part}" for part in parts})


PROFILE = """\
app 1 [000] 1.0: 90 cycles: 10 dot+0x4 (/data/app)
app 1 [000] 1.1: 10 cycles: 10 cool+0x4 (/data/app)
"""


def test_a_profile_says_what_is_hot_and_is_ranked_once(
    mavcg: Any, project: Path, cores: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", zig_cache())
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    (project / "perf.txt").write_text(PROFILE)
    (project / "mavcg.toml").write_text(
        f"[build]\nprofile = 'perf.txt'\nthreshold = 50\ncores = ['{cores[0]}', '{cores[1]}']\n"
    )
    assert launch(mavcg, "gcc", "-c", "cold.c").stderr == ""
    assert launch(mavcg, "gcc", "-c", "hot.c").status == 0 and notes(project / "hot.o")
    remembered = list((project / "cache/mavcg/hot").iterdir())
    assert len(remembered) == 1

    with monkeypatch.context() as patched:
        patched.setattr("mavcg.program.request.profile_hot", lambda *_: pytest.fail("ranked again"))
        assert "dot (generic" in launch(mavcg, "gcc", "-c", "hot.c").stderr
    remembered[0].write_text("[{")  # a garbled one is made again
    assert "is a damaged entry of the cache; it is made again" in launch(mavcg, "gcc", "-c", "hot.c").stderr
    assert b'"dot"' in remembered[0].read_bytes()


def test_a_cache_that_cannot_be_written_breaks_no_build(
    mavcg: Any, project: Path, cores: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "blocked").write_text("a file where a folder is wanted")
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", zig_cache())
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "blocked"))
    (project / "perf.txt").write_text(PROFILE)
    (project / "mavcg.toml").write_text(f"[build]\nprofile = 'perf.txt'\nthreshold = 50\ncores = ['{cores[0]}']\n")
    ended = launch(mavcg, "gcc", "-c", "cold.c")
    assert ended.status == 0 and ended.stderr == ""


def test_debug_information_of_a_g_build_stays(mavcg: Any, project: Path) -> None:
    from elftools.elf.elffile import ELFFile

    def subprograms(name: str) -> set[str]:
        with open(project / name, "rb") as file:
            elf = ELFFile(file)
            if not elf.has_dwarf_info():
                return set()
            entries = (entry for unit in elf.get_dwarf_info().iter_CUs() for entry in unit.iter_DIEs())
            return {
                entry.attributes["DW_AT_name"].value.decode()
                for entry in entries
                if entry.tag == "DW_TAG_subprogram" and "DW_AT_name" in entry.attributes
            }

    assert launch(mavcg, "gcc", "-g", "-O2", "-c", "hot.c", "-o", "debug.o").status == 0
    assert launch(mavcg, "gcc", "-O2", "-c", "hot.c", "-o", "none.o").status == 0
    assert notes(project / "debug.o") and notes(project / "none.o")
    assert "dot" in subprograms("debug.o")
    assert subprograms("none.o") == set()


TEMPLATE = """\
#pragma once
#include <stdexcept>
#include <vector>
template <typename T>
__attribute__((noinline)) T total(const std::vector<T>& values, T limit) {
    T sum{};
    for (T value : values) {
        if (value > limit)
            throw std::out_of_range("too large");
        sum += value * value;
    }
    return sum;
}
int first(const std::vector<int>& values);
int second(const std::vector<int>& values);
"""
CXX_MAIN = """\
#include <cstdio>
#include "total.hpp"
int main() {
    std::vector<int> small(1000, 3), large{1, 2, 999};
    int caught = 0;
    for (auto f : {first, second})
        try { f(large); } catch (const std::out_of_range&) { caught++; }
    std::printf("%d %d %d\\n", first(small), second(small), caught);
}
"""


@pytest.mark.long
def test_a_hot_template_of_two_files_that_throws(
    mavcg: Any, here: Path, cores: Sequence[str], gcc: object, run_program: Any
) -> None:
    (here / "total.hpp").write_text(TEMPLATE)
    (here / "main.cpp").write_text(CXX_MAIN)
    for name in ("first", "second"):
        call = f'#include "total.hpp"\nint {name}(const std::vector<int>& v) {{ return total(v, 100); }}\n'
        (here / f"{name}.cpp").write_text(call)
    config(here, "total", cores, "keep_slower = true")
    for name in ("first", "second", "main"):
        assert launch(mavcg, "g++", "-O2", "-c", f"{name}.cpp").status == 0
    assert notes(here / "first.o") and notes(here / "second.o") and not notes(here / "main.o")

    linked = run_program("g++", "main.o", "first.o", "second.o", "-o", "app")
    assert linked.status == 0, linked.stderr
    ran = run_program("./app", MAVCG_TRACE="1", MAVCG_CPU_MAP="*=generic")
    assert (ran.status, ran.stdout) == (0, "9000 9000 2\n")
    assert set(versions_run(ran.stderr).values()) == {"generic"}


@pytest.fixture(scope="module")
def plain_edge_app(
    tmp_path_factory: pytest.TempPathFactory, gcc: object, edge_app_objects: Path, run_program: Any
) -> tuple[Path, str]:
    """The example as its own makefile builds it, and what it prints."""
    folder = tmp_path_factory.mktemp("plain") / "edge_app"
    shutil.copytree(EDGE_APP, folder, ignore=shutil.ignore_patterns("build*", "mavcg.toml"))
    shutil.copytree(edge_app_objects, folder / "build")
    assert run_program("make", "-j2", QUICK, cwd=folder).status == 0
    return folder, run_program("build/edge_app", "--iterations", "3", cwd=folder).stdout


def edge_app(folder: Path, hot: str, cores: Sequence[str]) -> Path:
    shutil.copytree(EDGE_APP, folder, ignore=shutil.ignore_patterns("build*", "mavcg.toml"))
    config(folder, hot, cores)
    return folder


def check_edge_app(program: Path, expected: str, hot: set[str], run_program: Any) -> None:
    """Same output as the plain build, whatever version runs, and the one that was told to did run."""
    for core in ("generic", ""):
        environment = {"MAVCG_CPU_MAP": f"*={core}"} if core else {}
        ran = run_program(program, "--iterations", "3", MAVCG_TRACE="1", **environment)
        assert (ran.status, ran.stdout) == (0, expected)
        assert set(versions_run(ran.stderr)) == hot
        if core:
            assert set(versions_run(ran.stderr).values()) == {core}


@pytest.mark.long
def test_an_unchanged_make_build(
    plain_edge_app: tuple[Path, str], tmp_path: Path, cores: Sequence[str], run_program: Any
) -> None:
    plain, expected = plain_edge_app
    folder = edge_app(tmp_path / "edge_app", "gemm_s8", cores)
    # One file of C++ stands for all of them.
    shutil.copytree(plain / "build", folder / "build", ignore=shutil.ignore_patterns("ops", "image.o", "edge_app"))
    launcher = " ".join(LAUNCH)
    made = run_program("make", "-j2", QUICK, f"CC={launcher} gcc", f"CXX={launcher} g++", cwd=folder)
    assert made.status == 0, made.stderr
    (line,) = made.stderr.splitlines()
    assert line.startswith(f"mavcg: gemm_s8.o: gemm_s8 (generic, {cores[0]}, {cores[1]}); growth ")

    check_edge_app(folder / "build/edge_app", expected, {"gemm_s8"}, run_program)
    for path in sorted((plain / "build").rglob("*.o")):
        mine = folder / "build" / path.relative_to(plain / "build")
        # Debug information names the folder: code and data are what must be the same.
        assert bool(notes(mine)) == (path.stem == "gemm_s8")
        if path.stem != "gemm_s8":
            assert contents(mine) == contents(path), path.name


def contents(path: Path) -> dict[str, bytes]:
    """An object's sections that are loaded, and their relocations."""
    from mavcg.objects.elf import open_elf

    sections = {s.name: s.data() for s in open_elf(path).iter_sections() if s["sh_type"] != "SHT_NOBITS"}
    wanted = {name for name in sections if name.removeprefix(".rela").startswith((".text", ".data", ".rodata"))}
    return {name: sections[name] for name in wanted if ".debug" not in name}


CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project(small C CXX)
add_executable(app main.cpp hot.c cold.c)
"""


def cmake_launchers() -> list[str]:
    if not shutil.which("cmake"):
        pytest.skip("cmake is not installed")
    return [f"-DCMAKE_{language}_COMPILER_LAUNCHER={';'.join(LAUNCH)}" for language in ("C", "CXX")]


@pytest.mark.long
def test_a_small_cmake_build(project: Path, tmp_path: Path, cores: Sequence[str], run_program: Any) -> None:
    launchers = cmake_launchers()
    (project / "CMakeLists.txt").write_text(CMAKE)
    (project / "main.cpp").write_text(f'extern "C" {(project / "main.c").read_text()}')
    made = run_program("cmake", "-S", ".", "-B", "out", "-DCMAKE_BUILD_TYPE=Release", *launchers, cwd=project)
    assert made.status == 0, made.stderr
    built = run_program("cmake", "--build", "out", cwd=project)
    assert built.status == 0 and f"mavcg: hot.c.o: dot (generic, {cores[0]}, {cores[1]})" in built.stderr, built.stderr

    ran = run_program(project / "out/app", MAVCG_TRACE="1", MAVCG_CPU_MAP="*=generic")
    assert ran.status == 25 and versions_run(ran.stderr) == {"dot": "generic"}


@pytest.mark.long
@pytest.mark.parametrize("hot", ["depthwise_f32", "*_f32"])
def test_an_unchanged_cmake_build(
    plain_edge_app: tuple[Path, str], tmp_path: Path, cores: Sequence[str], run_program: Any, hot: str
) -> None:
    launchers = cmake_launchers()
    folder = edge_app(tmp_path / "edge_app", hot, cores)
    made = run_program("cmake", "-S", folder, "-B", tmp_path / "out", "-DCMAKE_BUILD_TYPE=Debug", *launchers)
    assert made.status == 0, made.stderr
    built = run_program("cmake", "--build", tmp_path / "out", "-j2")
    assert built.status == 0, built.stderr + built.stdout

    found = versions_run(run_program(tmp_path / "out/edge_app", "--iterations", "1", MAVCG_TRACE="1").stderr)
    assert "depthwise_f32" in found
    check_edge_app(tmp_path / "out/edge_app", plain_edge_app[1], set(found), run_program)


@pytest.mark.long
def test_in_process_and_as_a_command_are_one(project: Path, run_program: Any) -> None:
    """What main() does for speed, without the option parser, is what the verb does."""
    ended = run_program(*LAUNCH, "gcc", "-c", "hot.c", cwd=project)
    assert ended.status == 0 and "mavcg: hot.o: dot (generic" in ended.stderr
    assert run(["launch", "gcc", "-c", "cold.c"]) == 0
    assert os.path.exists("cold.o")


def test_an_object_that_cannot_be_replaced_is_no_fault_of_ours(
    mavcg: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rename of the finished object fails: found by `make inject`."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(project / "hot.o"))

    monkeypatch.setattr("mavcg.program.launching.version_object", full)
    for strict, status in (((), 0), (("--strict",), 2)):
        ended = launch(mavcg, *strict, "gcc", "-c", "hot.c")
        assert ended.status == status and (project / "hot.o").is_file()
        words = f"the compiler's object stays: {project / 'hot.o'}: No space left on device; make room"
        assert words in ended.stderr and "fault" not in ended.stderr
