"""Exploration of a space of boards.

Networks are predicted on each point that bounds and the power budget do not exclude. For each network the fastest
number of threads within the budget is chosen. Power is that of the working cores; energy is power times latency.
Neither includes shared caches, memory, or anything else on the chip.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from mavcg.accelerators.explore.board_predictions import (
    BoardPrediction,
    ModelWork,
    Rows,
    model_file_digest,
    model_work,
    predict_boards,
    rows_of,
)
from mavcg.accelerators.explore.board_space import BoardPoint, BoardSpace
from mavcg.accelerators.explore.pareto import ObjectiveNames
from mavcg.accelerators.explore.point_exploration import (
    Figures,
    NetworksOnPoints,
    PointExploration,
    explore_points,
)
from mavcg.accelerators.explore.store import ExplorationStore
from mavcg.cost.board_model import core_models
from mavcg.hardware.board import Board, Cluster
from mavcg.importers.declared_shapes import AS_DECLARED, GivenShapes
from mavcg.lab.jobs.engine import Engine

OBJECTIVES = ObjectiveNames(("latency", "energy"), ("power", "cores", "cache", "bandwidth"), "boards")
DEFAULT_OBJECTIVES = "latency,energy,power"
# Every algorithm does at least this fraction of a convolution's multiplications: F(4x4, 5x5) does 64 for 400.
LEAST_MULTIPLICATIONS = 1 / 8
# int8 products of an instruction per byte of a vector register: SMMLA does 32 in 16 bytes.
BYTE_DOT_PRODUCTS = 2


BoardExploration = PointExploration[BoardSpace, BoardPoint]


def board_figures(point: BoardPoint) -> dict[str, float]:
    """Return the figures of a board without a network: number of cores, bytes of the given caches, GB/s."""
    clusters = point.board.clusters
    caches = sum(len(c.cpus) * ((c.l1d_bytes or 0) + (c.l2_bytes or 0)) for c in clusters)
    return {
        "cores": float(sum(len(cluster.cpus) for cluster in clusters)),
        "cache": float(caches + (point.board.l3_bytes or 0)),
        "bandwidth": point.board.memory_gb_per_s or 0.0,
    }


def network_figures(point: BoardPoint, rows: Rows, budget_w: float | None) -> dict[str, float] | None:
    """Return latency (s), power (W), energy (J) and threads of the fastest row within the budget.

    None if none is within it.
    """
    best: dict[str, float] | None = None
    for cores, ms in rows:
        watts = sum(count * point.milliwatts[core] for core, count in cores.items()) / 1e3
        if budget_w is not None and watts > budget_w:
            continue
        if best is None or ms / 1e3 < best["latency"]:
            threads = float(sum(cores.values()))
            best = {"latency": ms / 1e3, "power": watts, "energy": watts * ms / 1e3, "threads": threads}
    return best


def explore_boards(
    space: BoardSpace,
    models: Mapping[str, str],
    objectives: Sequence[str],
    engine: Engine,
    store: ExplorationStore,
    prune: bool = True,
    progress: Callable[[str], None] = lambda message: None,
    shapes: GivenShapes = AS_DECLARED,
) -> BoardExploration:
    """Return the Pareto front of boards for networks. models: files of the networks, by name. shapes: for the import.

    Points are evaluated in rounds, those with the fastest cores first. With `prune` a point is skipped if none of its
    cores is within the budget, or if points of earlier rounds dominate its bounds: all cores within the budget at their
    peak. Raises: MavcgError for a model, a store that cannot be written, or workers that cannot be reached.
    """
    networks = _BoardNetworks(space, tuple(space.boards()), models, objectives)
    points = networks.points
    progress("reading the networks")
    works = {name: model_work(model, points[0].board, shapes) for name, model in models.items()}
    peaks = [_peaks(point) for point in points]
    least = [_least(point, peak, works, space.budget_w) for point, peak in zip(points, peaks, strict=True)]
    bounds = np.array([networks.values(point, figures) for point, figures in zip(points, least, strict=True)])
    possible = [_is_possible(point, space.budget_w) or not prune for point in points]
    order = sorted(
        (number for number in range(len(points)) if possible[number]),
        key=lambda number: (-sum(rate for rate, _ in peaks[number]), number),
    )
    return explore_points(networks, order, bounds, prune, (engine, store), progress)


class _BoardNetworks(NetworksOnPoints[BoardSpace, BoardPoint]):
    """Networks that are predicted on boards."""

    names, noun = OBJECTIVES, "predictions"

    @property
    def work(self) -> Callable[[tuple[BoardPrediction, ...]], tuple[str, ...]]:
        return predict_boards

    @cached_property
    def digests(self) -> Mapping[str, str]:
        return {model: model_file_digest(model) for model in self.models.values()}

    def tasks(self, point: BoardPoint) -> dict[str, BoardPrediction]:
        return {name: BoardPrediction(model, self.digests[model], point.board) for name, model in self.models.items()}

    def stored_results(self, store: ExplorationStore) -> dict[str, str]:
        return store.predictions()

    def keep(self, store: ExplorationStore, results: Mapping[str, str]) -> dict[str, str]:
        store.put_predictions(results)
        return dict(results)

    def figures(self, point: BoardPoint, results: Mapping[str, str]) -> Figures | None:
        """Return the networks' figures on a board; None if a network is not within the budget."""
        budget = self.space.budget_w
        rows = {name: network_figures(point, rows_of(result), budget) for name, result in results.items()}
        within = {name: row for name, row in rows.items() if row is not None}
        return within if len(within) == len(rows) else None

    def own_figures(self, point: BoardPoint, figures: Figures) -> dict[str, float]:
        """Return the largest power of any network, and the board's figures."""
        return {"power": max(network["power"] for network in figures.values()), **board_figures(point)}

    def describe(self) -> dict[str, Any]:
        return {"board": {"target": self.space.target, "budget_w": self.space.budget_w}}

    def point_values(self, number: int) -> Mapping[str, Any]:
        return self.points[number].values


