"""Runs the compiler, assembler and linker that the ziglang wheel brings, and says clearly when they refuse."""

import importlib.util
import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mavcg.errors import ToolError
from mavcg.target import Target

# Said on every zig command: zig adds these by default, and a library of kernels wants none of them.
# User flags follow and win.
GUARDED_CODE_FLAGS = ("-fno-sanitize=all", "-fomit-frame-pointer", "-g0")
PLAIN_CODE_FLAGS = (*GUARDED_CODE_FLAGS, "-fno-stack-protector")

# Branch protection of C: landing pads where calls may arrive through pointers, signed or shadowed return addresses.
# Instructions that processors without it take for no-ops. Of IR: mavcg.passes.ir.protection.
_PROTECTION = {"aarch64": ("-mbranch-protection=standard",), "x86_64": ("-fcf-protection=full",)}

MESSAGE_LINES = 12


def protection_flags(target: Target) -> tuple[str, ...]:
    """Compiler flags for branch protection; none for macOS, whose arm64 ABI has no such marks."""
    return () if target.system == "macos" else _PROTECTION[target.arch]


@cache
def zig_program() -> str:
    """The program that `python -m ziglang` runs; starting it without Python in between saves 50 ms a time."""
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        raise ToolError("the ziglang wheel, mavcg's compiler, is not there; install it: pip install ziglang")
    return str(Path(found.origin).with_name("zig.exe" if os.name == "nt" else "zig"))


def zig_command(tool: str) -> list[str]:
    """Argument vector that starts one of zig's tools: "cc", "c++", "ld.lld", "ar", "objcopy".

    Raises: ToolError when the ziglang wheel is not installed.
    """
    return [zig_program(), tool]


def run_tool(command: Sequence[str], what: str, cwd: Path | None = None) -> str:
    """Run an outside tool; its standard output.

    what: the work in words, for the error message ("linking libapp.so").
    Raises: ToolError with the tool's own first lines when it is missing or fails.
    """
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, errors="replace")
    except FileNotFoundError as error:
        raise ToolError(f"{what}: {command[0]} is not there; install it or name another") from error
    except PermissionError as error:
        raise ToolError(
            f"{what}: {command[0]} cannot be run: {error.strerror}; make it executable or name another"
        ) from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}, no message"]
        more = [f"({len(lines) - MESSAGE_LINES} more lines)"] if len(lines) > MESSAGE_LINES else []
        raise ToolError(f"{what}: failed:\n  " + "\n  ".join([*lines[:MESSAGE_LINES], *more]))
    return done.stdout


def run_zig(tool: str, arguments: Sequence[str], what: str, cwd: Path | None = None) -> str:
    """Run a tool of the ziglang wheel; its standard output. Raises: ToolError when it fails."""
    return run_tool([*zig_command(tool), *arguments], what, cwd)
