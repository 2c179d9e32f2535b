"""Balance on unequal cores, counted: whole steps are played through with a clock for each thread, by the engine's own
arithmetic of claims (claims.c)."""

import heapq
import subprocess
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.runtime.build import SOURCES
from mavcg.target import host_target
from mavcg.toolchain import run_zig

HERE = Path(__file__).parent
FAST = 60  # a fast core's time for a row; 60 / 6 and 60 * 6 are whole
PAIRS = tuple((FAST, FAST * slower) for slower in (1, 2, 3, 4, 6))
# 4+4 (1:3 and 1:6), 4+2+2 (Exynos 9810 and 9820 are of that kind), 1+3+4, 6+2, 2+2+4, 8 alike.
CLUSTERS = (
    (FAST,) * 4 + (FAST * 3,) * 4, (FAST,) * 4 + (FAST * 6,) * 4, (FAST * 3,) * 4 + (FAST * 3 // 2,) * 2 + (FAST,) * 2,
    (FAST,) + (FAST * 5 // 4,) * 3 + (FAST * 3,) * 4, (FAST,) * 2 + (FAST * 4,) * 6,
    (FAST,) * 2 + (FAST * 2,) * 2 + (FAST * 5,) * 4, (FAST,) * 8,
)  # fmt: skip
ROWS = (56, 64, 75, 100, 112, 150, 224, 300, 448, 1000, 3136, 10000)


class Played:
    """end: when the last thread is through; equal_end: the same with claims of a grain each; claims: how many."""

    def __init__(self, line: str) -> None:
        self.end, self.equal_end, self.claims, self.rows = map(int, line.split())


Play = Callable[[Sequence[tuple[int, int, Sequence[int], Sequence[int]]]], list[Played]]


@pytest.fixture(scope="session")
def play(tmp_path_factory: pytest.TempPathFactory) -> Play:
    """play([(rows, grain, time of a row by thread, weight by thread)])."""
    program = tmp_path_factory.mktemp("claims") / "claims"
    flags = ["-target", host_target().zig_name, "-O1", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}"]
    run_zig("cc", [*flags, str(HERE / "claims.c"), "-o", str(program)], "compiling the played claims")

    def play(steps: Sequence[tuple[int, int, Sequence[int], Sequence[int]]]) -> list[Played]:
        lines = [
            " ".join(
                map(str, [rows, grain, len(costs), *(n for pair in zip(costs, weights, strict=True) for n in pair)])
            )
            for rows, grain, costs, weights in steps
        ]
        done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True)
        played = [Played(line) for line in done.stdout.splitlines()]
        assert len(played) == len(steps)
        return played

    return play


def speeds(costs: Sequence[int]) -> tuple[int, ...]:
    """Weights as a program gives them."""
    return tuple(round(256 * FAST / cost) for cost in costs)


def ideal(rows: int, costs: Sequence[int]) -> Fraction:
    """When all threads end together, if rows could be cut anywhere."""
    return rows / sum((Fraction(1, cost) for cost in costs), Fraction(0))


def best(rows: int, grain: int, costs: Sequence[int]) -> int:
    """The earliest end with whole grains: each to the thread that would be through with it first."""
    ends = [(cost * grain, cost * grain) for cost in costs]
    heapq.heapify(ends)
    for _ in range(-(-rows // grain)):
        end, each = heapq.heappop(ends)
        heapq.heappush(ends, (end + each, each))
    return max(end - each for end, each in ends)


@pytest.mark.parametrize("caller", ["fast", "slow"])
@pytest.mark.parametrize("costs", [*PAIRS, *CLUSTERS], ids=lambda costs: "-".join(str(c) for c in costs))
def test_a_step_ends_within_a_tenth_of_the_ideal_split(play: Play, costs: tuple[int, ...], caller: str) -> None:
    """Wherever the slowest core is through with one grain within a tenth of the ideal time: no scheme knows better."""
    ordered = sorted(costs, reverse=caller == "slow")
    steps = [
        (rows * grain, grain, ordered, speeds(ordered))
        for rows in ROWS
        for grain in (1, 7)
        if 10 * max(costs) <= ideal(rows, costs)
    ]
    assert len(steps) >= 8

    for step, played in zip(steps, play(steps), strict=True):
        assert played.rows == step[0]
        assert 10 * played.end <= 11 * ideal(step[0], costs)
        assert played.claims <= step[0] // step[1]


@pytest.mark.parametrize("costs", PAIRS, ids=lambda costs: f"1:{costs[1] // costs[0]}")
def test_few_grains_go_to_the_fast_core(play: Play, costs: tuple[int, int]) -> None:
    """From 1 to 30 of them: hardly ever later than the best of all splits, where claims of equal size by whoever asks
    leave a slow core with the last one."""
    steps = [(grains, 1, costs, speeds(costs)) for grains in range(1, 31)]

    guided = [Fraction(p.end, best(*s[:3])) for s, p in zip(steps, play(steps), strict=True)]
    equal = [Fraction(p.equal_end, best(*s[:3])) for s, p in zip(steps, play(steps), strict=True)]
    assert max(guided) <= Fraction(6, 5) and sum(guided) <= sum(equal)
    assert max(equal) >= Fraction(costs[1], 2 * costs[0])


@pytest.mark.parametrize("costs", [*PAIRS, *CLUSTERS], ids=lambda costs: "-".join(str(c) for c in costs))
def test_where_no_speeds_are_known(play: Play, costs: tuple[int, ...]) -> None:
    """All weights alike: claims still shrink, and a step ends at most a grain of the slowest core later than with the
    best of all splits."""
    steps = [(rows, 1, costs, (256,) * len(costs)) for rows in ROWS]

    for step, played in zip(steps, play(steps), strict=True):
        assert played.end <= best(*step[:3]) + max(costs)


@pytest.mark.parametrize(("rows", "grain", "most"), [(14, 5, 9), (7, 4, 4), (9, 4, 5), (11, 4, 7), (13, 6, 7)])
def test_a_step_that_ends_within_a_grain_is_cut_where_that_is_nearest(
    play: Play, rows: int, grain: int, most: int
) -> None:
    """Of threads that are alike the one at the end begins with what is left of a grain there where that is half a
    grain or more, else with that and a grain."""
    [played] = play([(rows, grain, (FAST, FAST), (256, 256))])

    assert played.rows == rows and played.end == most * FAST


def test_a_slow_core_leaves_what_others_do_as_soon(play: Play) -> None:
    """14 rows, three times slower: with a fourth row it would end at 12, without it the fast one ends at 11."""
    fast_calls, slow_calls = play([(14, 1, costs, speeds(costs)) for costs in ((FAST, 3 * FAST), (3 * FAST, FAST))])

    assert fast_calls.end == slow_calls.end == 11 * FAST


def test_many_rows_take_few_claims(play: Play) -> None:
    """They grow with the logarithm of the rows: 4 (CLAIM_PART) times 2 threads times ln(100000 / 8), about."""
    [played] = play([(100_000, 1, (FAST, FAST), (256, 256))])

    assert played.claims < 90 and played.end == 50_000 * FAST


@settings(max_examples=60)
@given(
    rows=st.integers(1, 2**31 - 1),
    grain=st.integers(1, 2**31 - 1),
    threads=st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 65535)), min_size=1, max_size=1024),
)
def test_every_row_is_claimed_once_whatever_the_numbers(
    play: Play, rows: int, grain: int, threads: list[tuple[int, int]]
) -> None:
    """At the limits of the counters, too, and whether the weights are right or nonsense."""
    grain = max(grain, rows // 5000)

    [played] = play([(rows, grain, [cost for cost, _ in threads], [weight for _, weight in threads])])
    assert played.rows == rows and 1 <= played.claims <= -(-rows // grain)
