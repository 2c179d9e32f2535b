"""Compile the routines of a BLAS library (csrc/blas_*.c) with its tables."""

import os
from pathlib import Path

from mavcg.files.scratch import scratch_folder
from mavcg.runtime.amalgamation import write_unit
from mavcg.runtime.blas_text import BLAS_TABLES
from mavcg.runtime.build import machine_flags
from mavcg.runtime.model_build import ENGINE_FLAGS
from mavcg.toolchain.target import Target
from mavcg.toolchain.zig import GUARDED_CODE_FLAGS, protection_flags, run_zig


def blas_object(tables: str, target: Target, ilp64: bool, out: Path) -> Path:
    """Compile the unit to the file out, which appears whole or not at all, and return out. Raises: ToolError.

    ilp64: True if routines without a suffix take 64-bit integers.
    """
    with scratch_folder(".mavcg-blas-", out.parent) as scratch:
        (Path(scratch) / BLAS_TABLES).write_text(tables)
        made = Path(scratch) / out.name
        flags = [
            *machine_flags(target),
            *GUARDED_CODE_FLAGS,
            "-fstack-protector-strong",
            *protection_flags(target),
            *ENGINE_FLAGS,
            "-ffp-contract=off",
            f"-I{scratch}",
            *(["-DBLAS_ILP64"] if ilp64 else []),
        ]
        action = f"compiling the BLAS for {target.zig_name}"
        run_zig("cc", [*flags, "-c", str(write_unit("blas", Path(scratch))), "-o", str(made)], action)
        os.replace(made, out)
    return out
