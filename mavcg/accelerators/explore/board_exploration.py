"""Exploration of a space of boards.

Networks are predicted on each point that bounds and the power budget do not exclude. For each network the fastest
number of threads within the budget is chosen. Power is that of the working cores; energy is power times latency.
Neither includes shared caches, memory, or anything else on the chip.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
from mavcg.accelerators.explore.exploration import INFEASIBLE, PLANNED, PRUNED
from mavcg.accelerators.explore.objective_list import ObjectiveNames, read_objective_list
from mavcg.accelerators.explore.pareto import Floats
from mavcg.accelerators.explore.point_rounds import explore_rounds
from mavcg.accelerators.explore.store import ExplorationStore, PointRow
from mavcg.cost.board_model import core_models
from mavcg.hardware.board import Board, Cluster
from mavcg.importers.declared_shapes import AS_DECLARED, GivenShapes
from mavcg.lab.jobs.engine import Engine

OBJECTIVES = ObjectiveNames(("latency", "energy"), ("power", "cores", "cache", "bandwidth"), "boards")
DEFAULT_OBJECTIVES = "latency,energy,power"
TASK_PREDICTIONS = 1  # predictions per task: each takes seconds
# Every algorithm does at least this fraction of a convolution's multiplications: F(4x4, 5x5) does 64 for 400.
LEAST_MULTIPLICATIONS = 1 / 8
# int8 products of an instruction per byte of a vector register: SMMLA does 32 in 16 bytes.
BYTE_DOT_PRODUCTS = 2
Figures = dict[str, dict[str, float]]


@dataclass(frozen=True)
class BoardExploration:
    """Result of an exploration.

    states: of each point. figures: of planned points, by network. front: numbers of points, ascending. predictions:
    number made, without those found in the store.
    """

    space: BoardSpace
    points: tuple[BoardPoint, ...]
    networks: tuple[str, ...]
    objectives: tuple[str, ...]
    states: tuple[str, ...]
    figures: Mapping[int, Figures]
    front: tuple[int, ...]
    predictions: int
    seconds: float


def read_board_objectives(text: str, networks: Sequence[str]) -> tuple[str, ...]:
    """Parse a list of objectives, such as "latency,power" or "latency:net,energy". Raises: MavcgError."""
    return tuple(objective.text for objective in read_objective_list(text, networks, OBJECTIVES))


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
    started = time.perf_counter()
    points = tuple(space.boards())
    evaluation = _BoardEvaluation(space, points, models, objectives, engine, store)
    progress("reading the networks")
    works = {name: model_work(model, points[0].board, shapes) for name, model in models.items()}
    peaks = [_peaks(point) for point in points]
    least = [_least(point, peak, works, space.budget_w) for point, peak in zip(points, peaks, strict=True)]
    bounds = np.array([board_values(point, figures, objectives) for point, figures in zip(points, least, strict=True)])
    possible = [_is_possible(point, space.budget_w) or not prune for point in points]
    order = sorted(
        (number for number in range(len(points)) if possible[number]),
        key=lambda number: (-sum(rate for rate, _ in peaks[number]), number),
    )

    def begin(done: int) -> None:
        progress(f"{done} of {len(points)} points, {evaluation.count} predictions")

    rounds = explore_rounds(order, bounds, prune, evaluation.evaluate, begin)
    result = BoardExploration(
        space,
        points,
        tuple(models),
        tuple(objectives),
        tuple(evaluation.states),
        evaluation.figures,
        rounds.front,
        evaluation.count,
        time.perf_counter() - started,
    )
    store.put_points(_request(result, prune), _rows(result))
    return result


class _BoardEvaluation:
    """Evaluated points. states: of all points; figures: of the planned ones; count: predictions that were computed."""

    def __init__(
        self,
        space: BoardSpace,
        points: Sequence[BoardPoint],
        models: Mapping[str, str],
        objectives: Sequence[str],
        engine: Engine,
        store: ExplorationStore,
    ) -> None:
        self.space, self.points, self.models, self.objectives = space, points, models, objectives
        self.engine, self.store = engine, store
        self.digests = {model: model_file_digest(model) for model in models.values()}
        self.predictions = store.predictions()
        self.states = [PRUNED] * len(points)
        self.figures: dict[int, Figures] = {}
        self.count = 0

    def evaluate(self, group: Sequence[int]) -> dict[int, Floats]:
        """Predict the networks on some points; return the objectives of those within the budget, by number."""
        tasks = {i: self._tasks(self.points[i]) for i in group}
        missing = {
            task.key: task
            for predictions in tasks.values()
            for task in predictions.values()
            if task.key not in self.predictions
        }
        self.count += len(missing)
        if missing:
            self.engine.run(predict_boards, tuple(missing.values()), TASK_PREDICTIONS, self._keep)
        values: dict[int, Floats] = {}
        for i, predictions in tasks.items():
            figures = self._figures(self.points[i], predictions)
            self.states[i] = PLANNED if figures is not None else INFEASIBLE
            if figures is not None:
                self.figures[i] = figures
                values[i] = board_values(self.points[i], figures, self.objectives)
        return values

    def _tasks(self, point: BoardPoint) -> dict[str, BoardPrediction]:
        return {name: BoardPrediction(model, self.digests[model], point.board) for name, model in self.models.items()}

    def _figures(self, point: BoardPoint, tasks: Mapping[str, BoardPrediction]) -> Figures | None:
        """Return the networks' figures on a board; None if a network is not within the budget."""
        budget = self.space.budget_w
        rows = {
            name: network_figures(point, rows_of(self.predictions[task.key]), budget) for name, task in tasks.items()
        }
        within = {name: row for name, row in rows.items() if row is not None}
        return within if len(within) == len(rows) else None

    def _keep(self, tasks: Sequence[BoardPrediction], results: Sequence[str]) -> None:
        predictions = {task.key: result for task, result in zip(tasks, results, strict=True)}
        self.store.put_predictions(predictions)
        self.predictions.update(predictions)


def sum_board_metrics(point: BoardPoint, figures: Figures) -> dict[str, float]:
    """Return a board's metrics.

    Sums of all networks' latency and energy, the largest power, and the board's own figures.
    """
    return {
        **{key: sum(network[key] for network in figures.values()) for key in OBJECTIVES.of_networks},
        "power": max(network["power"] for network in figures.values()),
        **board_figures(point),
    }


def board_values(point: BoardPoint, figures: Figures, objectives: Sequence[str]) -> Floats:
    """Return the values of a point's objectives."""
    known = sum_board_metrics(point, figures)
    known |= {f"{key}:{name}": network[key] for name, network in figures.items() for key in OBJECTIVES.of_networks}
    return np.array([known[word] for word in objectives], np.float64)


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


def _request(result: BoardExploration, prune: bool) -> dict[str, Any]:
    axes = {axis.key: axis.values for axis in result.space.axes}
    return {
        "board": {"target": result.space.target, "budget_w": result.space.budget_w, **axes},
        "networks": result.networks,
        "objectives": result.objectives,
        "prune": prune,
    }


def _rows(result: BoardExploration) -> list[PointRow]:
    rows: list[PointRow] = []
    front = set(result.front)
    for i, point in enumerate(result.points):
        board, figures = json.dumps(point.values), result.figures.get(i)
        if figures is None:
            rows.append((i, result.states[i], 0, board, None, None, None, None, None))
            continue
        sums = sum_board_metrics(point, figures)
        rows.append(
            (i, PLANNED, int(i in front), board, None, sums["latency"], sums["energy"], None, json.dumps(figures))
        )
    return rows
