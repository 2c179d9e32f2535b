"""Build object files from a versioned module: chosen versions, dispatchers, the rest of the module, and a note on it
all.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mavcg import __version__
from mavcg.assembly.tuning import VersionTuning
from mavcg.errors import ToolError
from mavcg.hardware.target import Target
from mavcg.objects.binaries import loaded_bytes, note_assembly, symbol_bytes
from mavcg.objects.elf import is_aligned
from mavcg.passes.asm.transforms.remove_definitions import CannotSeparate
from mavcg.passes.ir.dispatch import Dispatch, RuntimeNames, add_dispatchers, add_single_bodies
from mavcg.passes.ir.hot_module import MERGEABLE, HotModule, version_symbol
from mavcg.passes.ir.module_text import ModuleText, with_entities
from mavcg.passes.ir.shared import keep_for_versions
from mavcg.program_pipeline.object_separation import separate
from mavcg.program_pipeline.version_choice import (
    FunctionChoice,
    Gains,
    GrowthLimit,
    Sizes,
    VersionLimits,
    drop_for_growth,
    drop_slower,
    drop_useless,
    share_equal,
)
from mavcg.program_pipeline.versions import CompiledVersion, VersionedModule, adding_products
from mavcg.runtime.coreset import TABLE_CPUS, CoreSet, symbols
from mavcg.sources.to_assembly import PlainAssembly
from mavcg.toolchain.codegen import CodegenJob, assemble, compile_module

# Elf64_Rela: each address in a dispatcher's tables is relocated at load.
RELOCATION_BYTES = 24
DISPATCHER_POINTERS = 3


@dataclass(frozen=True)
class ModuleObjects:
    """The object files of one module, to be linked together with the runtime.

    Args:
        single: the module's object built without versions, and its note.
        single_bytes: loaded bytes of the object without versions.
        multi_bytes: loaded bytes of `objects`.
        tunings: the machine passes' accounts, by function and core.
        whole: reason why cold functions are not the program's own compiler's; "" if they are, or if it was not
            requested.
        sums_products: functions that add floating-point products up -> True if the program's own base has a fused
            multiply-add for them.
    """

    source: str
    single: tuple[Path, ...]
    objects: tuple[Path, ...]
    choices: tuple[FunctionChoice, ...]
    refused: Mapping[str, str]
    shared_optimisation: frozenset[str]
    single_bytes: int
    multi_bytes: int
    dispatched: bool
    tunings: Mapping[tuple[str, str], VersionTuning] = field(default_factory=dict)
    whole: str = ""
    sums_products: Mapping[str, bool] = field(default_factory=dict)

    @property
    def summary(self) -> dict[str, Any]:
        """The content of the module's note, which `mavcg inspect` reads back."""
        return {
            "mavcg": __version__,
            "source": self.source,
            "functions": [_function_summary(choice, self.tunings) for choice in self.choices],
            "refused": dict(self.refused),
            "single_bytes": self.single_bytes,
            "multi_bytes": self.multi_bytes,
        }


def _function_summary(choice: FunctionChoice, tunings: Mapping[tuple[str, str], VersionTuning]) -> dict[str, Any]:
    linked = [k for k in choice.versions if not k.dropped]
    models = {label: tuning.as_json() for (function, label), tuning in tunings.items() if function == choice.function}
    return {
        "name": choice.function,
        "versions": [
            {"core": k.label, "bytes": k.bytes, "shares_body_with": k.shares_body_with}
            | ({"model": models[k.label]} if k.label in models else {})
            for k in linked
        ],
        "dropped": [{"core": k.label, "why": k.dropped} for k in choice.versions if k.dropped],
    }


def runtime_names(core_set: CoreSet, target: Target) -> RuntimeNames:
    """Return the runtime's symbols in the form that the dispatcher pass takes."""
    names = symbols(core_set)
    return RuntimeNames(names.rseq_offset, names.core_of_cpu, names.select, TABLE_CPUS, target.system != "macos")


