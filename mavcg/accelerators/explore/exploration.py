"""Exploration of a design space: every point that may reach the front is planned exactly for every network."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mavcg.accelerators.explore.design_space import DesignSpace, Structure
from mavcg.accelerators.explore.metrics import OPERANDS, Integers, MetricModel, Metrics
from mavcg.accelerators.explore.objectives import Objective, objective_values
from mavcg.accelerators.explore.order import TrafficBounds, rounds
from mavcg.accelerators.explore.pareto import Floats, all_dominated, pareto_front
from mavcg.accelerators.explore.store import ExplorationStore, PointRow, tiling_of
from mavcg.accelerators.explore.tilings import KeyMaker, SearchKey, TileTraffic, search_tilings
from mavcg.accelerators.explore.workload import Workload
from mavcg.lab.jobs.engine import Engine

PLANNED, INFEASIBLE, PRUNED = "planned", "infeasible", "pruned"
TASK_SEARCHES = 400  # searches per task: a few tenths of a second, after which results are stored
Progress = Callable[[str], None]


@dataclass(frozen=True)
class PointFigures:
    """Figures of a planned point by objective, and figures of each network by its name."""

    number: int
    figures: dict[str, float]
    networks: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Exploration:
    """Result of an exploration.

    states: of each structure. front: numbers of points, ascending. searches: number of tilings searched for, without
    those found in the store.
    """

    space: DesignSpace
    workload: Workload
    objectives: tuple[Objective, ...]
    states: tuple[str, ...]
    front: tuple[int, ...]
    metrics: Metrics  # of planned structures, in the order of `rows`
    rows: dict[int, int]  # of `metrics`, by the structure's number
    searches: int
    seconds: float

    def count(self, state: str) -> int:
        """Return the number of points in a state."""
        return self.states.count(state) * self.space.rates

    @property
    def planned_points(self) -> int:
        """Number of planned points, including those without a tiling for some layer."""
        return self.count(PLANNED) + self.count(INFEASIBLE)

    def figures(self, number: int) -> PointFigures:
        """Return the figures of a planned point."""
        structure, rate = divmod(number, self.space.rates)
        row, m = self.rows[structure], self.metrics
        networks = {
            name: {
                "latency": float(m.latency_s[n, row, rate]),
                "energy": float(m.energy_j[n, row]),
                "traffic": float(m.traffic_bytes[n, row]),
            }
            for n, name in enumerate(self.workload.networks)
        }
        sums = {key: sum(network[key] for network in networks.values()) for key in ("latency", "energy", "traffic")}
        return PointFigures(number, {**sums, "area": float(m.area_mm2[row])}, networks)


class _Explorer:
    """State of a running exploration."""

    def __init__(self, model: MetricModel, store: ExplorationStore) -> None:
        self.model = model
        self.store = store
        self.kept = store.tilings()
        self.known: dict[SearchKey, TileTraffic | None] = {}
        self.makers: dict[str, KeyMaker] = {}
        self.bounds = TrafficBounds()
        self.searches = 0

    def keys(self, structure: Structure) -> tuple[SearchKey, ...]:
        if structure.precision not in self.makers:
            self.makers[structure.precision] = KeyMaker(self.model.layers(structure))
        return self.makers[structure.precision].keys(structure)

    def search(self, structures: Sequence[Structure], engine: Engine) -> list[Integers | None]:
        """Return the traffic of each structure, [layer, operand]; None if a layer has no tiling."""
        keys = [self.keys(structure) for structure in structures]
        missing: dict[SearchKey, None] = {}
        for key in (key for group in keys for key in group):
            if key not in self.known:
                row = self.kept.get(self.store.tiling_key(key)) if self.kept else None
                if row is None:
                    missing[key] = None
                else:
                    self.known[key] = tiling_of(row)
        self.searches += len(missing)
        if missing:
            keys_by_layer = sorted(missing, key=lambda key: id(key.layer))  # so that a layer is sent once per task
            engine.run(search_tilings, keys_by_layer, TASK_SEARCHES, self._keep)
        return [_bytes([self.known[key] for key in group]) for group in keys]

    def _keep(self, keys: Sequence[SearchKey], tilings: Sequence[TileTraffic | None]) -> None:
        by_key = dict(zip(keys, tilings, strict=True))
        self.store.put_tilings(by_key)
        self.known.update(by_key)

    def reachable(self, structures: Sequence[Structure], objectives: Sequence[Objective], front: Floats) -> list[bool]:
        """Return for each structure whether one of its points may be on the front, by lower bounds of all figures."""
        if not len(front):
            return [True] * len(structures)
        least = [self.bounds.least(s, self.model.least_bytes(s).sum(axis=1)) for s in structures]
        values = objective_values(self.model.bounds(structures, np.stack(least)), objectives)
        return [not all_dominated(of_points, front) for of_points in values]


def explore(
    space: DesignSpace,
    workload: Workload,
    objectives: Sequence[Objective],
    engine: Engine,
    store: ExplorationStore,
    prune: bool = True,
    progress: Progress = lambda message: None,
    paper_roof: bool = False,
) -> Exploration:
    """Return the Pareto front of a space for the workload's networks.

    Structures are planned in rounds. With `prune` a structure is skipped if points planned in earlier rounds dominate
    all of its points, even at lower bounds of their figures; so the front is that of the whole space. paper_roof: as
    for MetricModel. Raises:
    MavcgError for a store that cannot be written, or workers that cannot be reached.
    """
    started = time.perf_counter()
    explorer = _Explorer(MetricModel(space, workload, paper_roof), store)
    states = [PRUNED] * space.structures
    numbers: list[int] = []  # structures, in the order of the metrics
    parts: list[Metrics] = []
    front_values = np.empty((0, len(objectives)))
    front_points = np.empty(0, np.int64)
    done = 0
    for group in rounds(space.all_structures()):
        progress(f"{done * space.rates} of {space.points} points, {explorer.searches} searches")
        done += len(group)
        if prune:
            reachable = explorer.reachable(group, objectives, front_values)
            group = tuple(s for s, may in zip(group, reachable, strict=True) if may)
        feasible, moved = [], []
        for structure, of_layers in zip(group, explorer.search(group, engine), strict=True):
            states[structure.number] = INFEASIBLE if of_layers is None else PLANNED
            if of_layers is not None:
                explorer.bounds.add(structure, of_layers.sum(axis=1))
                feasible.append(structure)
                moved.append(of_layers)
        if not feasible:
            continue
        parts.append(explorer.model.figures(feasible, np.stack(moved)))
        numbers += [structure.number for structure in feasible]
        values = objective_values(parts[-1], objectives).reshape(-1, len(objectives))
        points = np.array([s.number * space.rates + rate for s in feasible for rate in range(space.rates)], np.int64)
        front_values, front_points = np.concatenate([front_values, values]), np.concatenate([front_points, points])
        on_front = pareto_front(front_values)
        front_values, front_points = front_values[on_front], front_points[on_front]
    result = Exploration(
        space,
        workload,
        tuple(objectives),
        tuple(states),
        tuple(sorted(front_points.tolist())),
        _join_metrics(parts, space, workload),
        {number: row for row, number in enumerate(numbers)},
        explorer.searches,
        time.perf_counter() - started,
    )
    store.put_points({**_request(result, prune), "paper_roof": paper_roof}, _rows(result))
    return result


def _bytes(tilings: Iterable[TileTraffic | None]) -> Integers | None:
    rows = [None if t is None else (t.input_bytes, t.weight_bytes, t.output_bytes) for t in tilings]
    return None if None in rows else np.array(rows, np.int64).reshape(-1, OPERANDS)


def _join_metrics(parts: Sequence[Metrics], space: DesignSpace, workload: Workload) -> Metrics:
    if not parts:
        networks = len(workload.networks)
        of_network = np.empty((networks, 0))
        return Metrics(
            np.empty((networks, 0, space.rates)), of_network, of_network, np.empty(0), np.empty(0), np.empty(0)
        )
    return Metrics(
        np.concatenate([p.latency_s for p in parts], axis=1),
        np.concatenate([p.energy_j for p in parts], axis=1),
        np.concatenate([p.traffic_bytes for p in parts], axis=1),
        np.concatenate([p.area_mm2 for p in parts]),
        parts[0].bandwidth_gb_per_s,
        parts[0].frequency_ghz,
    )


def _request(result: Exploration, prune: bool) -> dict[str, Any]:
    return {
        "accelerator": {axis.key: axis.values for axis in result.space.axes},
        "technology": result.space.technology.name,
        "networks": result.workload.networks,
        "objectives": [objective.text for objective in result.objectives],
        "prune": prune,
    }


def _rows(result: Exploration) -> Iterator[PointRow]:
    front = set(result.front)
    for number in range(result.space.points):
        state = result.states[number // result.space.rates]
        machine = json.dumps(result.space.point(number))
        if state != PLANNED:
            yield (number, state, 0, machine, None, None, None, None, None)
            continue
        point = result.figures(number)
        figures = point.figures
        yield (
            number,
            state,
            int(number in front),
            machine,
            figures["area"],
            figures["latency"],
            figures["energy"],
            figures["traffic"],
            json.dumps(point.networks),
        )
