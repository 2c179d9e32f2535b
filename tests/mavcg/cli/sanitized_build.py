"""`python -m tests.mavcg.cli.sanitized_build ARGUMENTS`: `mavcg ARGUMENTS`, with sanitizers.

The C of engine, drop-ins and BLAS is compiled by gcc for the address and undefined-behaviour sanitizers. Kernels, which
are not C, are as ever, and so is the selector, whose object is kept for other builds. A process that loads such a
library has libasan and libubsan preloaded.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from fuzz.unit_compiler import compile_units_by
from mavcg.cli.app import run
from mavcg.toolchain.zig import run_tool, run_zig

FLAGS = (
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-O1",
    "-g",
    "-fPIC",
    "-pthread",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-w",
)


def compile_checked(tool: str, arguments: Sequence[str], what: str, cwd: Path | None = None) -> str:
    """Stand in for run_zig: C that is compiled goes to gcc with sanitizers, all else to zig."""
    if tool != "cc" or "-c" not in arguments or not any(each.endswith(".c") for each in arguments):
        return run_zig(tool, arguments, what, cwd)
    kept = [each for each in arguments if each.startswith(("-I", "-D"))]
    source = next(each for each in arguments if each.endswith(".c"))
    machine = ("-march=x86-64-v3",) if any("x86_64" in each for each in arguments) else ()
    output = arguments[list(arguments).index("-o") + 1]
    return run_tool(["gcc", *FLAGS, *machine, *kept, "-c", source, "-o", output], what, cwd)


if __name__ == "__main__":
    compile_units_by(compile_checked)
    sys.exit(run(sys.argv[1:]))
