"""Choose the radix positions and biases of one node, given the integer results of the nodes before it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mavcg.accelerators.fixed_point import (
    MOST_SHIFT,
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
    MOST_ALIGNMENT,
    MOST_MULTIPLIER,
    MOST_RADIX,
    least_shift,
)
from mavcg.accelerators.tensor_radices import Sample, radix_classes, widest_radix
from mavcg.accelerators.xgraph import CONVOLUTIONS, Parameters, XGraph, XNode
from mavcg.errors import MavcgError
from mavcg.graph import Array

_MULTIPLIER_BITS = MOST_MULTIPLIER.bit_length()
_WHOLE = 1e-3  # distance from an integer that f32 weights of an 8-bit file keep: 127 times 2^-17
MOST_BIAS = 1 << 30  # maximum magnitude of a bias; leaves room for the sum in 32 bits
# Granularities of the weights' radix positions: one per tensor, as in the paper; one per channel for depthwise
# convolutions; one per channel for all convolutions; one per channel with a multiplier, so that any scale is exact.
GRANULARITIES = ("tensor", "depthwise", "channel", "scale")


@dataclass(frozen=True)
class WeightScale:
    """Scales of a convolution's weights: radix positions, one or one for each output channel, and multipliers."""

    radices: tuple[int, ...]
    multipliers: tuple[int, ...] = ()


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
        sources = [self.chosen[name] for name in node.inputs]
        return [
            evaluate_host(self.graph, chosen, [values[name] for name in node.inputs], sources) for values in integers
        ]

    def _convolution(
        self, node: XNode, inputs: Sequence[Sequence[Array]], targets: Sequence[Array], means: Array | None
    ) -> list[Array]:
        (x_radix,), real = self._input_radices(node), self.graph.parameters[node.name]
        best: tuple[float, int, int] | None = None
        kept: tuple[XNode, Parameters, list[Array]] | None = None
        for number, (scale, steps, integer, sums) in enumerate(self._sums(node, real, x_radix, inputs, means)):
            for radix in self._radices_to_try(node.name):
                scaled = replace(node, weight_radix=scale.radices, multipliers=scale.multipliers)
                tried = replace(scaled, radix=radix, bias_steps=steps)
                shift = np.asarray(accumulator_radix(tried, [x_radix])) - radix
                if not least_shift(tried) <= int(shift.min()) <= int(shift.max()) <= MOST_SHIFT:
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
    ) -> Iterator[tuple[WeightScale, tuple[int, ...], Parameters, list[Array]]]:
        """Yield candidates: (scale of the weights, steps of the biases, integers and sums with both).

        There are sums for each image.

        means: mean of the f32 sums of each output channel; None to keep biases.
        """
        for scale in self._weight_scales(node, real, x_radix):
            integer = integer_parameters(real, scale.radices, x_radix, (), scale.multipliers)
            sums = [convolution_sums(node, integer, tensors[0]) for tensors in inputs]
            yield scale, (), integer, sums
            if means is None:
                continue
            integer_means = np.mean([s.reshape(-1, node.channels).mean(axis=0) for s in sums], axis=0)
            units = np.ldexp(means, np.asarray(scale.radices) + x_radix) / np.asarray(scale.multipliers or 1)
            moved = np.floor(units - integer_means + 0.5)
            bias = np.clip(integer.bias + moved, -MOST_BIAS, MOST_BIAS).astype(np.int64)
            steps = bias - integer.bias
            if steps.any():
                # int32 is added modulo 2^32, as the sums are.
                moved_sums = [s + steps.astype(np.int32) for s in sums]
                corrected = Parameters(integer.weights, bias.astype(np.int32))
                yield scale, tuple(steps.tolist()), corrected, moved_sums

    def _weight_scales(self, node: XNode, real: Parameters, x_radix: int) -> list[WeightScale]:
        """Return the scales to try for the weights: without saturation, and with the largest saturated."""
        if self.granularity == "scale":
            return [any_scales(real, x_radix)]
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
        return [WeightScale(radices) for radices in tried]


def any_scales(real: Parameters, x_radix: int) -> WeightScale:
    """Return a scale for each output channel with which its largest weight is 127, or the weights are integers.

    The weights of an 8-bit file are integers times its scale, and become these integers, whatever the largest is.
    """
    rows = real.weights.reshape(len(real.weights), -1).astype(np.float64)
    largest = np.abs(rows).max(axis=1, initial=0.0)
    scales = np.array([_grid(row, most) for row, most in zip(rows, largest, strict=True)])
    scales = np.maximum(scales, np.ldexp(np.abs(real.bias.astype(np.float64)), x_radix) / MOST_BIAS)  # biases fit
    exponents = np.clip(_MULTIPLIER_BITS - np.floor(np.log2(np.maximum(scales, 1e-30))) - 1, LEAST_RADIX, MOST_RADIX)
    multipliers = np.clip(np.floor(np.ldexp(scales, exponents.astype(int)) + 0.5), 1, MOST_MULTIPLIER)
    return WeightScale(tuple(int(r) for r in exponents), tuple(int(m) for m in multipliers))


def _grid(row: Array, largest: float) -> float:
    """Return the scale with which weights are integers up to 127, if there is one, else that of a largest of 127."""
    for greatest in range(127, 0, -1) if largest else ():
        steps = row * (greatest / largest)
        if np.abs(steps - np.round(steps)).max() < _WHOLE:
            return largest / greatest
    return largest / 127 if largest else 1.0


def integer_parameters(
    real: Parameters,
    weight_radix: tuple[int, ...],
    x_radix: int,
    bias_steps: tuple[int, ...] = (),
    multipliers: tuple[int, ...] = (),
) -> Parameters:
    """Return weights as int8, and biases as int32 at the radix position of the sums.

    bias_steps: added to the integer bias of each output channel; () for nothing. multipliers: as XNode has them.
    """
    out_ch = real.weights.shape[0]
    by_channel = weight_radix if len(weight_radix) > 1 else weight_radix * out_ch
    columns = (-1, *(1,) * (real.weights.ndim - 1))
    divided = real.weights / np.asarray(multipliers, np.float64).reshape(columns) if multipliers else real.weights
    weights = to_integers(divided, np.asarray(by_channel).reshape(columns))
    unit = np.ldexp(real.bias.astype(np.float64), np.asarray(by_channel) + x_radix)
    scaled = np.floor(unit / np.asarray(multipliers or 1) + 0.5)
    bias = np.clip(scaled, -MOST_BIAS, MOST_BIAS) + (np.asarray(bias_steps, np.float64) if bias_steps else 0)
    return Parameters(weights, np.clip(bias, -MOST_BIAS, MOST_BIAS).astype(np.int32))


def _error(targets: Sequence[Array], results: Sequence[Array], radix: int) -> float:
    return sum(
        float(((t - to_reals(q, radix)) ** 2).sum(dtype=np.float64)) for t, q in zip(targets, results, strict=True)
    )
