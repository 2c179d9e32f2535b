"""The program road as one call: what comes out for what goes in, and that nothing is left when it cannot."""

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.objects.elf import exported_symbols, imports_of, loaded_bytes
from mavcg.objects.inspection import inspect_library
from mavcg.profiles.load import cores_for
from mavcg.program.build_values import BuildRequest
from mavcg.program.hot_symbols import HotSymbol, parse_hot
from mavcg.program.program import build_program
from mavcg.program.sources.compile_commands import CompileUnit, read_command
from mavcg.program.version_choice import Gain
from mavcg.toolchain.target import host_target

DOT = """\
#include <stdarg.h>
int shared_counter = 5;
int dot(const short *a, const short *b, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}
int sum(int n, ...) {
    va_list l;
    va_start(l, n);
    int s = 0;
    while (n--) s += va_arg(l, int);
    va_end(l);
    return s;
}
"""
REST = "extern int shared_counter; int cool(int x) { return x + shared_counter; } int four(void) { return 4; }\n"
SOURCES = {"dot.c": DOT, "rest.c": REST}
Make = Callable[..., BuildRequest]


@pytest.fixture
def make(here: Path, cores: Sequence[str]) -> Make:
    """make(hot, ...): a request for SOURCES in the current folder."""

    def unit(name: str, text: str) -> CompileUnit:
        (here / name).write_text(text)
        command_unit = read_command(["cc", "-O2", "-c", name], here)
        assert isinstance(command_unit, CompileUnit)
        return command_unit

    def make(hot: str, sources: dict[str, str] = SOURCES, **more: Any) -> BuildRequest:
        units = tuple(unit(name, text) for name, text in sources.items())
        request = BuildRequest(here / "lib.so", host_target(), cores_for(list(cores)), parse_hot(hot), units)
        return replace(request, **more)

    return make


def test_every_external_symbol_of_the_input_is_there_and_works(make: Make, here: Path) -> None:
    result = build_program(make("dot"))

    assert exported_symbols(here / "lib.so") == {"dot", "cool", "sum", "four", "shared_counter"}
    library = ctypes.CDLL(str(here / "lib.so"))
    two = (ctypes.c_short * 2)(3, 4)
    assert (library.dot(two, two, 2), library.cool(2), library.sum(3, 1, 2, 3)) == (25, 7, 6)
    assert result.total_bytes == loaded_bytes(here / "lib.so")
    assert (list(result.needed_libraries), list(result.needed_symbols)) == imports_of(here / "lib.so")
    assert os.listdir(here).count("lib.so") == 1 and set(os.listdir(here)) == {"lib.so", *SOURCES}


def test_the_result_says_what_inspect_reads_back(make: Make, here: Path) -> None:
    result = build_program(make("dot,sum"))
    inspection = inspect_library(here / "lib.so")

    assert {name: why for m in result.modules for name, why in m.refused.items()} == dict(inspection.refused)
    assert set(inspection.refused) == {"sum"}
    assert inspection.growth_percent == pytest.approx(result.growth_percent)
    assert inspection.runtime_bytes == result.runtime_bytes > 0
    assert [f["name"] for f in inspection.functions] == ["dot"]


def test_without_versions_there_is_no_runtime(make: Make, here: Path) -> None:
    """four comes out equal for every core: it is called directly, and nothing is added."""
    result = build_program(make("four"))
    assert result.runtime_bytes == 0 and result.growth_percent == 0
    assert not any(module.dispatched for module in result.modules)
    assert inspect_library(here / "lib.so").needed == ()


def test_versions_without_gain_are_not_built(make: Make, here: Path, cores: Sequence[str]) -> None:
    slow = {("dot", core): Gain(-0.02, "measured") for core in cores}
    result = build_program(make("dot", gains=slow))
    kept = result.modules[0].choices[0].versions
    assert [k.body for k in kept] == ["generic"] * 3
    assert all(k.dropped.startswith("-2.0% over generic (measured), under the required 1.0%") for k in kept[1:])
    assert result.runtime_bytes == 0


def test_what_is_refused_alone_still_builds(make: Make, here: Path) -> None:
    result = build_program(make("sum"))
    assert result.modules[0].refused["sum"] and not result.modules[1].refused
    assert ctypes.CDLL(str(here / "lib.so")).sum(2, 20, 3) == 23


def test_hot_functions_of_a_profile_that_are_elsewhere_are_told(make: Make) -> None:
    hot = tuple(HotSymbol(name, named_by_user=False) for name in ("dot", "memcpy"))
    assert [symbol.given_name for symbol in build_program(replace(make("dot"), hot=hot)).not_found] == ["memcpy"]


def test_nothing_to_version_is_an_error(make: Make, here: Path) -> None:
    hot = tuple(HotSymbol(name, named_by_user=False) for name in "abcdef")
    with pytest.raises(MavcgError, match=r"nothing to version: none .* add the sources that hold them \(a, b, c, d\)"):
        build_program(replace(make("dot"), hot=hot))
    assert not (here / "lib.so").exists()


@pytest.mark.parametrize("fault", ["source", "link", "name"])
def test_an_older_library_stays_when_a_build_fails(make: Make, here: Path, fault: str) -> None:
    (here / "lib.so").write_bytes(b"older")
    request = make("dot")
    if fault == "source":
        (here / "rest.c").write_text("int broken(")
    elif fault == "link":
        (here / "rest.c").write_text("int dot(void) { return 2; }\n")  # defined twice
    else:
        request = replace(request, hot=parse_hot("absent"))
    with pytest.raises(MavcgError) as told:
        build_program(request)
    assert {"source": "rest.c", "link": "linking", "name": "--hot absent"}[fault] in str(told.value)
    assert (here / "lib.so").read_bytes() == b"older" and set(os.listdir(here)) == {"lib.so", *SOURCES}


def test_progress_tells_each_step(make: Make) -> None:
    told: list[str] = []
    build_program(make("dot"), told.append)
    assert "compiled dot.c to LLVM IR" in told and "compiling the run-time selector" in told
    assert "compiling versions of dot.c" in told and told[-1].startswith("linking ")
    assert len(told) >= 6


def test_ir_and_sources_build_alike(make: Make, here: Path, run_program: Any) -> None:
    import sys

    request = make("dot")
    command = [sys.executable, "-m", "ziglang", "cc", "-target", host_target().zig_name, "-O2", "-fPIC", "-g0"]
    command += ["-fno-sanitize=all", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm", "dot.c", "-o", "dot.ll"]
    assert run_program(*command, cwd=here).status == 0
    build_program(replace(request, units=(), ir_files=(here / "dot.ll",)))
    two = (ctypes.c_short * 2)(3, 4)
    assert ctypes.CDLL(str(here / "lib.so")).dot(two, two, 2) == 25
