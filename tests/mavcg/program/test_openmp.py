"""OpenMP regions: versioned where the program links LLVM's library, left to gcc where it links gcc's."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mavcg.objects.elf import function_symbols, undefined_symbols

SOURCE = """\
#include <omp.h>
void region_hot(const short *a, int *out, int n) {
#pragma omp parallel num_threads(3)
    {
        int s = 0;
        for (int i = 0; i < n; i++) s += a[i] * a[i];
#pragma omp critical
        *out += s;
    }
}
int plain_hot(const short *a, int n) {
    int s = 0;
#pragma omp simd reduction(+ : s)
    for (int i = 0; i < n; i++) s += a[i] * a[i] * (omp_get_thread_num() + 1);
    return s;
}
"""
MAIN = """\
#include <stdio.h>
void region_hot(const short *, int *, int);
int plain_hot(const short *, int);
int main(void) {
    short a[50];
    for (int i = 0; i < 50; i++) a[i] = i;
    int out = 0;
    region_hot(a, &out, 50);
    printf("%d %d\\n", out, plain_hot(a, 50));
}
"""
# Of LLVM's OpenMP library what the program calls: a team of three threads, one after the other.
LIBRARY = """\
#include <stdarg.h>
typedef void (*region)(int *, int *, void *, void *, void *);
int omp_get_thread_num(void) { return 0; }
int __kmpc_global_thread_num(void *where) { return 0; }
void __kmpc_push_num_threads(void *where, int thread, int count) {}
void __kmpc_critical(void *where, int thread, void *lock) {}
void __kmpc_end_critical(void *where, int thread, void *lock) {}
void __kmpc_fork_call(void *where, int count, region run, ...) {
    va_list list;
    void *a[3] = {0};
    va_start(list, run);
    for (int i = 0; i < count; i++) a[i] = va_arg(list, void *);
    va_end(list);
    for (int i = 0; i < 3; i++) run(&i, &i, a[0], a[1], a[2]);
}
"""


@pytest.fixture
def project(here: Path, cores: Sequence[str]) -> Path:
    names = ", ".join(f'"{core}"' for core in cores)
    settings = 'runtime = "static"\nkeep_slower = true\n'
    (here / "mavcg.toml").write_text(f'[build]\nhot = ["*_hot"]\ncores = [{names}]\n{settings}')
    for name, text in (("hot.c", SOURCE), ("main.c", MAIN), ("library.c", LIBRARY)):
        (here / name).write_text(text)
    return here


def test_with_gcc_regions_stay_gccs_and_other_functions_get_versions(
    mavcg: Any, project: Path, gcc: object, run_program: Any
) -> None:
    ended = mavcg("launch", "--strict", "gcc", "-O2", "-fopenmp", "-c", "hot.c")
    assert ended.status == 0, ended.stderr
    assert "plain_hot (generic" in ended.stderr
    assert "region_hot left as it was: it has an OpenMP region" in ended.stderr
    assert not [name for name in undefined_symbols(project / "hot.o") if name.startswith("__kmpc")]
    assert run_program("gcc", "-fopenmp", "main.c", "hot.o", "-o", "app").status == 0
    ran = run_program("./app", MAVCG_TRACE="1")
    assert ran.stdout == f"{3 * 40425} 40425\n" and "plain_hot" in ran.stderr


def test_a_file_of_gcc_that_would_be_clangs_as_a_whole_is_refused(mavcg: Any, project: Path, gcc: object) -> None:
    ended = mavcg("launch", "--strict", "gcc", "-O2", "-fopenmp", "--coverage", "-c", "hot.c")
    assert ended.status == 2
    assert "has OpenMP regions, and gcc links gcc's OpenMP library, which clang's code cannot call" in ended.stderr


@pytest.mark.long
def test_with_clang_each_thread_of_a_region_chooses_its_version(
    mavcg: Any, project: Path, cores: Sequence[str], run_program: Any
) -> None:
    (project / "omp.h").write_text("int omp_get_thread_num(void);\n")
    zig = [sys.executable, "-m", "ziglang", "cc"]
    ended = mavcg("launch", "--strict", *zig, "-O2", "-fopenmp", "-I.", "-c", "hot.c")
    assert ended.status == 0, ended.stderr
    names = [name for name, _ in function_symbols(project / "hot.o")]
    assert [name for name in names if ".omp_outlined." in name and name.endswith(f".{cores[0]}")], names
    assert run_program(*zig, "-O2", "main.c", "library.c", "hot.o", "-o", "app").status == 0
    ran = run_program("./app", MAVCG_TRACE="1", MAVCG_CPU_MAP=f"*={cores[0]}")
    assert ran.stdout == f"{3 * 40425} 40425\n"
    assert f"region_hot.omp_outlined {cores[0]} 3" in ran.stderr
