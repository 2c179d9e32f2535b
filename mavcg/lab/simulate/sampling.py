"""Sample a long run: time some units of each part in detail, and estimate the part's cycles from them.

A part of n instructions (a step of a model) is cut into strata of equal length. In each stratum, one unit at a random
position is timed in detail, after instructions that warm pipeline and caches. The part's cycles are n times the units'
cycles divided by the units' instructions; their standard error follows from the differences of neighbouring units.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from mavcg.lab.simulate.harness import ffi, library
from mavcg.lab.simulate.simulated_program import CAUSES, LEVELS

UNITS = 24
UNIT_INSTRUCTIONS = 40_000
WARM_INSTRUCTIONS = 8_000  # timed before a unit but not counted: about 40 times the latency of the longest miss
FUNCTIONAL_INSTRUCTIONS = 1_000_000  # before those, simulated in the caches only: they suffice to fill level 2
SEED = 1
_NEVER = 1 << 62


@dataclass(frozen=True)
class SamplePlan:
    """Sizes of the samples, in instructions, except units: number of units in a part.

    unit: timed instructions of a unit. warm: instructions before a unit that warm the pipeline. functional:
    instructions before those whose accesses are simulated in the caches only. seed: of the units' random positions.
    """

    units: int = UNITS
    unit: int = UNIT_INSTRUCTIONS
    warm: int = WARM_INSTRUCTIONS
    functional: int = FUNCTIONAL_INSTRUCTIONS
    seed: int = SEED

    def period(self, length: int) -> int:
        """Return the length of a stratum of a part with `length` instructions.

        A short part is timed whole, so that its strata are as long as a unit: an instruction that is simulated in the
        caches only takes the simulator nearly as long as a timed one.
        """
        if length <= self.units * (self.unit + self.warm + self.functional):
            return self.unit
        return length // self.units


@dataclass(frozen=True)
class RunCounts:
    """Counts of a run, of a part of it or of one of its threads: exact, or estimated from timed units.

    measured: instructions that were timed. units: in so many units; 0 if all were. error: standard error of the cycles
    by sampling; 0 if every instruction was timed. stalls: as in CallCounts. caches: (hits, misses) by cache level.
    Caches, memory_lines and written_lines are scaled from the sample; branches and mispredicts are exact counts.
    unmodelled, unknown_addresses: of traced programs: timed instructions without timing facts, and accesses whose
    address the emulator did not report, timed as hits of level 1.
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
    unmodelled: int = 0
    unknown_addresses: int = 0


def exact_counts(counts: Any) -> RunCounts:
    """Return the counts of a run in which every instruction was timed, from the C library's `sim_counts`."""
    return RunCounts(
        counts.instructions,
        counts.instructions,
        0,
        counts.cycles,
        0.0,
        {name: counts.stalls[n] for n, name in enumerate(CAUSES) if counts.stalls[n]},
        {name: (counts.hits[n], counts.misses[n]) for n, name in enumerate(LEVELS)},
        counts.memory_lines,
        counts.written_lines,
        counts.branches,
        counts.mispredicts,
        counts.unmodelled,
        counts.unknown_addresses,
    )


def estimated_counts(sample: Any) -> RunCounts:
    """Return the counts of a part that was sampled, from the sums in the C library's `sim_sample`."""
    instructions, measured = sample.instructions, sample.measured
    counts = sample.counts
    if not measured:
        return RunCounts(
            instructions,
            cycles=sample.callee_cycles,
            stalls=_with_callees({}, sample.callee_cycles),
            unmodelled=counts.unmodelled,
            unknown_addresses=counts.unknown_addresses,
        )
    scale, seen = instructions / measured, instructions / max(1, sample.seen)
    stalls = {name: sample.stalls[n] * scale for n, name in enumerate(CAUSES) if sample.stalls[n]}
    return RunCounts(
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
        round(counts.unmodelled * scale),
        round(counts.unknown_addresses * scale),
    )


def sum_of_counts(parts: Sequence[RunCounts]) -> RunCounts:
    """Return the sums of all counts, as if the parts ran one after the other; their errors are independent."""
    causes = dict.fromkeys(cause for part in parts for cause in part.stalls)
    pairs = {name: [part.caches.get(name, (0, 0)) for part in parts] for name in LEVELS}
    return RunCounts(
        sum(part.instructions for part in parts),
        sum(part.measured for part in parts),
        sum(part.units for part in parts),
        sum(part.cycles for part in parts),
        sqrt(sum(part.error**2 for part in parts)),
        {cause: sum(part.stalls.get(cause, 0) for part in parts) for cause in causes},
        {
            name: (sum(hits for hits, _ in of_level), sum(misses for _, misses in of_level))
            for name, of_level in pairs.items()
        },
        sum(part.memory_lines for part in parts),
        sum(part.written_lines for part in parts),
        sum(part.branches for part in parts),
        sum(part.mispredicts for part in parts),
        sum(part.unmodelled for part in parts),
        sum(part.unknown_addresses for part in parts),
    )


def sampling_error(total: int, measured: int, units: int, differences: float) -> float:
    """Return the standard error of the estimated cycles of `total` instructions.

    measured, units: timed instructions and timed units. differences: sum of squared differences between each unit and
    the previous one, in cycles per instruction; half of their mean estimates the variance within strata (successive
    differences; Wolter, Introduction to Variance Estimation, 2007, chapter 8), which decides a stratified sample's
    error. The result is 0 if everything was timed, and infinite if a single unit represents more than itself.
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
    """The simulated clock of a sampled run; reading it ends a part and advances it by the part's estimated cycles.

    lengths: instructions of each part, counted in an earlier run; None in that first run, which is not timed.
    """

    def __init__(self, simulation: Any, plan: SamplePlan, lengths: list[int] | None = None, tail: int = 0) -> None:
        """Begin the first part. tail: last instructions of an untimed run whose accesses go through the caches."""
        self.parts: list[RunCounts] = []
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
        self.parts.append(estimated_counts(sample))
        self.cycles += self.parts[-1].cycles
        self._begin_part()
        return self.cycles
