"""Sample a long run: choose units of each part of it to time, and estimate the whole from them.

A part of n instructions (a step of a model) is cut into strata of equal length. In each, one unit at a random place is
timed in detail, after instructions that warm pipeline and caches. The part's cycles are n times the units' cycles over
the units' instructions; their standard error follows from the differences of neighbouring units.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from mavcg.simulate.harness import ffi, library
from mavcg.simulate.run import CAUSES, LEVELS

UNITS = 24
UNIT_INSTRUCTIONS = 40_000
WARM_INSTRUCTIONS = 8_000  # timed before a unit and not counted: some 40 times the longest miss
FUNCTIONAL_INSTRUCTIONS = 1_000_000  # before those, seen by the caches alone: what a level 2 is filled in
SEED = 1
_NEVER = 1 << 62


@dataclass(frozen=True)
class SamplePlan:
    """Sizes of the samples, in instructions, except units: number of units in a part.

    unit: instructions that are timed. warm: instructions before them that warm the pipeline. functional: instructions
    before those that only the caches see. seed: of the random places.
    """

    units: int = UNITS
    unit: int = UNIT_INSTRUCTIONS
    warm: int = WARM_INSTRUCTIONS
    functional: int = FUNCTIONAL_INSTRUCTIONS
    seed: int = SEED

    def period(self, length: int) -> int:
        """Return the length of a stratum; that of a unit if the part is so short that all of it is timed.

        length: of the part. To the emulator, an instruction that only the caches see costs nearly as much as a timed
        one.
        """
        if length <= self.units * (self.unit + self.warm + self.functional):
            return self.unit
        return length // self.units


@dataclass(frozen=True)
class PartEstimate:
    """Estimated cycles of a part of a run. error: their standard error; 0 where every instruction was timed.

    measured: instructions that were timed, in units. caches: accesses by level as (hits, misses), scaled up, as are the
    lines of memory read and written. Branches are counted, not estimated.
    """

    instructions: int = 0
    measured: int = 0
    units: int = 0
    cycles: float = 0.0
    error: float = 0.0
    stalls: Mapping[str, float] = field(default_factory=dict)
    caches: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    memory_lines: float = 0.0
    written_lines: float = 0.0
    branches: int = 0
    mispredicts: int = 0


def part_estimate(sample: Any) -> PartEstimate:
    """Return the estimate that the sums of a `sim_sample` give."""
    instructions, measured = sample.instructions, sample.measured
    counts = sample.counts
    if not measured:
        return PartEstimate(instructions, cycles=sample.callee_cycles, stalls=_with_callees({}, sample.callee_cycles))
    scale, seen = instructions / measured, instructions / max(1, sample.seen)
    stalls = {name: sample.stalls[n] * scale for n, name in enumerate(CAUSES) if sample.stalls[n]}
    return PartEstimate(
        instructions,
        measured,
        sample.units,
        sample.cycles * scale + sample.callee_cycles,
        sampling_error(instructions, measured, sample.units, sample.differences),
        _with_callees(stalls, sample.callee_cycles),
        {name: (counts.hits[n] * seen, counts.misses[n] * seen) for n, name in enumerate(LEVELS)},
        counts.memory_lines * seen,
        counts.written_lines * seen,
        counts.branches,
        counts.mispredicts,
    )


def sampling_error(total: int, measured: int, units: int, differences: float) -> float:
    """Return the standard error of the cycles of `total` instructions, of which so many units were timed.

    differences: sum of squares of the differences between each unit and the one before, in cycles an instruction. Half
    of its mean is the variance within strata (successive differences; Wolter, Introduction to Variance Estimation,
    2007, chapter 8), which is what a stratified sample errs by. 0 where all was timed; infinite where one unit stands
    for more than itself.
    """
    if measured >= total:
        return 0.0
    if units < 2:
        return float("inf")
    variance = differences / (2 * (units - 1))
    return total * sqrt((1 - measured / total) * variance / units)


def _with_callees(stalls: dict[str, float], cycles: int) -> dict[str, float]:
    return {**stalls, "call": stalls.get("call", 0) + cycles} if cycles else stalls


class SampledRun:
    """The clock of a sampled run: each read of it ends a part, and advances it by the part's estimated cycles.

    lengths: instructions of each part, from an earlier run; None while they are counted and nothing is timed.
    """

    def __init__(self, simulation: Any, plan: SamplePlan, lengths: list[int] | None = None, tail: int = 0) -> None:
        """tail: of an untimed run, so many last instructions are seen by the caches."""
        self.parts: list[PartEstimate] = []
        self.cycles = 0.0
        self._simulation, self._plan, self._lengths, self._tail = simulation, plan, lengths, tail
        self._left = sum(lengths or ())
        self._begin_part()

    def _begin_part(self) -> None:
        number, plan, c = len(self.parts), self._plan, library()
        length = self._lengths[number] if self._lengths is not None and number < len(self._lengths) else 0
        if self._lengths is None or self._tail:
            c.sim_sampling(self._simulation, _NEVER, 0, 0, int(self._tail > 0 and self._left <= self._tail), _NEVER, 0)
        else:
            period = plan.period(length)
            seed = plan.seed + number
            c.sim_sampling(self._simulation, period, plan.unit, plan.warm, plan.functional, length or _NEVER, seed)
        self._left -= length

    def end_part(self) -> float:
        """End a part, and return the cycles of all parts so far."""
        sample = ffi().new("sim_sample *")
        library().sim_take_sample(self._simulation, sample)
        self.parts.append(part_estimate(sample))
        self.cycles += self.parts[-1].cycles
        self._begin_part()
        return self.cycles
