"""Compile a version per core of a module's hot functions, as assembly, and find versions that are equal.

This is the first half of the versioned build (README.md), in which everything is text; mavcg.program_pipeline.objects
makes object files of it.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.assembly.tuning import TuningJob, VersionTuning, has_open_inline, model_version, tune_versions, why_untouched
from mavcg.assembly.tuning_options import FAST, Tuning, has_machine_passes
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.target import Target
from mavcg.passes.asm.analysis.identical import names_symbol, refine_keys, without_label
from mavcg.passes.ir.arithmetic import (
    declare_fma,
    explicit_fmuladd,
    fuse_contracted,
    has_fast_math,
    has_fmuladd,
    has_narrow_floats,
    has_ordered_reduction,
    sums_of_products,
    without_fast_math,
)
from mavcg.passes.ir.attributes import base_features, choose_cpu, cpu_attributes_of, features_of, fused_types
from mavcg.passes.ir.clone import Version, make_version
from mavcg.passes.ir.definition_text import with_cpu
from mavcg.passes.ir.hot_module import HotModule, version_symbol
from mavcg.passes.ir.module_text import ModuleText, parse_module
from mavcg.passes.ir.openmp import outlined_regions, why_foreign
from mavcg.passes.ir.refuse import why_not
from mavcg.passes.ir.relabel import relabel_module
from mavcg.passes.ir.split_vector_loads import split_vector_loads
from mavcg.toolchain.codegen import CodegenJob, Failure, canonical, compile_all


@dataclass(frozen=True)
class CompiledVersion:
    """One version's assembly as first made, before versions are shared or dropped.

    Args:
        label: "generic" or the core's name.
        symbol: its name in the object.
        key: equal for equal machine code.
        needs: symbols of the module that it uses.
        tuning: the machine passes' account of it, if its core's profile asks for passes.
    """

    function: str
    label: str
    symbol: str
    asm: str
    key: str
    needs: frozenset[str]
    tuning: VersionTuning | None = None


@dataclass(frozen=True)
class VersionedModule:
    """A module with every version of its hot functions compiled.

    Args:
        bodies: all versions.
        refused: function -> reason why it has no versions; it stays in the module as it was.
        shared_optimisation: functions whose fast-math arithmetic was decided once for all versions.
    """

    hot: HotModule
    source: str
    opt_level: str
    bodies: tuple[CompiledVersion, ...]
    refused: Mapping[str, str]
    shared_optimisation: frozenset[str]

    def bodies_of(self, function: str) -> tuple[CompiledVersion, ...]:
        """Return a function's versions, generic first, then in the order of the cores."""
        return tuple(body for body in self.bodies if body.function == function)


def code_level(program_level: str | None) -> str:
    """Return the -O level that versions are made with: the program's own, but at least 2.

    A hot function of a debug build is versioned to be fast.
    """
    return program_level if program_level in ("2", "3", "s", "z") else "3" if program_level in ("fast", None) else "2"


def make_versions(
    text: str,
    source: str,
    program_level: str | None,
    requested: Sequence[str],
    cores: Sequence[Core],
    target: Target,
    workers: int = 1,
    per_core_rounding: bool = False,
    progress: Callable[[], None] = lambda: None,
    tuning: Tuning = FAST,
    openmp: bool = True,
) -> VersionedModule:
    """Compile generic and one version per core of each requested function that the module defines.

    Args:
        text: the module's IR, not yet optimised.
        requested: linkage names; those that the module does not define are ignored.
        per_core_rounding: True to leave fast-math to each core, so that results may differ between cores.
        tuning: settings of the machine passes that cores' profiles ask for.
        openmp: True if LLVM's OpenMP library may be called; otherwise functions with regions that would are refused.
            Their
            outlined regions get versions of their own, which each thread chooses by the core that it is on.
    Raises: MavcgError when the IR does not parse.
    """
    module = parse_module(canonical(text))
    named = [name for name in dict.fromkeys(requested) if name in module.entities and _has_body(module, name)]
    defined = list(dict.fromkeys([*named, *(region for name in named for region in outlined_regions(module, name))]))
    refused = {name: reason for name in named if not openmp and (reason := why_foreign(module, name))}
    if refused:
        regions = {region for name in refused for region in outlined_regions(module, name)}
        defined = [name for name in defined if name in named or name not in regions]
    refused |= {name: reason for name in defined if (reason := why_not(module, name, target.arch))}
    tag = hashlib.sha256(f"{source}\0{text}".encode(errors="surrogateescape")).hexdigest()[:8]
    hot = HotModule(module, frozenset(name for name in defined if name not in refused), tag)
    maker = _Maker(hot, target, code_level(program_level), per_core_rounding)

    functions = [name for name in defined if name in hot.hot]
    optimise_jobs = {name: maker.optimise_once_job(name) for name in functions if maker.may_round_differently(name)}
    optimised = dict(zip(optimise_jobs, compile_all(list(optimise_jobs.values()), workers, progress), strict=True))
    failed = {name: result.message for name, result in optimised.items() if isinstance(result, Failure)}
    once = {name: r for name, r in optimised.items() if isinstance(r, str) and maker.rounds_differently(name, r)}
    jobs: dict[tuple[str, str], CodegenJob] = {}
    for name in functions:
        for core in () if name in failed else (None, *cores):
            jobs[name, core.name if core else GENERIC] = maker.version_job(name, core, once.get(name))
    if target.arch == "aarch64":
        jobs |= _split_in_ir(jobs, {core.name for core in cores if core.policy.split_in_ir}, workers)
    compiled = dict(zip(jobs, compile_all(list(jobs.values()), workers, progress), strict=True))
    for (name, label), result in compiled.items():
        if isinstance(result, Failure):
            failed.setdefault(name, f"its {label} version does not compile: {result.message}")
    if failed:  # what failed is refused, and the others must not call versions that it does not have
        again = make_versions(
            text, source, program_level, [n for n in requested if n not in failed], cores, target,
            workers, per_core_rounding, progress, tuning, openmp,
        )  # fmt: skip
        return replace(again, refused={**refused, **failed, **again.refused})
    texts = {at: result for at, result in compiled.items() if isinstance(result, str)}
    untouched = [core for core in cores if not (tuning.on and has_machine_passes(core))]
    tunings = _model_versions(maker, texts, untouched)
    tunings |= _tune(maker, texts, cores, workers, progress, tuning) if tuning.on else {}
    bodies = tuple(
        maker.body(name, label, *tunings.get((name, label), (text, None))) for (name, label), text in texts.items()
    )
    return VersionedModule(hot, source, maker.opt_level, key_by_callees(hot, bodies), refused, frozenset(once))


