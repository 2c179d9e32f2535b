"""Balanced stages against every split there is, and pipelines' memory."""

from itertools import combinations, pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.apps.stage_balance import StageCores, balance_stages, core_teams
from mavcg.choose.lowering.stage_memory import BufferUse
from tests.conftest import examples


def bytes_of(uses: list[BufferUse], cuts: tuple[int, ...], steps: int) -> int:
    """By the definition: live peaks of what stages alone use, and a copy of every other buffer for each of its
    stages."""
    total = 0
    bounds = list(pairwise((0, *cuts, steps)))
    inside: list[BufferUse] = []
    for use in uses:
        stages = [n for n, (a, b) in enumerate(bounds) if a < use.last + 1 and use.first < b]
        if len(stages) > 1:
            total += len(stages) * -(-use.bytes // 64) * 64
        else:
            inside.append(use)
    for begin, end in bounds:
        own = [use for use in inside if begin <= use.first < end]
        total += max(
            sum(-(-u.bytes // 64) * 64 for u in own if u.first <= step <= u.last) for step in range(begin, end)
        )
    return total


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[tuple[StageCores, list[float]]], int, list[BufferUse], list[int]]:
    steps = draw(st.integers(2, 6))
    teams = draw(st.integers(1, 3))
    times = st.lists(st.integers(1, 9).map(float), min_size=steps, max_size=steps)
    rows = [(StageCores(number, 1 + number), draw(times)) for number in range(teams)]
    uses = []
    for number in range(draw(st.integers(0, 6))):
        first = draw(st.integers(0, steps - 1))
        uses.append(BufferUse(f"b{number}", draw(st.integers(1, 300)), first, draw(st.integers(first, steps - 1))))
    nodes = [0]
    for _ in range(steps - 1):
        nodes.append(nodes[-1] + draw(st.integers(0, 1)))
    return rows, draw(st.integers(1, 3)), uses, nodes


@given(problems(), st.none() | st.integers(1, 400))
@settings(max_examples=examples(60, 10))
def test_no_split_is_better(problem: tuple, per_second: int | None) -> None:  # type: ignore[type-arg]
    rows, count, uses, nodes = problem
    steps = len(nodes)
    splits = []
    for cuts in combinations([n for n in range(1, steps) if nodes[n] != nodes[n - 1]], count - 1):
        for order in permutations(rows, count):
            ms = [sum(row[1][a:b]) for row, (a, b) in zip(order, pairwise((0, *cuts, steps)), strict=True)]
            splits.append((max(ms), bytes_of(uses, cuts, steps)))
    pipeline = balance_stages(rows, count, uses, nodes, per_second)
    if not splits:
        assert pipeline is None
        return
    assert pipeline is not None
    fastest = min(ms for ms, _ in splits)
    limit = max(fastest, 1e3 / per_second if per_second else 0)
    assert pipeline.bytes == min(size for ms, size in splits if ms <= limit * (1 + 1e-9))
    assert pipeline.bytes == bytes_of(uses, pipeline.cuts, steps) and max(pipeline.ms) <= limit * (1 + 1e-9)
    for team, stage_ms, (a, b) in zip(pipeline.teams, pipeline.ms, pairwise((0, *pipeline.cuts, steps)), strict=True):
        assert stage_ms == pytest.approx(sum(dict(rows)[team][a:b]))
    assert len(set(pipeline.teams)) == count


def test_given_cuts_leave_the_teams_to_choose() -> None:
    rows = [(StageCores(0, 1), [1.0, 1.0, 9.0]), (StageCores(1, 4), [2.0, 2.0, 3.0])]
    pipeline = balance_stages(rows, 2, [], [0, 1, 2], fixed=[2])
    assert pipeline is not None and (pipeline.cuts, pipeline.ms) == ((2,), (2.0, 3.0))
    assert [team.cluster for team in pipeline.teams] == [0, 1] and pipeline.per_second == pytest.approx(1e3 / 3)


@pytest.mark.parametrize(
    ("cores", "count", "teams"),
    [
        ([2, 2, 4], 3, [(0, 2), (1, 2), (2, 4)]),
        ([2, 2, 4], 2, [(0, 2), (1, 2), (2, 4)]),
        ([2], 2, [(0, 1), (0, 1)]),
        ([4, 4], 3, [(1, 4), (0, 2), (0, 2)]),
        ([1], 3, [(0, 1)]),
    ],
)
def test_teams(cores: list[int], count: int, teams: list[tuple[int, int]]) -> None:
    assert [(team.cluster, team.cores) for team in core_teams(cores, count)] == teams
