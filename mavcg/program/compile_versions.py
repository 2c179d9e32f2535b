"""Compiles versions of functions to assembly, and runs the machine passes, or their models, on them."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from mavcg.assembly.tuning_options import Tuning, has_machine_passes
from mavcg.assembly.version_tuning import TuningFailure, TuningJob, VersionTuning
from mavcg.errors import ProfileError
from mavcg.files.store import EntryStore
from mavcg.hardware.core import GENERIC, Core
from mavcg.passes.asm.analysis.identical import without_label
from mavcg.passes.ir.hot_module import version_symbol
from mavcg.passes.ir.split_vector_loads import split_vector_loads
from mavcg.program.version_failures import VersionFailures
from mavcg.program.version_jobs import VersionJobs
from mavcg.program.version_values import CompiledVersion, VersionOptions
from mavcg.toolchain.codegen import CodegenJob, Failure, canonical, compile_all

_INSTRUCTION = re.compile(r"^\t[a-z]", re.MULTILINE)


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


def code_bytes(asm: str) -> int:
    """Return the bytes of the instructions in AArch64 assembly as LLVM prints it: data and alignment come on top."""
    return 4 * len(_INSTRUCTION.findall(asm))


def _cores_to_split(cores: Sequence[Core], in_bitcode: bool) -> frozenset[str]:
    """Return the cores whose vector loads are split in the IR: those of bitcode have no machine passes to do it."""
    in_order = {core.name for core in cores if in_bitcode and core.order == "in" and core.policy.split}
    return frozenset(in_order | {core.name for core in cores if core.policy.split_in_ir})


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


def _compiled_version(
    version_jobs: VersionJobs, name: str, label: str, asm: str, tuning: VersionTuning | None
) -> CompiledVersion:
    version = version_jobs.version(name, label)
    key = without_label(asm, label)
    return CompiledVersion(name, label, version.symbol, asm, key, version.needs, tuning, text_key=key)
