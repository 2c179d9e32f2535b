"""Compiles a module's hot functions to assembly, one version per core, and finds equal versions.

This is the first half of the program pipeline, where everything is text; mavcg.program.objects then makes
object files.
"""

import hashlib
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mavcg.assembly.tuning_options import FAST, Tuning, has_machine_passes
from mavcg.assembly.version_tuning import TuningFailure, TuningJob, VersionTuning
from mavcg.errors import ProfileError, fault_text
from mavcg.files.store import NOTHING_KEPT, EntryStore
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.feature_levels import top_level
from mavcg.passes.asm.analysis.identical import names_symbol, refine_keys, without_label
from mavcg.passes.ir.arithmetic import has_fmuladd
from mavcg.passes.ir.attributes import base_features, features_of, fused_types
from mavcg.passes.ir.clone import make_version
from mavcg.passes.ir.hot_module import HotModule, version_symbol
from mavcg.passes.ir.module_text import ModuleText, parse_module
from mavcg.passes.ir.refuse import outlined_regions, why_foreign, why_not
from mavcg.passes.ir.split_vector_loads import split_vector_loads
from mavcg.program.version_failures import VersionFailures, parse_error
from mavcg.program.version_jobs import VersionJobs, definitions_text
from mavcg.toolchain.codegen import CodegenJob, Failure, IrError, canonical, compile_all
from mavcg.toolchain.target import Target

_INSTRUCTION = re.compile(r"^\t[a-z]", re.MULTILINE)


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


def code_level(program_level: str | None) -> str:
    """Return the -O level for versions: the program's own, but at least 2, in debug builds too."""
    return program_level if program_level in ("2", "3", "s", "z") else "3" if program_level in ("fast", None) else "2"


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


def module_tag(source: str, text: str) -> str:
    """Return the tag of a module: a digest of its source's name and its IR."""
    return hashlib.sha256(f"{source}\0{text}".encode(errors="surrogateescape")).hexdigest()[:8]


def make_versions(
    text: str,
    source: str,
    program_level: str | None,
    requested: Sequence[str],
    options: VersionOptions,
    progress: Callable[[], None] = lambda: None,
) -> VersionedModule:
    """Compile the generic version and one version per core of each requested function that the module defines.

    text: the module's IR, not yet optimised. requested: linkage names; names that the module does not define are
    ignored. A function of which a version cannot be made is refused; the others keep theirs.
    Raises: MavcgError if the IR does not parse.
    """
    cores, target, workers = options.levels, options.target, options.workers
    try:
        module = parse_module(canonical(text))
    except IrError as error:
        raise parse_error(source, error) from error
    defined, refused = _functions_to_version(module, requested, target.arch, options.openmp)
    hot = HotModule(module, frozenset(name for name in defined if name not in refused), module_tag(source, text))
    version_jobs = VersionJobs(hot, target, code_level(program_level), options.per_core_rounding, options.code)

    functions = [name for name in defined if name in hot.hot]
    failures = VersionFailures()
    once = _optimise_once(version_jobs, functions, workers, progress, failures)
    versions_of = {name: (None, *cores) for name in functions if name not in failures.reasons}
    jobs, bodies = compile_versions(version_jobs, versions_of, once, {}, options, failures, progress)
    if failures.reasons:  # what failed is refused, and the others must not call versions that it does not have
        failures.add_hosts(module, functions)
        left = [name for name in requested if name not in failures.reasons]
        again = make_versions(text, source, program_level, left, options, progress)
        unplaced = frozenset(failures.reasons.keys() - failures.placed) | again.unplaced
        return replace(again, refused={**refused, **failures.reasons, **again.refused}, unplaced=unplaced)
    keyed = key_by_callees(hot, bodies)
    versions = VersionedModule(hot, source, version_jobs.opt_level, keyed, refused, once, cores)
    if not options.in_bitcode:
        return versions
    return replace(versions, ir={(b.function, b.label): jobs[b.function, b.label].text for b in bodies})


