"""Reads a model's file: its graph for given shapes, its graphs for a sample of lengths of bounded dimensions, or its
convolutions, whose primitives are selected."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mavcg.choose.algorithms.network import Network, network_of
from mavcg.choose.lengths.sampled_graphs import SampledGraphs, sampled_graphs
from mavcg.choose.lengths.samples import Lengths, lengths_text
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.counts import Dimension
from mavcg.importers.declared_shapes import GivenShapes, ignores_declared
from mavcg.importers.load import dimension_name, import_model, model_path
from mavcg.model.dump import dump
from mavcg.model.model_request import ModelRequest
from mavcg.model.sizes import BoundedShapes, Range, Shape
from mavcg.passes.graph.pipeline import optimise
from mavcg.passes.graph.states import pair_states, without_counts


def read_graph(request: ModelRequest, name: str, loops: bool) -> Graph:
    """Return the graph of a model for the shapes of its request.

    name: of the graph. loops: loops of the file are loops of the graph. Raises: MavcgError as import_model.
    """
    graph = request.graph or file_graph(request, loops)
    graph = pair_states(replace(graph, name=name), request.states)
    dump("import", graph)
    return graph


def file_graph(request: ModelRequest, loops: bool = False) -> Graph:
    """Return the graph of a request's file, without what the request says of it but shapes. Raises: as read_graph."""
    return import_model(request.model, request.shapes, request.weights, loops)


def read_sampled_graphs(request: ModelRequest, bounds: BoundedShapes, name: str) -> SampledGraphs:
    """Return the graphs of a model for a sample of lengths of its bounded dimensions. Raises: as sampled_graphs."""
    shapes = named_shapes(request.model, bounds)
    ignore = ignores_declared(request.shapes)

    def read(lengths: Lengths) -> Graph:
        # A loop of any number of iterations, so that graphs of all lengths have it.
        graph = import_model(request.model, GivenShapes(shapes.at(lengths), ignore), request.weights, True, 1)
        graph = without_counts(graph, f"--shape {bounds}: outputs follow from these lengths alone")
        return pair_states(replace(graph, name=name), request.states, any_length=True)

    sampled = sampled_graphs(read, shapes.dimensions)
    dump("import", sampled.graphs[0])
    return sampled


@dataclass(frozen=True)
class NamedShapes:
    """Shapes of inputs with bounded dimensions. shapes: by input; a name stands for the length of the dimension."""

    shapes: Mapping[str, tuple[int | str, ...]]
    dimensions: tuple[Dimension, ...]

    def at(self, lengths: Lengths) -> dict[str, Shape]:
        """Return the shapes at lengths of the dimensions, by name, in steps."""
        elements = {dimension.name: lengths[dimension.name] * dimension.step for dimension in self.dimensions}
        return {
            name: tuple(elements[d] if isinstance(d, str) else d for d in shape) for name, shape in self.shapes.items()
        }

    def text(self, lengths: Lengths) -> str:
        """Return lengths as text, for errors."""
        return lengths_text(lengths, self.dimensions)


def named_shapes(model: Path, bounds: BoundedShapes) -> NamedShapes:
    """Return the shapes with the names of their dimensions: the file's, or else <input>.<axis>.

    A range whose axis has no name in the file is the first dimension of the same bounds that its input does not have
    yet, as ranges of several inputs are; else it is a dimension of its own. Raises: MavcgError for a name with several
    bounds, and as import_model.
    """
    places = {
        (name, axis): length
        for name, shape in bounds.shapes.items()
        for axis, length in enumerate(shape)
        if isinstance(length, tuple)
    }
    names = {place: dimension_name(model, *place) for place in places}
    names = {place: name for place, name in names.items() if name != f"{place[0]}.{place[1]}"}
    ranges = dict[str, Range]()
    for place, name in names.items():
        if ranges.setdefault(name, places[place]) != places[place]:
            both = " and ".join(map(str, (ranges[name], places[place])))
            raise MavcgError(f"--shape {bounds}: {both} are bounds of the dimension {name}; give it one range")
    for place, length in places.items():
        if place not in names:
            taken = {names[other] for other in names if other[0] == place[0]}
            free = [name for name, bound in ranges.items() if bound == length and name not in taken]
            names[place] = free[0] if free else f"{place[0]}.{place[1]}"
            ranges[names[place]] = length
    shapes = {
        name: tuple(names[name, axis] if isinstance(length, tuple) else length for axis, length in enumerate(shape))
        for name, shape in bounds.shapes.items()
    }
    ordered = dict.fromkeys(names[place] for place in places)
    return NamedShapes(shapes, tuple(_dimension(name, ranges[name]) for name in ordered))


def _dimension(name: str, bounds: Range) -> Dimension:
    return Dimension(name, bounds.least // bounds.step, bounds.most // bounds.step, bounds.step)


def read_network(model: str, shapes: Mapping[str, tuple[int, ...]]) -> Network:
    """Return a built-in network, or the network of a model file after the passes that every model goes through.

    Raises: MavcgError for a name that is neither, a file that cannot be imported, or a model without a convolution that
    primitives compute.
    """
    # Imported here because a model build loads this module and needs no built-in networks.
    from mavcg.graph.networks import NAMES
    from mavcg.graph.networks import network as built_in

    if model in NAMES:
        if shapes:
            raise MavcgError(f"--shape: {model} is a built-in network with a fixed shape; name a model file instead")
        return network_of(optimise(built_in(model)))
    network = network_of(optimise(import_model(model_path(model, NAMES), shapes)))
    if not network.convolutions:
        why = "; ".join(sorted({f"{node.name} {node.why}" for node in network.left_out})[:3])
        raise MavcgError(
            f"{model}: has no convolution that primitives compute{': ' + why if why else ''}; name a model with "
            f"convolutions whose weights are constants"
        )
    return network
