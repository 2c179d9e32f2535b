"""Branches, caches, memory and the window of a core, from the cycles of walks through memory and of branches."""

from collections.abc import Callable, Mapping, Sequence

from mavcg.cost.core_facts import MISPREDICT, OUT_OF_ORDER, simulated_core
from mavcg.lab.calibrate.altered_core import SIZES
from mavcg.lab.calibrate.calibrated_model import CalibratedModel
from mavcg.lab.calibrate.loops import LoopTimer, TimedLoop
from mavcg.lab.calibrate.memory_loops import (
    FILLINGS,
    KIB,
    MISS_LOADS,
    MOST_FILLING,
    branch_loops,
    cold_loop,
    miss_loop,
    run_loop,
    split_loops,
    walk_loop,
    window_loop,
)

_LADDER = [KIB << n for n in range(2, 15)]  # footprints of walks: 4 KiB to 16 MiB
_SLOWER = 0.04  # relative increase of a load's cycles that shows that a cache is full
_MORE = 0.15  # and its least increase, in cycles
_MEMORY = 0.8  # fraction of the cycles of a load from memory from which on no further cache is there
_OCTAVE = 64  # steps between two footprints of the ladder
_SIXTEENTH = 16  # parts of a power of two that sizes of caches are multiples of
_NEAR = 0.03
_RUNS = (8, 16)
MOST_COUNTED = 32
_SAME_ERROR = 1e-3


def find_memory_facts(timer: LoopTimer, model: CalibratedModel, progress: Callable[[str], None]) -> CalibratedModel:
    """Return the model with the facts about branches, caches, memory and the window that loops show."""
    progress("branches")
    model = _by_two_models(timer, model, MISPREDICT, branch_loops())
    model = _by_two_models(timer, model, "caches.split_cycles", split_loops())
    progress("caches and memory")
    model = model.with_facts(_caches(timer, model))
    if model.core.order == OUT_OF_ORDER:
        progress("the window")
        for fact in FILLINGS:
            model = _window(timer, model, fact)
    progress("misses at once, and prefetch")
    model = _by_count(timer, model, "caches.miss_slots", [miss_loop(count) for count in MISS_LOADS])
    return _by_count(timer, model, "caches.prefetch_lines", [run_loop(run) for run in _RUNS])


def _by_two_models(
    timer: LoopTimer, model: CalibratedModel, key: str, loops: tuple[TimedLoop, TimedLoop]
) -> CalibratedModel:
    """Find a fact that adds to the cycles of the first loop in proportion, and not to those of the second."""

    def difference(timed: LoopTimer) -> float:
        cycles = timed.cycles(loops)
        return cycles[loops[0].name] - cycles[loops[1].name]

    low, high = (difference(model.with_facts({key: value}).timer()) for value in (8.0, 24.0))
    value = 8 + 16 * (difference(timer) - low) / (high - low)
    return model.with_facts({key: float(max(0, round(value)))})


