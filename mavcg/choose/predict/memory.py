"""The memory level at which a step's bytes lie when it begins, and the time to move them to the core.

The level follows from the reuse distance, as in a least-recently-used cache: the bytes touched between two uses of an
operand. The operand is still in the nearest level that holds these bytes and the operand itself. A step goes through
all of its operands at the same time and in the same order, so on average half of what the steps of the last and the
next use touch beside the operand lies between. The program is assumed to run repeatedly: the weights of a model smaller
than the last-level cache stay there from run to run.

The time is bytes over bandwidth of each level; the levels work at the same time, so the slowest one counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mavcg.choose.predict.work import INPUT, OUTPUT, WEIGHT, StepWork, Touch
from mavcg.cost.memory import level_for, transfer_ns
from mavcg.hardware.accelerator import MemoryLevel


@dataclass(frozen=True)
class Distances:
    """Reuse distances of one step.

    For each touch, the bytes touched since the last use of its bytes, these included.
    """

    bytes: tuple[int, ...]


def reuse_distances(steps: Sequence[StepWork]) -> tuple[Distances, ...]:
    """Return the reuse distances of every step in a run that follows an equal run."""
    footprint = _union([_span(touch) for step in steps for touch in step.touches])
    readers: dict[tuple[str, int], int] = {}
    for step in steps:
        for touch in step.touches:
            readers[touch.base, touch.begin] = readers.get((touch.base, touch.begin), 0) + 1
    distances = []
    spans = [[_span(touch) for touch in step.touches] for step in steps]
    for index, step in enumerate(steps):
        far = []
        for touch in step.touches:
            if touch.base == "constants" and readers[touch.base, touch.begin] == 1:
                far.append(footprint)
            else:
                far.append(min(footprint, _distance(steps, spans, index, touch)))
        distances.append(Distances(tuple(far)))
    return tuple(distances)


_Span = tuple[str, int, int]  # base, begin and the negative size: in the order in which _union takes them


def _span(touch: Touch) -> _Span:
    return touch.base, touch.begin, -touch.span


def _distance(steps: Sequence[StepWork], spans: Sequence[Sequence[_Span]], index: int, touch: Touch) -> int:
    """Return a touch's reuse distance: the bytes touched since the last step that touched at least half of it.

    Of the other data of these two steps, half counts. spans: of each step's touches.
    """
    between = [_span(touch)]
    last = 0
    for back in range(1, len(steps) + 1):
        last = (index - back) % len(steps)
        covered = sum([_overlap(touch, other) for other in steps[last].touches if other.base == touch.base])
        if 2 * covered >= touch.span:
            break
        between += spans[last]
    ends = _union([*between, *spans[last]]) + _union([*between, *spans[index]])
    return ends // 2


def _overlap(first: Touch, second: Touch) -> int:
    """Return the bytes that two touches of the same buffer have in common."""
    return max(0, min(first.end, second.end) - max(first.begin, second.begin))


def _union(spans: Iterable[_Span]) -> int:
    """Return the bytes of all touches, each counted once.

    Gaps in a strided operand count as far as cache lines fill them.
    """
    total, base, end = 0, "", 0
    for buffer, begin, negative_size in sorted(set(spans)):
        if buffer != base:
            base, end = buffer, 0
        if begin - negative_size > end:
            total += begin - negative_size - max(end, begin)
            end = begin - negative_size
    return total


@dataclass(frozen=True)
class Moved:
    """Bytes that cross each boundary: crossing[n] between level n and the level behind it."""

    crossing: tuple[float, ...]

    def ns(self, levels: Sequence[MemoryLevel]) -> float:
        """Time of the slowest boundary, in ns."""
        return transfer_ns(self.crossing, levels)


def step_traffic(
    step: StepWork, distances: Distances, levels: Sequence[MemoryLevel], waits_for_write_backs: bool = True
) -> Moved:
    """Return the bytes that a step moves through each level of a core's memories.

    Each operand moves once from the level where it lies. An output moves twice: its lines are read before they are
    written in part, and written back later. waits_for_write_backs: False if writing back takes no time of the core; an
    output then moves once, whether its lines are read first or streamed (write streaming: Arm's technical reference
    manuals).

    Each task reads all weights again, or all of the first input if the step is divided by channels. They come from the
    nearest level that holds them together with the other data of a task. If a row of work reads only a part of the
    weights, only that part is read again, and the input is read once for each part.
    """
    crossing = [0.0] * len(levels)

    def read(size: float, footprint: float) -> None:
        for number in range(level_for(footprint, levels)):
            crossing[number] += size

    written = 2 if waits_for_write_backs else 1
    for touch, distance in zip(step.touches, distances.bytes, strict=True):
        read(touch.bytes * (written if touch.role == OUTPUT else 1), distance)
    again = [t for t in step.touches if t.role == (INPUT if step.by_channels else WEIGHT)]
    again = again[:1] if step.by_channels else [] if step.disjoint_reads else again
    size = sum(touch.bytes for touch in again)
    parts = step.weight_parts
    sweeps = step.tasks if parts.count == 1 else max(1, step.rows // parts.count)
    if sweeps > 1 and size:
        rest = sum(touch.bytes for touch in step.touches if touch not in again) // sweeps
        read((sweeps - 1) * size, size // parts.outer + rest)
    if parts.input_passes > 1:
        inputs = step.bytes_of(INPUT)
        beside = (step.bytes_of(WEIGHT) + step.bytes_of(OUTPUT)) // parts.outer
        read((parts.input_passes - 1) * inputs, inputs + beside)
    return Moved(tuple(crossing))
