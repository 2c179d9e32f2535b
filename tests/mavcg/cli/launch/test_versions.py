"""`mavcg launch` before single commands: which files get versions, where the build file is, what is said."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mavcg.cli.app import run
from mavcg.objects.elf import notes
from mavcg.program.version_growth import DEFAULT_FREE_BYTES, DEFAULT_MAX_GROWTH
from mavcg.toolchain import codegen
from tests.conftest import zig_cache
from tests.mavcg.cli.launch.projects import COLD, HOT, LAUNCH, PROFILE, config, labels, launch, versions_run


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


def test_a_source_linked_with_objects_that_have_versions_misses_nothing(mavcg: Any, project: Path) -> None:
    """A program's hot functions were taken for those of the one source that is compiled as it is linked."""
    assert launch(mavcg, "gcc", "-c", "hot.c").status == 0
    linked = launch(mavcg, "--strict", "gcc", "main.c", "hot.o", "-o", "app")
    assert linked.status == 0 and linked.stderr == "" and notes(project / "app")


def test_link_time_optimisation_says_what_it_misses(mavcg: Any, project: Path) -> None:
    ended = launch(mavcg, "gcc", "-flto", "-c", "hot.c")
    assert ended.status == 0
    assert "hot.o: GCC's -flto leaves code generation to its own linker plugin, and versions are made" in ended.stderr
    fat = launch(mavcg, "gcc", "-flto", "-ffat-lto-objects", "-c", "hot.c")
    assert fat.status == 0 and notes(project / "hot.o")


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
        assert "dot (generic" in launch(mavcg, "gcc", "-DA", "-c", "hot.c").stderr
    remembered[0].write_text("[{")  # a garbled one is made again
    assert "is a damaged entry of the cache; it is made again" in launch(mavcg, "gcc", "-DB", "-c", "hot.c").stderr
    assert b'"dot"' in remembered[0].read_bytes()


@pytest.mark.long
def test_in_process_and_as_a_command_are_one(project: Path, run_program: Any) -> None:
    """main(), which skips the option parser for speed, does the same as the verb."""
    ended = run_program(*LAUNCH, "gcc", "-c", "hot.c", cwd=project)
    assert ended.status == 0 and "mavcg: hot.o: dot (generic" in ended.stderr
    assert run(["launch", "gcc", "-c", "cold.c"]) == 0
    assert os.path.exists("cold.o")
