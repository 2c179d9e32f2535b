"""Runs the compiler, assembler and linker of the ziglang wheel, and turns their failures into clear errors."""

import contextlib
import importlib.util
import os
import signal
import subprocess
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from mavcg.errors import CannotRun, ToolError
from mavcg.files.disk_space import full_folders
from mavcg.files.scratch import making
from mavcg.toolchain.target import Target


@cache
def compiler_version() -> str:
    """Return the version of the compiler of kernels: in this process, and in builds."""
    return ", ".join(f"{name} {package_version(name) or 'none'}" for name in ("llvmlite", "ziglang"))


def package_version(package: str) -> str:
    """Return the version of an installed package; "" if it is not installed.

    It is in the name of the folder that an installer leaves beside a wheel's package: NAME-VERSION.dist-info (Python
    Packaging User Guide, "Recording installed projects").
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return ""
    beside = [entry.name for entry in Path(spec.origin).parents[1].glob(f"{package}-*.dist-info")]
    if len(beside) == 1:
        return beside[0].removeprefix(f"{package}-").removesuffix(".dist-info")
    # Imported here, since it brings the parser of e-mails: 20 ms that most commands can do without.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""


# On every zig command, against zig's defaults, which a library does not need; the user's flags follow and override.
GUARDED_CODE_FLAGS = ("-fno-sanitize=all", "-fomit-frame-pointer", "-g0")
PLAIN_CODE_FLAGS = (*GUARDED_CODE_FLAGS, "-fno-stack-protector")

# Branch protection of C code: landing pads for calls through pointers, signed or shadowed return addresses. Processors
# without it execute these instructions as no-ops. For IR: mavcg.passes.ir.protection.
_PROTECTION = {"aarch64": ("-mbranch-protection=standard",), "x86_64": ("-fcf-protection=full",)}

MESSAGE_LINES = 12


def protection_flags(target: Target) -> tuple[str, ...]:
    """Return compiler flags for branch protection; () for macOS, whose arm64 ABI does not have it."""
    return () if target.system == "macos" else _PROTECTION[target.arch]


@cache
def zig_program() -> str:
    """Return the path of the program that `python -m ziglang` runs; to run it directly saves 50 ms per call.

    Raises: ToolError if the wheel is not installed.
    """
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise ToolError("the ziglang wheel, mavcg's compiler, is not there; install it: pip install ziglang")
    return str(Path(spec.origin).with_name("zig.exe" if os.name == "nt" else "zig"))


def zig_command(tool: str) -> list[str]:
    """Return the command of one of zig's tools: "cc", "c++", "ld.lld", "ar", "objcopy".

    Raises: ToolError if the ziglang wheel is not installed.
    """
    return [zig_program(), tool]


def run_tool(command: Sequence[str], action: str, cwd: Path | None = None) -> str:
    """Run an external tool and return its standard output.

    Args:
        action: a description of the work, for error messages, such as "linking libapp.so".
    Raises: CannotRun if the tool is missing or may not run; ToolError if it fails, with the first lines of its message.
    """
    try:
        with making:
            started = subprocess.Popen(
                command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
            )
    except FileNotFoundError as error:
        raise CannotRun(f"{action}: {command[0]} is not there; install it or name another") from error
    except PermissionError as error:
        raise CannotRun(
            f"{action}: {command[0]} cannot be run: {error.strerror}; make it executable or name another"
        ) from error
    with started:
        try:
            out, messages = started.communicate()
        except BaseException:
            started.kill()
            raise
    if started.returncode:
        lines = (messages or out).strip().splitlines() or [f"{_describe_end(started.returncode)}, no message"]
        more = [f"({len(lines) - MESSAGE_LINES} more lines)"] if len(lines) > MESSAGE_LINES else []
        full = [f"{words}; make room"] if (words := full_folders(_folders(command, cwd))) else []
        raise ToolError(f"{action}: failed:\n  " + "\n  ".join([*lines[:MESSAGE_LINES], *more, *full]))
    return out


def _folders(command: Sequence[str], cwd: Path | None) -> list[Path]:
    """Return the folders that a command writes to."""
    outputs = [Path(word).parent for flag, word in pairwise(command) if flag == "-o"]
    return [*outputs, *([cwd] if cwd else [])]


def _describe_end(status: int) -> str:
    """Describe how a tool ended: its exit status, or the signal that ended it."""
    with contextlib.suppress(ValueError):
        return f"ended by {signal.Signals(-status).name}"
    return f"exit status {status}"


def run_zig(tool: str, arguments: Sequence[str], action: str, cwd: Path | None = None) -> str:
    """Run a tool of the ziglang wheel and return its standard output. Raises: ToolError if it fails."""
    return run_tool([*zig_command(tool), *arguments], action, cwd)
