"""The order of operators with the least peak, beside brute force over all topological orders."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.memory import beam_search
from mavcg.memory.order_problem import OrderProblem, peak_of
from mavcg.memory.order_search import least_peak_order
from tests.conftest import examples


@st.composite
def problems(draw: st.DrawFn, most: int = 6) -> OrderProblem:
    """Operators that write a buffer of their own and read earlier ones; some write into another's buffer."""
    count = draw(st.integers(1, most))
    sizes = tuple(draw(st.integers(0, 9)) for _ in range(count))
    touched, before = [], []
    for number in range(count):
        reads = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        shared = draw(st.sets(st.integers(0, count - 1), max_size=1)) if draw(st.integers(0, 3)) == 0 else set()
        touched.append(tuple({number, *reads, *shared}))
        before.append(tuple(reads))
    return OrderProblem(sizes, tuple(touched), tuple(before))


def all_orders(problem: OrderProblem, done: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if len(done) == len(problem.touched):
        yield done
    for number, needed in enumerate(problem.before):
        if number not in done and set(needed) <= set(done):
            yield from all_orders(problem, (*done, number))


def peak_by_steps(problem: OrderProblem, order: tuple[int, ...]) -> int:
    """The largest sum over the steps of buffers between their first and last use."""
    at = {number: time for time, number in enumerate(order)}
    lives = [[at[n] for n, buffers in enumerate(problem.touched) if b in buffers] for b in range(len(problem.sizes))]
    return max(
        sum(size for size, live in zip(problem.sizes, lives, strict=True) if live and min(live) <= time <= max(live))
        for time in range(len(order))
    )


@settings(max_examples=examples(60, 10))
@given(problems())
def test_no_order_is_better(problem: OrderProblem) -> None:
    ordered = least_peak_order(problem)
    assert sorted(ordered.order) == list(range(len(problem.touched)))
    assert all(
        ordered.order.index(b) < ordered.order.index(n) for n, needed in enumerate(problem.before) for b in needed
    )
    assert ordered.peak == peak_of(problem, ordered.order) == peak_by_steps(problem, ordered.order)
    assert ordered.optimal and ordered.peak == min(peak_by_steps(problem, order) for order in all_orders(problem))


@settings(max_examples=examples(30, 5))
@given(problems())
def test_without_steps_a_beam_is_no_worse_than_the_given_order(problem: OrderProblem) -> None:
    """The bound stays true where the search ends early."""
    ordered = least_peak_order(problem, steps=1)
    assert ordered.peak <= peak_of(problem, range(len(problem.touched)))
    assert ordered.lower_bound <= least_peak_order(problem).peak <= ordered.peak


@pytest.mark.parametrize("branches", [3, 5])
def test_branches_run_one_after_the_other(branches: int) -> None:
    """Branches that widen and narrow 8 times each, listed level by level: one at a time is best."""
    touched, before, sizes = [(0,)], [()], [10]  # type: list[tuple[int, ...]], list[tuple[int, ...]], list[int]
    for level in range(16):
        for _ in range(branches):
            source = 0 if level == 0 else len(touched) - branches
            sizes.append(100 if level % 2 == 0 else 1)
            before.append((source,))
            touched.append((source, len(touched)))
    ends = tuple(range(len(touched) - branches, len(touched)))
    problem = OrderProblem((*sizes, 1), (*touched, (*ends, len(touched))), (*before, ends))
    ordered = least_peak_order(problem)
    assert ordered.optimal and ordered.peak == 100 + 10 + branches - 1
    assert peak_of(problem, range(len(problem.touched))) >= 100 * branches


def beam_by_definition(problem: OrderProblem, width: int) -> tuple[int, ...]:
    """Beam search that looks at every operator for every set that it keeps."""
    states = {frozenset[int](): (0, 0, tuple[int, ...]())}
    for _ in problem.touched:
        following: dict[frozenset[int], tuple[int, int, tuple[int, ...]]] = {}
        for done, (peak, live, order) in states.items():
            mask = sum(1 << n for n in done)
            for number, needed in enumerate(problem.before):
                if number not in done and done.issuperset(needed):
                    opened, change = problem.step(mask, number)
                    extended = (max(peak, live + opened), live + change, (*order, number))
                    after = done | {number}
                    following[after] = min(extended, following.get(after, extended))
        states = dict(sorted(following.items(), key=lambda item: item[1])[:width])
    return min(states.values())[2]


@settings(max_examples=examples(60, 8))
@given(problems(most=10), st.integers(1, 5))
def test_the_beam_is_that_of_its_definition(problem: OrderProblem, width: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam_search, "BEAM", width)
        assert beam_search.beam_search(problem) == beam_by_definition(problem, width)


class CountedProblem(OrderProblem):
    """A problem that counts how often the costs of an operator are computed."""

    steps = 0

    def step(self, executed: int, number: int) -> tuple[int, int]:
        CountedProblem.steps += 1
        return super().step(executed, number)


def recurrent(steps: int) -> OrderProblem:
    """A recurrent cell of 5 operators, unrolled: each step's slice of the input is ready from the start."""
    touched, before, sizes = list[tuple[int, ...]](), list[tuple[int, ...]](), list[int]()
    for step in range(steps):
        first = 5 * step
        state = (first - 1,) if step else ()
        needed = [(), (first, *state), (first + 1,), (first + 1,), (first + 2, first + 3)]
        for number, reads in enumerate(needed):
            before.append(reads)
            touched.append((*reads, first + number))
            sizes.append((8, 32, 16, 16, 8)[number])
    return OrderProblem(tuple(sizes), tuple(touched), tuple(before))


def test_the_work_of_the_beam_is_linear_in_the_number_of_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam_search, "BEAM", 8)
    counts = []
    for steps in (20, 40, 80):
        CountedProblem.steps, plain = 0, recurrent(steps)
        beam_search.beam_search(CountedProblem(plain.sizes, plain.touched, plain.before))
        counts.append(CountedProblem.steps)
    assert counts[2] - counts[1] <= 2.05 * (counts[1] - counts[0]), counts


def sums_of_branches(branches: int) -> OrderProblem:
    """Branches of three operators on slices of one input, which chains of sums take up from both ends."""
    touched, before, sizes = [(0,)], [()], [10]  # type: list[tuple[int, ...]], list[tuple[int, ...]], list[int]
    ends = list[int]()
    for branch in range(branches):
        for place, size in enumerate((5, 30 + branch % 7, 20)):
            source = len(touched) - 1 if place else 0
            before.append((source,))
            touched.append((source, len(touched)))
            sizes.append(size)
        ends.append(len(touched) - 1)
    for order in (ends, ends[::-1]):
        last = order[0]
        for end in order[1:]:
            before.append((last, end))
            touched.append((last, end, len(touched)))
            sizes.append(20)
            last = len(touched) - 1
    return OrderProblem(tuple(sizes), tuple(touched), tuple(before))


def test_the_exact_search_ends_after_its_steps() -> None:
    """However many sets each value of the peak would take, and however many values there are."""
    plain = sums_of_branches(40)
    counted = CountedProblem(plain.sizes, plain.touched, plain.before)
    CountedProblem.steps = 0
    beam_search.beam_search(counted)
    peaks = 4 * len(plain.touched)  # of the given order, the orders found and the beam's
    most, CountedProblem.steps = CountedProblem.steps + 5_000 + peaks, 0
    ordered = least_peak_order(counted, steps=5_000)
    assert 5_000 < CountedProblem.steps <= most and not ordered.optimal
    assert ordered.peak <= peak_of(plain, range(len(plain.touched)))
