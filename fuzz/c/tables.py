"""Writes what the C targets are compiled with: `python -m fuzz.c.tables FOLDER`.

The cores of the profiles for the selector, the model of the engine's tests with its constants for the engine, and the
accelerator's host side with a program.
"""

import sys
from pathlib import Path

from mavcg.accelerators.host.library import write_host_sources
from mavcg.profiles.load import load_cores
from mavcg.runtime.coreset import CoreSet, table_text
from mavcg.runtime.kernel_versions import versions_of
from mavcg.runtime.model_build import constants_object
from mavcg.runtime.model_header import constants_symbol, header_text
from mavcg.runtime.model_text import tables_text
from mavcg.runtime.needs import X86_BASE, llvm_needs
from mavcg.toolchain.target import host_target
from tests.runtime.engine.conftest import CONSTANTS, KERNELS, TWO_CORES, exercise


def write(folder: Path) -> None:
    """The headers and constants.o."""
    cores = tuple(core for core in load_cores().values() if core.arch == "aarch64")
    (folder / "selector").mkdir()
    (folder / "selector/mavcg_core_table.h").write_text(table_text(CoreSet(cores), {}))
    program = exercise()
    defined = {f"{kernel}.{label}" for kernel in KERNELS for label in ("generic", "a", "b")}
    versions = {kernel: versions_of(kernel, dict.fromkeys(defined, frozenset()), TWO_CORES) for kernel in KERNELS}
    needs = llvm_needs(X86_BASE, ()) if host_target().arch == "x86_64" else (0,) * 7
    (folder / "mavcg_core_table.h").write_text(table_text(TWO_CORES, {}))
    (folder / "mavcg_model_tables.h").write_text(tables_text(program, TWO_CORES, versions, needs))
    (folder / "exercise.h").write_text(header_text(program))
    constants_object([CONSTANTS], constants_symbol(program), host_target(), folder / "constants.o")
    (folder / "accel").mkdir()
    write_host_sources(folder / "accel")
    content = (Path(__file__).parents[1] / "corpus/accel_program/whole").read_bytes()
    numbers = ", ".join(map(str, content))
    (folder / "accel_seed.h").write_text(f"static const unsigned char accel_seed[] = {{{numbers}}};\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
