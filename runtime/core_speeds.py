"""Write a model's tables about unequal cores: the speed of each core type in each step, and the plans of threads.

It is pure: values in, lines of C out. Both tables are indexed by core ids (coreset.py).
"""

from collections.abc import Sequence

from mavcg.errors import MavcgError
from mavcg.hardware.core import GENERIC
from mavcg.runtime.coreset import GENERIC_ID, CoreSet
from mavcg.specs.model_program import Program, ProgramStage, ProgramStep, ThreadPlan
from mavcg.text.safe_text import comment

DEFAULT_SPEED = 256  # csrc/engine_pool.c
MAX_SPEED = 65535  # of a uint16_t of speed_table (model_text.py)
MAX_THREADS = 1024  # csrc/engine.h
CORE_WORDS, WORD_BITS = 4, 64  # struct engine_plan of csrc/engine.h


def speed_rows(program: Program, core_set: CoreSet) -> tuple[list[str], list[int]]:
    """Return the different lines of speed_table, and the index of each step's line.

    Line 0 is for equal cores: for it, the engine does not look up on which CPU a thread runs.
    Raises: MavcgError for a core that the library has no version for, and for a speed that is not 1 to 65535.
    """
    equal = (DEFAULT_SPEED,) * core_set.version_count
    numbers = {equal: 0}
    steps = []
    for step in program.steps:
        weights = _weights(step, core_set)
        steps.append(numbers.setdefault(equal if len(set(weights)) == 1 else weights, len(numbers)))
    return ["{" + ", ".join(map(str, weights)) + "}," for weights in numbers], steps


def _weights(step: ProgramStep, core_set: CoreSet) -> tuple[int, ...]:
    """Return the speeds of a step by core id; id 0 (not known) and cores without a speed have that of the slowest."""
    if not step.core_speeds:
        return (DEFAULT_SPEED,) * core_set.version_count
    location = f"step '{step.name}'"
    given: dict[int, int] = {}
    for label, weight in step.core_speeds:
        if not 1 <= weight <= MAX_SPEED:
            raise MavcgError(f"{location}: speed {weight} of {label}; give 1 to {MAX_SPEED}")
        given |= dict.fromkeys(_core_ids([label], core_set, location), weight)
    slowest = min(given.values())
    return tuple(given.get(number, slowest) for number in range(core_set.version_count))


def plan_rows(program: Program, core_set: CoreSet) -> list[str]:
    """Return the lines of plan_table, the fastest plan first, and of equally fast plans the one with fewer threads.

    Raises: MavcgError for a core that the library has no version for, for a number of threads that is not 1 to 1024,
    for a plan without cores, and for a time that is not above 0.
    """
    order = sorted(program.thread_plans, key=lambda plan: (plan.relative_time, plan.threads))
    return [_plan(plan, core_set) for plan in order]


def stage_plan(stage: ProgramStage, core_set: CoreSet) -> str:
    """Return the plan of a stage's threads; without a prediction, that of no threads. Raises: as plan_rows."""
    if not stage.cores:
        return "{0}"
    return _threads_on(stage.threads, stage.cores, core_set, f"stage of {stage.threads} threads on")


def _plan(plan: ThreadPlan, core_set: CoreSet) -> str:
    location = f"thread plan {plan.threads} on {'+'.join(plan.cores) or 'nothing'}"
    row = _threads_on(plan.threads, plan.cores, core_set, location)
    if not 0 < plan.relative_time < float("inf"):
        raise MavcgError(f"{location}: a time of {plan.relative_time}; give one above 0")
    return f"{row}, /* {comment('+'.join(plan.cores))} */"


def _threads_on(threads: int, cores: Sequence[str], core_set: CoreSet, location: str) -> str:
    """Return a struct engine_plan: numbers of threads on CPUs with these versions."""
    if not 1 <= threads <= MAX_THREADS:
        raise MavcgError(f"{location}: {threads} threads; give 1 to {MAX_THREADS}")
    if not cores:
        raise MavcgError(f"{location}: names no core; name those that its threads run on")
    words = [0] * CORE_WORDS
    for number in _core_ids(cores, core_set, location):
        words[number // WORD_BITS] |= 1 << number % WORD_BITS
    return f"{{{threads}, {{{', '.join(f'{word:#x}' for word in words)}}}}}"


def _core_ids(labels: Sequence[str], core_set: CoreSet, location: str) -> list[int]:
    """Return the ids of these cores and of their feature levels, which run on the same CPUs."""
    ids: list[int] = []
    for label in labels:
        own = (GENERIC_ID,) if label == GENERIC else core_set.ids_for(label)
        if not own:
            names = ", ".join((GENERIC, *core_set.names))
            raise MavcgError(f"{location}: the library has no version for '{label}'; it has {names}")
        ids += own
    return ids
