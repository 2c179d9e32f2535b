"""The texts: C compilers have the last word on them elsewhere; here names, limits, and agreement with the C headers."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.graph import DTYPES, TensorType
from mavcg.objects.elf import undefined_symbols
from mavcg.profiles.load import load_board
from mavcg.runtime import library_tables, loading
from mavcg.runtime.amalgamation import SOURCES
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.library_tables import TYPE_CODES
from mavcg.runtime.model_build import engine_object
from mavcg.runtime.model_header import header_text
from mavcg.runtime.model_text import EngineOptions, default_spin_us, kernels_of, tables_text
from mavcg.specs.model_program import OperandAddress, Program, ProgramStep, ProgramTensor
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig

T = TensorType("f32", (2, 3))
STEP = ProgramStep(
    "n", "op", "k_1", (OperandAddress("input"), OperandAddress("arena", 8), OperandAddress("output")), 6, 4, 6
)
PROGRAM = Program("m", (ProgramTensor("x", T),), (ProgramTensor("y", T),), (STEP,), 64, 0, 0, 64)
VERSIONS = {"k_1": ("k_1.generic",)}


def test_the_header_and_python_agree() -> None:
    header = (SOURCES / "engine_api.h").read_text()
    codes = {name.lower(): int(code) for name, code in re.findall(r"MAVCG_([A-Z]\w+) = (\d+)[,\n]", header)}
    statuses = dict(re.findall(r"MAVCG_(\w+) = (-?\d+)", header))

    assert {name: codes[name] for name in TYPE_CODES} == TYPE_CODES
    assert set(TYPE_CODES) == set(DTYPES) - {"bf16"}  # which files do not have: it stays inside
    assert statuses["CANCELLED"] == str(library_tables._CANCELLED) and statuses["PIN"] == str(loading._PIN)
    assert f"#define MAVCG_MODEL_API {library_tables.API}\n" in header
    sizes = re.search(r"element_bytes\[\] .*= \{\n *1, ([\d, ]+),\n", tables_text(PROGRAM, CoreSet(()), VERSIONS))
    assert sizes and [int(s) for s in sizes[1].split(", ")] == [DTYPES[name].itemsize for name in TYPE_CODES]


def test_kernels_are_numbered_by_first_use() -> None:
    steps = tuple(replace(STEP, kernel=k) for k in ("b", "a", "b", "c"))

    assert kernels_of(replace(PROGRAM, steps=steps)) == ("b", "a", "c")


@pytest.mark.long
@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "program",
    [
        replace(PROGRAM, name='*/ "\\\n??/ é', inputs=(ProgramTensor('*/ "q"\\\n', T),)),
        *(replace(PROGRAM, name=name) for name in ("model", "api", "run", "start", "engine", "create", "DEFAULT")),
        Program("empty", (), (), (), 0, 0, 0, 0),
        replace(PROGRAM, inputs=(ProgramTensor("scalar", TensorType("i64", ())),)),
    ],
)
def test_names_and_sizes_that_are_hard_on_c(program: Program, tmp_path: Path) -> None:
    engine_object(tables_text(program, CoreSet(()), VERSIONS), host_target(), tmp_path / "engine.o")
    (tmp_path / "use.c").write_text(header_text(program))
    flags = ["-target", host_target().zig_name, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    run_zig("cc", [*flags, "-c", str(tmp_path / "use.c"), "-o", str(tmp_path / "use.o")], "compiling the header")


def test_the_program_of_the_readme_compiles(tmp_path: Path) -> None:
    """With what it takes for granted around it; the functions that it names are the library's exported ones."""
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    include, _, body = readme.split("```c\n")[1].split("```")[0].partition("\n\n")
    around = "int main(void) {\nstatic float picture[9], scores[9];\n", "return status;\n}\n"
    (tmp_path / "app.c").write_text(f"#include <stdio.h>\n{include}\n{around[0]}{body}{around[1]}")
    (tmp_path / "mobilenet_v2.h").write_text(header_text(replace(PROGRAM, name="mobilenet_v2")))
    flags = ["-target", host_target().zig_name, "-Wall", "-Wextra", "-Werror", "-I."]
    run_zig("cc", [*flags, "-c", "app.c", "-o", "app.o"], "compiling the README's program", tmp_path)

    called = {name for name in undefined_symbols(tmp_path / "app.o") if "mobilenet" in name}
    assert called == {f"mavcg_model_mobilenet_v2_{name}" for name in ("create", "run", "error_text", "destroy")}


def test_the_time_that_threads_poll_is_short_on_battery_boards() -> None:
    phone, workstation = load_board("exynos9820"), load_board("neoverse-n1-server")

    assert (default_spin_us(phone), default_spin_us(workstation), default_spin_us(None)) == (10, 50, 50)
    assert "#define SPIN_US 50\n" in tables_text(PROGRAM, CoreSet(()), VERSIONS)
    assert "#define SPIN_US 10\n" in tables_text(PROGRAM, CoreSet(()), VERSIONS, options=EngineOptions(spin_us=10))
