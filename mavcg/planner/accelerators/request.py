"""A network's layers planned for a machine: the request of `mavcg plan`, and its result."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.hardware.accelerator import Accelerator
from mavcg.importers.load import SUFFIXES, import_model
from mavcg.passes.graph.pipeline import optimise
from mavcg.planner.accelerators import baselines, exact, exhaustive, pruned, space
from mavcg.planner.accelerators.energy import ALL_METRICS
from mavcg.planner.accelerators.levels import plan_levels
from mavcg.planner.accelerators.lower_bound import lower_bound_bytes, memory_bytes
from mavcg.planner.accelerators.nested import LevelsPlan
from mavcg.planner.accelerators.network_plan import Search, plan_layers
from mavcg.planner.accelerators.networks import NAMES, network
from mavcg.planner.accelerators.planned import NoTiling, Planned
from mavcg.planner.accelerators.schedule_cache import Option, open_cache
from mavcg.planner.layer_model.graph_layers import layers_of
from mavcg.planner.layer_model.layer import ConvLayer
from mavcg.planner.layer_model.roofline import Reached
from mavcg.planner.layer_model.traffic import Traffic, no_reload

SEARCHES = ("exact", "pruned", "exhaustive")
NOTHING = Traffic(0, 0, 0)


@dataclass(frozen=True)
class PlanRequest:
    """Options of planning. search: of SEARCHES; metric: a name of ALL_METRICS.

    For the exact search alone: halo: count what neighbouring tiles read twice; double_buffer: every tile takes its
    memory twice; full_grid: tiles of any size, not only of whole lengths of the array.
    keep: whether plans are kept on disk, and found there. levels: also tiles for every level of the machine's memory.
    """

    search: str = "exact"
    metric: str = "performance-per-access"
    halo: bool = False
    double_buffer: bool = False
    full_grid: bool = False
    keep: bool = True
    levels: bool = False


@dataclass(frozen=True)
class NetworkPlan:
    """The plan for one machine. machine: its label; accelerator: with its outermost memory alone.

    assumed: facts of the machine that nobody stated. levels: for each layer tiles within tiles, one a level of memory,
    where the request has `levels`.
    """

    machine: str
    accelerator: Accelerator
    planned: tuple[Planned, ...]
    seconds: float
    assumed: tuple[str, ...] = ()
    levels: tuple[LevelsPlan, ...] = ()

    @property
    def traffic(self) -> Traffic:
        """Off-chip bytes of all layers."""
        return sum((p.reached.traffic for p in self.planned), NOTHING)

    @property
    def latency_seconds(self) -> float:
        """Seconds of all layers one after the other, by the roofline model."""
        return sum(p.reached.seconds for p in self.planned)


@dataclass(frozen=True)
class SpaceSize:
    """Table 8.5 of a network: unpruned is three dataflows times the mean over its convolutions, as the paper has it;
    pruned is the sum over them. unpruned_of_all: like the latter."""

    convolutions: int
    unpruned: float
    pruned: int
    unpruned_of_all: int


def read_graph(model: str, shapes: Mapping[str, tuple[int, ...]], paper_variant: bool) -> Graph:
    """Return the graph of a built-in network or of a model's file, after fusion. Raises: as read_layers."""
    if model in NAMES:
        return optimise(network(model, paper_variant))
    return optimise(import_model(Path(model), shapes))


def read_layers(model: str, shapes: Mapping[str, tuple[int, ...]], paper_variant: bool) -> tuple[ConvLayer, ...]:
    """Return the layers of a built-in network, or of a model's file after fusion.

    Raises: MavcgError for what is neither, for a file that cannot be imported, and where there is nothing to plan.
    """
    if model in NAMES:
        if shapes:
            raise MavcgError(f"--shape: {model} is a built-in network of one shape; give a model's file")
        return layers_of(network(model, paper_variant))
    if paper_variant:
        raise MavcgError(f"--paper-variant: {model} is not of the paper's networks, which are {', '.join(NAMES)}")
    path = Path(model)
    if not path.exists() and path.suffix.lower() not in SUFFIXES:
        raise MavcgError(
            f"{model}: is neither a file nor a built-in network; name a model file (.onnx, .tflite or .prototxt), "
            f"or one of {', '.join(NAMES)}"
        )
    graph = optimise(import_model(path, shapes))
    try:
        layers = layers_of(graph)
    except MavcgError as error:
        raise MavcgError(f"{model}: {error}") from error
    if not layers:
        raise MavcgError(f"{model}: has no convolution and no product with weights, so that there is nothing to plan")
    return layers


