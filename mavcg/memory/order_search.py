"""Search for the order of operators with the least live peak: exact by a search over sets of operators, else by a beam.

Whether a peak of B can be kept depends only on the set of operators that have run, so each set is visited once (Held
and Karp's dynamic programming over down-sets). Operators that are ready, keep B and leave no more in memory than before
run at once: the longer they wait, the more they would free, so running them now makes no later step larger (the memory
in use is a submodular function of the set). This also holds for a chain of operators if all of its proper prefixes
leave more: whatever part of it has run, the rest frees memory (as in Liu, "An application of generalized tree pebbling
to sparse matrix factorization", 1987, for trees). Bisection over B then finds the least peak.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

STATES = 2_000  # most sets visited to decide one value of B: tenths of a second
BEAM = 64  # sets that the beam search keeps after each operator


@dataclass(frozen=True)
class OrderProblem:
    """Operators that touch buffers, in a valid order.

    sizes: of the buffers. touched: for each operator, the numbers of the buffers that it reads or writes. before: for
    each operator, the numbers of those that must run before it. A buffer is live from the first operator that touches
    it to the last, inclusive.
    """

    sizes: tuple[int, ...]
    touched: tuple[tuple[int, ...], ...]
    before: tuple[tuple[int, ...], ...]

    @cached_property
    def users(self) -> tuple[int, ...]:
        """Operators that touch each buffer, as bit masks."""
        masks = [0] * len(self.sizes)
        for number, buffers in enumerate(self.touched):
            for buffer in buffers:
                masks[buffer] |= 1 << number
        return tuple(masks)

    @cached_property
    def predecessors(self) -> tuple[int, ...]:
        """Operators that must run before each operator, as bit masks."""
        return tuple(sum(1 << predecessor for predecessor in set(others)) for others in self.before)

    @cached_property
    def followers(self) -> tuple[tuple[int, ...], ...]:
        """Operators that must run after each operator."""
        followers: list[list[int]] = [[] for _ in self.touched]
        for number, others in enumerate(self.before):
            for predecessor in set(others):
                followers[predecessor].append(number)
        return tuple(tuple(numbers) for numbers in followers)

    @cached_property
    def least_peak(self) -> int:
        """Bytes that the largest operator touches: a lower bound of the peak."""
        return max((sum(self.sizes[b] for b in set(buffers)) for buffers in self.touched), default=0)

    def step(self, executed: int, number: int) -> tuple[int, int]:
        """Return the memory that an operator adds while it runs, and after it.

        executed: mask of the operators that have run.
        """
        opened = closed = 0
        after = executed | 1 << number
        for buffer in self.touched[number]:
            users = self.users[buffer]
            if not users & executed:
                opened += self.sizes[buffer]
            if not users & ~after:
                closed += self.sizes[buffer]
        return opened, opened - closed


@dataclass(frozen=True)
class LeastPeakOrder:
    """An order with its live peak, and a lower bound of the peak of any order."""

    order: tuple[int, ...]
    peak: int
    lower_bound: int

    @property
    def optimal(self) -> bool:
        """True if no order has a lower peak, which is proven."""
        return self.peak == self.lower_bound


def peak_of(problem: OrderProblem, order: Sequence[int]) -> int:
    """Return the live peak of an order."""
    done, live, peak = 0, 0, 0
    for number in order:
        opened, change = problem.step(done, number)
        peak = max(peak, live + opened)
        done, live = done | 1 << number, live + change
    return peak


def least_peak_order(problem: OrderProblem, states: int = STATES) -> LeastPeakOrder:
    """Return the order with the least live peak.

    It is the best order found if a decision would visit more than `states` sets.
    """
    given = tuple(range(len(problem.touched)))
    best, peak, bound = given, peak_of(problem, given), problem.least_peak
    attempt = bound
    while bound < peak:
        order, blocked = _order_within(problem, attempt, states)
        if order is not None:
            best, peak = order, peak_of(problem, order)
        elif blocked is not None:
            bound = min(blocked, peak)
        else:
            beam = beam_search(problem)
            if peak_of(problem, beam) < peak:
                best, peak = beam, peak_of(problem, beam)
            break
        attempt = (bound + peak) // 2
    return LeastPeakOrder(best, peak, bound)


def _order_within(problem: OrderProblem, limit: int, states: int) -> tuple[tuple[int, ...] | None, int | None]:
    """Return (an order whose peak is at most `limit`, None), or (None, the smallest peak that may still be possible).

    Returns (None, None) if it would visit more than `states` sets.
    """
    everything = (1 << len(problem.touched)) - 1
    seen: set[int] = set()
    blocked: int | None = None
    # Sets to visit: the state before, the operator to run next, and the length of the path there.
    stack: list[tuple[_Running, int | None, int]] = [(_Running(problem, limit), None, 0)]
    path: list[tuple[int, ...]] = []
    while stack:
        running, number, depth = stack.pop()
        running = running.copy()
        if number is not None:
            running.run(number)
        running.run_free()
        if running.done in seen:
            continue
        seen.add(running.done)
        if len(seen) > states:
            return None, None
        del path[depth:]
        path.append(tuple(running.ran))
        running.ran.clear()
        if running.done == everything:
            return tuple(number for part in path for number in part), None
        moves = []
        for number in running.ready_numbers():
            opened, change = problem.step(running.done, number)
            if running.live + opened > limit:
                blocked = running.live + opened if blocked is None else min(blocked, running.live + opened)
            else:
                moves.append((-change, number))
        for _, number in sorted(moves):  # the operator that leaves the least in memory is pushed last, and tried first
            stack.append((running, number, depth + 1))
    return None, limit + 1 if blocked is None else blocked


class _Running:
    """State of a search path. done, ready: masks. live: memory in use. ran: operators in order."""

    def __init__(self, problem: OrderProblem, limit: int) -> None:
        self.problem, self.limit = problem, limit
        self.done, self.live, self.ran = 0, 0, list[int]()
        self.ready = sum(1 << number for number, needed in enumerate(problem.predecessors) if not needed)

    def copy(self) -> "_Running":
        copied = _Running.__new__(_Running)
        copied.__dict__.update(self.__dict__, ran=list(self.ran))
        return copied

    def ready_numbers(self) -> list[int]:
        return _bits(self.ready)

    def run(self, number: int) -> None:
        self.live += self.problem.step(self.done, number)[1]
        self.done |= 1 << number
        self.ready ^= 1 << number
        self.ran.append(number)
        for follower in self.problem.followers[number]:
            if not self.problem.predecessors[follower] & ~self.done:
                self.ready |= 1 << follower

    def run_free(self) -> None:
        """Run all chains that keep the limit and leave no more in memory than before, until none is left."""
        waiting = self.ready
        while waiting:
            number = (waiting & -waiting).bit_length() - 1
            waiting ^= 1 << number
            chain = self._free_chain(number)
            before = self.ready
            for operator in chain:
                self.run(operator)
            if chain:  # it may have made other chains free
                waiting = self.ready if self.ready != before else waiting

    def _free_chain(self, number: int) -> list[int]:
        """Return the chain of operators from this one up to the first after which no more is in memory than before.

        Each operator is the only one that its predecessor makes ready. Empty if there is no such chain within the
        limit.
        """
        done, live, chain = self.done, self.live, list[int]()
        while True:
            opened, change = self.problem.step(done, number)
            if live + opened > self.limit:
                return []
            done, live = done | 1 << number, live + change
            chain.append(number)
            if live <= self.live:
                return chain
            following = [n for n in self.problem.followers[number] if not self.problem.predecessors[n] & ~done]
            if len(following) != 1:
                return []
            number = following[0]


def _bits(mask: int) -> list[int]:
    bits = []
    while mask:
        bits.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return bits


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
    return _with_ready(problem, after, ready, (*_bits(reevaluated), *opened))


def _with_ready(
    problem: OrderProblem, executed: int, ready: Mapping[tuple[int, int], int], numbers: Iterable[int]
) -> Mapping[tuple[int, int], int]:
    """Return the masks by cost, with these operators added. executed: mask of the operators that have run."""
    masks = dict(ready)
    for number in numbers:
        costs = problem.step(executed, number)
        masks[costs] = masks.get(costs, 0) | 1 << number
    return {costs: mask for costs, mask in masks.items() if mask}
