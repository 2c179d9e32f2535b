"""Detect the core type of each CPU: of this machine, or of a board from its recorded /proc and /sys.

The runtime's own C code (csrc/detect.c) does it. It is compiled once for this machine, and kept in the user's cache
(mavcg/files/store.py). csrc/detect_api.h declares it, to C and through cffi to Python.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.store import kept_file, own_code_folder
from mavcg.hardware.core import Core
from mavcg.hardware.machine import Machine
from mavcg.runtime.amalgamation import SOURCES, unit_text
from mavcg.runtime.build import RUNTIME_FLAGS, compile_runtime
from mavcg.runtime.coreset import GENERIC_ID, TABLE_CPUS, CoreSet, table_text
from mavcg.runtime.declared import ffi
from mavcg.runtime.needs import x86_needs
from mavcg.toolchain.target import host_target

BY_MAP = "MAVCG_CPU_MAP"  # the source of a core type that the user named
_NEEDS = SOURCES / "x86_needs.h"


@dataclass(frozen=True)
class DetectedCpu:
    """A CPU and its core type.

    core: None if no known core is recognised; such a CPU runs the generic version. how: the source of the detection and
    the value that was read, such as "sysfs midr_el1 0x411fd050".
    """

    cpu: int
    core: str | None
    how: str


def detect(
    root: Path = Path("/"), cores: Sequence[Core] | None = None, cpu_map: str | None = None
) -> list[DetectedCpu]:
    """Return the core type of each CPU, by number, as a built library detects it.

    Args:
        root: folder with a board's recorded proc/ and sys/; "/" is this machine, whose registers are read too.
        cores: cores to distinguish; None for all cores that have profiles.
        cpu_map: a value of MAVCG_CPU_MAP; the environment is not read.
    Raises: MavcgError for a faulty cpu_map and for a root that is not a folder; ToolError if compilation fails.
    """
    if not root.is_dir():
        raise MavcgError(f"{root}: is not a folder; give one that holds a board's proc/ and sys/, or / (this machine)")
    if cores is None:
        from mavcg.profiles.load import load_cores  # the profiles are above this floor for callers that give cores

        # This machine's CPUs are of its architecture, unless a map says otherwise.
        here = root.resolve() == Path("/") and cpu_map is None
        cores = list(load_cores(host_target().arch if here else "").values())
    if root.resolve() != Path("/"):
        return _detect(root, cpu_map, Candidates(CoreSet(tuple(cores))))
    return _detect_unmasked(cpu_map, tuple(cores), ())


def tiles_permitted() -> bool:
    """Request the use of AMX's tile registers in this process, and return True if it is permitted.

    Libraries that mavcg built do so by themselves, before they take a version with AMX.
    """
    return bool(load_detector(Candidates(CoreSet(()))).mavcg_tiles_permitted())


def runnable_machine(machine: Machine) -> Machine:
    """Return a machine as code that is compiled into this process has to take it: without tiles if none are permitted.

    An instruction on tiles raises SIGILL without the permission.
    """
    if not (machine.int8_tiles or machine.bf16_tiles) or tiles_permitted():
        return machine
    return replace(machine, int8_tiles=False, bf16_tiles=False)


@dataclass(frozen=True)
class Candidates:
    """Cores that the detection distinguishes.

    checked: cores of the set that are recognised only on CPUs that have their instructions; a CPU without them is
    recognised as a stand-in of the core. masked: cores outside of the set, whose CPUs are recognised as a stand-in in
    the set.
    """

    core_set: CoreSet
    checked: tuple[Core, ...] = ()
    masked: tuple[Core, ...] = ()


def _detect_unmasked(cpu_map: str | None, cores: tuple[Core, ...], masked: tuple[Core, ...]) -> list[DetectedCpu]:
    """Return this machine's CPUs, each as a core whose instructions it has.

    A hypervisor may mask instructions that all silicon of a core has. Its CPUs are then recognised as the core's
    stand-ins, as in a library that is built for these.
    """
    core_set = CoreSet(cores)
    by_model = _detect(Path("/"), cpu_map, Candidates(core_set, (), masked))
    named = {cpu.core for cpu in by_model if cpu.how != BY_MAP}
    named |= {stand_in for core in cores if core.name in named for stand_in in core.stand_ins}
    checked = tuple(core for core in cores if core.name in named and core.arch == "x86_64")
    if not checked:
        return by_model
    recognised = _detect(Path("/"), cpu_map, Candidates(core_set, checked, masked))
    lacking = {a.core for a, b in zip(by_model, recognised, strict=True) if b.core is None} - {None}
    if not lacking:
        return recognised
    rest = tuple(core for core in cores if core.name not in lacking)
    return _detect_unmasked(cpu_map, rest, (*masked, *(core for core in cores if core.name in lacking)))


def _detect(root: Path, cpu_map: str | None, candidates: Candidates) -> list[DetectedCpu]:
    live, core_set = root.resolve() == Path("/"), candidates.core_set
    library = load_detector(candidates)
    listed, ids, hows = (ffi.new("uint8_t[]", TABLE_CPUS) for _ in range(3))
    seen = ffi.new("uint32_t[]", TABLE_CPUS)
    fault_at, fault_bytes = ffi.new("size_t *"), ffi.new("size_t *")
    map_bytes = os.fsencode(cpu_map) if cpu_map else None
    fault = library.mavcg_detect(
        b"" if live else os.fsencode(root),
        int(live),
        map_bytes or ffi.NULL,
        listed,
        ids,
        hows,
        seen,
        fault_at,
        fault_bytes,
    )
    if fault and map_bytes is not None:
        part = os.fsdecode(map_bytes[fault_at[0] : fault_at[0] + fault_bytes[0]])
        remedy = "write CPUS=CORE,.. as in 0-3=cortex-a55,4-7=generic; `mavcg cores` lists the cores"
        raise MavcgError(f"MAVCG_CPU_MAP: '{part}' {ffi.string(fault).decode()}; {remedy}")
    cpus = [cpu for cpu in range(TABLE_CPUS) if listed[cpu]] or list(range((live and os.cpu_count()) or 0))
    return [describe(library, core_set, cpu, ids[cpu], hows[cpu], seen[cpu]) for cpu in cpus]


def describe(library: Any, core_set: CoreSet, cpu: int, number: int, how: int, identity: int) -> DetectedCpu:
    """Return a CPU with its core type, from the entries of detect's arrays.

    identity: MIDR_EL1, or x86 family << 16 | model, or 0.
    """
    source: str = ffi.string(library.mavcg_how_words(how)).decode()
    if identity >> 24:
        source += f" 0x{identity:08x}"
    elif identity:
        source += f" family {identity >> 16} model {identity & 0xFFFF}"
    if number > GENERIC_ID:
        return DetectedCpu(cpu, core_set.names[number - GENERIC_ID - 1], source)
    mapped = number == GENERIC_ID and source == BY_MAP
    return DetectedCpu(cpu, "generic" if mapped else None, source)


@cache
def load_detector(candidates: Candidates) -> Any:
    """Load the detection library for these cores, after compilation if the cache does not have it.

    If the cache folder belongs to another user or cannot be written, the library is compiled for this process only.
    """
    with own_code_folder() as folder:
        return ffi.dlopen(str(build_detector(candidates, folder)))


def build_detector(candidates: Candidates, folder: Path) -> Path:
    """Return the path of the detection library in this folder, after compilation if it is not there.

    Its name contains a digest of all its inputs, so that an outdated library is never loaded.
    Raises: ToolError if compilation fails.
    """
    target, core_set, checked = host_target(), candidates.core_set, candidates.checked
    others = {core.name: core for core in candidates.masked}
    # The compiler lists a core's instructions only where the library is made: by LLVM's names they are the same.
    names = "".join(f"{core.name} {core.llvm_cpu} {core.llvm_features}\n" for core in checked)
    whole = [unit_text("detect"), table_text(core_set, others), target.zig_name, " ".join(RUNTIME_FLAGS), names]
    parts = [hashlib.sha256(part.encode()).digest() for part in (*whole, _NEEDS.read_text())]
    content = hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]
    flags = ("-shared",) if target.system == "macos" else ("-shared", "-nostdlib")

    def compile_detector(out: Path) -> None:
        table = table_text(core_set, others, {core.name: x86_needs(core) for core in checked})
        compile_runtime("detect", table, target, out, flags)

    return kept_file(folder, f"detect-{content}.so", compile_detector)
