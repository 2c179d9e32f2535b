"""Choose radix positions, layer by layer, over calibration inputs (DNNVM, section VI-A; Angel-Eye's method).

Tensors that only move data share a radix position with what they move, and so do the parts of a concat with it:
nothing is shifted there. For every convolution, positions of its weights and of its result are enumerated, with the
integers that the layers before it really make; the pair whose result is nearest to the f32 one is taken.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mavcg.accel.fixed_point import (
    accumulator_radix,
    convolution_sums,
    evaluate_host,
    evaluate_node,
    finish,
    to_integers,
    to_reals,
)
from mavcg.accel.float_reference import evaluate_node_f32
from mavcg.accel.samples import Sample, widest_radix
from mavcg.accel.shapes import (
    LEAST_RADIX,
    LEAST_SHIFT,
    MOST_ALIGNMENT,
    MOST_RADIX,
    MOST_SHIFT,
    check_xgraph,
)
from mavcg.accel.tensor_radices import radix_classes, tensor_radices
from mavcg.accel.xgraph import CONVOLUTIONS, Parameters, XGraph, XNode
from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.reference.evaluate import run as run_graph

MOST_BIAS = 1 << 30  # leaves room for the sum
Progress = Callable[[str], None]


@dataclass(frozen=True)
class LayerError:
    """The choice for a node. sqnr_db: of its integers to the f32 tensor, over the calibration inputs; inf for equal."""

    node: str
    radix: int
    weight_radix: tuple[int, ...]
    sqnr_db: float


@dataclass(frozen=True)
class QuantisedGraph:
    """A quantised graph, and what each of its nodes loses."""

    graph: XGraph
    layers: tuple[LayerError, ...]


def _silent(message: str) -> None:
    pass


def quantise(
    graph: XGraph,
    images: Sequence[Mapping[str, Array]],
    rounding: str,
    per_channel: bool = False,
    progress: Progress = _silent,
) -> QuantisedGraph:
    """Quantise an f32 graph to 8 bits with one radix position for each tensor.

    Args:
        images: calibration inputs, each as float_reference.arranged returns them.
        rounding: of fixed_point.ROUNDINGS.
        per_channel: a radix position for each output channel's weights.
    Raises: MavcgError without images, for values that are not finite, and for biases that no position holds.
    """
    if not images:
        raise MavcgError(f"{graph.name}: no calibration inputs; give at least one")
    radices = tensor_radices(graph, images, progress)
    search = _LayerSearch(graph, radices, rounding, per_channel)
    reals: list[dict[str, Array]] = [{} for _ in images]
    integers: list[dict[str, Array]] = [{} for _ in images]
    last = {name: at for at, node in enumerate(graph.nodes) for name in node.inputs}
    layers = []
    for at, node in enumerate(graph.nodes):
        progress(f"radix positions: {node.name}")
        for values, image in zip(reals, images, strict=True):
            values[node.name] = _real_value(graph, node, values, image)
        made = search.quantise_node(node, reals, integers)
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
    """Signal to quantisation noise in dB, of several tensors together; inf for equal ones."""
    signal = sum(float((a.astype(np.float64) ** 2).sum()) for a in real)
    noise = sum(float(((a.astype(np.float64) - b) ** 2).sum()) for a, b in zip(real, integers, strict=True))
    if noise == 0:
        return float("inf")
    return float(10 * np.log10(signal / noise)) if signal else float("-inf")


def _real_value(graph: XGraph, node: XNode, values: Mapping[str, Array], image: Mapping[str, Array]) -> Array:
    if node.kind == "input":
        return image[node.name]
    inputs = [values[name] for name in node.inputs]
    if node.kind == "host":
        host = graph.hosts[node.name]
        shaped = [x.reshape(host.types[name].shape) for name, x in zip(host.inputs, inputs, strict=True)]
        (result,) = run_graph(host, *shaped)
        return result
    return evaluate_node_f32(node, graph.parameters.get(node.name), inputs)


class _LayerSearch:
    """The search over one node after another. chosen, parameters: of those done so far."""

    def __init__(self, graph: XGraph, radices: Mapping[str, int], rounding: str, per_channel: bool) -> None:
        self.graph, self.radices, self.rounding, self.per_channel = graph, radices, rounding, per_channel
        self.chosen: dict[str, XNode] = {}
        self.parameters: dict[str, Parameters] = {}
        classes = radix_classes(graph)
        shared = list(classes.values())
        self._free = {name for name, root in classes.items() if shared.count(root) == 1}
        self._readers = graph.readers()
        self._kinds = {node.name: node.kind for node in graph.nodes}
        self._lowest = min(radices.values())

    def quantise_node(
        self, node: XNode, reals: Sequence[Mapping[str, Array]], integers: Sequence[Mapping[str, Array]]
    ) -> list[Array]:
        """Choose for one node, and return its integers for each image (f32 of a host node without a position)."""
        if node.kind == "host":
            read = any(self._kinds[name] != "host" for name in self._readers[node.name])
            return self._host(node, integers, self.radices[node.name] if read else None)
        if node.kind == "input":
            self.chosen[node.name] = replace(node, radix=self.radices[node.name])
            return [to_integers(values[node.name], self.radices[node.name]) for values in reals]
        inputs = [[values[name] for name in node.inputs] for values in integers]
        targets = [values[node.name] for values in reals]
        if node.kind in CONVOLUTIONS:
            return self._convolution(node, inputs, targets)
        in_radices = self._input_radices(node)

        def results(radix: int) -> list[Array]:
            tried = replace(node, radix=radix)
            return [evaluate_node(tried, None, each, in_radices, self.rounding) for each in inputs]

        return self._best(node, targets, in_radices, results)

    def _best(
        self, node: XNode, targets: Sequence[Array], in_radices: Sequence[int], results: Callable[[int], list[Array]]
    ) -> list[Array]:
        """The result's position with the least error, around that of the f32 values."""
        tried = []
        for radix in self._around(node.name):
            made = results(radix)
            tried.append((_error(targets, made, radix), radix, made))
        _, radix, made = min(tried, key=lambda one: one[:2])
        self.chosen[node.name] = replace(node, radix=radix)
        return made

    def _around(self, name: str) -> range:
        """Positions to try for a tensor: a class's is fixed."""
        radix = self.radices[name]
        if name not in self._free:
            return range(radix, radix + 1)
        return range(max(radix - 1, self._lowest), min(radix + 1, self._lowest + MOST_ALIGNMENT, MOST_RADIX) + 1)

    def _input_radices(self, node: XNode) -> list[int]:
        return [r for name in node.inputs if (r := self.chosen[name].radix) is not None]

    def _host(self, node: XNode, integers: Sequence[Mapping[str, Array]], radix: int | None) -> list[Array]:
        chosen = replace(node, radix=radix)
        self.chosen[node.name] = chosen
        in_radices = [self.chosen[name].radix for name in node.inputs]
        return [
            evaluate_host(self.graph, chosen, [values[name] for name in node.inputs], in_radices) for values in integers
        ]

    def _convolution(self, node: XNode, inputs: Sequence[Sequence[Array]], targets: Sequence[Array]) -> list[Array]:
        (x_radix,), real = self._input_radices(node), self.graph.parameters[node.name]
        best: tuple[float, int, int] | None = None
        kept: tuple[XNode, Parameters, list[Array]] | None = None
        for number, weight_radix in enumerate(self._weight_radices(real, x_radix)):
            integer = integer_parameters(real, weight_radix, x_radix)
            sums = [convolution_sums(node, integer, each[0]) for each in inputs]
            for radix in self._around(node.name):
                tried = replace(node, radix=radix, weight_radix=weight_radix)
                shift = np.asarray(accumulator_radix(tried, [x_radix])) - radix
                if not LEAST_SHIFT <= int(shift.min()) <= int(shift.max()) <= MOST_SHIFT:
                    continue
                made = [finish(tried, s, shift, self.rounding) for s in sums]
                key = (_error(targets, made, radix), number, radix)
                if best is None or key < best:
                    best, kept = key, (tried, integer, made)
        if kept is None:
            raise MavcgError(f"{node.origin or node.name}: no radix positions for its weights and biases; rescale them")
        self.chosen[node.name], self.parameters[node.name], made = kept
        return made

    def _weight_radices(self, real: Parameters, x_radix: int) -> list[tuple[int, ...]]:
        """Positions of the weights to try: nothing saturates, or the largest do."""
        # The bias at the weights' position plus the input's must leave room for the sum.
        room = int(np.floor(np.log2(MOST_BIAS / max(float(np.abs(real.bias).max(initial=0)), 1e-30)))) - x_radix
        most = max(min(MOST_RADIX, room), LEAST_RADIX)
        if self.per_channel:
            rows = real.weights.reshape(real.weights.shape[0], -1)
            return [tuple(min(Sample.of(row).best_radix() + step, most) for row in rows) for step in (0, 1)]
        widest = min(widest_radix(real.weights), most)
        return [(radix,) for radix in range(widest, min(widest + 1, most) + 1)]


def integer_parameters(real: Parameters, weight_radix: tuple[int, ...], x_radix: int) -> Parameters:
    """Weights as int8, biases as int32 at the sums' position."""
    out_ch = real.weights.shape[0]
    by_channel = weight_radix if len(weight_radix) > 1 else weight_radix * out_ch
    weights = np.stack([to_integers(w, r) for w, r in zip(real.weights, by_channel, strict=True)])
    scaled = np.floor(np.ldexp(real.bias.astype(np.float64), np.asarray(by_channel) + x_radix) + 0.5)
    return Parameters(weights, np.clip(scaled, -MOST_BIAS, MOST_BIAS).astype(np.int32))


def _error(targets: Sequence[Array], made: Sequence[Array], radix: int) -> float:
    return sum(float(((t - to_reals(q, radix)) ** 2).sum(dtype=np.float64)) for t, q in zip(targets, made, strict=True))
