"""Compile a unit of the runtime's C with a library's tables, or take the object from the user's store."""

import os
from collections.abc import Sequence
from pathlib import Path

from mavcg.files.scratch import scratch_folder
from mavcg.runtime.amalgamation import unit_text, write_unit
from mavcg.runtime.build import machine_flags
from mavcg.toolchain.codegen import open_code
from mavcg.toolchain.target import Target
from mavcg.toolchain.zig import protection_flags, run_zig


def unit_object(unit: str, header: str, tables: str, target: Target, flags: Sequence[str], out: Path) -> Path:
    """Write the object to the file out, which appears whole or not at all, and return out.

    unit: of amalgamation.py. header: name by which it includes the tables. flags: of the compiler, without paths;
    those for the target come first. Raises: ToolError.
    """
    flags = [*machine_flags(target), *protection_flags(target), *flags]
    store, key = open_code(), "\0".join([unit_text(unit), header, tables, *flags])
    known = store.get(key)
    with scratch_folder(f".mavcg-{unit}-", out.parent) as scratch:
        made = scratch / out.name
        if known is None:
            (scratch / header).write_text(tables)
            action = f"compiling the {unit.replace('_', '-')} unit for {target.zig_name}"
            run_zig("cc", [*flags, f"-I{scratch}", "-c", str(write_unit(unit, scratch)), "-o", str(made)], action)
            store.put(key, made.read_bytes())
        else:
            made.write_bytes(known)
        os.replace(made, out)
    return out