def build_objects(
    text: str,
    module: VersionedModule,
    core_set: CoreSet,
    target: Target,
    folder: Path,
    limits: VersionLimits,
    gains: Gains,
    worth: Mapping[tuple[str, str], float],
    program_level: str | None,
    flags: Sequence[str] = ("-fPIC",),
    workers: int = 1,
    progress: Callable[[], None] = lambda: None,
    own: PlainAssembly | None = None,
) -> ModuleObjects:
    """Assemble the distinct_versions versions, choose those to keep, and compile the module around them.

    Args:
        text: the module's IR before versioning, for the single-version build.
        folder: an existing folder for the objects.
        worth: see version_choice.drop_for_growth.
        flags: code generation flags for the module's own code.
        own: the assembly of the program's own compiler, which cold functions are taken from.
    Raises: MavcgError for text that does not compile or assemble.
    """
    level = "3" if program_level == "fast" else program_level or "2"
    stem = f"{Path(module.source).stem}-{module.hot.tag}"
    plain = own.plain if own else folder / f"{stem}.single.o"
    bodies = {body.symbol: body for body in distinct_versions(module.bodies)}
    paths = {symbol: folder / f"{stem}.{number}.o" for number, symbol in enumerate(bodies)}

    with ThreadPoolExecutor(max(1, workers)) as pool:
        plain_job = CodegenJob(text, target, f"compiling {module.source}", level, True, "obj", tuple(flags))
        waiting = [] if own else [pool.submit(compile_module, plain_job, plain)]
        waiting += [
            pool.submit(assemble, b.asm, paths[b.symbol], target, f"{b.function}, {b.label}") for b in bodies.values()
        ]
        for future in waiting:
            future.result()
            progress()
    sizes = {s: Sizes(symbol_bytes(path, s), loaded_bytes(path)) for s, path in paths.items()}
    single_bytes = loaded_bytes(plain)
    choices = choose_versions(module.bodies, sizes, gains, limits, core_set)
    limit = growth_limit(module.bodies, sizes, worth, len(core_set.cores), single_bytes, limits.max_growth)
    if limit:
        choices = drop_for_growth(choices, limit)
    around = _Around(module, core_set, target, folder / stem, paths, level, tuple(flags), own)
    whole = ""
    while True:
        try:
            objects, added = around.objects(choices)
        except CannotSeparate as reason:
            whole, around = str(reason), replace(around, own=None)
            continue
        over = single_bytes + limit.allowed_bytes - sum(map(loaded_bytes, objects)) - added if limit and objects else 0
        if not limit or over >= 0:
            break
        choices = drop_for_growth(choices, limit, limit.added_bytes(choices) + over)
    progress()

    dispatched = bool(objects)
    objects = objects or [plain]
    module_objects = ModuleObjects(
        module.source, (plain,), tuple(objects), tuple(choices), module.refused, module.shared_optimisation,
        single_bytes, sum(map(loaded_bytes, objects)) + added, dispatched,
        {(body.function, body.label): body.tuning for body in module.bodies if body.tuning},
        whole, adding_products(module.hot, [choice.function for choice in choices], target.arch),
    )  # fmt: skip
    if not (choices or module.refused):
        return module_objects  # a note would be empty
    note = folder / f"{stem}.note.o"
    assemble(note_assembly(module_objects.summary, target), note, target, f"the note of {module.source}")
    return replace(module_objects, objects=(*objects, note), single=(plain, note))


@dataclass(frozen=True)
class _Around:
    """Makes a module's objects for a choice of versions.

    Args:
        paths: object file of each version, by symbol.
    """

    module: VersionedModule
    core_set: CoreSet
    target: Target
    stem: Path
    paths: Mapping[str, Path]
    level: str
    flags: tuple[str, ...]
    own: PlainAssembly | None = None

    def objects(self, choices: Sequence[FunctionChoice]) -> tuple[list[Path], int]:
        """Return (objects, bytes that linking adds to them): the module with its dispatchers, then the versions.

        No objects where nothing is dispatched.
        """
        needs: set[str] = set()
        version_objects: list[Path] = []
        for choice in choices:
            by_label = {body.label: body for body in self.module.bodies_of(choice.function)}
            for label in () if choice.is_single else choice.bodies:
                body = by_label[label]
                needs |= body.needs
                path = self.paths[body.symbol]
                if aliases := [k.label for k in choice.versions if k.body == label and k.label != label]:
                    further = _alias_text(self.module.hot, body, aliases, self.target)
                    assemble(body.asm + further, path, self.target, body.function)
                version_objects.append(path)
        if not version_objects:
            return [], 0
        base = self.stem.with_name(f"{self.stem.name}.base.o")
        module, cold = self._rest(choices, needs)
        what = f"compiling {self.module.source}"
        compile_module(CodegenJob(str(module), self.target, what, self.level, True, "obj", self.flags), base)
        pointers = self.core_set.version_count + DISPATCHER_POINTERS
        return [base, *version_objects, *cold], RELOCATION_BYTES * pointers * sum(
            not choice.is_single for choice in choices
        )

    def _rest(self, choices: Sequence[FunctionChoice], needs: set[str]) -> tuple[ModuleText, list[Path]]:
        """Return (module, objects) of everything that is not a version.

        That is the program's own module with its dispatchers; or the dispatchers alone, and the object of the
        program's own
        compiler.
        Raises: CannotSeparate.
        """
        runtime = runtime_names(self.core_set, self.target)
        if self.own is None:
            return _base_module(self.module, choices, needs, runtime), []
        dispatches = [_dispatch(self.module.hot, choice) for choice in choices if not choice.is_single]
        names = [dispatch.name for dispatch in dispatches]
        parts = separate(self.module.hot, names, _single_labels(self.module, choices), needs, self.own.text)
        made = add_dispatchers(self.module.hot, parts.base, dispatches, runtime)
        cold = self.stem.with_name(f"{self.stem.name}.cold.o")
        try:
            self.own.assemble(parts.assembly, cold)
        except ToolError as error:
            raise CannotSeparate(str(error)) from error
        low = next((name for name, align in parts.aligned.items() if not is_aligned(cold, name, align)), None)
        if low:
            raise CannotSeparate(f"the compiler aligns {parts.named[low]} to less than {parts.aligned[low]} bytes")
        return with_entities(made, made.entities), [cold]