def _peaks(point: BoardPoint) -> list[tuple[float, float]]:
    """Return for each core of a board its peak in f32 multiply-accumulates per second, and its power in watts."""
    peaks = []
    for cluster in point.board.clusters:
        rate = _peak_rate(point.board.target, cluster.core, cluster.max_khz or 0)
        peaks += [(rate, point.milliwatts[cluster.core] / 1e3)] * len(cluster.cpus)
    return peaks


@lru_cache(maxsize=4096)
def _peak_rate(target: str, core: str, khz: int) -> float:
    """Return the peak of one core in f32 multiply-accumulates per second, which does not depend on caches."""
    (machine,) = core_models(Board("core", "one core", target, (Cluster(core, (0,), max_khz=khz),)))
    return machine.macs_per_cycle * machine.ghz * 1e9


def _least(
    point: BoardPoint, peaks: Sequence[tuple[float, float]], works: Mapping[str, ModelWork], budget_w: float | None
) -> Figures:
    """Return lower bounds of the predictor's figures: the fewest multiplications, at the peak of all cores.

    With a budget, a set of cores computes at most its watts times the best rate per watt.
    """
    rate = sum(core_rate for core_rate, _ in peaks)
    per_watt = max(core_rate / watts for core_rate, watts in peaks)
    if budget_w is not None:
        rate = min(rate, budget_w * per_watt)
    figures: Figures = {}
    for name, work in works.items():
        wide = 4 / work.element_bytes * (BYTE_DOT_PRODUCTS if work.element_bytes == 1 else 1)
        least = work.macs * LEAST_MULTIPLICATIONS / wide
        figures[name] = {"latency": least / rate, "energy": least / per_watt, "power": min(w for _, w in peaks)}
    return figures


def _is_possible(point: BoardPoint, budget_w: float | None) -> bool:
    return budget_w is None or min(point.milliwatts.values()) / 1e3 <= budget_w
