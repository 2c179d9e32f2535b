"""Runs the machine passes on the versions of a program, each with its core's timing, in several processes."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from mavcg.assembly.schedule_store import KeptSchedules, open_schedules
from mavcg.assembly.version_tuning import TuningFailure, TuningJob, VersionTuning
from mavcg.errors import MavcgError, fault_text
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.loop_schedule import SchedulingEffort
from mavcg.passes.asm.models.main_loop import (
    ARITHMETIC,
    INSTRUCTIONS,
    MEMORY,
    FunctionRates,
    LoopFigure,
    function_rates,
)
from mavcg.passes.asm.tune import Tuned, tune
from mavcg.profiles.timing import load_timing


def tune_version(job: TuningJob, solver_seconds: float = 0.0) -> tuple[str, VersionTuning]:
    """Tune a version; return its new assembly and what was changed."""
    timing, policy, store = load_timing(job.core), job.core.policy, open_schedules()
    options = (job.why_not, job.open_inline, job.heuristic_seconds, job.account, policy, timing.key(), solver_seconds)
    inputs = (job.asm, job.symbol, job.generic_asm, job.only, *options)
    key = hashlib.sha256(repr(inputs).encode(errors="surrogateescape")).hexdigest()
    if (known := store.read(key, tuple[str, VersionTuning])) is not None:
        return known
    effort = SchedulingEffort(solver_seconds, KeptSchedules(store), job.heuristic_seconds)
    done = tune(job.asm, timing, policy, effort, job.symbol, job.why_kept, open_inline=job.open_inline)
    done = replace(done, functions=tuple(f for f in done.functions if job.only in ("", f.name)))
    account = _account(job, done, timing) if job.account else VersionTuning(done.functions)
    store.write(key, (done.text, account))
    return done.text, account


def _account(job: TuningJob, tuned: Tuned, timing: Timing) -> VersionTuning:
    rates = (
        function_rates(job.generic_asm, job.generic_symbol, timing),
        function_rates(job.asm, job.symbol, timing),
        function_rates(tuned.text, job.symbol, timing),
    )
    return replace(_compare(*rates), functions=tuned.functions)


def model_version(core: Core, asm: str, symbol: str, generic_asm: str, generic_symbol: str) -> VersionTuning | None:
    """Return the modelled performance of a version on a core without machine passes; None if no loop can be timed.

    Raises: ProfileError if the core's profile has no timing.
    """
    timing = load_timing(core)
    own, generic = function_rates(asm, symbol, timing), function_rates(generic_asm, generic_symbol, timing)
    compared = _compare(generic, own, None)
    return compared if compared.generic is not None else None


def modelled_rate(core: Core, asm: str, symbol: str, unit: str) -> float | None:
    """Return the modelled work per cycle of a version's main loop in this unit on a core; None if it cannot be timed.

    Instructions are no such unit: another version has other ones. Raises: ProfileError if the core has no timing.
    """
    rates = function_rates(asm, symbol, load_timing(core))
    figures = [figure for kind, figure in rates.figures.items() if kind != INSTRUCTIONS] if rates else []
    return next((f.per_cycle for f in figures if f.unit == unit and f.is_hottest), None)


def _compare(generic: FunctionRates | None, own: FunctionRates | None, tuned: FunctionRates | None) -> VersionTuning:
    """Compare versions by the first kind of work that the model can time in all of them, else in the core's own."""
    made = [rates for rates in (own, tuned) if rates is not None]
    if own is None or generic is None:
        return VersionTuning(())
    for needed in ([generic, *made], made):
        for kind in (ARITHMETIC, MEMORY, INSTRUCTIONS):
            figures = [rates.figures.get(kind) for rates in needed]
            if _are_comparable(kind, figures):
                known = [figure for figure in figures if figure is not None]
                start = known[0].per_cycle if needed is not made else None
                after = known[-1].per_cycle if tuned is not None else None
                before = known[-len(made)].per_cycle
                is_hottest = all(figure.is_hottest for figure in known)
                return VersionTuning((), known[0].unit, start, before, after, is_hottest, generic.loop_cycles)
    return VersionTuning(())


def _are_comparable(kind: str, figures: Sequence[LoopFigure | None]) -> bool:
    """True if all figures are known, in one unit; instructions only if all versions have as many of them."""
    known = [figure for figure in figures if figure is not None]
    same_unit = len({figure.unit for figure in known}) == 1 and len({figure.is_loop for figure in known}) == 1
    return len(known) == len(figures) and same_unit and (kind != INSTRUCTIONS or len({f.work for f in known}) == 1)


def tune_versions(
    jobs: Sequence[TuningJob], workers: int, progress: Callable[[], None], solver_seconds: float = 0.0
) -> list[tuple[str, VersionTuning] | TuningFailure]:
    """Tune versions in `workers` processes; progress is called as each tuning begins."""
    tasks = [Task(f"tuning {job.symbol}", partial(_tune_or_say_why, job, solver_seconds)) for job in jobs]
    return run_tasks(tasks, workers, lambda what: progress())


def _tune_or_say_why(job: TuningJob, solver_seconds: float) -> tuple[str, VersionTuning] | TuningFailure:
    """Tune a version; an error is a result too, so that the other versions of the file are tuned all the same."""
    try:
        return tune_version(job, solver_seconds)
    except MavcgError as error:
        return TuningFailure(str(error))
    except Exception as error:
        return TuningFailure(fault_text(error))