def _split_in_ir(
    jobs: Mapping[tuple[str, str], CodegenJob], labels: Collection[str], workers: int
) -> dict[tuple[str, str], CodegenJob]:
    """Optimise the versions of these cores and split their loads; return the jobs that generate their code.

    What LLVM refuses is left out: compiling it as it was says why.
    """
    chosen = {at: job for at, job in jobs.items() if at[1] in labels}
    texts = compile_all([replace(job, emit="ir") for job in chosen.values()], workers, lambda: None)
    return {
        at: replace(job, text=split_vector_loads(canonical(text)), optimise=False)
        for (at, job), text in zip(chosen.items(), texts, strict=True)
        if isinstance(text, str)
    }


def _tune(
    maker: "_Maker",
    texts: Mapping[tuple[str, str], str],
    cores: Sequence[Core],
    workers: int,
    progress: Callable[[], None],
    tuning: Tuning,
) -> dict[tuple[str, str], tuple[str, VersionTuning | None]]:
    """Run the machine passes on the versions whose cores ask for them; by function and core."""
    if maker.target.arch != "aarch64" or maker.target.system == "macos":  # its assembler has other conventions
        return {}
    tuned_cores = {core.name: core for core in cores if has_machine_passes(core)}
    jobs = {
        (name, label): maker.tuning_job(name, tuned_cores[label], text, texts[name, GENERIC])
        for (name, label), text in texts.items()
        if label in tuned_cores
    }
    return {
        at: (text, account)
        for at, (text, account) in zip(
            jobs, tune_versions(list(jobs.values()), workers, progress, tuning.solver_seconds), strict=True
        )
    }


def _model_versions(
    maker: "_Maker", texts: Mapping[tuple[str, str], str], cores: Sequence[Core]
) -> dict[tuple[str, str], tuple[str, VersionTuning | None]]:
    """Return the untouched versions for cores whose model's error is known, with the model's account of each."""
    if maker.target.arch != "aarch64" or maker.target.system == "macos":  # its assembly is written otherwise
        return {}
    known = {core.name: core for core in cores if core.model_error is not None}
    accounts: dict[tuple[str, str], tuple[str, VersionTuning | None]] = {}
    for (name, label), text in texts.items():
        if label in known:
            own, generic = (make_version(maker.hot, name, each).symbol for each in (label, GENERIC))
            accounts[name, label] = text, model_version(known[label], text, own, texts[name, GENERIC], generic)
    return accounts


def key_by_callees(hot: HotModule, bodies: Sequence[CompiledVersion]) -> tuple[CompiledVersion, ...]:
    """Return the versions with keys that also differ where the versions that they call do."""
    made = {(body.function, body.label): body for body in bodies}

    def callees(body: CompiledVersion) -> frozenset[tuple[str, str]]:
        other_functions = [name for name in dict.fromkeys(b.function for b in bodies) if name != body.function]
        return frozenset(
            (n, body.label) for n in other_functions if names_symbol(body.asm, version_symbol(hot, n, body.label))
        )

    keys = refine_keys({at: body.key for at, body in made.items()}, {at: callees(body) for at, body in made.items()})
    return tuple(replace(body, key=keys[body.function, body.label]) for body in bodies)


