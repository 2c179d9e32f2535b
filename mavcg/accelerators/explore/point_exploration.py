"""Exploration of points that are expensive to evaluate: networks on each, as tasks that an engine runs, in rounds.

Points whose bounds the front dominates are skipped.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from mavcg.accelerators.explore.design_space import SpaceAxis
from mavcg.accelerators.explore.exploration import INFEASIBLE, PLANNED, PRUNED
from mavcg.accelerators.explore.pareto import Floats, ObjectiveNames, all_dominated, pareto_front
from mavcg.accelerators.explore.store import ExplorationStore, PointRow
from mavcg.lab.jobs.engine import Engine

LEAST_ROUND, ROUNDS = 4, 16
Figures = dict[str, dict[str, float]]  # by network and name of the figure
Point = TypeVar("Point")


class NetworkTask(Protocol):
    """A network on a point, as an engine computes it; its result has this key in the store."""

    @property
    def key(self) -> str: ...


class PointSpace(Protocol):
    """A space of points. axes: its keys with their values."""

    @property
    def axes(self) -> tuple[SpaceAxis, ...]: ...


Space = TypeVar("Space", bound=PointSpace)


@dataclass(frozen=True)
class PointExploration(Generic[Space, Point]):
    """Result of an exploration.

    states: of each point. figures: of planned points, by network; metrics: their sums, and a point's own figures.
    front: numbers of points, ascending. computed: number of tasks that ran, without those found in the store.
    """

    space: Space
    points: tuple[Point, ...]
    networks: tuple[str, ...]
    objectives: tuple[str, ...]
    states: tuple[str, ...]
    figures: Mapping[int, Figures]
    metrics: Mapping[int, Mapping[str, float]]
    front: tuple[int, ...]
    computed: int
    seconds: float

    @property
    def pruned_count(self) -> int:
        """Number of points that bounds excluded."""
        return self.states.count(PRUNED)

    @property
    def planned_count(self) -> int:
        """Number of points that were evaluated, infeasible ones included."""
        return len(self.points) - self.pruned_count

    @property
    def infeasible_count(self) -> int:
        """Number of points that were evaluated and are impossible."""
        return self.states.count(INFEASIBLE)

    def counts(self, tasks: str) -> dict[str, Any]:
        """Return the counts and objectives of a JSON report. tasks: plural of what was computed."""
        return {
            "points": len(self.points),
            "planned": self.planned_count,
            "pruned": self.pruned_count,
            "infeasible": self.infeasible_count,
            tasks: self.computed,
            "objectives": list(self.objectives),
        }

    def values(self, number: int) -> Floats:
        """Return the values of a planned point's objectives."""
        return objective_values(self.metrics[number], self.figures[number], self.objectives)

    def fastest_first(self) -> list[int]:
        """Return the numbers of the front's points by the latency of all networks."""
        return sorted(self.front, key=lambda number: self.metrics[number]["latency"])


def objective_values(metrics: Mapping[str, float], figures: Figures, objectives: Sequence[str]) -> Floats:
    """Return the values of a point's objectives, each a metric, or NAME:NETWORK of the networks' figures."""
    known = dict(metrics)
    for name, network in figures.items():
        known |= {f"{key}:{name}": value for key, value in network.items()}
    return np.array([known[word] for word in objectives], np.float64)


class NetworksOnPoints(ABC, Generic[Space, Point]):
    """Networks on the points of a space, and the tasks by which their figures are found.

    names: of the objectives. noun: plural of a task, for progress. work: the function that computes tasks, and is one
    of lab.jobs.remote_tasks.
    """

    names: ObjectiveNames
    noun: str

    def __init__(self, space: Space, points: Sequence[Point], models: Mapping[str, str], objectives: Sequence[str]):
        self.space, self.points, self.models, self.objectives = space, tuple(points), models, tuple(objectives)

    @property
    @abstractmethod
    def work(self) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]: ...

    @abstractmethod
    def tasks(self, point: Point) -> Mapping[str, NetworkTask]:
        """Return the task of each network, by its name."""

    @abstractmethod
    def stored_results(self, store: ExplorationStore) -> dict[str, Any]:
        """Return the results in the store by key."""

    @abstractmethod
    def keep(self, store: ExplorationStore, results: Mapping[str, Any]) -> dict[str, Any]:
        """Store results of tasks by key; return them as `stored_results` does."""

    @abstractmethod
    def figures(self, point: Point, results: Mapping[str, Any]) -> Figures | None:
        """Return a point's figures from the results of the networks; None if it is impossible."""

    @abstractmethod
    def own_figures(self, point: Point, figures: Figures) -> Mapping[str, float]:
        """Return the figures of a point beside the sums of its networks'."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the space in the store's request, without its axes and under the name of its table."""

    @abstractmethod
    def point_values(self, number: int) -> Mapping[str, Any]:
        """Return what the file of the space varies, for a point."""

    def metrics(self, point: Point, figures: Figures) -> dict[str, float]:
        """Return the sums of all networks' figures, and the point's own figures."""
        sums = {key: sum(network[key] for network in figures.values()) for key in self.names.of_networks}
        return {**sums, **self.own_figures(point, figures)}

    def values(self, point: Point, figures: Figures) -> Floats:
        """Return the values of a point's objectives."""
        return objective_values(self.metrics(point, figures), figures, self.objectives)


