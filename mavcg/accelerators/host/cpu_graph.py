"""Turn the nodes of a CPU part into one graph of real numbers, which the model pipeline builds.

A tensor of radix position r holds multiples of 2^-r from -128 * 2^-r to 127 * 2^-r, which f32 represents exactly. So
each node is computed in real numbers and rounded to its radix position as the accelerator does. What sums are
multiplied by (multipliers of channels, an average's reciprocals, the slope of a leaky activation) is multiplied in f64
where products may need more than the 24 bits of f32. The results have the bits of the fixed-point reference while
sums stay below 2^24 units; beyond that, a result may differ by one unit.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.accelerators.fixed_point import HIGHEST, LOWEST, bounds, slope_of
from mavcg.accelerators.host.sums import factors_of, greatest_product
from mavcg.accelerators.image.host import CpuPart
from mavcg.accelerators.xgraph import SLOPE_BITS, Parameters, XGraph, XNode
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder

_BEYOND = 512.0  # units; far outside of int8, and whole numbers around it are exact
_DTYPES: Mapping[str, Any] = {"f32": np.float32, "f64": np.float64}


def cpu_graph(xgraph: XGraph, part: CpuPart, name: str, rounding: str) -> Graph:
    """Return the graph of a CPU part, with int8 inputs where they have a radix position, else f32, and f32 outputs.

    name: name of the graph. rounding: rounding of the accelerator's shifts.
    """
    nodes, maker = xgraph.by_name(), _CpuGraph(xgraph, name, rounding)
    for tensor in part.inputs:
        maker.add_input(nodes[tensor])
    for node in part.nodes:
        maker.add_node(nodes[node])
    return maker.graph.finish([maker.real[output] for output in part.outputs])


class _CpuGraph:
    """A graph under construction. real: tensor with the real values of each XGraph node, by the node's name."""

    def __init__(self, xgraph: XGraph, name: str, rounding: str) -> None:
        self.xgraph, self.rounding = xgraph, rounding
        self.graph = GraphBuilder(name)
        self.real: dict[str, str] = {}

    def add_input(self, node: XNode) -> None:
        if node.radix is None:
            self.real[node.name] = self.graph.input(node.name, TensorType("f32", node.shape))
            return
        integers = self.graph.input(node.name, TensorType("i8", node.shape))
        self.real[node.name] = self._dequantized_tensor(node, integers)

    def add_node(self, node: XNode) -> None:
        inputs = [self.real[name] for name in node.inputs]
        if node.kind == "host":
            made = self._inline(node, inputs)
            low, high, rounding = LOWEST, HIGHEST, "half_up"
        else:
            assert node.scale is None  # operations with a file's scales stay on the accelerator
            made = self._scaled_sums(node, _NODES[node.kind](self, node, inputs))
            (low, high), rounding = bounds(node), self.rounding
        if node.scale is not None:
            made = self._dequantized_tensor(node, self.graph.add("quantize", [made, *self._format(node)], to="i8"))
        elif node.radix is not None:
            made = self._round(made, node.radix, low, high, rounding)
        self.real[node.name] = made

    def _format(self, node: XNode) -> tuple[str, str]:
        scale = 2.0 ** -(node.radix or 0) if node.scale is None else node.scale
        return self._number(scale), self.graph.constant(np.int8(node.zero), "zero")

    def _dequantized_tensor(self, node: XNode, integers: str) -> str:
        return self.graph.add("dequantize", [integers, *self._format(node)], axis=0)

    def _number(self, value: float, beside: str = "") -> str:
        """Add a number of the type of another tensor, else in f32."""
        dtype = _DTYPES[self.graph.types[beside].dtype if beside else "f32"]
        return self.graph.constant(dtype(value), "number")

    def _inline(self, node: XNode, inputs: Sequence[str]) -> str:
        """Add the nodes of a host node's own graph."""
        host, names = self.xgraph.hosts[node.name], {"": ""}
        for tensor, given in zip(host.inputs, inputs, strict=True):
            names[tensor] = self._reshape(given, host.types[tensor].shape)
        names |= {tensor: self.graph.constant(array, "c") for tensor, array in host.constants.items()}
        for inner in host.nodes:
            attrs: dict[str, Any] = dict(inner.attrs)
            made = self.graph.add_many(inner.op, [names[i] for i in inner.inputs], node.origin, **attrs)
            names |= dict(zip(inner.outputs, made, strict=True))
        return names[host.outputs[0]]

    def _reshape(self, tensor: str, shape: tuple[int, ...]) -> str:
        same = self.graph.types[tensor].shape == shape
        return tensor if same else self.graph.add("reshape", [tensor], shape=shape)

    def _scaled_sums(self, node: XNode, sums: str) -> str:
        """Multiply a node's sums by its multipliers, and those below 0 by its slope; exact below 2^53."""
        factors, slope = factors_of(self.xgraph, node), slope_of(node)
        if greatest_product(self.xgraph, node) >= 1 << 24:
            sums = self.graph.add("cast", [sums], to="f64")
        if np.any(factors[0] != 1):
            dtype = _DTYPES[self.graph.types[sums].dtype]
            sums = self.graph.add("mul", [sums, self.graph.constant(np.ldexp(*factors).astype(dtype), "factors")])
        return sums if slope is None else self._leaky(sums, slope / (1 << SLOPE_BITS))

    def _leaky(self, tensor: str, slope: float) -> str:
        add = self.graph.add
        if self.graph.types[tensor].dtype == "f32":
            return add("leaky_relu", [tensor], alpha=slope)
        below = add("clip", [tensor], hi=0.0)  # there is no kernel of leaky_relu in f64
        return add("add", [add("relu", [tensor]), add("mul", [below, self._number(slope, below)])])

    def _narrow(self, tensor: str) -> str:
        return tensor if self.graph.types[tensor].dtype == "f32" else self.graph.add("cast", [tensor], to="f32")

    def _round(self, tensor: str, radix: int, low: int, high: int, rounding: str) -> str:
        """Round to multiples of a radix position's unit, and saturate.

        floor(x + 1/2) is computed as floor(x) + floor(2 * (x - floor(x))), whose steps are exact.
        """
        add = self.graph.add
        units = add("mul", [tensor, self._number(2.0**radix, tensor)])
        units = add("clip", [units], lo=-_BEYOND, hi=_BEYOND)
        if rounding == "floor":
            whole = add("floor", [units])
        else:
            size = add("abs", [units]) if rounding == "half_away" else units
            least = add("floor", [size])
            above = add("mul", [add("sub", [size, least]), self._number(2.0, size)])
            whole = add("add", [least, add("floor", [above])])
        whole = self._narrow(whole)
        if rounding == "half_away":
            whole = add("mul", [whole, add("sign", [self._narrow(units)])])
        return add("mul", [add("clip", [whole], lo=float(low), hi=float(high)), self._number(2.0**-radix)])

    def parameters(self, node: XNode) -> tuple[str, str]:
        """Add a convolution's weights and bias as real numbers, without multipliers, and return their tensors."""
        parameters: Parameters = self.xgraph.parameters[node.name]
        (source,) = (self.xgraph.by_name()[name] for name in node.inputs)
        assert source.radix is not None
        radix = np.asarray(node.weight_radix, np.float64)
        scale = np.broadcast_to(2.0**-radix, parameters.weights.shape[:1])
        weights = parameters.weights * scale.reshape(-1, *(1,) * (parameters.weights.ndim - 1))
        bias = parameters.bias * scale * 2.0**-source.radix
        return self.graph.constant(weights.astype(np.float32), "weights"), self.graph.constant(
            bias.astype(np.float32), "bias"
        )