def compile_versions(
    version_jobs: VersionJobs,
    requested: Mapping[str, Sequence[Core | None]],
    once: Mapping[str, str],
    generic: Mapping[str, str],
    options: VersionOptions,
    failures: VersionFailures,
    progress: Callable[[], None],
) -> tuple[Mapping[tuple[str, str], CodegenJob], tuple[CompiledVersion, ...]]:
    """Compile versions and run the machine passes; return the compiler's jobs, and the versions with their tunings.

    requested: for each function the cores, None for generic. once: as in VersionedModule. generic: assembly of generic
    versions that are not requested. failures: receives the functions of which a version cannot be made.
    """
    target, workers, in_bitcode = options.target, options.workers, options.in_bitcode
    tuning = replace(options.tuning, on=False) if in_bitcode else options.tuning
    cores = list({core.name: core for some in requested.values() for core in some if core}.values())
    jobs: dict[tuple[str, str], CodegenJob] = {}
    for name, some in requested.items():
        for core in some:
            label = core.name if core else GENERIC
            with failures.refusing(name, f"its {label} version"):
                jobs[name, label] = version_jobs.version_job(name, core, once.get(name))
    if in_bitcode:
        jobs |= _optimise_in_ir(jobs, _cores_to_split(cores, in_bitcode), workers, failures, options.code)
    elif target.arch == "aarch64":
        split = _cores_to_split(cores, in_bitcode)
        chosen = {at: job for at, job in jobs.items() if at[1] in split}
        jobs |= _optimise_in_ir(chosen, split, workers, failures, options.code)
    compiled = dict(zip(jobs, compile_all(list(jobs.values()), workers, progress, version_jobs.code), strict=True))
    for (name, label), result in compiled.items():
        if isinstance(result, Failure):
            failures.add_failure(name, f"its {label} version", result, jobs[name, label])
    texts = {at: result for at, result in compiled.items() if isinstance(result, str) and at[0] not in failures.reasons}
    known = {**{(name, GENERIC): text for name, text in generic.items()}, **texts}
    modelled = [core for core in cores if not set(core.extensions) & set(core.optional_extensions)]
    untouched = [core for core in modelled if not (tuning.on and has_machine_passes(core))]
    tunings = _model_versions(version_jobs, known, untouched, failures)
    tunable = {at: text for at, text in known.items() if code_bytes(text) <= options.most_bytes or at[1] == GENERIC}
    tunings |= _tune(version_jobs, tunable, cores, workers, progress, tuning, failures) if tuning.on else {}
    level_of = {core.name: core.level_of for core in cores}
    bodies = []
    for (name, label), text in texts.items():
        body = _compiled_version(version_jobs, name, label, *tunings.get((name, label), (text, None)))
        bodies.append(replace(body, level_of=level_of.get(label, "")))
    return jobs, tuple(bodies)


def _cores_to_split(cores: Sequence[Core], in_bitcode: bool) -> frozenset[str]:
    """Return the cores whose vector loads are split in the IR: those of bitcode have no machine passes to do it."""
    in_order = {core.name for core in cores if in_bitcode and core.order == "in" and core.policy.split}
    return frozenset(in_order | {core.name for core in cores if core.policy.split_in_ir})


def _optimise_once(
    version_jobs: VersionJobs,
    functions: Sequence[str],
    workers: int,
    progress: Callable[[], None],
    failures: VersionFailures,
) -> dict[str, str]:
    """Optimise functions once, for all cores, whose rounding would otherwise differ between cores.

    Returns: function -> optimised IR, of those that do round differently.
    """
    what = "the code that its versions share"
    jobs: dict[str, CodegenJob] = {}
    once: dict[str, str] = {}
    for name in functions:
        with failures.refusing(name, what):
            if version_jobs.may_round_differently(name):
                jobs[name] = version_jobs.optimise_once_job(name)
    optimised = dict(zip(jobs, compile_all(list(jobs.values()), workers, progress, version_jobs.code), strict=True))
    for name, result in optimised.items():
        if isinstance(result, Failure):
            failures.add_failure(name, what, result, jobs[name])
            continue
        with failures.refusing(name, what):
            if version_jobs.rounds_differently(name, result):
                once[name] = result
    return once


def _functions_to_version(
    module: ModuleText, requested: Sequence[str], arch: str, openmp: bool
) -> tuple[list[str], dict[str, str]]:
    """Return the requested functions that the module defines, with their OpenMP regions; and refused ones -> reason."""
    named = [name for name in dict.fromkeys(requested) if name in module.entities and _has_body(module, name)]
    defined = list(dict.fromkeys([*named, *(region for name in named for region in outlined_regions(module, name))]))
    refused = {name: reason for name in named if not openmp and (reason := why_foreign(module, name))}
    if refused:
        regions = {region for name in refused for region in outlined_regions(module, name)}
        defined = [name for name in defined if name in named or name not in regions]
    refused |= {name: reason for name in defined if (reason := _why_not(module, name, arch))}
    return defined, refused


def _why_not(module: ModuleText, name: str, arch: str) -> str | None:
    try:
        return why_not(module, name, arch)
    except Exception as error:
        return f"its IR cannot be examined, {fault_text(error)}"