def adding_products(hot: HotModule, functions: Sequence[str], arch: str) -> dict[str, bool]:
    """Return the functions that add floating-point products up -> True if every version has one instruction for
    that.
    """
    has_fused = {}
    for name in functions:
        version = make_version(hot, name, GENERIC)
        text = _bodies(version.module)
        if has_fmuladd(text) or (" fmul " in text and re.search(r" f(add|sub) ", text)):
            attributes = hot.attributes(name)
            has_fused[name] = bool(fused_types(arch, base_features(features_of(attributes), arch)))
    return has_fused


def _has_body(module: ModuleText, name: str) -> bool:
    entity = module.entities[name]
    return entity.kind == "alias" or (entity.kind == "define" and module.linkage(name) != "available_externally")


@dataclass(frozen=True)
class _Maker:
    """The facts that all jobs of a module share."""

    hot: HotModule
    target: Target
    opt_level: str
    per_core_rounding: bool

    def may_round_differently(self, name: str) -> bool:
        """True if a function leaves arithmetic to the optimiser: by fast-math flags or llvm.fmuladd."""
        text = _bodies(make_version(self.hot, name, GENERIC).module)
        return not self.per_core_rounding and (has_fast_math(text) or has_fmuladd(text))

    def rounds_differently(self, name: str, optimised: str) -> bool:
        """True if the optimiser used that freedom, so that its choices for the generic version must hold for all.

        Fast-math: always. llvm.fmuladd: where it went into an ordered reduction, of vectors or interleaved, which LLVM
        does not fuse while it fuses the loop's remainder; anywhere else every version fuses it alike.
        """
        version = make_version(self.hot, name, GENERIC)
        if has_fast_math(_bodies(version.module)):
            return True
        fused = self._fused_types(version)
        if not fused or has_ordered_reduction(optimised):
            return bool(fused)
        split = sums_of_products(optimised, fused)
        if not split:
            return False
        # Products that the program itself adds up are there, too, when no multiply-add can be split.
        text = self._explicit(version, str(with_cpu(version.module, self._cpu_texts(version, None))))
        [explicit] = compile_all([replace(self._job(name, GENERIC, text), emit="ir")], 1, lambda: None)
        return isinstance(explicit, Failure) or split > sums_of_products(explicit, fused)

    def optimise_once_job(self, name: str) -> CodegenJob:
        version = make_version(self.hot, name, GENERIC)
        text = str(with_cpu(version.module, self._cpu_texts(version, None)))
        return replace(self._job(name, GENERIC, text), emit="ir")

    def version_job(self, name: str, core: Core | None, common: str | None) -> CodegenJob:
        label = core.name if core else GENERIC
        version = make_version(self.hot, name, label)
        if common is None:
            text = str(with_cpu(version.module, self._cpu_texts(version, core)))
            return self._job(name, label, self._explicit(version, text))
        module = relabel_module(canonical(common), GENERIC, label)
        module = parse_module(fuse_contracted(str(module), self._fused_types(version)))
        texts = self._cpu_texts(version, core)
        fallback = texts[version.symbol]
        with_cpus = with_cpu(module, {s: texts.get(s, fallback) for s in module.definitions()})
        text = canonical(without_fast_math(self._explicit(version, str(with_cpus))))
        return replace(self._job(name, label, text), optimise=False)

    def body(self, name: str, label: str, asm: str, tuning: VersionTuning | None) -> CompiledVersion:
        version = make_version(self.hot, name, label)
        return CompiledVersion(name, label, version.symbol, asm, without_label(asm, label), version.needs, tuning)

    def tuning_job(self, name: str, core: Core, asm: str, generic_asm: str) -> TuningJob:
        version, generic = (make_version(self.hot, name, label) for label in (core.name, GENERIC))
        ir = str(version.module)
        return TuningJob(core, asm, version.symbol, generic_asm, generic.symbol, why_untouched(ir), has_open_inline(ir))

    def _explicit(self, version: Version, text: str) -> str:
        """Make explicit the arithmetic that LLVM leaves to the target, unless each core may decide it."""
        if self.per_core_rounding:
            return text
        return declare_fma(explicit_fmuladd(text, self._fused_types(version)))

    def _fused_types(self, version: Version) -> frozenset[str]:
        """Return the scalar types whose multiply-add is fused in every version of this function."""
        by_function = [fused_types(self.target.arch, self._base(origin)) for origin in version.origins.values()]
        return frozenset.intersection(*by_function)

    def _base(self, origin: str) -> tuple[str, ...]:
        attributes = self.hot.attributes(origin)
        return base_features(features_of(attributes), self.target.arch)

    def _cpu_texts(self, version: Version, core: Core | None) -> dict[str, str]:
        if core is None:
            own = {s: self.hot.attributes(o) for s, o in version.origins.items()}
            return {symbol: cpu_attributes_of(attributes) for symbol, attributes in own.items()}
        narrow = has_narrow_floats(_bodies(version.module))
        return {s: choose_cpu(core, self._base(o), narrow).text for s, o in version.origins.items()}

    def _job(self, name: str, label: str, text: str) -> CodegenJob:
        what = f"compiling {name} for {label}"
        return CodegenJob(text, self.target, what, self.opt_level)


def _bodies(module: ModuleText) -> str:
    return "\n".join(entity.text for entity in module.entities.values() if entity.kind == "define")
