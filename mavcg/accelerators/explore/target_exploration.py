"""Exploration of accelerators with an instruction set.

Networks are simulated on every point that bounds do not exclude.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mavcg.accelerators.explore.exploration import INFEASIBLE, PLANNED, PRUNED
from mavcg.accelerators.explore.objective_list import ObjectiveNames, read_objective_list
from mavcg.accelerators.explore.pareto import Floats
from mavcg.accelerators.explore.point_rounds import explore_rounds
from mavcg.accelerators.explore.simulations import (
    SimulatedFigures,
    TargetSimulation,
    macs_of,
    model_digest,
    simulate_targets,
)
from mavcg.accelerators.explore.store import ExplorationStore, PointRow
from mavcg.accelerators.explore.target_space import TargetSpace
from mavcg.accelerators.simulator.report import MAC_PJ
from mavcg.accelerators.target import IsaTarget
from mavcg.importers.declared_shapes import AS_DECLARED, GivenShapes
from mavcg.lab.jobs.engine import Engine

OBJECTIVES = ObjectiveNames(("latency", "energy", "traffic"), ("macs", "memory", "bandwidth", "frequency"), "targets")
DEFAULT_OBJECTIVES = "latency,macs,memory"
TASK_SIMULATIONS = 1  # simulations per task: each takes seconds
_ROUNDING = 1 - 1e-12  # keeps a lower bound below the figure in spite of rounding
Figures = dict[str, dict[str, float]]


@dataclass(frozen=True)
class TargetExploration:
    """Result of an exploration.

    states: of each point. figures: of planned points, by network. front: numbers of points, ascending. simulations:
    number made, without those found in the store.
    """

    space: TargetSpace
    networks: tuple[str, ...]
    objectives: tuple[str, ...]
    states: tuple[str, ...]
    figures: Mapping[int, Figures]
    front: tuple[int, ...]
    simulations: int
    seconds: float


def read_target_objectives(text: str, networks: Sequence[str]) -> tuple[str, ...]:
    """Parse a list of objectives, such as "latency,macs" or "latency:squeezenet,memory". Raises: MavcgError."""
    return tuple(objective.text for objective in read_objective_list(text, networks, OBJECTIVES))


def target_figures(target: IsaTarget) -> dict[str, float]:
    """Return the figures of a target without a network: multiply-add units, on-chip bytes, GB/s, MHz."""
    return {
        "macs": target.macs_per_cycle * target.batch,
        "memory": target.on_chip_bytes,
        "bandwidth": target.ddr_gb_per_s,
        "frequency": target.frequency_mhz,
    }


def explore_targets(
    space: TargetSpace,
    models: Mapping[str, str],
    objectives: Sequence[str],
    engine: Engine,
    store: ExplorationStore,
    prune: bool = True,
    progress: Callable[[str], None] = lambda message: None,
    shapes: GivenShapes = AS_DECLARED,
) -> TargetExploration:
    """Return the Pareto front of targets for networks.

    models: names or files of the networks, by name. shapes: for the import.

    Points are evaluated in rounds, the fastest arrays first. With `prune` a point is skipped if points of earlier
    rounds dominate its bounds: its whole array busy in every cycle, no byte moved.
    Raises: MavcgError for a model, a store that cannot be written, or workers that cannot be reached.
    """
    started = time.perf_counter()
    targets = list(space.targets())
    evaluation = _TargetEvaluation(space, targets, models, objectives, engine, store)
    macs = {name: macs_of(model, space.base, shapes) for name, model in models.items()}
    least = [{name: _least(macs[name], target) for name in models} for target in targets]
    bounds = np.array([point_values(t, figures, objectives) for t, figures in zip(targets, least, strict=True)])
    bounds *= [1.0 if word in OBJECTIVES.of_points else _ROUNDING for word in objectives]
    order = sorted(range(len(targets)), key=lambda i: (-targets[i].macs_per_cycle * targets[i].frequency_mhz, i))

    def begin(done: int) -> None:
        progress(f"{done} of {len(targets)} points, {evaluation.count} simulations")

    rounds = explore_rounds(order, bounds, prune, evaluation.evaluate, begin)
    result = TargetExploration(
        space,
        tuple(models),
        tuple(objectives),
        tuple(evaluation.states),
        evaluation.figures,
        rounds.front,
        evaluation.count,
        time.perf_counter() - started,
    )
    store.put_points(_request(result, prune), _rows(result, targets))
    return result


class _TargetEvaluation:
    """Evaluated points. states: of all points; figures: of the planned ones; count: simulations that were run."""

    def __init__(
        self,
        space: TargetSpace,
        targets: Sequence[IsaTarget],
        models: Mapping[str, str],
        objectives: Sequence[str],
        engine: Engine,
        store: ExplorationStore,
    ) -> None:
        self.space, self.targets, self.models, self.objectives = space, targets, models, objectives
        self.engine, self.store = engine, store
        self.digests = {model: model_digest(model) for model in models.values()}
        self.simulations = store.simulations()
        self.states = [PRUNED] * len(targets)
        self.figures: dict[int, Figures] = {}
        self.count = 0

    def evaluate(self, group: Sequence[int]) -> dict[int, Floats]:
        """Simulate the networks on some points; return the objectives of those with a plan, by number."""
        tasks = {i: self._tasks(self.targets[i]) for i in group}
        missing = {
            task.key: task
            for simulations in tasks.values()
            for task in simulations.values()
            if task.key not in self.simulations
        }
        self.count += len(missing)
        if missing:
            self.engine.run(simulate_targets, tuple(missing.values()), TASK_SIMULATIONS, self._keep)
        for i, simulations in tasks.items():
            rows = {name: self.simulations[task.key] for name, task in simulations.items()}
            self.states[i] = INFEASIBLE if any(row[0] is None for row in rows.values()) else PLANNED
            if self.states[i] == PLANNED:
                self.figures[i] = {name: _figures(row, self.targets[i]) for name, row in rows.items()}
        planned = [i for i in group if self.states[i] == PLANNED]
        return {i: point_values(self.targets[i], self.figures[i], self.objectives) for i in planned}

    def _tasks(self, target: IsaTarget) -> dict[str, TargetSimulation]:
        return {
            name: TargetSimulation(model, self.digests[model], target, self.space.search)
            for name, model in self.models.items()
        }

    def _keep(self, tasks: Sequence[TargetSimulation], results: Sequence[SimulatedFigures | None]) -> None:
        rows = {task.key: _row(result) for task, result in zip(tasks, results, strict=True)}
        self.store.put_simulations(rows)
        self.simulations.update(rows)


def sum_figures(figures: Figures) -> dict[str, float]:
    """Return the sums of all networks' figures."""
    return {key: sum(network[key] for network in figures.values()) for key in OBJECTIVES.of_networks}


