"""Finds the core type of each CPU of a machine: of this one, or of a board by its recorded /proc and /sys.

The answers come from the runtime's own C (csrc/detect.c), compiled once for this machine and stored in the user's cache
(code_cache.py). csrc/detect_api.h declares it, to C and by cffi to Python.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.hardware.core import Core
from mavcg.hardware.target import host_target
from mavcg.runtime.amalgamation import SOURCES, unit_text
from mavcg.runtime.build import RUNTIME_FLAGS, compile_runtime, x86_needs
from mavcg.runtime.code_cache import cache_folder, cached_file, is_own_folder
from mavcg.runtime.coreset import GENERIC_ID, TABLE_CPUS, CoreSet, table_text
from mavcg.runtime.declared import ffi

BY_MAP = "MAVCG_CPU_MAP"  # the source of a core type that the user named
_NEEDS = SOURCES / "x86_needs.h"


@dataclass(frozen=True)
class DetectedCpu:
    """A CPU and its core type; core: None where no known core is recognised; such a CPU runs the generic
    version.

    how: the source and what was read there, such as "sysfs midr_el1 0x411fd050".
    """

    cpu: int
    core: str | None
    how: str


def detect(
    root: Path = Path("/"), cores: Sequence[Core] | None = None, cpu_map: str | None = None
) -> list[DetectedCpu]:
    """Return the core type of each CPU, by number, as a built library would find it.

    root: a folder with a board's recorded proc/ and sys/; "/" is this machine, whose registers are read too.
    cores: the cores to distinguish; None: all that mavcg.profiles knows.
    cpu_map: a value of MAVCG_CPU_MAP; the environment is not read.
    Raises: MavcgError for a cpu_map with a fault or a root that is not a folder; ToolError when compiling fails.
    """
    if not root.is_dir():
        raise MavcgError(f"{root}: is not a folder; give one that holds a board's proc/ and sys/, or / (this machine)")
    if cores is None:
        from mavcg.profiles.load import load_cores  # the profiles are above this floor for callers that give cores

        cores = list(load_cores().values())
    live = root.resolve() == Path("/")
    core_set = CoreSet(tuple(cores))
    found = _detect(core_set, root, live, cpu_map)
    if not live:
        return found
    # A hypervisor may mask instructions that every silicon of the family has; the selector then takes "generic".
    named = {cpu.core for cpu in found if cpu.how != BY_MAP}
    checked = tuple(core for core in core_set.cores if core.name in named and core.arch == "x86_64")
    return _detect(core_set, root, live, cpu_map, checked) if checked else found


def _detect(
    core_set: CoreSet, root: Path, live: bool, cpu_map: str | None, checked: tuple[Core, ...] = ()
) -> list[DetectedCpu]:
    """Return the CPUs; one of a `checked` core counts as unrecognised where it lacks instructions of that core."""
    library = load_detector(core_set, checked)
    listed, ids, hows = (ffi.new("uint8_t[]", TABLE_CPUS) for _ in range(3))
    seen = ffi.new("uint32_t[]", TABLE_CPUS)
    fault_at, fault_bytes = ffi.new("size_t *"), ffi.new("size_t *")
    map_bytes = os.fsencode(cpu_map) if cpu_map else None
    fault = library.mavcg_detect(
        b"" if live else os.fsencode(root), int(live), map_bytes or ffi.NULL, listed, ids, hows, seen, fault_at,
        fault_bytes,
    )  # fmt: skip
    if fault and map_bytes is not None:
        part = os.fsdecode(map_bytes[fault_at[0] : fault_at[0] + fault_bytes[0]])
        remedy = "write CPUS=CORE,.. as in 0-3=cortex-a55,4-7=generic; `mavcg cores` lists the cores"
        raise MavcgError(f"MAVCG_CPU_MAP: '{part}' {ffi.string(fault).decode()}; {remedy}")
    cpus = [cpu for cpu in range(TABLE_CPUS) if listed[cpu]] or list(range((live and os.cpu_count()) or 0))
    return [describe(library, core_set, cpu, ids[cpu], hows[cpu], seen[cpu]) for cpu in cpus]


def describe(library: Any, core_set: CoreSet, cpu: int, number: int, how: int, seen: int) -> DetectedCpu:
    """Describe one CPU by the entries of detect's arrays; seen: MIDR_EL1, or an x86 family << 16 | model, or 0."""
    source: str = ffi.string(library.mavcg_how_words(how)).decode()
    if seen >> 24:
        source += f" 0x{seen:08x}"
    elif seen:
        source += f" family {seen >> 16} model {seen & 0xFFFF}"
    if number > GENERIC_ID:
        return DetectedCpu(cpu, core_set.names[number - GENERIC_ID - 1], source)
    mapped = number == GENERIC_ID and source == BY_MAP
    return DetectedCpu(cpu, "generic" if mapped else None, source)


@cache
def load_detector(core_set: CoreSet, checked: tuple[Core, ...] = ()) -> Any:
    """Load the detection library for these cores, compiled where the cache does not have it yet.

    Where the cache folder belongs to another user, or cannot be written, it is compiled for this process alone.

    Args:
        checked: the x86 cores whose instructions the library looks for before it recognises them.
    """
    folder = cache_folder()
    if is_own_folder(folder):
        return ffi.dlopen(str(build_detector(core_set, folder, checked)))
    with scratch_folder("mavcg-detect-") as scratch:
        return ffi.dlopen(str(build_detector(core_set, Path(scratch), checked)))


def build_detector(core_set: CoreSet, folder: Path, checked: tuple[Core, ...] = ()) -> Path:
    """Return the detection library's path in this folder, compiled where it is not there.

    Its name has a digest of all that it is made of, so that a stale one is never loaded.
    Raises: ToolError when compiling fails.
    """
    target = host_target()
    # The compiler lists a core's instructions only where the library is made: by LLVM's names they are the same.
    names = "".join(f"{core.name} {core.llvm_cpu} {core.llvm_features}\n" for core in checked)
    whole = [unit_text("detect"), table_text(core_set, {}), target.zig_name, " ".join(RUNTIME_FLAGS), names]
    parts = [hashlib.sha256(part.encode()).digest() for part in (*whole, _NEEDS.read_text())]
    content = hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]
    flags = ("-shared",) if target.system == "macos" else ("-shared", "-nostdlib")

    def compile_detector(out: Path) -> None:
        table = table_text(core_set, {}, {core.name: x86_needs(core) for core in checked})
        compile_runtime("detect", table, target, out, flags)

    return cached_file(folder, f"detect-{content}.so", compile_detector)
