"""Check all files together: each core is distinguishable, and each name exists."""

import itertools
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from mavcg.errors import ProfileError, ToolError
from mavcg.files.child_python import python_command
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.instr_classes import CLASSES, lineage
from mavcg.profiles.board_files import read_board
from mavcg.profiles.core_files import read_core
from mavcg.profiles.folders import files
from mavcg.profiles.rates import rate
from mavcg.profiles.timing import load_timing, own_classes
from mavcg.toolchain.target import parse_target

# Each function of the module has its own target-cpu, so LLVM makes one subtarget for each. For a name that it does not
# know it only prints a warning on stderr, and continues as for "generic".
COMPILE = """
import sys, llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
module = llvm.parse_assembly(sys.stdin.read())
llvm.Target.from_triple(module.triple).create_target_machine().emit_object(module)
"""
Value = TypeVar("Value")
RATE_TOLERANCE = 0.05  # rows have rounded rates, such as 0.67 or 0.6667 of 2 in 3 cycles
# Classes that need one of these extensions; a core without the extension does not lack their facts.
NEEDS = {"crc": "crc", "crypto": "aes", "dot_q": "dotprod", "dot_lane_q": "dotprod", "mmla_q": "i8mm"}
TRIPLES = {"aarch64": "aarch64-unknown-linux-gnu", "x86_64": "x86_64-unknown-linux-gnu"}


def audit() -> tuple[str, ...]:
    """Return a line for each fault of the TOML files, those of mavcg and of MAVCG_PROFILES; () if there is none.

    Raises: ToolError if LLVM cannot be run.
    """
    faults: list[str] = []
    cores = _readable(files("cores"), read_core, faults)
    boards = _readable(files("boards"), read_board, faults)
    faults += [*_alike(cores), *_unreachable(cores), *_dangling_stand_ins(cores), *_dangling_boards(boards, cores)]
    faults += [fault for fault in timing_faults(cores) if fault not in faults]
    return (*faults, *unknown_to_llvm(cores))


def lacking(cores: Mapping[str, Core]) -> dict[str, tuple[str, ...]]:
    """Return, for each core with timing facts, the instruction classes of its instruction set that have no fact.

    This is no fault: a model that meets such an instruction reports it and stops.
    """
    lacking_classes: dict[str, tuple[str, ...]] = {}
    for core in cores.values():
        try:
            known = load_timing(core).classes
        except ProfileError:
            continue
        lacking_classes[core.name] = tuple(
            name
            for name in CLASSES
            if not any(kin in known for kin in lineage(name))
            and all(NEEDS[kin] in core.extensions for kin in lineage(name) if kin in NEEDS)
        )
    return lacking_classes


def unknown_to_llvm(cores: Mapping[str, Core]) -> tuple[str, ...]:
    """Return a line for each name in an [llvm] table that LLVM does not know.

    Raises: ToolError if LLVM cannot be run.
    """
    faults: list[str] = []
    for arch, triple in TRIPLES.items():
        named = [core for core in cores.values() if core.arch == arch]
        if not named:
            continue
        text = f'target triple = "{triple}"\n' + "".join(_function(i, core) for i, core in enumerate(named))
        run = subprocess.run(python_command(COMPILE), input=text, capture_output=True, text=True, check=False)
        if run.returncode:
            raise ToolError(f"llvmlite: {run.stderr.strip().splitlines()[-1:]}; reinstall it: pip install llvmlite")
        for core in named:
            for word in (core.llvm_cpu, core.llvm_tune, *core.llvm_features):
                if word and f"'{word}' is not a recognized" in run.stderr:
                    faults.append(f"cores/{core.name}.toml: llvm: LLVM does not know {word!r}; correct the name")
    return tuple(faults)


def _function(number: int, core: Core) -> str:
    features = ",".join(core.llvm_features)
    attributes = {"target-cpu": core.llvm_cpu, "tune-cpu": core.llvm_tune, "target-features": features}
    words = " ".join(f'"{key}"="{value}"' for key, value in attributes.items() if value)
    return f"define i32 @f{number}(i32 %x) {words} {{\n  ret i32 %x\n}}\n"


def _readable(paths: Mapping[str, Path], read: Callable[[Path], Value], faults: list[str]) -> dict[str, Value]:
    readable: dict[str, Value] = {}
    for name, path in paths.items():
        try:
            readable[name] = read(path)
        except ProfileError as error:
            faults.append(str(error))
    return readable


def _alike(cores: Mapping[str, Core]) -> Iterator[str]:
    """Yield the pairs of cores that match the same CPU."""
    for first, second in itertools.combinations(cores.values(), 2):
        for a, b in itertools.product(first.midr, second.midr):
            same_part = (a.implementer, a.part) == (b.implementer, b.part)
            if same_part and a.variant_min <= b.variant_max and b.variant_min <= a.variant_max:
                yield (
                    f"cores/{first.name}.toml: midr: {a.implementer:#04x}/{a.part:#05x} with variant "
                    f"{max(a.variant_min, b.variant_min)} is also {second.name}; "
                    "separate them by variant_min and variant_max"
                )
        for m, n in itertools.product(first.x86_models, second.x86_models):
            shared = sorted(set(m.models) & set(n.models))
            if (m.vendor, m.family) == (n.vendor, n.family) and shared and first.x86_kind == second.x86_kind:
                yield (
                    f"cores/{first.name}.toml: x86_models: {m.vendor} family {m.family:#x} model {shared[0]:#x} is "
                    f"also {second.name}; give the model to one of them, or separate them by x86_kind"
                )


def _unreachable(cores: Mapping[str, Core]) -> Iterator[str]:
    for core in cores.values():
        if not core.midr and not core.x86_models:
            key = "midr" if core.arch == "aarch64" else "x86_models"
            yield f"cores/{core.name}.toml: {key}: missing, so no CPU is recognised as this core; give it"


def _dangling_stand_ins(cores: Mapping[str, Core]) -> Iterator[str]:
    for core in cores.values():
        for name in core.stand_ins:
            key_path = f"cores/{core.name}.toml: stand_ins: {name}"
            if name == core.name:
                yield f"{key_path} is the core itself; remove it"
            elif name not in cores:
                yield f"{key_path} is not a known core; correct the name or add cores/{name}.toml"
            elif cores[name].arch != core.arch:
                yield f"{key_path} is {cores[name].arch}, not {core.arch}; remove it"


def timing_faults(cores: Mapping[str, Core]) -> Iterator[str]:
    """Yield a line for each timing fact that contradicts others, such as a rate that the units do not allow."""
    for core in cores.values():
        own = own_classes(core)
        try:
            timing = load_timing(core)
        except ProfileError as error:
            if own is not None:
                yield str(error)
            continue
        for row in own or ():
            made = rate(row, timing)
            if abs(made / row.per_cycle - 1) > RATE_TOLERANCE:
                yield (
                    f"cores/{core.name}.toml: instr.{row.name}.per_cycle: {row.per_cycle:g} a cycle, but units, "
                    f"blocks, width and rules make it {made:.4g}; correct the wrong one"
                )


def _dangling_boards(boards: Mapping[str, Board], cores: Mapping[str, Core]) -> Iterator[str]:
    for board in boards.values():
        for name in board.cores:
            key_path = f"boards/{board.name}.toml: clusters: {name}"
            if name not in cores:
                yield f"{key_path} is not a known core; correct the name or add cores/{name}.toml"
            elif cores[name].arch != parse_target(board.target).arch:
                yield f"{key_path} is {cores[name].arch}, but target is {board.target}; correct one of them"
