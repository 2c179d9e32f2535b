"""Exploration of accelerators with an instruction set.

Networks are simulated on every point that bounds do not exclude.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mavcg.accelerators.explore.pareto import ObjectiveNames
from mavcg.accelerators.explore.point_exploration import (
    Figures,
    NetworksOnPoints,
    PointExploration,
    explore_points,
)
from mavcg.accelerators.explore.simulations import (
    SimulatedFigures,
    TargetSimulation,
    macs_of,
    model_digest,
    simulate_targets,
)
from mavcg.accelerators.explore.store import ExplorationStore
from mavcg.accelerators.explore.target_space import TargetSpace
from mavcg.accelerators.simulator.report import MAC_PJ
from mavcg.accelerators.target import IsaTarget
from mavcg.importers.declared_shapes import AS_DECLARED, GivenShapes
from mavcg.lab.jobs.engine import Engine

OBJECTIVES = ObjectiveNames(("latency", "energy", "traffic"), ("macs", "memory", "bandwidth", "frequency"), "targets")
DEFAULT_OBJECTIVES = "latency,macs,memory"
_ROUNDING = 1 - 1e-12  # keeps a lower bound below the figure in spite of rounding


TargetExploration = PointExploration[TargetSpace, IsaTarget]


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
    networks = _TargetNetworks(space, tuple(space.targets()), models, objectives)
    targets = networks.points
    macs = {name: macs_of(model, space.base, shapes) for name, model in models.items()}
    least = [{name: _least(macs[name], target) for name in models} for target in targets]
    bounds = np.array([networks.values(t, figures) for t, figures in zip(targets, least, strict=True)])
    bounds *= [1.0 if word in OBJECTIVES.of_points else _ROUNDING for word in objectives]
    order = sorted(range(len(targets)), key=lambda i: (-targets[i].macs_per_cycle * targets[i].frequency_mhz, i))
    return explore_points(networks, order, bounds, prune, (engine, store), progress)


class _TargetNetworks(NetworksOnPoints[TargetSpace, IsaTarget]):
    """Networks that are simulated on targets."""

    names, noun = OBJECTIVES, "simulations"

    @property
    def work(self) -> Callable[[tuple[TargetSimulation, ...]], tuple[SimulatedFigures | None, ...]]:
        return simulate_targets

    @cached_property
    def digests(self) -> Mapping[str, str]:
        return {model: model_digest(model) for model in self.models.values()}

    def tasks(self, point: IsaTarget) -> dict[str, TargetSimulation]:
        return {
            name: TargetSimulation(model, self.digests[model], point, self.space.search)
            for name, model in self.models.items()
        }

    def stored_results(self, store: ExplorationStore) -> dict[str, Any]:
        return store.simulations()

    def keep(self, store: ExplorationStore, results: Mapping[str, SimulatedFigures | None]) -> dict[str, Any]:
        rows = {key: _row(result) for key, result in results.items()}
        store.put_simulations(rows)
        return dict(rows)

    def figures(self, point: IsaTarget, results: Mapping[str, Any]) -> Figures | None:
        """Return the networks' figures on a target; None if a node of one of them does not fit on chip."""
        if any(row[0] is None for row in results.values()):
            return None
        return {name: _figures(row, point) for name, row in results.items()}

    def own_figures(self, point: IsaTarget, figures: Figures) -> dict[str, float]:
        return target_figures(point)

    def describe(self) -> dict[str, Any]:
        return {"target": {"base": self.space.base.name, "search": self.space.search}}

    def point_values(self, number: int) -> Mapping[str, Any]:
        return self.space.point(number)


def _least(macs: int, target: IsaTarget) -> dict[str, float]:
    """Return lower bounds of the figures of any program with `macs` multiply-adds."""
    cycles = macs / target.macs_per_cycle
    return {"latency": cycles / target.frequency_mhz / 1e6, "energy": macs * MAC_PJ / 1e12, "traffic": 0.0}


def _figures(row: tuple[Any, ...], target: IsaTarget) -> dict[str, float]:
    cycles, ddr_bytes, millijoules = row
    return {"latency": cycles / target.frequency_mhz / 1e6, "energy": millijoules / 1e3, "traffic": float(ddr_bytes)}


def _row(result: SimulatedFigures | None) -> tuple[Any, ...]:
    return (None, None, None) if result is None else (result.cycles, result.ddr_bytes, result.millijoules)
