"""What the runtime finds out about a machine, as Python: this one, or a board's recorded /proc and /sys.

The answers come from the runtime's own C (csrc/detect.c), compiled once for the desk and kept in the user's cache
(kept_code.py). csrc/detect_api.h declares it, to C and by cffi to Python.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mavcg.core import Core
from mavcg.errors import MavcgError
from mavcg.runtime.build import RUNTIME_FLAGS, SOURCES, compile_runtime
from mavcg.runtime.coreset import GENERIC_ID, TABLE_CPUS, CoreSet, table_text
from mavcg.runtime.declared import ffi
from mavcg.runtime.kept_code import is_own_folder, kept
from mavcg.scratch import scratch_folder
from mavcg.target import host_target


@dataclass(frozen=True)
class DetectedCpu:
    """A CPU and its core type; core: None where no known core is recognised, which runs the generic version.

    how: the source and what was read there, such as "sysfs midr_el1 0x411fd050".
    """

    cpu: int
    core: str | None
    how: str


def detect(
    root: Path = Path("/"), cores: Sequence[Core] | None = None, cpu_map: str | None = None
) -> list[DetectedCpu]:
    """The core type of each CPU, by number, as a built library would find it.

    root: a folder with a board's recorded proc/ and sys/; "/" is this machine, whose registers are asked as well.
    cores: the cores to tell apart; None: all that mavcg.profiles knows.
    cpu_map: what MAVCG_CPU_MAP would say; the environment is not looked at.
    Raises: MavcgError for a cpu_map with a fault or a root that is not a folder; ToolError when compiling fails.
    """
    if not root.is_dir():
        raise MavcgError(f"{root}: is not a folder; give one that holds a board's proc/ and sys/, or / (this machine)")
    if cores is None:
        from mavcg.profiles.load import load_cores  # the profiles are above this floor for those who give cores

        cores = list(load_cores().values())
    live = root.resolve() == Path("/")
    core_set = CoreSet(tuple(cores))
    library = load_detector(table_text(core_set, {}))
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
        way_out = "write CPUS=CORE,.. as in 0-3=cortex-a55,4-7=generic; `mavcg cores` lists the cores"
        raise MavcgError(f"MAVCG_CPU_MAP: '{part}' {ffi.string(fault).decode()}; {way_out}")
    cpus = [cpu for cpu in range(TABLE_CPUS) if listed[cpu]] or list(range((live and os.cpu_count()) or 0))
    return [describe(library, core_set, cpu, ids[cpu], hows[cpu], seen[cpu]) for cpu in cpus]


def describe(library: Any, core_set: CoreSet, cpu: int, number: int, how: int, seen: int) -> DetectedCpu:
    """One CPU of detect's arrays in words; seen: MIDR_EL1, or an x86 family << 16 | model, or 0."""
    words: str = ffi.string(library.mavcg_how_words(how)).decode()
    if seen >> 24:
        words += f" 0x{seen:08x}"
    elif seen:
        words += f" family {seen >> 16} model {seen & 0xFFFF}"
    if number > GENERIC_ID:
        return DetectedCpu(cpu, core_set.names[number - GENERIC_ID - 1], words)
    mapped = number == GENERIC_ID and words == "MAVCG_CPU_MAP"
    return DetectedCpu(cpu, "generic" if mapped else None, words)


@cache
def load_detector(table: str) -> Any:
    """The detection library for this table of cores, compiled where the cache does not have it yet.

    Where the cache folder is somebody else's, or cannot be written, it is compiled for this process alone.
    """
    folder = cache_folder()
    if is_own_folder(folder):
        return ffi.dlopen(str(detector(table, folder)))
    with scratch_folder("mavcg-detect-") as scratch:
        return ffi.dlopen(str(detector(table, Path(scratch))))


def detector(table: str, folder: Path) -> Path:
    """The detection library's file in this folder, named by what it is made of, so that a stale one is never loaded."""
    target = host_target()
    sources = [path.read_bytes() for path in sorted(SOURCES.iterdir())]
    parts = [*sources, table.encode(), target.zig_name.encode(), " ".join(RUNTIME_FLAGS).encode()]
    content = hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:24]
    flags = ("-shared",) if target.system == "macos" else ("-shared", "-nostdlib")
    return kept(folder, f"detect-{content}", lambda out: compile_runtime("detect.c", table, target, out, flags))


def cache_folder() -> Path:
    """Where compiled helpers are kept: $XDG_CACHE_HOME/mavcg, or ~/.cache/mavcg (XDG Base Directory Specification)."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "mavcg"