def _compiled_version(
    version_jobs: VersionJobs, name: str, label: str, asm: str, tuning: VersionTuning | None
) -> CompiledVersion:
    version = version_jobs.version(name, label)
    key = without_label(asm, label)
    return CompiledVersion(name, label, version.symbol, asm, key, version.needs, tuning, text_key=key)


def _optimise_in_ir(
    jobs: Mapping[tuple[str, str], CodegenJob],
    to_split: Collection[str],
    workers: int,
    failures: VersionFailures,
    code: EntryStore,
) -> dict[tuple[str, str], CodegenJob]:
    """Optimise these versions, split the loads of those for the cores `to_split`; return jobs that generate their code.

    Versions that LLVM refuses are left out; compiling their original IR then reports the error. failures: receives the
    functions whose loads cannot be split.
    """
    texts = compile_all([replace(job, emit="ir") for job in jobs.values()], workers, lambda: None, code)
    optimised: dict[tuple[str, str], CodegenJob] = {}
    for (at, job), text in zip(jobs.items(), texts, strict=True):
        with failures.refusing(at[0], f"its {at[1]} version"):
            if isinstance(text, str):
                text = canonical(text)
                text = split_vector_loads(text) if at[1] in to_split else text
                optimised[at] = replace(job, text=text, optimise=False)
    return optimised


def _tune(
    version_jobs: VersionJobs,
    texts: Mapping[tuple[str, str], str],
    cores: Sequence[Core],
    workers: int,
    progress: Callable[[], None],
    tuning: Tuning,
    failures: VersionFailures,
) -> dict[tuple[str, str], tuple[str, VersionTuning | None]]:
    """Run the machine passes on the versions whose cores enable them; return (function, core) -> assembly, result."""
    if (
        version_jobs.target.arch != "aarch64" or version_jobs.target.system == "macos"
    ):  # its assembler has other conventions
        return {}
    from mavcg.assembly.tuning import tune_versions

    tuned_cores = {core.name: core for core in cores if has_machine_passes(core)}
    jobs: dict[tuple[str, str], TuningJob] = {}
    for (name, label), text in texts.items():
        if label in tuned_cores:
            with failures.refusing(name, f"its {label} version"):
                jobs[name, label] = version_jobs.tuning_job(name, tuned_cores[label], text, texts[name, GENERIC])
    tuned: dict[tuple[str, str], tuple[str, VersionTuning | None]] = {}
    done = tune_versions(list(jobs.values()), workers, progress, tuning.solver_seconds)
    for (name, label), result in zip(jobs, done, strict=True):
        if isinstance(result, TuningFailure):
            failures.add(name, f"the machine passes for its {label} version fail: {result.message}")
        else:
            tuned[name, label] = result
    return tuned


def code_bytes(asm: str) -> int:
    """Return the bytes of the instructions in AArch64 assembly as LLVM prints it: data and alignment come on top."""
    return 4 * len(_INSTRUCTION.findall(asm))


def _model_versions(
    version_jobs: VersionJobs,
    texts: Mapping[tuple[str, str], str],
    cores: Sequence[Core],
    failures: VersionFailures,
) -> dict[tuple[str, str], tuple[str, VersionTuning | None]]:
    """Return the unchanged versions of these cores with modelled performance; a core without timing is not modelled."""
    if (
        version_jobs.target.arch != "aarch64" or version_jobs.target.system == "macos"
    ):  # its assembly is written otherwise
        return {}
    from mavcg.assembly.tuning import model_version

    known = {core.name: core for core in cores}
    accounts: dict[tuple[str, str], tuple[str, VersionTuning | None]] = {}
    for (name, label), text in texts.items():
        if label not in known:
            continue
        own, generic = (version_symbol(version_jobs.hot, name, each) for each in (label, GENERIC))
        with failures.refusing(name, f"the modelled performance of its {label} version"):
            try:
                account = model_version(known[label], text, own, texts[name, GENERIC], generic)
            except ProfileError:
                account = None
            accounts[name, label] = text, account
    return accounts


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


def adding_products(hot: HotModule, functions: Sequence[str], arch: str) -> dict[str, bool]:
    """Return function that sums floating-point products -> True if every version has a fused multiply-add for them."""
    has_fused = {}
    for name in functions:
        version = make_version(hot, name, GENERIC)
        text = definitions_text(version.module)
        if has_fmuladd(text) or (" fmul " in text and re.search(r" f(add|sub) ", text)):
            attributes = hot.attributes(name)
            has_fused[name] = bool(fused_types(arch, base_features(features_of(attributes), arch)))
    return has_fused


def _has_body(module: ModuleText, name: str) -> bool:
    entity = module.entities[name]
    return entity.kind == "alias" or (entity.kind == "define" and module.linkage(name) != "available_externally")