def explore_points(
    networks: NetworksOnPoints[Space, Point],
    order: Sequence[int],
    bounds: Floats,
    prune: bool,
    jobs: tuple[Engine, ExplorationStore],
    progress: Callable[[str], None],
) -> PointExploration[Space, Point]:
    """Return the front of all points, which are stored too.

    order: numbers of points, in which they are evaluated. bounds: lower bounds of the objectives, [point, objective].
    With `prune` a point is skipped if points of earlier rounds dominate its bounds. Raises: MavcgError for a store that
    cannot be written, and for workers that cannot be reached.
    """
    started, (engine, store) = time.perf_counter(), jobs
    evaluation = _Evaluation(networks, engine, store)
    front = explore_rounds(
        order,
        bounds,
        prune,
        evaluation.evaluate,
        lambda done: progress(f"{done} of {len(networks.points)} points, {evaluation.count} {networks.noun}"),
    )
    result = PointExploration(
        networks.space,
        networks.points,
        tuple(networks.models),
        networks.objectives,
        tuple(evaluation.states),
        evaluation.figures,
        {i: networks.metrics(networks.points[i], figures) for i, figures in evaluation.figures.items()},
        front,
        evaluation.count,
        time.perf_counter() - started,
    )
    ((kind, facts),) = networks.describe().items()
    request = {
        kind: {**facts, **{axis.key: axis.values for axis in networks.space.axes}},
        "networks": result.networks,
        "objectives": result.objectives,
        "prune": prune,
    }
    store.put_points(request, _rows(networks, result))
    return result


class _Evaluation:
    """Evaluated points. states: of all points; figures: of the planned ones; count: tasks that were computed."""

    def __init__(self, networks: NetworksOnPoints[Any, Any], engine: Engine, store: ExplorationStore) -> None:
        self.networks, self.engine, self.store = networks, engine, store
        self.known = networks.stored_results(store)
        self.states = [PRUNED] * len(networks.points)
        self.figures: dict[int, Figures] = {}
        self.count = 0

    def evaluate(self, group: Sequence[int]) -> dict[int, Floats]:
        """Compute the networks on some points; return the objectives of those that are possible, by number."""
        points = self.networks.points
        tasks = {i: self.networks.tasks(points[i]) for i in group}
        missing = {
            task.key: task for of_point in tasks.values() for task in of_point.values() if task.key not in self.known
        }
        self.count += len(missing)
        if missing:
            self.engine.run(self.networks.work, tuple(missing.values()), 1, self._keep)  # each takes seconds
        values: dict[int, Floats] = {}
        for i, of_point in tasks.items():
            figures = self.networks.figures(points[i], {name: self.known[t.key] for name, t in of_point.items()})
            self.states[i] = PLANNED if figures is not None else INFEASIBLE
            if figures is not None:
                self.figures[i] = figures
                values[i] = self.networks.values(points[i], figures)
        return values

    def _keep(self, tasks: Sequence[NetworkTask], results: Sequence[Any]) -> None:
        by_key = {task.key: result for task, result in zip(tasks, results, strict=True)}
        self.known |= self.networks.keep(self.store, by_key)


def explore_rounds(
    order: Sequence[int],
    bounds: Floats,
    prune: bool,
    evaluate: Callable[[Sequence[int]], Mapping[int, Floats]],
    begin: Callable[[int], None],
) -> tuple[int, ...]:
    """Return the front, ascending. evaluate: returns the objectives of points, without those that are infeasible.

    order, bounds, prune: as for explore_points. begin: called with the number of points done.
    """
    values, points = np.empty((0, bounds.shape[1])), np.empty(0, np.int64)
    size = max(LEAST_ROUND, -(-len(order) // ROUNDS))
    for start in range(0, len(order), size):
        begin(start)
        group = list(order[start : start + size])
        if prune and len(values):
            group = [i for i in group if not all_dominated(bounds[i : i + 1], values)]
        objectives = evaluate(group)
        feasible = [i for i in group if i in objectives]
        if feasible:
            values = np.concatenate([values, np.array([objectives[i] for i in feasible])])
            points = np.concatenate([points, np.array(feasible, np.int64)])
            on_front = pareto_front(values)
            values, points = values[on_front], points[on_front]
    return tuple(sorted(points.tolist()))


def _rows(networks: NetworksOnPoints[Any, Any], result: PointExploration[Any, Any]) -> list[PointRow]:
    rows: list[PointRow] = []
    front = set(result.front)
    for i, state in enumerate(result.states):
        machine, figures = json.dumps(networks.point_values(i)), result.figures.get(i)
        if figures is None:
            rows.append((i, state, 0, machine, None, None, None, None, None))
            continue
        latency, energy, traffic = (result.metrics[i].get(key) for key in ("latency", "energy", "traffic"))
        rows.append((i, state, int(i in front), machine, None, latency, energy, traffic, json.dumps(figures)))
    return rows