def _caches(timer: LoopTimer, model: CalibratedModel) -> dict[str, float]:
    """Return sizes and latencies of the caches, and the latency of memory."""
    core = simulated_core(model.core)
    cold = timer.cycles([cold_loop()])["walk cold"]
    walks = [walk_loop(footprint) for footprint in _LADDER]
    timed = timer.cycles(walks)
    cycles = {footprint: timed[walk.name] for footprint, walk in zip(_LADDER, walks, strict=True)}
    facts: dict[str, float] = {}
    first = level = cycles[_LADDER[0]]
    names = [named.name for named in core.levels] + ["l3"]
    footprint = _LADDER[0]
    for number, name in enumerate(names):
        full = next((above for above in _LADDER if above > footprint and _is_slower(cycles[above], level)), None)
        if full is None:
            break
        size = _largest(timer, full // 2, full, level)
        key = SIZES[0] if number == 0 else f"caches.{name}_bytes"
        facts[key] = float(size)
        if number:
            facts[f"caches.{name}_latency"] = float(round(level - first))
        footprint = next((above for above in _LADDER if above >= 2 * size), _LADDER[-1])
        level = cycles[footprint]
        if level > _MEMORY * cold:
            break
    facts["caches.memory_ns"] = round((cold - first) / core.ghz, 1)
    return facts


def _is_slower(cycles: float, level: float) -> bool:
    return cycles > level * (1 + _SLOWER) + _MORE


def _largest(timer: LoopTimer, fits: int, too_large: int, level: float) -> int:
    """Return the largest footprint between two that takes no more than a level's cycles, as a size of a cache."""
    step = (too_large - fits) // _OCTAVE
    low, high = 0, _OCTAVE
    while high - low > 1:
        middle = (low + high) // 2
        loop = walk_loop(fits + middle * step)
        if _is_slower(timer.cycles([loop])[loop.name], level):
            high = middle
        else:
            low = middle
    size = fits + low * step
    part = (1 << (size.bit_length() - 1)) // _SIXTEENTH
    whole = round(size / part) * part
    return whole if abs(whole / size - 1) < _NEAR else size


def _window(timer: LoopTimer, model: CalibratedModel, fact: str) -> CalibratedModel:
    """Find the size of a queue: two loads that miss no longer overlap if as much lies between them.

    The same is done on the model, whose size is known; the difference between the two is that between the sizes. If the
    model's loads part at the same filling with another size, the loop does not show this fact.
    """
    here, there = _parting(timer, fact), _parting(model.timer(), fact)
    now = simulated_sizes(model)[fact]
    other = _parting(model.with_facts({fact: now - 4}).timer(), fact)
    if here is None or there is None or other is None or other == there:
        return model
    return model.with_facts({fact: float(max(1, now + here - there))})


def simulated_sizes(model: CalibratedModel) -> Mapping[str, float]:
    """Return the sizes of the queues in FILLINGS, as the model has them."""
    core = simulated_core(model.core)
    sizes = (core.reorder_buffer, core.issue_queue, core.load_queue, core.store_queue)
    return dict(zip(FILLINGS, map(float, sizes), strict=True))


def _parting(timer: LoopTimer, fact: str) -> int | None:
    """Return the least filling with which two loads that miss follow one another; None if they always overlap."""

    def cycles(filling: int) -> float:
        loop = window_loop(fact, filling)
        return timer.cycles([loop])[loop.name]

    apart, one = cycles(MOST_FILLING), cycles(MOST_FILLING - 64)
    each = (apart - one) / 64  # cycles of a filling, once the loads do not overlap
    alone = apart - each * MOST_FILLING
    overlapping = cycles(1)
    if overlapping > 0.75 * alone:
        return None
    low, high = 1, MOST_FILLING
    while high - low > 1:
        middle = (low + high) // 2
        if cycles(middle) - each * middle > (overlapping + alone) / 2:
            high = middle
        else:
            low = middle
    return high


def _by_count(timer: LoopTimer, model: CalibratedModel, key: str, loops: Sequence[TimedLoop]) -> CalibratedModel:
    """Find a count that makes loops faster the larger it is: the one whose model takes the core's cycles.

    The model's own stays if loops take the same with several counts.
    """
    measured = timer.cycles(loops)
    times: dict[int, Mapping[str, float]] = {}

    def model_cycles(count: int) -> Mapping[str, float]:
        if count not in times:
            times[count] = model.with_facts({key: float(count)}).timer().cycles(loops)
        return times[count]

    def error(count: int) -> float:
        return sum(abs(model_cycles(count)[name] / cycles - 1) for name, cycles in measured.items())

    low, high = 0, MOST_COUNTED
    while high - low > 1:
        middle = (low + high) // 2
        if sum(model_cycles(middle)[name] - cycles for name, cycles in measured.items()) > 0:
            low = middle
        else:
            high = middle
    near = {count: error(count) for count in (high - 1, high, high + 1) if count > 0}
    least = min(near.values())
    best = [count for count, wrong in near.items() if wrong <= least + _SAME_ERROR]
    return model.with_facts({key: float(best[0])}) if len(best) == 1 else model
