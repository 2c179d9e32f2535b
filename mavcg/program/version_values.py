"""Compiled versions of a module's hot functions, as values, and the keys by which equal ones are found."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mavcg.assembly.tuning_options import FAST, Tuning
from mavcg.assembly.version_tuning import VersionTuning
from mavcg.files.store import NOTHING_KEPT, EntryStore
from mavcg.hardware.core import Core
from mavcg.hardware.feature_levels import top_level
from mavcg.passes.asm.analysis.identical import names_symbol, refine_keys
from mavcg.passes.ir.hot_module import HotModule, version_symbol
from mavcg.toolchain.target import Target


@dataclass(frozen=True)
class CompiledVersion:
    """A version's assembly, before versions are shared or dropped.

    Args:
        label: "generic", the core's name, or that of a feature level of the core.
        level_of: the core, for a version of a feature level; "" else.
        symbol: its name in the object.
        key: equal for versions with equal machine code that call versions with equal machine code.
        text_key: equal for versions with equal machine code but for the versions that they call.
        needs: symbols of the module that it uses.
        calls: functions whose versions of the same label it calls.
        tuning: result of the machine passes, if the core's profile enables any.
    """

    function: str
    label: str
    symbol: str
    asm: str
    key: str
    needs: frozenset[str]
    tuning: VersionTuning | None = None
    calls: frozenset[str] = frozenset()
    level_of: str = ""
    text_key: str = ""


@dataclass(frozen=True)
class FailedLevel:
    """A function without a version for a feature level of a core, and the reason."""

    function: str
    core: str
    level: str
    reason: str


@dataclass(frozen=True)
class VersionedModule:
    """A module with every version of its hot functions compiled.

    Args:
        bodies: all versions.
        refused: function that stays unchanged, without versions -> reason.
        unplaced: those of them whose code failed where no line of the source is known.
        once: function whose fast-math arithmetic was decided once for all versions -> its optimised IR.
        cores: those that have versions, each with its feature levels, in the order in which the selector tries them.
        ir: (function, label) -> the version's optimised IR; only for bitcode, whose code the program's link generates.
        failed_levels: versions of feature levels that could not be made.
    """

    hot: HotModule
    source: str
    opt_level: str
    bodies: tuple[CompiledVersion, ...]
    refused: Mapping[str, str]
    once: Mapping[str, str]
    cores: tuple[Core, ...]
    unplaced: frozenset[str] = frozenset()
    ir: Mapping[tuple[str, str], str] = field(default_factory=dict)
    failed_levels: tuple[FailedLevel, ...] = ()

    @property
    def shared_optimisation(self) -> frozenset[str]:
        """Functions whose fast-math arithmetic was decided once for all versions."""
        return frozenset(self.once)

    def bodies_of(self, function: str) -> tuple[CompiledVersion, ...]:
        """Return a function's versions, generic first, then in the order of the cores."""
        return tuple(body for body in self.bodies if body.function == function)


@dataclass(frozen=True)
class VersionOptions:
    """Settings of the versions to make: rounding, machine passes, OpenMP.

    per_core_rounding: True if fast-math may round differently per core. tuning: options of the machine passes that
    cores' profiles enable. openmp: True if LLVM's OpenMP library may be called: outlined OpenMP regions then get their
    own versions, which each thread chooses by its core. False: functions with such regions are refused. in_bitcode:
    True if the program's link generates the code. Loads are then split in the IR, for in-order cores whose profiles
    enable it; the machine passes do not run. most_bytes: bytes that versions may add; one with more instructions is
    dropped later, so that the machine passes, which mostly add to them, leave it out. optional: True to make versions
    with extensions that vendors may switch off, too. code: where compiled versions are kept, and found again.
    """

    cores: Sequence[Core]
    target: Target
    workers: int = 1
    per_core_rounding: bool = False
    tuning: Tuning = FAST
    openmp: bool = True
    in_bitcode: bool = False
    most_bytes: float = math.inf
    optional: bool = False
    code: EntryStore = NOTHING_KEPT

    @property
    def levels(self) -> tuple[Core, ...]:
        """The cores, each after its level with the extensions that vendors may switch off, if that is requested."""
        above = {core.name: top_level(core) if self.optional and not self.in_bitcode else None for core in self.cores}
        return tuple(level for core in self.cores for level in (above[core.name], core) if level)


def key_by_callees(hot: HotModule, bodies: Sequence[CompiledVersion]) -> tuple[CompiledVersion, ...]:
    """Return the versions with what they call, and keys that differ also if the versions that they call differ."""
    made = {(body.function, body.label): body for body in bodies}
    functions = dict.fromkeys(body.function for body in bodies)

    def callees(body: CompiledVersion) -> frozenset[str]:
        others = [name for name in functions if name != body.function]
        return frozenset(name for name in others if names_symbol(body.asm, version_symbol(hot, name, body.label)))

    calls = {at: callees(body) for at, body in made.items()}
    called = {at: frozenset((name, at[1]) for name in names) for at, names in calls.items()}
    keys = refine_keys({at: body.text_key for at, body in made.items()}, called)
    at_of = [(body, (body.function, body.label)) for body in bodies]
    return tuple(replace(body, key=keys[at], calls=calls[at]) for body, at in at_of)


def module_tag(source: str, text: str) -> str:
    """Return the tag of a module: a digest of its source's name and its IR."""
    return hashlib.sha256(f"{source}\0{text}".encode(errors="surrogateescape")).hexdigest()[:8]
