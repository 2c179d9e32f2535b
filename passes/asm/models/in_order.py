"""A model of an in-order core: simulates in which cycle each op issues, and why it had to wait.

Ops issue in program order, at most `timing.width` a cycle; on a core with a vector queue, vector instructions may wait
in it while others go on. The model leaves out caches (every load hits), the front
end, branch misses, and values that go from a store to a load through memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.in_order_pipeline import InOrderPipeline, Issue

# The model has a finite state, so that every loop reaches a period; loops of hundreds of ops do in a few iterations.
_MOST_ITERATIONS = 4096


@dataclass(frozen=True)
class Trace:
    """All issues of a simulation, in program order: ops of iteration 0, then of iteration 1, and so on."""

    ops: tuple[Op, ...]
    issues: tuple[Issue, ...]

    def iteration(self, number: int) -> tuple[Issue, ...]:
        """Return the issues of one iteration."""
        return self.issues[number * len(self.ops) : (number + 1) * len(self.ops)]


@dataclass(frozen=True)
class SteadyState:
    """The steady state of a loop: from iteration `start` on, every `period` iterations take `cycles` cycles."""

    start: int
    period: int
    cycles: int

    @property
    def per_iteration(self) -> Fraction:
        return Fraction(self.cycles, self.period)


def simulate(ops: Sequence[Op], timing: Timing, iterations: int = 1) -> Trace:
    """Simulate `iterations` iterations of the body on a core that is idle at cycle 0.

    Raises: MissingFact when the core's profile does not know a class; MavcgError when it can never issue an op.
    """
    core = InOrderPipeline(tuple(ops), timing)
    return Trace(tuple(ops), tuple(core.issue(number, op) for number in range(iterations) for op in range(len(ops))))


def last_issue_cycle(ops: Sequence[Op], timing: Timing) -> int:
    """Return the last cycle in which an op of code that runs once issues. Raises: as `simulate`."""
    core = InOrderPipeline(tuple(ops), timing)
    return max(core.advance(op) for op in range(len(ops)))


def steady_cycles(ops: Sequence[Op], timing: Timing) -> Fraction:
    """Return the exact cycles per iteration of a loop with this body in its steady state; 0 without ops."""
    return steady_state(ops, timing).per_iteration


def steady_state(ops: Sequence[Op], timing: Timing) -> SteadyState:
    """Simulate a loop until the core's state at the end of an iteration equals that at the end of an earlier one.

    Raises: MissingFact as `simulate`; MavcgError when that does not happen within 4,096 iterations.
    """
    if not ops:
        return SteadyState(0, 1, 0)
    core = InOrderPipeline(tuple(ops), timing)
    seen: dict[object, tuple[int, int]] = {}
    for number in range(_MOST_ITERATIONS):
        for op in range(len(ops)):
            core.advance(op)
        state = core.state()
        if state in seen:
            first, cycle = seen[state]
            return SteadyState(first + 1, number - first, core.cycle - cycle)
        seen[state] = (number, core.cycle)
    raise MavcgError(
        f"loop of {len(ops)} ops on {timing.core}: no steady state within {_MOST_ITERATIONS} iterations; "
        "estimate it as a block instead"
    )
