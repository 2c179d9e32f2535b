"""Builds by make and CMake that know nothing of `mavcg launch`, and C++ with templates and exceptions."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mavcg.objects.elf import notes
from tests.mavcg.cli.launch.projects import EDGE_APP, LAUNCH, QUICK, config, launch, versions_run


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
