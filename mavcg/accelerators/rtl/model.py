"""Verilog as a library for this machine, by Verilator and g++, kept in the user's cache."""

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from mavcg.accelerators.rtl.sizes import TOP
from mavcg.errors import ToolError
from mavcg.files.scratch import scratch_folder
from mavcg.files.store import kept_file, own_code_folder
from mavcg.runtime.declare import declarations
from mavcg.toolchain.zig import run_tool

_CSRC = Path(__file__).parent / "csrc"
_TRANSLATE = (
    "--cc",
    "--Mdir",
    ".",
    "-O3",
    "--x-assign",
    "0",
    "--x-initial",
    "0",
    "--no-timing",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
    "--top-module",
    TOP,
    "core.v",
)
_COMPILE = (
    "-std=c++17",
    "-O1",
    "-g0",
    "-w",
    "-fPIC",
    "-DVERILATOR=1",
    "-DVM_COVERAGE=0",
    "-DVM_SC=0",
    "-DVM_TRACE=0",
)
_RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
_COMPILERS = 2


@cache
def testbench_ffi() -> Any:
    """Return the cffi interface of the testbench."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(declarations((_CSRC / "testbench.h").read_text(encoding="utf-8")))
    return ffi


def model_library(verilog: str) -> Any:
    """Return the testbench with a core's Verilog as a loaded library, made at its first use.

    Raises: ToolError if Verilator or g++ is missing or fails.
    """
    parts = [verilog.encode(), *(path.read_bytes() for path in sorted(_CSRC.iterdir()))]
    parts.append(" ".join([*_TRANSLATE, *_COMPILE]).encode())
    digest = hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:24]
    with own_code_folder() as folder:
        return testbench_ffi().dlopen(str(kept_file(folder, f"rtl-{digest}.so", lambda out: _make(verilog, out))))


def _make(verilog: str, out: Path) -> None:
    runtime = verilator_sources()
    with scratch_folder("mavcg-rtl-model-") as scratch:
        (scratch / "core.v").write_text(verilog, encoding="utf-8")
        run_verilator([*_TRANSLATE], scratch)
        sources = [*sorted(scratch.glob("*.cpp")), *(runtime / name for name in _RUNTIME), _CSRC / "testbench.cpp"]
        includes = [f"-I{folder}" for folder in (scratch, _CSRC, runtime, runtime / "vltstd")]

        def compile_source(source: Path) -> str:
            made = scratch / f"{source.stem}.o"
            run_tool(["g++", *_COMPILE, *includes, "-c", str(source), "-o", str(made)], f"compiling {source.name}")
            return str(made)

        with ThreadPoolExecutor(_COMPILERS) as pool:
            objects = list(pool.map(compile_source, sources))
        run_tool(["g++", "-shared", *objects, "-pthread", "-o", str(out)], "linking the model of the hardware")


def verilator_program() -> str | None:
    """Return the path of Verilator; None if it is not there."""
    return shutil.which("verilator")


def run_verilator(arguments: list[str], folder: Path) -> str:
    """Run Verilator in a folder and return what it prints. Raises: ToolError if it is missing or fails."""
    program = verilator_program()
    if program is None:
        raise ToolError("Verilator is not there, which executes Verilog; install Debian's verilator")
    return run_tool([program, *arguments], "Verilator", folder)


def verilator_sources() -> Path:
    """Return the folder of the C++ that translated Verilog includes. Raises: ToolError if there is no Verilator."""
    program = verilator_program()
    if program is None:
        raise ToolError("Verilator is not there, which executes Verilog; install Debian's verilator")
    return Path(run_tool([program, "--getenv", "VERILATOR_ROOT"], "Verilator").strip()) / "include"
