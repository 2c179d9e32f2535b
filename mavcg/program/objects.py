"""Builds object files from a versioned module: the chosen versions, dispatchers, the module's other code, a note."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mavcg import __version__
from mavcg.assembly.version_tuning import VersionTuning
from mavcg.files.store import NOTHING_KEPT, EntryStore
from mavcg.objects.inspection import loaded_bytes, note_assembly, symbol_bytes
from mavcg.passes.asm.transforms.remove_definitions import CannotSeparate
from mavcg.program.choose_versions import (
    choose_versions,
    distinct_versions,
    growth_limit,
)
from mavcg.program.dispatched_module import DispatchedModule
from mavcg.program.sources.to_assembly import PlainAssembly
from mavcg.program.version_choice import FunctionChoice, Gains, Sizes, VersionChoice, VersionLimits, with_failed_levels
from mavcg.program.version_failures import FunctionFailures, first_error
from mavcg.program.version_growth import GrowthLimit, drop_for_growth
from mavcg.program.version_jobs import adding_products
from mavcg.program.version_needs import VersionNeeds, needs_with_callees, set_for, version_needs
from mavcg.program.version_values import CompiledVersion, VersionedModule, module_tag
from mavcg.runtime.coreset import CoreSet
from mavcg.toolchain.codegen import AssemblyJob, CodegenJob, assemble, assemble_all, compile_module
from mavcg.toolchain.target import Target


@dataclass(frozen=True)
class ModuleObjects:
    """The object files of one module, to be linked together with the runtime.

    Args:
        single: the module's object without versions, and its note.
        objects: the objects with versions and dispatchers.
        refused: function that was not versioned -> reason.
        shared_optimisation: functions whose fast-math arithmetic was decided once for all versions.
        single_bytes, multi_bytes: loaded bytes of the object without versions, and of `objects`.
        core_sets: those whose tables dispatchers use; () if no function has a dispatcher.
        tunings: (function, core) -> result of the machine passes.
        whole: the reason why cold functions do not come from the program's own compiler; "" if they do, or if that was
            not requested.
        sums_products: function that sums floating-point products -> True if the program's base features have a fused
            multiply-add for them.
        needs: (function, label) -> extensions that the version, with the versions that it calls, needs beyond its base.
        ir_texts: for bitcode, the IR of the module with its dispatchers and of its versions; `objects` then only tell
            sizes.
        labels: of the versions for cores and their feature levels, in the order in which the selector tries them.
        assumed: (function, label) of versions with instructions that mavcg does not know: their needs are all that
            their compiler may use.
    """

    source: str
    single: tuple[Path, ...]
    objects: tuple[Path, ...]
    choices: tuple[FunctionChoice, ...]
    refused: Mapping[str, str]
    shared_optimisation: frozenset[str]
    single_bytes: int
    multi_bytes: int
    core_sets: tuple[CoreSet, ...]
    tunings: Mapping[tuple[str, str], VersionTuning] = field(default_factory=dict)
    whole: str = ""
    sums_products: Mapping[str, bool] = field(default_factory=dict)
    needs: VersionNeeds = field(default_factory=dict)
    ir_texts: tuple[str, ...] = ()
    assumed: frozenset[tuple[str, str]] = frozenset()
    labels: tuple[str, ...] = ()

    @property
    def dispatched(self) -> bool:
        """True if a function has a dispatcher."""
        return bool(self.core_sets)

    def extensions_of(self, function: str, version: VersionChoice) -> dict[str, Any]:
        """Return {"extensions": those that the code which a version runs needs beyond the function's base}.

        "extensions_assumed" is there, and true, if they are not read from the code.
        """
        at = function, version.body
        found = {"extensions": list(self.needs.get(at, ()))}
        return {**found, "extensions_assumed": True} if at in self.assumed else found

    @property
    def summary(self) -> dict[str, Any]:
        """The document of the module's note, which `mavcg inspect` reads."""
        return {
            "mavcg": __version__,
            "source": self.source,
            "functions": [self._function_summary(choice) for choice in self.choices],
            "refused": dict(self.refused),
            "single_bytes": self.single_bytes,
            "multi_bytes": self.multi_bytes,
        }

    def _function_summary(self, choice: FunctionChoice) -> dict[str, Any]:
        name = choice.function
        models = {label: tuning.as_json() for (function, label), tuning in self.tunings.items() if function == name}
        return {
            "name": name,
            "versions": [
                {
                    "core": k.core_type,
                    "version": k.label,
                    "bytes": k.bytes,
                    "shares_body_with": k.shares_body_with,
                }
                | self.extensions_of(name, k)
                | ({"model": models[k.label]} if k.label in models else {})
                for k in choice.tried_versions(self.labels)
                if not k.dropped
            ],
            "dropped": [
                {"core": k.core_type, "version": k.label, "why": k.dropped} for k in choice.versions if k.dropped
            ],
        }


@dataclass(frozen=True)
class ObjectOptions:
    """Settings of the objects to build: their folder, and which versions stay in them.

    folder: an existing folder for the objects. gains: measured ones. shares: function -> its share of the run time,
    0..1. code: where assembled versions are kept, and found again.
    """

    core_set: CoreSet
    target: Target
    folder: Path
    limits: VersionLimits = VersionLimits()
    gains: Gains = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    workers: int = 1
    code: EntryStore = NOTHING_KEPT


def compile_plain(
    text: str, source: str, program_level: str | None, target: Target, folder: Path, flags: Sequence[str] = ("-fPIC",)
) -> Path:
    """Compile a module's IR without versions; return its object. Raises: ToolError for text that does not compile."""
    plain = folder / f"{Path(source).stem}-{module_tag(source, text)}.single.o"
    compile_module(
        CodegenJob(text, target, f"compiling {source}", own_level(program_level), True, "obj", tuple(flags)), plain
    )
    return plain


def own_level(program_level: str | None) -> str:
    """Return the -O level for a module's own code."""
    return "3" if program_level == "fast" else program_level or "2"


def build_objects(
    plain: Path,
    module: VersionedModule,
    program_level: str | None,
    options: ObjectOptions,
    flags: Sequence[str] = ("-fPIC",),
    cold_code: PlainAssembly | None = None,
    next_levels: Callable[[VersionedModule, VersionNeeds], VersionedModule] = lambda module, needs: module,
    progress: Callable[[], None] = lambda: None,
) -> ModuleObjects:
    """Assemble the distinct versions, choose the versions to keep, and compile the module with their dispatchers.

    plain: the module's object without versions. flags: code generation flags for the module's own code. cold_code: the
    assembly of the program's own compiler, which provides the cold functions; None for clang's. next_levels: adds
    versions for the next feature level of cores; returns the same module if there is none. Raises: MavcgError for text
    that does not compile; FunctionFailures for versions that do not assemble.
    """
    core_set, target, folder, limits = options.core_set, options.target, options.folder, options.limits
    gains, shares = options.gains, options.shares
    level = own_level(program_level)
    stem = f"{Path(module.source).stem}-{module.hot.tag}"
    paths: dict[str, Path] = {}
    while True:
        new = [body for body in distinct_versions(module.bodies) if body.symbol not in paths]
        paths |= {body.symbol: folder / f"{stem}.{len(paths) + i}.o" for i, body in enumerate(new)}
        _assemble_versions([(body, paths[body.symbol]) for body in new], options, progress)
        needs, assumed = version_needs(module, paths, target, module.cores)
        above, module = module, next_levels(module, needs)
        if module is above:
            break
    core_set = replace(core_set, cores=module.cores)
    sizes = {s: Sizes(symbol_bytes(path, s), loaded_bytes(path)) for s, path in paths.items()}
    single_bytes = loaded_bytes(plain)
    choices = choose_versions(module.bodies, sizes, gains, limits, module.cores, needs)
    limit = growth_limit(module.bodies, choices, sizes, shares, gains, single_bytes, limits)
    if limit:
        choices = drop_for_growth(choices, limit)
    choices = [with_failed_levels(choice, module.failed_levels) for choice in choices]
    dispatched_module = DispatchedModule(
        module, core_set, target, folder / stem, paths, needs, level, tuple(flags), cold_code
    )
    objects, added, choices, whole = _objects_within_limit(dispatched_module, choices, limit, single_bytes)
    progress()

    needs = needs_with_callees(module, needs, choices, target)
    core_sets = dict.fromkeys(set_for(choice, core_set, needs) for choice in choices if not choice.is_single)
    objects = objects or [plain]
    module_objects = ModuleObjects(
        module.source,
        (plain,),
        tuple(objects),
        tuple(choices),
        module.refused,
        module.shared_optimisation,
        single_bytes,
        sum(map(loaded_bytes, objects)) + added,
        tuple(core_sets),
        {(body.function, body.label): body.tuning for body in module.bodies if body.tuning},
        whole,
        adding_products(module.hot, [choice.function for choice in choices], target.arch),
        needs,
        tuple(dispatched_module.ir_texts(choices)) if module.ir and core_sets else (),
        assumed,
        core_set.names,
    )
    if not (choices or module.refused):
        return module_objects  # a note would be empty
    note = folder / f"{stem}.note.o"
    assemble(note_assembly(module_objects.summary, target), note, target, f"the note of {module.source}")
    return replace(module_objects, objects=(*objects, note), single=(plain, note))


def _assemble_versions(
    bodies: Sequence[tuple[CompiledVersion, Path]], options: ObjectOptions, progress: Callable[[], None]
) -> None:
    """Assemble the versions, some at a time. Raises: FunctionFailures if versions do not assemble."""
    jobs = [AssemblyJob(body.asm, path, f"{body.function}, {body.label}") for body, path in bodies]
    failed: dict[str, str] = {}
    errors = assemble_all(jobs, options.target, options.workers, progress, options.code)
    for (body, _), error in zip(bodies, errors, strict=True):
        if error:
            failed.setdefault(body.function, f"its {body.label} version does not assemble: {first_error(error)}")
    if failed:
        raise FunctionFailures(failed)


def _objects_within_limit(
    dispatched: DispatchedModule, choices: list[FunctionChoice], limit: GrowthLimit | None, single_bytes: int
) -> tuple[list[Path], int, list[FunctionChoice], str]:
    """Make the objects, and again with fewer versions while they exceed the limit on code growth.

    Returns: the objects, the bytes that linking adds to them, the choices, and the reason why cold functions are not
        from the program's own compiler, or "".
    """
    whole = ""
    while True:
        try:
            objects, added = dispatched.objects(choices)
        except CannotSeparate as reason:
            whole, dispatched = str(reason), replace(dispatched, own=None)
            continue
        over = single_bytes + limit.allowed_bytes - sum(map(loaded_bytes, objects)) - added if limit and objects else 0
        if not limit or over >= 0:
            return objects, added, choices, whole
        choices = drop_for_growth(choices, limit, limit.added_bytes(choices) + over)
