"""Objectives of an exploration: figures of all networks together, or of one of them; all are minimised."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.accelerators.explore.metrics import Metrics
from mavcg.accelerators.explore.pareto import Floats, ObjectiveNames, read_objective_list

OBJECTIVES = ObjectiveNames(("latency", "energy", "traffic"), ("area", "bandwidth", "frequency"), "accelerators")
DEFAULT_OBJECTIVES = "latency,area,energy"
UNITS = {
    "latency": "s",
    "energy": "J",
    "traffic": "bytes",
    "area": "mm2",
    "bandwidth": "GB/s",
    "frequency": "GHz",
}


@dataclass(frozen=True)
class Objective:
    """An objective. name: of OBJECTIVES. network: index of its network; None for the sum over all networks."""

    text: str
    name: str
    network: int | None = None

    @property
    def unit(self) -> str:
        """Unit of its figures."""
        return UNITS[self.name]


def read_objectives(text: str, networks: Sequence[str]) -> tuple[Objective, ...]:
    """Parse a list of objectives, such as "latency,area" or "latency:vgg16,energy". Raises: MavcgError."""
    return tuple(
        Objective(named.text, named.name, None if named.network is None else networks.index(named.network))
        for named in read_objective_list(text, networks, OBJECTIVES)
    )


def objective_values(metrics: Metrics, objectives: Sequence[Objective]) -> Floats:
    """Return the objectives of points, [structure, rate, objective]."""
    shape = metrics.latency_s.shape[1:]
    columns = []
    for objective in objectives:
        if objective.name in OBJECTIVES.of_points:
            by_rate = {"bandwidth": metrics.bandwidth_gb_per_s, "frequency": metrics.frequency_ghz}
            values = metrics.area_mm2[:, None] if objective.name == "area" else by_rate[objective.name][None, :]
        else:
            of_networks = {
                "latency": metrics.latency_s,
                "energy": metrics.energy_j[:, :, None],
                "traffic": metrics.traffic_bytes[:, :, None],
            }[objective.name]
            values = _sum(of_networks) if objective.network is None else of_networks[objective.network]
        columns.append(np.broadcast_to(values, shape))
    return np.stack(columns, axis=2)


def _sum(of_networks: Floats) -> Floats:
    """Return the sum over networks in order, so that rounding does not depend on NumPy's summation order."""
    total = np.zeros(of_networks.shape[1:])
    for values in of_networks:
        total = total + values
    return total
