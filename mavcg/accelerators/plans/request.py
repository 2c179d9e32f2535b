"""Planning of a network's layers for a machine: the request of `mavcg plan`, and its result."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mavcg.accelerators.plans import baselines, exact, grid, space
from mavcg.accelerators.plans.bounds import lower_bound_bytes, memory_bytes
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.levels import plan_levels
from mavcg.accelerators.plans.nested import LevelsPlan
from mavcg.accelerators.plans.roofline import METRICS, Reached
from mavcg.accelerators.plans.schedule_cache import Option, Search, open_cache, plan_layers
from mavcg.accelerators.plans.space import NoTiling, Planned
from mavcg.cost.layer import ConvLayer
from mavcg.cost.traffic import Traffic, no_reload
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.networks import NAMES, network
from mavcg.hardware.accelerator import Accelerator
from mavcg.importers.load import import_model, model_path
from mavcg.passes.graph.pipeline import optimise

SEARCHES = ("exact", "pruned", "exhaustive")
NOTHING = Traffic(0, 0, 0)


@dataclass(frozen=True)
class PlanRequest:
    """Options of `mavcg plan`. search: one of SEARCHES. metric: a name of METRICS.

    For the exact search only: halo: count what neighbouring tiles read twice; double_buffer: every tile takes its
    memory twice; full_grid: tiles of any size, not only multiples of the array's lengths. keep: cache plans on disk.
    levels: also plan nested tiles for every level of the machine's memory. paper_roof: tilings are timed and compared
    under the roof of all processing elements, as in the thesis's algorithm 4, and not of those that are busy.
    """

    search: str = "exact"
    metric: str = "performance-per-access"
    halo: bool = False
    double_buffer: bool = False
    full_grid: bool = False
    keep: bool = True
    levels: bool = False
    paper_roof: bool = False


@dataclass(frozen=True)
class NetworkPlan:
    """The plan of a network for one machine.

    machine: its label. accelerator: with its outermost memory alone. seconds: that planning took. assumed: facts of the
    machine that its description does not state. levels: nested tiles of each layer, if requested. tile_roof: whether
    the computation roof is that of the busy elements.
    """

    machine: str
    accelerator: Accelerator
    planned: tuple[Planned, ...]
    seconds: float
    assumed: tuple[str, ...] = ()
    levels: tuple[LevelsPlan, ...] = ()
    tile_roof: bool = True

    @property
    def traffic(self) -> Traffic:
        """Off-chip traffic of all layers."""
        return sum((p.reached.traffic for p in self.planned), NOTHING)

    @property
    def latency_seconds(self) -> float:
        """Time of all layers, one after the other, by the roofline model."""
        return sum(p.reached.seconds for p in self.planned)


@dataclass(frozen=True)
class SpaceSize:
    """Sizes of a network's search space, as in table 8.5.

    unpruned: tilings of three dataflows, the mean over the convolutions, as in the paper. pruned: the sum over them.
    unpruned_of_all: the sum before pruning.
    """

    convolutions: int
    unpruned: float
    pruned: int
    unpruned_of_all: int


def read_graph(model: str, shapes: Mapping[str, tuple[int, ...]], paper_variant: bool) -> Graph:
    """Return the graph of a built-in network or of a model file, after fusion. Raises: as read_layers."""
    if model in NAMES:
        return optimise(network(model, paper_variant))
    return optimise(import_model(Path(model), shapes))


def read_layers(model: str, shapes: Mapping[str, tuple[int, ...]], paper_variant: bool) -> tuple[ConvLayer, ...]:
    """Return the layers of a built-in network or of a model file after fusion.

    Raises: MavcgError for a name that is neither, a file that cannot be imported, or a model without layers to plan.
    """
    if model in NAMES:
        if shapes:
            raise MavcgError(f"--shape: {model} is a built-in network with a fixed shape; name a model file instead")
        return layers_of(network(model, paper_variant))
    if paper_variant:
        raise MavcgError(f"--paper-variant: {model} is not one of the paper's networks, {', '.join(NAMES)}")
    graph = optimise(import_model(model_path(model, NAMES), shapes))
    try:
        layers = layers_of(graph)
    except MavcgError as error:
        raise MavcgError(f"{model}: {error}") from error
    if not layers:
        raise MavcgError(f"{model}: has no convolution and no product with weights, so there is nothing to plan")
    return layers


def plan_network(
    layers: Sequence[ConvLayer],
    accelerator: Accelerator,
    request: PlanRequest,
    machine: str,
    assumed: tuple[str, ...] = (),
) -> NetworkPlan:
    """Return the best tiling of each layer for the accelerator's outermost memory, whose traffic is off-chip.

    Raises: MavcgError for an unknown search or metric, or an option that the search does not have; NoTiling.
    """
    started = time.perf_counter()
    outer = replace(accelerator, levels=accelerator.levels[-1:])
    search, options, kind = _search(request)
    metric = METRICS.get(request.metric)
    if metric is None:
        raise MavcgError(f"--metric {request.metric}: unknown metric; choose one of {', '.join(METRICS)}")
    cache = open_cache(outer, request.search, request.metric, options, kind=kind) if request.keep else None
    planned = plan_layers(layers, outer, search, metric, cache)
    busy = not request.paper_roof
    nested = _plan_levels(layers, accelerator, busy) if request.levels else ()
    return NetworkPlan(machine, outer, planned, time.perf_counter() - started, assumed, nested, busy)


def _plan_levels(layers: Sequence[ConvLayer], accelerator: Accelerator, tile_roof: bool) -> tuple[LevelsPlan, ...]:
    plans = {
        layer: plan_levels(layer, accelerator, tile_roof=tile_roof)
        for layer in dict.fromkeys(layer.key for layer in layers)
    }
    return tuple(replace(plans[layer.key], layer=layer) for layer in layers)


def _search(request: PlanRequest) -> tuple[Search, dict[str, Option], type[Reached]]:
    """Return the search, its options by name, and the class of its plans' `reached`."""
    given = {"halo": request.halo, "double-buffer": request.double_buffer, "full-grid": request.full_grid}
    tile_roof = not request.paper_roof
    roof: dict[str, Option] = {"tile-roof": tile_roof}
    if request.search == "exact":
        options = exact.ExactOptions(
            model="halo" if request.halo else "paper",
            grid="full" if request.full_grid else "pe",
            double_buffer=request.double_buffer,
            tile_roof=tile_roof,
        )
        return partial(exact.search, options=options), {**given, **roof}, Reached
    for option, value in given.items():
        if value:
            raise MavcgError(f"--{option}: applies to --search exact only; leave it out with --search {request.search}")
    if request.search == "pruned":
        return partial(grid.search_pruned, tile_roof=tile_roof), roof, Reached
    if request.search == "exhaustive":
        return partial(grid.search_exhaustively, tile_roof=tile_roof), roof, Reached
    raise MavcgError(f"--search {request.search}: unknown search; choose one of {', '.join(SEARCHES)}")


