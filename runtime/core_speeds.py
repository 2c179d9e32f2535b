"""What a model's tables say about unequal cores: how fast each core type is in each step, and which threads to use.

Pure: values in, lines of C out. Both tables go by core ids (coreset.py).
"""

from collections.abc import Sequence

from mavcg.errors import MavcgError
from mavcg.model_program import Program, ProgramStep, ThreadPlan
from mavcg.runtime.coreset import CoreSet
from mavcg.safe_text import comment

USUAL_WEIGHT = 256  # csrc/engine_pool.c
MAX_WEIGHT = 65535  # of a uint16_t of weight_table (model_text.py)
MAX_THREADS = 1024  # csrc/engine.h
CORE_WORDS, WORD_BITS = 4, 64  # struct engine_plan of csrc/engine.h


def weight_rows(program: Program, core_set: CoreSet) -> tuple[list[str], list[int]]:
    """The lines of weight_table, each once, and which of them each step has.

    Line 0 is that of equal cores: with it the engine does not ask where a thread runs.
    Raises: MavcgError for a core that the library has no version for, and for a weight that is not 1 to 65535.
    """
    equal = (USUAL_WEIGHT,) * core_set.version_count
    numbers = {equal: 0}
    steps = []
    for step in program.steps:
        weights = _weights(step, core_set)
        steps.append(numbers.setdefault(equal if len(set(weights)) == 1 else weights, len(numbers)))
    return ["{" + ", ".join(map(str, weights)) + "}," for weights in numbers], steps


def _weights(step: ProgramStep, core_set: CoreSet) -> tuple[int, ...]:
    """By core id. At 0 stands what is not known, which nobody is expected to run on."""
    if not step.weights:
        return (USUAL_WEIGHT,) * core_set.version_count
    place = f"step '{step.name}'"
    given: dict[int, int] = {}
    for label, weight in step.weights:
        if not 1 <= weight <= MAX_WEIGHT:
            raise MavcgError(f"{place}: weight {weight} of {label}; give 1 to {MAX_WEIGHT}")
        given[_core_id(label, core_set, place)] = weight
    slowest = min(given.values())
    return tuple(given.get(number, slowest) for number in range(core_set.version_count))


def plan_rows(program: Program, core_set: CoreSet) -> list[str]:
    """The lines of plan_table, the fastest first; of equally fast ones that with fewer threads.

    Raises: MavcgError for a core that the library has no version for, for threads that are not 1 to 1024, for a plan on
    no core at all, for a time that is not above 0.
    """
    order = sorted(program.thread_plans, key=lambda plan: (plan.relative_time, plan.threads))
    return [_plan(plan, core_set) for plan in order]


def _plan(plan: ThreadPlan, core_set: CoreSet) -> str:
    place = f"thread plan {plan.threads} on {'+'.join(plan.cores) or 'nothing'}"
    if not 1 <= plan.threads <= MAX_THREADS:
        raise MavcgError(f"{place}: {plan.threads} threads; give 1 to {MAX_THREADS}")
    if not plan.cores:
        raise MavcgError(f"{place}: names no core; name those that its threads run on")
    if not 0 < plan.relative_time < float("inf"):
        raise MavcgError(f"{place}: a time of {plan.relative_time}; give one above 0")
    words = [0] * CORE_WORDS
    for number in _core_ids(plan.cores, core_set, place):
        words[number // WORD_BITS] |= 1 << number % WORD_BITS
    return f"{{{plan.threads}, {{{', '.join(f'{word:#x}' for word in words)}}}}}, /* {comment('+'.join(plan.cores))} */"


def _core_ids(labels: Sequence[str], core_set: CoreSet, place: str) -> list[int]:
    return [_core_id(label, core_set, place) for label in labels]


def _core_id(label: str, core_set: CoreSet, place: str) -> int:
    try:
        return core_set.id_of(label)
    except KeyError:
        names = ", ".join(("generic", *core_set.names))
        raise MavcgError(f"{place}: the library has no version for '{label}'; it has {names}") from None
