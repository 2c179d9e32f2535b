"""Balance of a pipeline's stages: where a program is cut, and which cores compute each stage.

Pipe-it (Wang et al., "High-Throughput CNN Inference on Embedded ARM big.LITTLE Multi-Core Processors", IEEE TCAD 2020)
searches cuts and cores by a heuristic; the search here is exact, by dynamic programming over cut points.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mavcg.choose.lowering.stage_memory import BufferUse
from mavcg.memory.arena import align_size

_EQUAL = 1 + 1e-9  # times within this ratio count as equal


@dataclass(frozen=True)
class StageCores:
    """Cores that compute a stage: number of the cluster on the board, and number of its cores.

    A choice among a board's cores; what they are, the CoreModel of that number says.
    """

    cluster: int
    cores: int


@dataclass(frozen=True)
class StageBalance:
    """Cuts and cores of a pipeline.

    cuts: first step of each stage after the first. teams: of each stage. ms: predicted, of each stage. bytes: of
    buffers, with the live peak for the buffers that one stage alone uses.
    """

    cuts: tuple[int, ...]
    teams: tuple[StageCores, ...]
    ms: tuple[float, ...]
    bytes: int

    @property
    def per_second(self) -> float:
        """Frames per second, by the slowest stage."""
        return 1e3 / max(self.ms) if max(self.ms) > 0 else float("inf")


def core_teams(cluster_cores: Sequence[int], count: int) -> tuple[StageCores, ...]:
    """Return `count` teams of a board's cores: its clusters, of which the largest are halved if there are too few.

    cluster_cores: number of cores of each cluster. With more clusters than `count`, all clusters are returned, and the
    search leaves some out; with fewer cores than `count`, one team for each core.
    """
    teams = [StageCores(number, cores) for number, cores in enumerate(cluster_cores) if cores]
    while len(teams) < count and max(team.cores for team in teams) > 1:
        largest = max(teams, key=lambda team: team.cores)
        teams.remove(largest)
        half = largest.cores // 2
        teams += [StageCores(largest.cluster, largest.cores - half), StageCores(largest.cluster, half)]
    return tuple(teams)


def balance_stages(
    team_ms: Sequence[tuple[StageCores, Sequence[float]]],
    count: int,
    uses: Sequence[BufferUse],
    nodes: Sequence[int],
    per_second: float | None = None,
    fixed: Sequence[int] | None = None,
) -> StageBalance | None:
    """Return the best pipeline of `count` stages; None if there are fewer teams or cut points.

    If pipelines reach per_second, the one with the smallest buffers is the best. Otherwise, and if per_second is not
    given, it is the fastest, and among equally fast ones that with the smallest buffers. team_ms: predicted time of
    each step, by team. uses: the program's buffers. nodes: node of each step; the steps of a node stay together. fixed:
    given cuts, so that only teams are chosen.
    """
    rows = list(team_ms)
    steps = len(nodes)
    points = [0, *(n for n in range(1, steps) if nodes[n] != nodes[n - 1]), steps]
    if fixed is not None:
        points = [0, *fixed, steps]
    if count > len(rows) or count > len(points) - 1:
        return None
    sums = [np.concatenate(([0.0], np.cumsum(ms)))[points] for _, ms in rows]
    stage_ms = [np.triu(total[None, :] - total[:, None]) for total in sums]  # [team][from, to]
    fastest = _search(stage_ms, count, np.maximum)
    assert fastest is not None
    limit = fastest.cost * _EQUAL
    if per_second is not None and per_second > 0:
        limit = max(limit, 1e3 / per_second)
    sizes = _stage_bytes(uses, points)
    allowed = [np.where(ms <= limit, sizes, np.inf) for ms in stage_ms]
    least = _search(allowed, count, np.add)
    assert least is not None
    teams = tuple(rows[team][0] for team in least.teams)
    ms = tuple(float(stage_ms[t][a, b]) for t, (a, b) in zip(least.teams, pairwise(least.points), strict=True))
    return StageBalance(tuple(points[p] for p in least.points[1:-1]), teams, ms, int(least.cost))


@dataclass(frozen=True)
class _StagePath:
    """A path through the cut points.

    points: indices of the cut points, combined ends included. teams: of the stages between.
    """

    cost: float
    points: tuple[int, ...]
    teams: tuple[int, ...]


def _search(cost: Sequence[NDArray[np.float64]], count: int, join: np.ufunc) -> _StagePath | None:
    """Return the cheapest path through all points in `count` stages, each computed by a different team.

    cost: of a stage from one point to another, by team. join: combines the costs of stages, by sum or maximum.
    """
    points = cost[0].shape[0]
    start = np.full(points, np.inf)
    start[0] = 0
    best: dict[int, NDArray[np.float64]] = {0: start}  # by the set of used teams, as bits
    previous: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
    backwards = np.tri(points, dtype=bool)  # a stage has at least one step
    layer = [0]
    for _ in range(count):
        following: dict[int, None] = {}
        for used in layer:
            for team in range(len(cost)):
                if used >> team & 1:
                    continue
                combined = join(best[used][:, None], cost[team])
                combined[backwards] = np.inf
                source = combined.argmin(axis=0)
                value = combined[source, np.arange(points)]
                key = used | 1 << team
                if key not in best:
                    best[key] = np.full(points, np.inf)
                    previous[key] = (np.zeros(points, np.int64), np.zeros(points, np.int64))
                better = value < best[key]
                best[key][better] = value[better]
                previous[key][0][better], previous[key][1][better] = source[better], team
                following[key] = None
        layer = list(following)
    end = min(layer, key=lambda used: best[used][points - 1])
    if not np.isfinite(best[end][points - 1]):
        return None
    at, used, path, teams = points - 1, end, [points - 1], list[int]()
    while used:
        source, team = int(previous[used][0][at]), int(previous[used][1][at])
        path.append(source)
        teams.append(team)
        at, used = source, used & ~(1 << team)
    return _StagePath(float(best[end][points - 1]), tuple(path[::-1]), tuple(teams[::-1]))


def _stage_bytes(uses: Sequence[BufferUse], points: Sequence[int]) -> NDArray[np.float64]:
    """Return [from, to]: the bytes that a stage between two cut points adds.

    This is the live peak of the buffers that only this stage uses, plus a copy of each buffer that it passes on,
    whether the buffer is its own or an earlier stage's. A buffer thus counts once more for each cut that it crosses.
    """
    steps = points[-1]
    stage_bytes = np.zeros((len(points), len(points)))
    for a, begin in enumerate(points[:-1]):
        live, peak = np.zeros(steps), 0.0
        inside = sorted((u for u in uses if u.first >= begin), key=lambda u: u.last)
        at = 0
        for b in range(a + 1, len(points)):
            end = points[b]
            while at < len(inside) and inside[at].last < end:
                use = inside[at]
                live[use.first : use.last + 1] += align_size(use.bytes)
                at += 1
            peak = float(live[begin:end].max(initial=0.0))
            crossing = [u for u in uses if u.first < end and u.last >= begin and (u.first < begin or u.last >= end)]
            stage_bytes[a, b] = peak + sum(align_size(u.bytes) for u in crossing)
    return stage_bytes
