"""Choose radix positions, layer by layer, over calibration inputs (DNNVM, section VI-A; Angel-Eye's method).

Operations that only move data shift nothing, so their tensors share a radix position, as do the inputs of a concat with
its result. For each convolution, the radix positions of weights and result are enumerated, on the integers that the
layers before really compute; the pair with the result nearest to the f32 result is chosen. Depthwise convolutions may
have a radix position for each channel's weights, because the array reads a shift beside each bias anyway.

Rounding of weights and inputs moves the mean of a channel's sums. If it brings the result nearer, the difference of the
means is added to the bias (Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", ICCV
2019, section 4.2).

A network can also be quantised at given positions, such as a program's, to get the reference for that program.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mavcg.accelerators import windows
from mavcg.accelerators.fixed_point import to_reals
from mavcg.accelerators.float_reference import activate_f32, evaluate_node_f32
from mavcg.accelerators.image.program import NodeRadix
from mavcg.accelerators.layer_search import GRANULARITIES, LayerSearch, integer_parameters
from mavcg.accelerators.shapes import check_xgraph
from mavcg.accelerators.tensor_radices import tensor_radices
from mavcg.accelerators.xgraph import CONVOLUTIONS, XGraph, XNode
from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.graph.reference.evaluate import run as run_graph

Progress = Callable[[str], None]


@dataclass(frozen=True)
class LayerError:
    """The radix positions chosen for a node, and the error with them.

    radix, weight_radix: radix positions of its tensor and its weights. sqnr_db: signal to quantisation noise of its
    tensor over the calibration inputs, in dB; inf for no noise.
    """

    node: str
    radix: int
    weight_radix: tuple[int, ...]
    sqnr_db: float


@dataclass(frozen=True)
class QuantisedGraph:
    """A quantised graph, with the choice and the error of each node."""

    graph: XGraph
    layers: tuple[LayerError, ...]


def _silent(message: str) -> None:
    pass


def quantise(
    graph: XGraph,
    images: Sequence[Mapping[str, Array]],
    rounding: str,
    granularity: str = "depthwise",
    progress: Progress = _silent,
    correct_bias: bool = True,
) -> QuantisedGraph:
    """Quantise an f32 graph to 8 bits with one radix position for each tensor.

    Args:
        images: calibration inputs, each as float_reference.arrange_inputs returns them.
        rounding: one of fixed_point.ROUNDINGS.
        granularity: radix positions of weights, one of GRANULARITIES; "depthwise" also tries one for the whole tensor.
        correct_bias: True to correct biases if that reduces the error on the calibration inputs.
    Raises: MavcgError without images, for an unknown granularity, for values that are not finite, and for biases that
    are too large for every radix position.
    """
    if not images:
        raise MavcgError(f"{graph.name}: no calibration inputs; give at least one")
    if granularity not in GRANULARITIES:
        raise MavcgError(f"granularity {granularity}: unknown; known: {', '.join(GRANULARITIES)}")
    radices = tensor_radices(graph, images, progress)
    search = LayerSearch(graph, radices, rounding, granularity, correct_bias)
    reals: list[dict[str, Array]] = [{} for _ in images]
    integers: list[dict[str, Array]] = [{} for _ in images]
    last = {name: at for at, node in enumerate(graph.nodes) for name in node.inputs}
    layers = []
    for at, node in enumerate(graph.nodes):
        progress(f"radix positions: {node.name}")
        means = _add_real_values(graph, node, reals, images)
        made = search.quantise_node(node, reals, integers, means)
        for values, result in zip(integers, made, strict=True):
            values[node.name] = result
        chosen = search.chosen[node.name]
        if chosen.radix is not None:
            real = [values[node.name] for values in reals]
            error = sqnr_db(real, [to_reals(q, chosen.radix) for q in made])
            layers.append(LayerError(node.name, chosen.radix, chosen.weight_radix, error))
        for name in {node.name, *node.inputs}:
            if last.get(name, at) <= at:
                for values in (*reals, *integers):
                    values.pop(name, None)
    quantised = replace(graph.with_nodes(search.chosen), parameters={**search.parameters})
    check_xgraph(quantised)
    return QuantisedGraph(quantised, tuple(layers))


def sqnr_db(real: Sequence[Array], integers: Sequence[Array]) -> float:
    """Return the signal to quantisation noise of several tensors together, in dB; inf for equal tensors."""
    signal = sum(float((a.astype(np.float64) ** 2).sum()) for a in real)
    noise = sum(float(((a.astype(np.float64) - b) ** 2).sum()) for a, b in zip(real, integers, strict=True))
    if noise == 0:
        return float("inf")
    return float(10 * np.log10(signal / noise)) if signal else float("-inf")


def _add_real_values(
    graph: XGraph, node: XNode, reals: Sequence[dict[str, Array]], images: Sequence[Mapping[str, Array]]
) -> Array | None:
    """Add a node's f32 tensor to those of each image.

    Returns: of a convolution, the mean of its sums with the bias over all images, for each output channel.
    """
    parameters, means = graph.parameters.get(node.name), []
    for values, image in zip(reals, images, strict=True):
        inputs = [values[name] for name in node.inputs]
        if node.kind == "input":
            values[node.name] = image[node.name]
        elif node.kind == "host":
            host = graph.hosts[node.name]
            shaped = [x.reshape(host.types[name].shape) for name, x in zip(host.inputs, inputs, strict=True)]
            (values[node.name],) = run_graph(host, *shaped)
        elif parameters is not None:
            sums = windows.convolve(node, inputs[0], parameters.weights)
            means.append(sums.reshape(-1, node.channels).mean(axis=0, dtype=np.float64))
            values[node.name] = activate_f32(node, sums + parameters.bias)
        else:
            values[node.name] = evaluate_node_f32(node, None, inputs)
    return np.asarray(np.mean(means, axis=0) + parameters.bias) if parameters is not None else None


def with_fixed_radices(graph: XGraph) -> XGraph:
    """Return an f32 network quantised at fixed radix positions: 4 for tensors, 7 for weights.

    It serves to simulate cycles, which do not depend on values.
    """
    read = {name for node in graph.nodes if node.on_accelerator for name in node.inputs}
    radices = tuple(
        NodeRadix(node.name, 4, (7,) if node.kind in CONVOLUTIONS else ())
        for node in graph.nodes
        if node.on_accelerator or node.kind == "input" or node.name in read
    )
    return with_radices(graph, radices, graph.name)


def with_radices(graph: XGraph, radices: tuple[NodeRadix, ...], name: str) -> XGraph:
    """Return an f32 network quantised at these radix positions, with int8 weights and int32 biases.

    radices: for each node. name: the program's file, for messages.
    Raises: MavcgError if the network's nodes are not those of the program.
    """
    by_name, known = graph.by_name(), {radix.node: radix for radix in radices}
    lost = [radix.node for radix in radices if radix.node not in by_name]
    lacking = [n.name for n in graph.nodes if n.name not in known and (n.on_accelerator or n.kind == "input")]
    if lost or lacking:
        difference = f"lacks node {lost[0]} of the program" if lost else f"has a node {lacking[0]} more"
        raise MavcgError(f"{name}: network {graph.name} {difference}; give the model that it was built from")
    nodes = {
        node.name: replace(
            node,
            radix=known[node.name].radix,
            weight_radix=known[node.name].weights,
            bias_steps=known[node.name].bias_steps,
            multipliers=known[node.name].multipliers,
        )
        for node in graph.nodes
        if node.name in known
    }
    parameters = dict(graph.parameters)
    for node in nodes.values():
        if node.name in parameters:
            if len(node.weight_radix) not in (1, node.channels):
                raise MavcgError(
                    f"{name}: {node.name} has {len(node.weight_radix)} radix positions of weights; build it again"
                )
            if len(node.multipliers) not in (0, node.channels):
                raise MavcgError(f"{name}: {node.name} has {len(node.multipliers)} multipliers; build it again")
            if len(node.bias_steps) not in (0, node.channels):
                raise MavcgError(f"{name}: {node.name} has {len(node.bias_steps)} steps of biases; build it again")
            in_radix = nodes[node.inputs[0]].radix if node.inputs[0] in nodes else None
            if in_radix is None:
                raise MavcgError(f"{name}: {node.inputs[0]} has no radix position; build the file again")
            parameters[node.name] = integer_parameters(
                parameters[node.name], node.weight_radix, in_radix, node.bias_steps, node.multipliers
            )
    quantised = replace(graph.with_nodes(nodes), parameters=parameters)
    check_xgraph(quantised)
    return quantised