def distinct_versions(bodies: Sequence[CompiledVersion]) -> list[CompiledVersion]:
    """Return the first version of each function and key."""
    first: dict[tuple[str, str], CompiledVersion] = {}
    for body in bodies:
        first.setdefault((body.function, body.key), body)
    return list(first.values())


def choose_versions(
    compiled: Sequence[CompiledVersion],
    sizes: Mapping[str, Sizes],
    gains: Gains,
    limits: VersionLimits,
    core_set: CoreSet,
) -> list[FunctionChoice]:
    """Choose each function's versions: equal ones are shared, those known or predicted to bring nothing are dropped."""
    cores = {core.name: core for core in core_set.cores}
    choices = []
    for function in dict.fromkeys(body.function for body in compiled):
        bodies = tuple(body for body in compiled if body.function == function)
        first = {body.key: body for body in reversed(bodies)}
        by_symbol = {body.symbol: sizes[first[body.key].symbol] for body in bodies}
        tunings = {body.label: body.tuning for body in bodies if body.tuning}
        choice = drop_useless(share_equal(bodies, by_symbol), gains, limits.min_gain)
        choices.append(drop_slower(choice, tunings, cores, gains, limits.drop_slower))
    return choices


def growth_limit(
    bodies: Sequence[CompiledVersion],
    sizes: Mapping[str, Sizes],
    worth: Mapping[tuple[str, str], float],
    cores: int,
    single_bytes: int,
    max_growth: float | None,
) -> GrowthLimit | None:
    """Return the bound that --max-growth sets, or None."""
    if max_growth is None:
        return None
    loaded = {(body.function, body.label): sizes[body.symbol] for body in distinct_versions(bodies)}
    # A dispatcher: two entries of code, a table, its relocations; 160 bytes of code were counted on both architectures.
    cost = 160 + (cores + 2) * (8 + 8 + RELOCATION_BYTES) + DISPATCHER_POINTERS * (8 + RELOCATION_BYTES)
    return GrowthLimit(max_growth, single_bytes, loaded, worth, cost)


def _alias_text(hot: HotModule, body: CompiledVersion, labels: Sequence[str], target: Target) -> str:
    """Define further names for a version: those of the versions that share it or were dropped in favour of it."""
    merged = hot.module.linkage(body.function) in MERGEABLE
    if target.system == "macos":
        prefix, hidden, weak = "_", ".private_extern", "\t.weak_definition {name}\n" if merged else ""
        binding = "\t.globl {name}\n" + weak
    else:
        prefix, hidden = "", ".hidden"
        binding = "\t.weak {name}\n" if merged else "\t.globl {name}\n"
    lines = []
    for label in labels:
        name = f'"{prefix}{version_symbol(hot, body.function, label)}"'
        lines.append(f'{binding.format(name=name)}\t{hidden} {name}\n\t.set {name}, "{prefix}{body.symbol}"\n')
    return "".join(lines)


def _base_module(
    module: VersionedModule, choices: Sequence[FunctionChoice], needs: set[str], runtime: RuntimeNames
) -> ModuleText:
    """Return the program's own module: versions' needs are kept, dispatchers replace versioned functions."""
    base = keep_for_versions(module.hot, needs)
    dispatches = [_dispatch(module.hot, choice) for choice in choices if not choice.is_single]
    base = add_dispatchers(module.hot, base, dispatches, runtime)
    base = add_single_bodies(module.hot, base, _single_labels(module, choices))
    return with_entities(base, base.entities)


def _single_labels(module: VersionedModule, choices: Sequence[FunctionChoice]) -> dict[str, list[str]]:
    """Return each function with one version for all cores -> labels of its versions that other versions call."""
    asm = [body.asm for choice in choices if not choice.is_single for body in module.bodies_of(choice.function)]
    return {
        choice.function: [
            k.label
            for k in choice.versions
            if any(version_symbol(module.hot, choice.function, k.label) in text for text in asm)
        ]
        for choice in choices
        if choice.is_single
    }


def _dispatch(hot: HotModule, choice: FunctionChoice) -> Dispatch:
    return Dispatch(choice.function, tuple(version_symbol(hot, choice.function, k.body) for k in choice.versions))