def _window(node: XNode) -> dict[str, Any]:
    """Return the attributes of windows that convolutions and pools share."""
    return {"stride": node.stride, "dilation": node.dilation, "pads": node.pads}


def _conv(maker: _CpuGraph, node: XNode, inputs: Sequence[str]) -> str:
    operands = [*inputs, *maker.parameters(node)]
    return maker.graph.add("conv2d", operands, node.origin, **_window(node), groups=node.groups)


def _deconv(maker: _CpuGraph, node: XNode, inputs: Sequence[str]) -> str:
    return maker.graph.add(
        "conv_transpose2d",
        [*inputs, *maker.parameters(node)],
        node.origin,
        **_window(node),
        output_pads=node.output_pads,
        groups=node.groups,
    )


def _dense(maker: _CpuGraph, node: XNode, inputs: Sequence[str]) -> str:
    weights, bias = maker.parameters(node)
    rows = maker.graph.constants[weights].reshape(node.channels, -1)
    flat = maker.graph.add("reshape", inputs, shape=(node.shape[0], rows.shape[1]))
    made = maker.graph.add("matmul", [flat, maker.graph.constant(rows, "rows"), bias], node.origin, transpose_b=True)
    return maker.graph.add("reshape", [made], shape=node.shape)


def _max_pool(maker: _CpuGraph, node: XNode, inputs: Sequence[str]) -> str:
    return maker.graph.add("max_pool2d", inputs, node.origin, kernel=node.kernel, **_window(node))


def _avg_pool(maker: _CpuGraph, node: XNode, inputs: Sequence[str]) -> str:
    """Add an average pool's sums of the windows, which are then multiplied by reciprocals of the divisors."""
    ones = maker.graph.constant(np.ones((node.channels, *node.kernel, 1), np.float32), "ones")
    return maker.graph.add("conv2d", [*inputs, ones], node.origin, **_window(node), groups=node.channels)


def _eltwise(maker: _CpuGraph, node: XNode, inputs: Sequence[str]) -> str:
    return inputs[0] if node.op == "copy" else maker.graph.add(node.op, inputs, node.origin)


def _concat(maker: _CpuGraph, node: XNode, inputs: Sequence[str]) -> str:
    return maker.graph.add("concat", inputs, node.origin, axis=3)


def _upsample(maker: _CpuGraph, node: XNode, inputs: Sequence[str]) -> str:
    n, height, width, channels = maker.graph.types[inputs[0]].shape
    rows, columns = node.factor
    split_tensor = maker.graph.add("reshape", inputs, shape=(n, height, 1, width, 1, channels))
    repeated = maker.graph.add("broadcast_to", [split_tensor], shape=(n, height, rows, width, columns, channels))
    return maker.graph.add("reshape", [repeated], shape=node.shape)


def _reorganise(maker: _CpuGraph, node: XNode, inputs: Sequence[str]) -> str:
    n, height, width, channels = maker.graph.types[inputs[0]].shape
    rows, columns = node.factor
    split = (n, height // rows, rows, width // columns, columns, channels)
    split_tensor = maker.graph.add("reshape", inputs, shape=split)
    moved = maker.graph.add("transpose", [split_tensor], perm=(0, 1, 3, 2, 4, 5))
    return maker.graph.add("reshape", [moved], shape=(*split[:2], split[3], math.prod(node.factor) * channels))


_NODES: Mapping[str, Callable[[_CpuGraph, XNode, Sequence[str]], str]] = {
    "conv": _conv,
    "depthwise": _conv,
    "deconv": _deconv,
    "dense": _dense,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "eltwise": _eltwise,
    "concat": _concat,
    "upsample": _upsample,
    "reorganise": _reorganise,
}
