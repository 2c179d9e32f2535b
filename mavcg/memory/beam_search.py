"""Search for an order of operators with a low live peak, by a beam: for problems too large for order_search.py."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mavcg.memory.order_problem import OrderProblem, bits_of

BEAM = 64  # sets that the beam search keeps after each operator


@dataclass(frozen=True)
class _BeamState:
    """A set of operators that have run in the beam search.

    done: mask. peak, live: in bytes, of the order there. last: the operator that ran last, and the same of the set
    before, back to the empty set. ready: masks of the operators that may run next, by what they add to the memory in
    use while they run and after it; never empty masks.
    """

    done: int
    peak: int
    live: int
    last: tuple[int, Any] | None
    ready: Mapping[tuple[int, int], int]

    def moves(self) -> dict[tuple[int, int], int]:
        """Return masks of the operators that may run next, by the peak and the memory in use that they lead to."""
        moves: dict[tuple[int, int], int] = {}
        for (opened, change), mask in self.ready.items():
            costs = max(self.peak, self.live + opened), self.live + change
            moves[costs] = moves.get(costs, 0) | mask
        return moves

    def order(self) -> tuple[int, ...]:
        """Return the operators in the order in which they ran."""
        ran, last = list[int](), self.last
        while last is not None:
            ran.append(last[0])
            last = last[1]
        return tuple(reversed(ran))


def beam_search(problem: OrderProblem) -> tuple[int, ...]:
    """Return an order by beam search.

    After each operator the sets with the lowest peak, then the least memory, then the least order are kept. Operators
    that cost the same are one entry of a set, so that the time per operator does not grow with the number of those that
    are ready.
    """
    first = _with_ready(problem, 0, {}, (n for n, needed in enumerate(problem.predecessors) if not needed))
    states = [_BeamState(0, 0, 0, None, first)]  # by their orders, the least first
    for _ in problem.touched:
        moves = sorted(
            (costs, rank, mask) for rank, state in enumerate(states) for costs, mask in state.moves().items()
        )
        kept: dict[int, tuple[int, int, tuple[int, int]]] = {}
        for costs, rank, mask in moves:
            while mask and len(kept) < BEAM:
                lowest = mask & -mask
                mask ^= lowest
                # A set that is kept already was reached by a better order.
                kept.setdefault(states[rank].done | lowest, (rank, lowest.bit_length() - 1, costs))
            if len(kept) == BEAM:
                break
        states = [
            _BeamState(done, peak, live, (number, states[rank].last), _ready_after(problem, states[rank], number))
            for done, (rank, number, (peak, live)) in sorted(kept.items(), key=lambda item: item[1])
        ]
    return min(states, key=lambda state: (state.peak, state.live)).order()


def _ready_after(problem: OrderProblem, state: _BeamState, number: int) -> Mapping[tuple[int, int], int]:
    """Return the operators that are ready after this one, which is ready now, by what they cost then.

    The costs of an operator change where it touches a buffer that this one touched first, or all but one have touched.
    """
    before, after = state.done, state.done | 1 << number
    changed = 0
    for buffer in problem.touched[number]:
        users = problem.users[buffer]
        left = users & ~after
        if not users & before or not left & (left - 1):
            changed |= left
    ready = dict(state.ready)
    for costs, mask in state.ready.items():
        if mask & (changed | 1 << number):
            ready[costs] = mask & ~(changed | 1 << number)
    reevaluated = sum(mask & changed for mask in state.ready.values())
    opened = (n for n in problem.followers[number] if not problem.predecessors[n] & ~after)
    return _with_ready(problem, after, ready, (*bits_of(reevaluated), *opened))


def _with_ready(
    problem: OrderProblem, executed: int, ready: Mapping[tuple[int, int], int], numbers: Iterable[int]
) -> Mapping[tuple[int, int], int]:
    """Return the masks by cost, with these operators added. executed: mask of the operators that have run."""
    masks = dict(ready)
    for number in numbers:
        costs = problem.step(executed, number)
        masks[costs] = masks.get(costs, 0) | 1 << number
    return {costs: mask for costs, mask in masks.items() if mask}
