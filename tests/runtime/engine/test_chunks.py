"""Balance on unequal cores, counted: whole steps are simulated with a clock for each thread, by the engine's own rule
of chunks (chunks.c); and the planner's copy of that rule, against it."""

import heapq
import subprocess
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.cost.guided_chunks import better_left, next_chunk_rows
from mavcg.runtime.amalgamation import SOURCES
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig
from tests.conftest import examples

HERE = Path(__file__).parent
FAST = 60  # a fast core's time for a row; 60 / 6 and 60 * 6 are whole
PAIRS = tuple((FAST, FAST * slower) for slower in (1, 2, 3, 4, 6))
# 4+4 (1:3 and 1:6), 4+2+2 (Exynos 9810 and 9820 are of that kind), 1+3+4, 6+2, 2+2+4, 8 alike.
CLUSTERS = (
    (FAST,) * 4 + (FAST * 3,) * 4,
    (FAST,) * 4 + (FAST * 6,) * 4,
    (FAST * 3,) * 4 + (FAST * 3 // 2,) * 2 + (FAST,) * 2,
    (FAST,) + (FAST * 5 // 4,) * 3 + (FAST * 3,) * 4,
    (FAST,) * 2 + (FAST * 4,) * 6,
    (FAST,) * 2 + (FAST * 2,) * 2 + (FAST * 5,) * 4,
    (FAST,) * 8,
)
ROWS = (56, 64, 75, 100, 112, 150, 224, 300, 448, 1000, 3136, 10000)


class Simulated:
    """A step's result. end: time at which the last thread ends; equal_end: the same with minimum chunks; chunks: their
    number; rows: rows that were computed."""

    def __init__(self, line: str) -> None:
        self.end, self.equal_end, self.chunks, self.rows = map(int, line.split())


Simulate = Callable[[Sequence[tuple[int, int, Sequence[int], Sequence[int]]]], list[Simulated]]


@pytest.fixture(scope="session")
def chunks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of chunks.c."""
    program = tmp_path_factory.mktemp("chunks") / "chunks"
    flags = ["-target", host_target().zig_name, "-O1", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}"]
    run_zig("cc", [*flags, str(HERE / "chunks.c"), "-o", str(program)], "compiling the rule of chunks")
    return program


@pytest.fixture(scope="session")
def simulate(chunks: Path) -> Simulate:
    """simulate([(rows, minimum chunk, time of a row by thread, speed by thread)])."""

    def simulate(steps: Sequence[tuple[int, int, Sequence[int], Sequence[int]]]) -> list[Simulated]:
        lines = []
        for rows, min_rows, costs, given_speeds in steps:
            pairs = [number for pair in zip(costs, given_speeds, strict=True) for number in pair]
            lines.append(" ".join(map(str, ["step", rows, min_rows, len(costs), *pairs])))
        done = subprocess.run([chunks], input="\n".join(lines), capture_output=True, text=True, check=True)
        results = [Simulated(line) for line in done.stdout.splitlines()]
        assert len(results) == len(steps)
        return results

    return simulate


def speeds(costs: Sequence[int]) -> tuple[int, ...]:
    """Speeds as a program gives them."""
    return tuple(round(256 * FAST / cost) for cost in costs)


def ideal(rows: int, costs: Sequence[int]) -> Fraction:
    """When all threads end together, if rows could be cut anywhere."""
    return rows / sum((Fraction(1, cost) for cost in costs), Fraction(0))


def best(rows: int, min_rows: int, costs: Sequence[int]) -> int:
    """The earliest end with minimum chunks: each to the thread that would end it first."""
    ends = [(cost * min_rows, cost * min_rows) for cost in costs]
    heapq.heapify(ends)
    for _ in range(-(-rows // min_rows)):
        end, each = heapq.heappop(ends)
        heapq.heappush(ends, (end + each, each))
    return max(end - each for end, each in ends)


@pytest.mark.parametrize("caller", ["fast", "slow"])
@pytest.mark.parametrize("costs", [*PAIRS, *CLUSTERS], ids=lambda costs: "-".join(str(c) for c in costs))
def test_a_step_ends_within_a_tenth_of_the_ideal_split(simulate: Simulate, costs: tuple[int, ...], caller: str) -> None:
    """Wherever the slowest core ends a minimum chunk within a tenth of the ideal time: no scheme does better."""
    ordered = sorted(costs, reverse=caller == "slow")
    steps = [
        (rows * min_rows, min_rows, ordered, speeds(ordered))
        for rows in ROWS
        for min_rows in (1, 7)
        if 10 * max(costs) <= ideal(rows, costs)
    ]
    assert len(steps) >= 8

    for step, simulated in zip(steps, simulate(steps), strict=True):
        assert simulated.rows == step[0]
        assert 10 * simulated.end <= 11 * ideal(step[0], costs)
        assert simulated.chunks <= step[0] // step[1]


@pytest.mark.parametrize("costs", PAIRS, ids=lambda costs: f"1:{costs[1] // costs[0]}")
def test_few_chunks_go_to_the_fast_core(simulate: Simulate, costs: tuple[int, int]) -> None:
    """From 1 to 30 of them: hardly ever later than the best of all splits, where chunks of equal size, taken by
    the next free thread, leave a slow core with the last one."""
    steps = [(chunks, 1, costs, speeds(costs)) for chunks in range(1, 31)]

    guided = [Fraction(p.end, best(*s[:3])) for s, p in zip(steps, simulate(steps), strict=True)]
    equal = [Fraction(p.equal_end, best(*s[:3])) for s, p in zip(steps, simulate(steps), strict=True)]
    assert max(guided) <= Fraction(6, 5) and sum(guided) <= sum(equal)
    assert max(equal) >= Fraction(costs[1], 2 * costs[0])


@pytest.mark.parametrize("costs", [*PAIRS, *CLUSTERS], ids=lambda costs: "-".join(str(c) for c in costs))
def test_where_no_speeds_are_known(simulate: Simulate, costs: tuple[int, ...]) -> None:
    """All speeds alike: chunks still shrink, and a step ends at most a minimum chunk of the slowest core later than
    with the best of all splits."""
    steps = [(rows, 1, costs, (256,) * len(costs)) for rows in ROWS]

    for step, simulated in zip(steps, simulate(steps), strict=True):
        assert simulated.end <= best(*step[:3]) + max(costs)


@pytest.mark.parametrize(("rows", "min_rows", "most"), [(14, 5, 9), (7, 4, 4), (9, 4, 5), (11, 4, 7), (13, 6, 7)])
def test_a_step_that_ends_within_a_minimum_chunk_is_cut_where_that_is_nearest(
    simulate: Simulate, rows: int, min_rows: int, most: int
) -> None:
    """With equal threads the one at the end begins with the partial chunk there where that is half a minimum chunk or
    more, else with that and a minimum chunk."""
    [simulated] = simulate([(rows, min_rows, (FAST, FAST), (256, 256))])

    assert simulated.rows == rows and simulated.end == most * FAST


def test_a_slow_core_leaves_what_others_do_as_soon(simulate: Simulate) -> None:
    """14 rows, three times slower: with a fourth row it would end at 12, without it the fast one ends at 11."""
    fast_calls, slow_calls = simulate([(14, 1, costs, speeds(costs)) for costs in ((FAST, 3 * FAST), (3 * FAST, FAST))])

    assert fast_calls.end == slow_calls.end == 11 * FAST


def test_many_rows_take_few_chunks(simulate: Simulate) -> None:
    """They grow with the logarithm of the rows: 4 (CHUNK_DIVISOR) times 2 threads times ln(100000 / 8), about."""
    [simulated] = simulate([(100_000, 1, (FAST, FAST), (256, 256))])

    assert simulated.chunks < 90 and simulated.end == 50_000 * FAST


@settings(max_examples=examples(60, 8))
@given(
    rows=st.integers(1, 2**31 - 1),
    min_rows=st.integers(1, 2**31 - 1),
    threads=st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 65535)), min_size=1, max_size=1024),
)
def test_every_row_is_taken_once_whatever_the_numbers(
    simulate: Simulate, rows: int, min_rows: int, threads: list[tuple[int, int]]
) -> None:
    """At the limits of the counters, too, and whether the speeds are right or nonsense."""
    min_rows = max(min_rows, rows // 5000)

    [simulated] = simulate([(rows, min_rows, [cost for cost, _ in threads], [weight for _, weight in threads])])
    assert simulated.rows == rows and 1 <= simulated.chunks <= -(-rows // min_rows)


_rules = st.tuples(
    st.integers(1, 2**31 - 1),
    st.integers(1, 2**31 - 1) | st.integers(1, 100),
    st.integers(1, 65535),
    st.integers(0, 2**26),
    st.integers(1, 65535),
)


@settings(max_examples=examples(40, 5))
@given(rules=st.lists(_rules, min_size=50, max_size=200))
def test_the_planner_has_the_engines_rule(chunks: Path, rules: list[tuple[int, int, int, int, int]]) -> None:
    """Rows of the next chunk, and whether a slow core leaves the rows to others: the planner's Python against the C.

    A rule: rows left, minimum chunk, the thread's speed, the sum of speeds, the highest speed."""
    lines = "\n".join(" ".join(map(str, ["rule", *rule])) for rule in rules)
    done = subprocess.run([chunks], input=lines, capture_output=True, text=True, check=True)

    computed = [
        (next_chunk_rows(left, min_rows, speed, total), better_left(left, min_rows, speed, total, fastest))
        for left, min_rows, speed, total, fastest in rules
    ]
    assert [tuple(map(int, line.split())) for line in done.stdout.splitlines()] == computed
