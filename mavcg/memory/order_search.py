"""Search for the order of operators with the least live peak: exact by a search over sets of operators, else by a beam.

Whether a peak of B can be kept depends only on the set of operators that have run, so each set is visited once (Held
and Karp's dynamic programming over down-sets). Operators that are ready, keep B and leave no more in memory than before
run at once: the longer they wait, the more they would free, so running them now makes no later step larger (the memory
in use is a submodular function of the set). This also holds for a chain of operators if all of its proper prefixes
leave more: whatever part of it has run, the rest frees memory (as in Liu, "An application of generalized tree pebbling
to sparse matrix factorization", 1987, for trees). Bisection over B then finds the least peak.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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
            beam = _beam(problem)
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


def _ready(problem: OrderProblem, executed: int) -> list[int]:
    return [
        number
        for number, needed in enumerate(problem.predecessors)
        if not needed & ~executed and not executed >> number & 1
    ]


def _beam(problem: OrderProblem) -> tuple[int, ...]:
    """Return an order by beam search.

    After each operator the sets with the lowest peak, then the least memory, are kept.
    """
    states: dict[int, tuple[int, int, tuple[int, ...]]] = {0: (0, 0, ())}
    for _ in problem.touched:
        following: dict[int, tuple[int, int, tuple[int, ...]]] = {}
        for done, (peak, live, order) in states.items():
            for number in _ready(problem, done):
                opened, change = problem.step(done, number)
                extended = (max(peak, live + opened), live + change, (*order, number))
                after = done | 1 << number
                if after not in following or extended < following[after]:
                    following[after] = extended
        best = sorted(following.items(), key=lambda item: item[1])[:BEAM]
        states = dict(best)
    return next(iter(states.values()))[2] if states else ()