def space_of(layers: Sequence[ConvLayer], accelerator: Accelerator) -> SpaceSize:
    """Return the sizes of the search space (table 8.5) of the convolutions among these layers.

    Fully connected layers, whose maps are 1x1, are left out.
    """
    convolutions = [layer for layer in layers if layer.oh * layer.ow > 1] or list(layers)
    unpruned = sum(map(space.unpruned_size, convolutions))
    pruned_size = sum(grid.pruned_size(layer, accelerator) for layer in convolutions)
    return SpaceSize(len(convolutions), unpruned / len(convolutions), pruned_size, unpruned)


@dataclass(frozen=True)
class Compared:
    """Result of another planner: traffic and predicted seconds of all layers, and the traffic of each."""

    name: str
    traffic: Traffic
    seconds: float
    by_layer: tuple[Traffic, ...]


def compare(plan: NetworkPlan, metric: str) -> tuple[tuple[Compared, ...], dict[str, str]]:
    """Return the planners of table 8.3 on the same layers and machine.

    And by name the reason why a planner has no plan.
    Their tiles are multiples of the array's lengths and whole rows, so a small memory may fit none of them.
    """
    layers = [p.layer for p in plan.planned]
    results, left_out = [], {}
    for name in baselines.BASELINES:
        search = partial(baselines.plan, name, tile_roof=plan.tile_roof)
        try:
            planned = plan_layers(layers, plan.accelerator, search, METRICS[metric])
        except NoTiling as error:
            left_out[name] = str(error)
            continue
        by_layer = tuple(p.reached.traffic for p in planned)
        results.append(Compared(name, sum(by_layer, NOTHING), sum(p.reached.seconds for p in planned), by_layer))
    return tuple(results), left_out


def floors(plan: NetworkPlan) -> tuple[int, int]:
    """Return the bytes of all layers if nothing is moved twice, and by the proven lower bound.

    The former is the "optimal" line of figure 8.2.
    """
    on_chip = memory_bytes(plan.accelerator.memory)
    once = sum(no_reload(p.layer).total_bytes for p in plan.planned)
    return once, sum(int(lower_bound_bytes(p.layer, on_chip)) for p in plan.planned)