def plan_network(
    layers: Sequence[ConvLayer],
    accelerator: Accelerator,
    request: PlanRequest,
    machine: str,
    assumed: tuple[str, ...] = (),
) -> NetworkPlan:
    """Return every layer's best tiling for the accelerator's outermost memories, whose traffic is off-chip.

    Raises: MavcgError for an unknown search or metric, and for an option that the search does not have; NoTiling.
    """
    started = time.perf_counter()
    outer = replace(accelerator, levels=accelerator.levels[-1:])
    search, options, kind = _search(request)
    metric = ALL_METRICS.get(request.metric)
    if metric is None:
        raise MavcgError(f"--metric {request.metric}: there is none of this name; there are {', '.join(ALL_METRICS)}")
    cache = open_cache(outer, request.search, request.metric, options, kind=kind) if request.keep else None
    planned = plan_layers(layers, outer, search, metric, cache)
    nested = _plan_levels(layers, accelerator) if request.levels else ()
    return NetworkPlan(machine, outer, planned, time.perf_counter() - started, assumed, nested)


def _plan_levels(layers: Sequence[ConvLayer], accelerator: Accelerator) -> tuple[LevelsPlan, ...]:
    found = {layer: plan_levels(layer, accelerator) for layer in dict.fromkeys(layer.key for layer in layers)}
    return tuple(replace(found[layer.key], layer=layer) for layer in layers)


def _search(request: PlanRequest) -> tuple[Search, dict[str, Option], type[Reached]]:
    """Return the search, its options by name, and what its plans have reached."""
    given = {"halo": request.halo, "double-buffer": request.double_buffer, "full-grid": request.full_grid}
    if request.search == "exact":
        options = exact.ExactOptions(
            model="halo" if request.halo else "paper",
            grid="full" if request.full_grid else "pe",
            double_buffer=request.double_buffer,
        )
        return partial(exact.search, options=options), dict(given), Reached
    for option, value in given.items():
        if value:
            raise MavcgError(f"--{option}: is for --search exact; leave it out of --search {request.search}")
    if request.search == "pruned":
        return pruned.search, {}, Reached
    if request.search == "exhaustive":
        return exhaustive.search, {}, Reached
    raise MavcgError(f"--search {request.search}: there is none of this name; there are {', '.join(SEARCHES)}")


def space_of(layers: Sequence[ConvLayer], accelerator: Accelerator) -> SpaceSize:
    """Return the sizes in table 8.5 for these layers; a fully connected one is no convolution there (1x1 maps)."""
    convolutions = [layer for layer in layers if layer.oh * layer.ow > 1] or list(layers)
    of_all = sum(map(space.unpruned_size, convolutions))
    fewer = sum(pruned.space_size(layer, accelerator) for layer in convolutions)
    return SpaceSize(len(convolutions), of_all / len(convolutions), fewer, of_all)


@dataclass(frozen=True)
class Compared:
    """A planner beside ours: bytes and predicted seconds of all layers, and the bytes of each."""

    name: str
    traffic: Traffic
    seconds: float
    by_layer: tuple[Traffic, ...]


def compare(plan: NetworkPlan, metric: str) -> tuple[tuple[Compared, ...], dict[str, str]]:
    """Return the planners of table 8.3 on the same layers and machine; and why others of them have no plan, by name.

    Their tiles are of whole lengths of the array and whole rows: smaller memories may hold ours alone.
    """
    layers = [p.layer for p in plan.planned]
    found, left_out = [], {}
    for name in baselines.BASELINES:
        search = partial(baselines.plan, name)
        try:
            planned = plan_layers(layers, plan.accelerator, search, ALL_METRICS[metric])
        except NoTiling as error:
            left_out[name] = str(error)
            continue
        by_layer = tuple(p.reached.traffic for p in planned)
        found.append(Compared(name, sum(by_layer, NOTHING), sum(p.reached.seconds for p in planned), by_layer))
    return tuple(found), left_out


def floors(plan: NetworkPlan) -> tuple[int, int]:
    """Return the bytes of all layers with nothing moved twice (figure 8.2's "optimal"), and by the communication lower
    bound."""
    on_chip = memory_bytes(plan.accelerator.memory)
    once = sum(no_reload(p.layer).total_bytes for p in plan.planned)
    return once, sum(int(lower_bound_bytes(p.layer, on_chip)) for p in plan.planned)
