"""Search for the order of operators with the least live peak: exact over sets of operators, or else by a beam.

Whether a peak of B can be kept depends only on the set of operators that have run, so each set is visited once (Held
and Karp's dynamic programming over down-sets). Operators that are ready, keep B and leave no more in memory than before
run at once: the longer they wait, the more they would free, so running them now makes no later step larger (the memory
in use is a submodular function of the set). This also holds for a chain of operators if all of its proper prefixes
leave more: whatever part of it has run, the rest frees memory (as in Liu, "An application of generalized tree pebbling
to sparse matrix factorization", 1987, for trees). Bisection over B then finds the least peak.
"""

from dataclasses import dataclass

from mavcg.memory.beam_search import beam_search
from mavcg.memory.order_problem import OrderProblem, bits_of, peak_of

STEPS = 200_000  # costs of operators that a search looks up, whatever the values of B: about a second


class _TooManyStepsError(Exception):
    """A search has looked up as many costs as it may."""


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


def least_peak_order(problem: OrderProblem, steps: int = STEPS) -> LeastPeakOrder:
    """Return the order with the least live peak.

    It is the best order found if the search would look up the costs of operators more than `steps` times.
    """
    given = tuple(range(len(problem.touched)))
    best, peak, bound = given, peak_of(problem, given), problem.least_peak
    attempt, costs = bound, _CountedCosts(problem, steps)
    while bound < peak:
        try:
            order, blocked = _order_within(costs, attempt)
        except _TooManyStepsError:
            beam = beam_search(problem)
            if peak_of(problem, beam) < peak:
                best, peak = beam, peak_of(problem, beam)
            break
        if order is None:
            bound = min(blocked, peak)
        else:
            best, peak = order, peak_of(problem, order)
        attempt = (bound + peak) // 2
    return LeastPeakOrder(best, peak, bound)


@dataclass
class _CountedCosts:
    """The costs of a problem's operators, which can be looked up `left` times more."""

    problem: OrderProblem
    left: int

    def step(self, executed: int, number: int) -> tuple[int, int]:
        """Return what OrderProblem.step does. Raises: _TooManyStepsError."""
        if not self.left:
            raise _TooManyStepsError
        self.left -= 1
        return self.problem.step(executed, number)


def _order_within(costs: _CountedCosts, limit: int) -> tuple[tuple[int, ...] | None, int]:
    """Return (an order whose peak is at most `limit`, limit), or (None, the smallest peak that may still be possible).

    Raises: _TooManyStepsError.
    """
    everything = (1 << len(costs.problem.touched)) - 1
    seen: set[int] = set()
    blocked: int | None = None
    # Sets to visit: the state before, the operator to run next, and the length of the path there.
    stack: list[tuple[_Running, int | None, int]] = [(_Running(costs, limit), None, 0)]
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
        del path[depth:]
        path.append(tuple(running.ran))
        running.ran.clear()
        if running.done == everything:
            return tuple(number for part in path for number in part), limit
        moves = []
        for number in running.ready_numbers():
            opened, change = costs.step(running.done, number)
            if running.live + opened > limit:
                blocked = running.live + opened if blocked is None else min(blocked, running.live + opened)
            else:
                moves.append((-change, number))
        for _, number in sorted(moves):  # the operator that leaves the least in memory is pushed last, and tried first
            stack.append((running, number, depth + 1))
    return None, limit + 1 if blocked is None else blocked


class _Running:
    """State of a search path. done, ready: masks. live: memory in use. ran: operators in order."""

    def __init__(self, costs: _CountedCosts, limit: int) -> None:
        self.costs, self.problem, self.limit = costs, costs.problem, limit
        self.done, self.live, self.ran = 0, 0, list[int]()
        self.ready = sum(1 << number for number, needed in enumerate(self.problem.predecessors) if not needed)

    def copy(self) -> "_Running":
        copied = _Running.__new__(_Running)
        copied.__dict__.update(self.__dict__, ran=list(self.ran))
        return copied

    def ready_numbers(self) -> list[int]:
        return bits_of(self.ready)

    def run(self, number: int) -> None:
        self.live += self.costs.step(self.done, number)[1]
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
            opened, change = self.costs.step(done, number)
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
