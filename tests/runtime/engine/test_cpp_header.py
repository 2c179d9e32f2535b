"""The C++ header of model libraries: compiled as programs do, and run."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mavcg.graph import DTYPES, TensorType
from mavcg.runtime.cpp_header import cpp_header_text
from mavcg.runtime.model_header import header_text
from mavcg.specs.model_program import Program, ProgramTensor

Build = Callable[..., Path]
Run = Callable[..., subprocess.CompletedProcess[str]]

HERE = Path(__file__).parent
GXX = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
needs_gxx = pytest.mark.skipif(not shutil.which("g++"), reason="g++ is not installed")


@pytest.mark.long
@pytest.mark.sample(1)
@needs_gxx
@pytest.mark.parametrize("flags", [[], ["-fno-exceptions", "-fno-rtti"], ["-DMAVCG_EXCEPTIONS"]])
def test_a_program_with_two_models(build_library: Build, run: Run, flags: list[str], tmp_path: Path) -> None:
    for name in ("exercise", "other_model"):
        for path in build_library(name).parent.iterdir():
            if path.suffix in (".so", ".h", ".hpp"):
                shutil.copy(path, tmp_path)
    command = [*GXX, *flags, f"-I{tmp_path}", str(HERE / "use.cpp"), f"-L{tmp_path}", "-lexercise", "-lother_model"]
    subprocess.run([*command, "-o", str(tmp_path / "use")], check=True)
    weights = np.arange(1000) % 17 * 0.25
    values = np.zeros(1000)
    for _ in range(12):
        values = values[::-1] * 0.5 + weights

    done = run(tmp_path / "use", LD_LIBRARY_PATH=str(tmp_path))
    assert done.stdout.splitlines() == [f"{values[1]:g}", f"{values[1]:g}", "done"]


def write_headers(folder: Path, *programs: Program) -> None:
    for program in programs:
        (folder / f"{program.name}.h").write_text(header_text(program))
        (folder / f"{program.name}.hpp").write_text(cpp_header_text(program))


def compiled(folder: Path, text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "x.cpp").write_text(text)
    return subprocess.run([*GXX, *flags, "-fsyntax-only", "x.cpp"], cwd=folder, capture_output=True, text=True)


@needs_gxx
def test_every_type_and_no_tensors(tmp_path: Path) -> None:
    dtypes = {name: dtype for name, dtype in DTYPES.items() if name != "bf16"}  # which files do not have
    of_each = tuple(ProgramTensor(f"*/ {name}", TensorType(name, (2,))) for name in dtypes)
    write_headers(tmp_path, Program("all", of_each, of_each, (), 0, 0, 0, 0), Program("none", (), (), (), 0, 0, 0, 0))
    done = compiled(
        tmp_path,
        '#include "all.hpp"\n#include "none.hpp"\n'
        "template <class... Span, class R, class C> constexpr std::size_t bytes(R (C::*)(Span...) noexcept) {\n"
        "    return (sizeof(typename Span::element_type) + ... + 0);\n}\n"
        f"static_assert(bytes(&mavcg_all::context::run) == {2 * sum(dtype.itemsize for dtype in dtypes.values())});\n"
        "int main() { return mavcg_none::context().run() + mavcg_none::context().profile({}); }\n",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@needs_gxx
def test_exceptions_where_the_compiler_has_none(tmp_path: Path) -> None:
    write_headers(tmp_path, Program("m", (), (), (), 0, 0, 0, 0))
    done = compiled(tmp_path, '#include "m.hpp"\n', "-DMAVCG_EXCEPTIONS", "-fno-exceptions")
    assert done.returncode and "MAVCG_EXCEPTIONS: the compiler was told to leave exceptions out" in done.stderr


@pytest.mark.long
@needs_gxx
def test_a_span_of_another_type_does_not_compile(tmp_path: Path) -> None:
    t = ProgramTensor("x", TensorType("f32", (4,)))
    write_headers(tmp_path, Program("m", (t,), (t,), (), 0, 0, 0, 0))
    text = '#include "m.hpp"\nint main() { %s x[4] = {}; float y[4]; return mavcg_m::context().run(x, y); }\n'
    assert compiled(tmp_path, text % "float").returncode == 0
    assert compiled(tmp_path, text % "int").returncode != 0


@needs_gxx
def test_the_program_in_the_manual(tmp_path: Path) -> None:
    t = ProgramTensor("x", TensorType("f32", (4,)))
    write_headers(tmp_path, Program("resnet50", (t,), (t,), (), 0, 0, 0, 0))
    manual = (HERE.parents[2] / "docs" / "model-runtime.md").read_text()
    done = compiled(tmp_path, manual.split("```cpp\n")[1].split("```")[0])
    assert done.returncode == 0, done.stderr
