"""Programs of networks for accelerators with an instruction set, generated and simulated.

Tasks of a space of targets.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache
from math import inf
from pathlib import Path

import mavcg.accelerators
from mavcg.accelerators.codegen.division import divide
from mavcg.accelerators.codegen.generate import generate
from mavcg.accelerators.fusion.report import accelerated_operations
from mavcg.accelerators.group_search import choose_groups
from mavcg.accelerators.groups import GroupTooLarge
from mavcg.accelerators.hand_over import assign_operations
from mavcg.accelerators.images import seeded_images
from mavcg.accelerators.load import load_xgraph
from mavcg.accelerators.networks import NAMES
from mavcg.accelerators.quantise import quantise
from mavcg.accelerators.simulator.cycles import simulate
from mavcg.accelerators.simulator.report import energy_mj
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.importers.declared_shapes import GivenShapes
from mavcg.lab.jobs.messages import MessageError
from mavcg.text.source_digest import digest_of_code

GRAPHS = 8  # quantised networks that a process caches


@dataclass(frozen=True)
class TargetSimulation:
    """A task: a network on a target.

    model: name of a built-in network, or path of a file, which must have this digest.
    """

    model: str
    digest: str
    target: IsaTarget
    search: str

    @property
    def key(self) -> str:
        """Key of the result in the store: digest of the network, all figures of the target, and the code."""
        figures = asdict(replace(self.target, name="", description="", sources=()))
        text = json.dumps([self.digest, figures, self.search, code_digest()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class SimulatedFigures:
    """Result of a simulation, for one image on one core: cycles, DDR bytes, dynamic energy."""

    cycles: int
    ddr_bytes: int
    millijoules: float


def simulate_targets(tasks: tuple[TargetSimulation, ...]) -> tuple[SimulatedFigures | None, ...]:
    """Return the figures of each task; None if a node does not fit on chip. Raises: MavcgError for a model."""
    return tuple(map(_simulate, tasks))


def check_simulate_targets(tasks: Sequence[TargetSimulation], results: Sequence[SimulatedFigures | None]) -> None:
    """Raise MessageError for figures of a worker that no simulation has."""
    for figures in results:
        if figures is not None and not (figures.cycles >= 0 <= figures.ddr_bytes and 0 <= figures.millijoules < inf):
            raise MessageError("a simulation with a figure that is negative or infinite")


def macs_of(model: str, target: IsaTarget, shapes: GivenShapes) -> int:
    """Return the multiply-adds of the nodes that the accelerator computes. Raises: MavcgError if there are none."""
    graph = load_xgraph(model, target, shapes)
    if not divide(graph).accelerator:
        raise MavcgError(f"{model}: the accelerator cannot compute any of its nodes; explore other networks")
    return accelerated_operations(graph) // 2


def _simulate(task: TargetSimulation) -> SimulatedFigures | None:
    target = task.target
    quantised = _quantized_network(_QuantisedModel(task.model, task.digest, target.rounding, target.dense, target))
    graph = assign_operations(quantised, target)
    try:
        chosen = choose_groups(graph, target, task.search, lambda message: None)
        program, _ = generate(graph, chosen.groups, target, lambda message: None)
    except GroupTooLarge:
        return None
    time = simulate(program)
    return SimulatedFigures(time.cycles, time.ddr_bytes, energy_mj(program, time))


@dataclass(frozen=True)
class _QuantisedModel:
    """Cache key of a quantised network; of the target, its graph depends on rounding and dense only."""

    model: str
    digest: str
    rounding: str
    dense: str
    target: IsaTarget = field(compare=False)


@lru_cache(maxsize=GRAPHS)
def _quantized_network(key: _QuantisedModel) -> XGraph:
    if model_digest(key.model) != key.digest:
        raise MavcgError(f"{key.model}: differs from the file at the start of the exploration; give it the same path")
    real = load_xgraph(key.model, key.target, GivenShapes(ignore_declared=True))  # macs_of compared them
    return quantise(real, seeded_images(real), key.rounding).graph


def model_digest(model: str) -> str:
    """Return the key of a model: its name if it is built in, else a digest of its file. Raises: MavcgError."""
    if model in NAMES:
        return model
    try:
        return hashlib.sha256(Path(model).read_bytes()).hexdigest()[:24]
    except OSError as error:
        reason = error.strerror or str(error)
        raise MavcgError(f"{model}: cannot be read ({reason}); built-in networks are {', '.join(NAMES)}") from None


@cache
def code_digest() -> str:
    """Return a digest of the code that results depend on."""
    root = Path(str(mavcg.accelerators.__file__)).parent
    return digest_of_code([path for path in root.rglob("*") if path.suffix in (".py", ".toml")], root)[:16]