def _least(macs: int, target: IsaTarget) -> dict[str, float]:
    """Return lower bounds of the figures of any program with `macs` multiply-adds."""
    cycles = macs / target.macs_per_cycle
    return {"latency": cycles / target.frequency_mhz / 1e6, "energy": macs * MAC_PJ / 1e12, "traffic": 0.0}


def _figures(row: tuple[Any, ...], target: IsaTarget) -> dict[str, float]:
    cycles, ddr_bytes, millijoules = row
    return {"latency": cycles / target.frequency_mhz / 1e6, "energy": millijoules / 1e3, "traffic": float(ddr_bytes)}


def point_values(target: IsaTarget, figures: Figures, objectives: Sequence[str]) -> Floats:
    """Return the values of a point's objectives."""
    all_figures = {**target_figures(target), **sum_figures(figures)}
    all_figures |= {f"{key}:{name}": value for name, network in figures.items() for key, value in network.items()}
    return np.array([all_figures[word] for word in objectives], np.float64)


def _row(result: SimulatedFigures | None) -> tuple[Any, ...]:
    return (None, None, None) if result is None else (result.cycles, result.ddr_bytes, result.millijoules)


def _request(result: TargetExploration, prune: bool) -> dict[str, Any]:
    axes = {axis.key: axis.values for axis in result.space.axes}
    return {
        "target": {"base": result.space.base.name, "search": result.space.search, **axes},
        "networks": result.networks,
        "objectives": result.objectives,
        "prune": prune,
    }


def _rows(result: TargetExploration, targets: Sequence[IsaTarget]) -> list[PointRow]:
    rows: list[PointRow] = []
    front = set(result.front)
    for i in range(len(targets)):
        machine, figures = json.dumps(result.space.point(i)), result.figures.get(i)
        if figures is None:
            rows.append((i, result.states[i], 0, machine, None, None, None, None, None))
            continue
        sums = sum_figures(figures)
        rows.append(
            (
                i,
                result.states[i],
                int(i in front),
                machine,
                None,
                sums["latency"],
                sums["energy"],
                sums["traffic"],
                json.dumps(figures),
            )
        )
    return rows
