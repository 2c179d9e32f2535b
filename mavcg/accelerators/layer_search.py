"""Choose the radix positions and biases of one node, given the integer results of the nodes before it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mavcg.accelerators.fixed_point import (
    accumulator_radix,
    convolution_sums,
    evaluate_host,
    evaluate_node,
    finish,
    to_integers,
    to_reals,
)
from mavcg.accelerators.shapes import (
    LEAST_RADIX,
    LEAST_SHIFT,
    MOST_ALIGNMENT,
    MOST_RADIX,
    MOST_SHIFT,
)
from mavcg.accelerators.tensor_radices import Sample, radix_classes, widest_radix
from mavcg.accelerators.xgraph import CONVOLUTIONS, Parameters, XGraph, XNode
from mavcg.errors import MavcgError
from mavcg.graph import Array

MOST_BIAS = 1 << 30  # maximum magnitude of a bias; leaves room for the sum in 32 bits
# Granularities of the weights' radix positions: one per tensor, as in the paper; one per channel for depthwise
# convolutions; one per channel for all convolutions.
GRANULARITIES = ("tensor", "depthwise", "channel")


class LayerSearch:
    """State of the choice of radix positions, node by node.

    chosen, parameters: quantised nodes, and their weights and biases, for the nodes processed so far.
    """

    def __init__(
        self, graph: XGraph, radices: Mapping[str, int], rounding: str, granularity: str, correct_bias: bool
    ) -> None:
        self.graph, self.radices, self.rounding = graph, radices, rounding
        self.granularity, self.correct_bias = granularity, correct_bias
        self.chosen: dict[str, XNode] = {}
        self.parameters: dict[str, Parameters] = {}
        classes = radix_classes(graph)
        shared = list(classes.values())
        self._free = {name for name, root in classes.items() if shared.count(root) == 1}
        self._readers = graph.readers()
        self._kinds = {node.name: node.kind for node in graph.nodes}
        self._lowest = min(radices.values())

    def quantise_node(
        self,
        node: XNode,
        reals: Sequence[Mapping[str, Array]],
        integers: Sequence[Mapping[str, Array]],
        means: Array | None,
    ) -> list[Array]:
        """Choose the radix positions of one node, and return its tensor for each image.

        Tensors are int8, or f32 for a host node without a radix position.
        reals: f32 tensors of the node, for each image. integers: tensors of the nodes before it as integers. means:
        mean of the f32 sums of each output channel of a convolution, with the bias, before the activation.
        """
        if node.kind == "host":
            read = any(self._kinds[name] != "host" for name in self._readers[node.name])
            return self._host(node, integers, self.radices[node.name] if read else None)
        if node.kind == "input":
            self.chosen[node.name] = replace(node, radix=self.radices[node.name])
            return [to_integers(values[node.name], self.radices[node.name]) for values in reals]
        inputs = [[values[name] for name in node.inputs] for values in integers]
        targets = [values[node.name] for values in reals]
        if node.kind in CONVOLUTIONS:
            return self._convolution(node, inputs, targets, means if self.correct_bias else None)
        in_radices = self._input_radices(node)

        def results(radix: int) -> list[Array]:
            tried = replace(node, radix=radix)
            return [evaluate_node(tried, None, tensors, in_radices, self.rounding) for tensors in inputs]

        return self._best(node, targets, in_radices, results)

    def _best(
        self, node: XNode, targets: Sequence[Array], in_radices: Sequence[int], results: Callable[[int], list[Array]]
    ) -> list[Array]:
        """Choose the radix position of a node's tensor with the least error, and return the tensor for each image.

        targets: f32 tensors. results: the node's int8 tensors at a radix position.
        """
        tried = []
        for radix in self._radices_to_try(node.name):
            made = results(radix)
            tried.append((_error(targets, made, radix), radix, made))
        _, radix, made = min(tried, key=lambda attempt: attempt[:2])
        self.chosen[node.name] = replace(node, radix=radix)
        return made

    def _radices_to_try(self, name: str) -> range:
        """Return the radix positions to try for a tensor: those next to that of its f32 values.

        If the tensor shares its radix position with other tensors, only that one.
        """
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

    def _convolution(
        self, node: XNode, inputs: Sequence[Sequence[Array]], targets: Sequence[Array], means: Array | None
    ) -> list[Array]:
        (x_radix,), real = self._input_radices(node), self.graph.parameters[node.name]
        best: tuple[float, int, int] | None = None
        kept: tuple[XNode, Parameters, list[Array]] | None = None
        for number, (weight_radix, steps, integer, sums) in enumerate(self._sums(node, real, x_radix, inputs, means)):
            for radix in self._radices_to_try(node.name):
                tried = replace(node, radix=radix, weight_radix=weight_radix, bias_steps=steps)
                shift = np.asarray(accumulator_radix(tried, [x_radix])) - radix
                if not LEAST_SHIFT <= int(shift.min()) <= int(shift.max()) <= MOST_SHIFT:
                    continue
                made = [finish(tried, s, shift, self.rounding) for s in sums]
                key = (_error(targets, made, radix), number, radix)
                if best is None or key < best:
                    best, kept = key, (tried, integer, made)
        if kept is None:
            raise MavcgError(f"{node.origin or node.name}: its weights and biases fit no radix position; rescale them")
        self.chosen[node.name], self.parameters[node.name], made = kept
        return made

    def _sums(
        self, node: XNode, real: Parameters, x_radix: int, inputs: Sequence[Sequence[Array]], means: Array | None
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], Parameters, list[Array]]]:
        """Yield candidates: (radix positions of the weights, steps of the biases, integers and sums with both).

        There are sums for each image.

        means: mean of the f32 sums of each output channel; None to keep biases.
        """
        for weight_radix in self._weight_radices(node, real, x_radix):
            integer = integer_parameters(real, weight_radix, x_radix)
            sums = [convolution_sums(node, integer, tensors[0]) for tensors in inputs]
            yield weight_radix, (), integer, sums
            if means is None:
                continue
            integer_means = np.mean([s.reshape(-1, node.channels).mean(axis=0) for s in sums], axis=0)
            moved = np.floor(np.ldexp(means, np.asarray(weight_radix) + x_radix) - integer_means + 0.5)
            bias = np.clip(integer.bias + moved, -MOST_BIAS, MOST_BIAS).astype(np.int64)
            steps = bias - integer.bias
            if steps.any():
                # int32 is added modulo 2^32, as the sums are.
                moved_sums = [s + steps.astype(np.int32) for s in sums]
                corrected = Parameters(integer.weights, bias.astype(np.int32))
                yield weight_radix, tuple(steps.tolist()), corrected, moved_sums

    def _weight_radices(self, node: XNode, real: Parameters, x_radix: int) -> list[tuple[int, ...]]:
        """Return the radix positions to try for the weights: without saturation, and with the largest saturated."""
        # The bias at the weights' position plus the input's must leave room for the sum.
        room = int(np.floor(np.log2(MOST_BIAS / max(float(np.abs(real.bias).max(initial=0)), 1e-30)))) - x_radix
        most = max(min(MOST_RADIX, room), LEAST_RADIX)
        tried: list[tuple[int, ...]] = []
        if self.granularity != "channel":
            widest = min(widest_radix(real.weights), most)
            tried += [(radix,) for radix in range(widest, min(widest + 1, most) + 1)]
        if self.granularity == "channel" or (self.granularity == "depthwise" and node.kind == "depthwise"):
            best = [Sample.of(row).best_radix() for row in real.weights.reshape(real.weights.shape[0], -1)]
            tried += [tuple(min(radix + step, most) for radix in best) for step in (0, 1)]
        return tried


def integer_parameters(
    real: Parameters, weight_radix: tuple[int, ...], x_radix: int, bias_steps: tuple[int, ...] = ()
) -> Parameters:
    """Return weights as int8, and biases as int32 at the radix position of the sums.

    bias_steps: added to the integer bias of each output channel; () for nothing.
    """
    out_ch = real.weights.shape[0]
    by_channel = weight_radix if len(weight_radix) > 1 else weight_radix * out_ch
    weights = to_integers(real.weights, np.asarray(by_channel).reshape(-1, *(1,) * (real.weights.ndim - 1)))
    scaled = np.floor(np.ldexp(real.bias.astype(np.float64), np.asarray(by_channel) + x_radix) + 0.5)
    bias = np.clip(scaled, -MOST_BIAS, MOST_BIAS) + (np.asarray(bias_steps, np.float64) if bias_steps else 0)
    return Parameters(weights, np.clip(bias, -MOST_BIAS, MOST_BIAS).astype(np.int32))


def _error(targets: Sequence[Array], results: Sequence[Array], radix: int) -> float:
    return sum(
        float(((t - to_reals(q, radix)) ** 2).sum(dtype=np.float64)) for t, q in zip(targets, results, strict=True)
    )
