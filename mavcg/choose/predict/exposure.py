"""The exposed memory time of a step, which does not overlap with its arithmetic, by the cache lines of its loops.

Each line counts by where it comes from, and by what waits for it (line_traffic.py):

- a loaded line that no prefetcher foresees takes the latency of its level. In order, the fills that are under way at
  the same time share it, and a line takes at least what its level needs to hand it out;
- a foreseen line from a cache takes what its level needs for a line. Out of order, the arithmetic between two lines
  hides it. One from memory takes what is left of the latency after the lines by which the prefetcher is ahead;
- a stored line takes the latency, if it is read before it is written; else what its level takes for a line.

How much of each is exposed is fitted to simulated layers of networks ([exposed] of profiles/fits, `python -m
bench.simulated_exposure`), one figure for all kernels of a kind of core. Without them, arithmetic and memory overlap:
a roofline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from mavcg.choose.predict.line_traffic import Fills, Runs
from mavcg.choose.predict.memory import Distances, Moved
from mavcg.choose.predict.work import INPUT, OUTPUT, WEIGHT, StepWork, Touch, base_of
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.cost_fit import IN_ORDER, ExposedFit
from mavcg.hardware.machine import LINE_BYTES
from mavcg.specs.model_program import WORDS

PRODUCTS, WINOGRAD, UNBLOCKED, DIRECT, DEPTHWISE = "products", "winograd", "unblocked", "direct", "depthwise"
POOLS, COLUMNS, MOVES = "pools", "columns", "moves"
PATTERNS = (PRODUCTS, WINOGRAD, UNBLOCKED, DIRECT, DEPTHWISE, POOLS, COLUMNS, MOVES)
# By the words with which kernels' names begin, the first that fits.
_BEGINNINGS = (
    ("direct_columns", COLUMNS),
    ("sum2d", DEPTHWISE),
    ("csr", COLUMNS),
    ("bcsr", COLUMNS),
    ("direct", DIRECT),
    ("im2_product", UNBLOCKED),
    ("kn2", UNBLOCKED),
    ("conv2d", PRODUCTS),
    ("qconv2d", PRODUCTS),
    ("iconv2d", PRODUCTS),
    ("winograd_2d", WINOGRAD),
    ("winograd_products", WINOGRAD),
    ("matmul", PRODUCTS),
    ("depthwise", DEPTHWISE),
    ("qdepthwise", DEPTHWISE),
    ("max_pool", POOLS),
    ("average_pool", POOLS),
)


def memory_pattern(kernel: str) -> str:
    """Return the memory access pattern of a kernel of this name: one of PATTERNS."""
    return next((pattern for beginning, pattern in _BEGINNINGS if kernel.startswith(beginning)), MOVES)


@dataclass(frozen=True)
class LineFetch:
    """Latencies, rates and limits of a core that fetches cache lines.

    latency_ns, line_ns: of each level behind level 1, the memory last: until a line arrives, and from line to line.
    miss_slots: line fills under way. ahead: lines that the prefetcher is ahead. in_order: the core's kind.
    """

    latency_ns: tuple[float, ...]
    line_ns: tuple[float, ...]
    miss_slots: int
    ahead: int
    in_order: bool


def line_fetch(core: CoreModel) -> LineFetch | None:
    """Return how a cluster's core fetches lines; None for kinds of cores that are not simulated.

    Facts of the core's file come first, then those assumed for its kind.
    """
    assumed = core.fit.simulator
    if assumed is None or core.fit.exposed is None:
        return None
    given = {fact.key: fact.value for fact in core.core.facts} if core.core is not None else {}
    given |= {f"caches.{key}": value for key, value in core.cluster.caches}

    def fact(name: str) -> float:
        value = given.get(f"caches.{name}")
        return float(getattr(assumed, name) if value is None or isinstance(value, str | bool) else value)

    levels, ghz = core.levels, core.ghz
    behind = {"L2": "l2_latency", "L3": "l3_latency"}
    latencies = [fact(behind[level.name]) / ghz for level in levels[1:]]
    lines = [LINE_BYTES / level.bandwidth_gb_per_s for level in levels]
    return LineFetch(
        (*latencies, fact("memory_ns")),
        tuple(lines),
        max(1, round(fact("miss_slots"))),
        max(1, round(fact("prefetch_lines"))),
        core.fit.kind == IN_ORDER,
    )


@dataclass(frozen=True)
class LineTimes:
    """Times of a step's lines in ns, by what waits for them; the fields of [exposed] say how much of each is exposed.

    near: from caches; far: from memory. unseen, seen: loaded lines that the prefetcher does not foresee, and others.
    stored: lines that stores bring; streamed: lines that are written whole.
    """

    near_unseen: float = 0.0
    near_seen: float = 0.0
    near_stored: float = 0.0
    near_streamed: float = 0.0
    far_unseen: float = 0.0
    far_seen: float = 0.0
    far_stored: float = 0.0
    far_streamed: float = 0.0

    def exposed_ns(self, fit: ExposedFit) -> float:
        """Return the exposed time in ns."""
        return float(sum(getattr(self, each.name) * getattr(fit, each.name) for each in fields(self)))


@dataclass(frozen=True)
class StepLines:
    """Lines of a step: bytes that cross each level, and the times of the lines."""

    moved: Moved
    times: LineTimes


def step_lines(
    work: StepWork,
    distances: Distances,
    level_bytes: Sequence[int],
    filled: Sequence[Fills],
    runs: Mapping[str, Runs],
    fetch: LineFetch,
    compute_ns: float,
) -> StepLines:
    """Return the lines of a step.

    level_bytes: size of each cache. filled: lines that the step brings into each of them if they were empty before.
    Lines of operands that are nearer (distances) are found there the first time. compute_ns: of the step's arithmetic.
    """
    touches = touches_of_operands(work)
    crossing = [0.0] * len(level_bytes)
    times = dict.fromkeys((each.name for each in fields(LineTimes)), 0.0)
    period_ns = compute_ns / max(1.0, sum(filled[0].values()))
    for (base, is_store), _ in filled[0].items():
        if base not in touches:
            continue  # scratch memory, which stays in the nearest cache
        number = touches[base]
        lines: list[float] = []
        for size, of_level in zip(level_bytes, filled, strict=True):
            own = work.touches[number].span / LINE_BYTES if distances.bytes[number] <= size else 0.0
            lines.append(min(max(0.0, of_level.get((base, is_store), 0.0) - own), lines[-1] if lines else float("inf")))
        how = runs.get(base, Runs(1.0, 0.0, 1.0))
        for level, count in enumerate(lines):
            crossing[level] += count * LINE_BYTES
            here = count - (lines[level + 1] if level + 1 < len(lines) else 0.0)
            far = level + 1 == len(lines)
            _add(times, "far" if far else "near", is_store, how, here, fetch, level, period_ns)
    return StepLines(Moved(tuple(crossing)), LineTimes(**times))


def _add(
    times: dict[str, float],
    place: str,
    is_store: bool,
    how: Runs,
    lines: float,
    fetch: LineFetch,
    level: int,
    period_ns: float,
) -> None:
    """Add the times of lines that come from behind this level."""
    latency, line = fetch.latency_ns[level], fetch.line_ns[level]
    if is_store:
        times[f"{place}_stored"] += lines * (1 - how.streamed) * latency
        times[f"{place}_streamed"] += lines * how.streamed * line
        return
    times[f"{place}_unseen"] += lines * how.unseen * (max(line, latency / how.overlap) if fetch.in_order else latency)
    if place == "far":
        seen = max(0.0, max(latency / fetch.ahead, line) - period_ns)
    else:
        seen = line if fetch.in_order else max(0.0, line - period_ns)
    times[f"{place}_seen"] += lines * (1 - how.unseen) * seen


def touches_of_operands(work: StepWork) -> dict[str, int]:
    """Return the number of the touch of each operand, by the operand's name in loop_accesses.py.

    Where addresses differ, as in a band of rows, an operand has the next touch of its role.
    """
    places = {(touch.base, touch.begin): number for number, touch in enumerate(work.touches)}
    by_operand, free = {}, list(range(len(work.touches)))
    for number, operand in enumerate(work.operands):
        touch = places.get((base_of(operand), operand.offset))
        if touch is None and operand.base not in WORDS:
            touch = _next_of_role(work.touches, free, operand.base == "constants")
        if touch is not None:
            by_operand[f"operand {number}"] = touch
            free = [each for each in free if each != touch]
    return by_operand


def _next_of_role(touches: Sequence[Touch], free: Sequence[int], is_weight: bool) -> int | None:
    roles = (WEIGHT,) if is_weight else (INPUT, OUTPUT)
    return next((number for number in free if touches[number].role in roles), None)
