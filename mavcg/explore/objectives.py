"""Objectives of an exploration: a figure of all networks together, or of one of them; less is better of each."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.errors import MavcgError
from mavcg.explore.metrics import Metrics
from mavcg.explore.pareto import Floats

OF_NETWORKS = ("latency", "energy", "traffic")
OF_MACHINES = ("area", "bandwidth", "frequency")
NAMES = OF_NETWORKS + OF_MACHINES
DEFAULT_OBJECTIVES = "latency,area,energy"
UNITS = {
    "latency": "s", "energy": "J", "traffic": "bytes", "area": "mm2", "bandwidth": "GB/s", "frequency": "GHz",
}  # fmt: skip


@dataclass(frozen=True)
class Objective:
    """A name of NAMES. network: the place of one network, or None for the sum of all of them."""

    text: str
    name: str
    network: int | None = None

    @property
    def unit(self) -> str:
        """The unit of its figures."""
        return UNITS[self.name]


def read_objectives(text: str, networks: Sequence[str]) -> tuple[Objective, ...]:
    """Return the objectives of a list, such as "latency,area" or "latency:vgg16,energy". Raises: MavcgError."""
    objectives = []
    for word in text.split(","):
        name, colon, network = word.strip().partition(":")
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
            raise MavcgError(f"--objective {text}: {name!r} is no objective; {hint}")
        if colon and name in OF_MACHINES:
            raise MavcgError(f"--objective {text}: {name} is the same for all networks; leave out :{network}")
        if colon and network not in networks:
            raise MavcgError(f"--objective {text}: no network {network!r} is explored; there are {', '.join(networks)}")
        objective = Objective(word.strip(), name, networks.index(network) if colon else None)
        if objective in objectives:
            raise MavcgError(f"--objective {text}: {word.strip()} is there twice; leave one out")
        objectives.append(objective)
    return tuple(objectives)


def objective_values(metrics: Metrics, objectives: Sequence[Objective]) -> Floats:
    """Return the objectives of points: [structure, rate, objective]."""
    shape = metrics.latency_s.shape[1:]
    columns = []
    for objective in objectives:
        if objective.name in OF_MACHINES:
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
    """Return the sum over networks, one after the other, so that it is rounded in the same way in every company."""
    total = np.zeros(of_networks.shape[1:])
    for values in of_networks:
        total = total + values
    return total
