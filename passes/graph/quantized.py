"""Replaces f32 arithmetic between dequantize and quantize by operators on the 8-bit numbers.

In quantized ONNX and TFLite models every operator reads dequantized tensors and its result is quantized. For each
quantize the pass looks for an 8-bit tensor equal to its result (`_QuantizedRewrite.quantize`): backwards through data
movements and clips, which commute with quantize exactly, to an operator that has an 8-bit form.
"""

import numpy as np

from mavcg.graph import Array, Graph, Node
from mavcg.graph.ops.eight_bit import limits
from mavcg.graph.ops.elementwise import ARITHMETIC, UNARY
from mavcg.passes.graph.eight_bit_values import (
    EightBitTensor,
    Format,
    QuantizedWeights,
    bound_of,
    constant_format,
    table_of,
)
from mavcg.passes.graph.rewrite import Rewrite

MOVES = frozenset(
    ("reshape", "transpose", "slice", "concat", "pad", "max_pool2d", "broadcast_to", "reduce_max", "reduce_min")
)
POINTWISE = frozenset((*(op.name for op in UNARY if op.name != "not"), *ARITHMETIC, "prelu"))
MOST_NODES = 24  # limit of nodes in a function that becomes a lookup table
MOST_STEPS = 100  # limit of successive data movements and clips that the search follows
MOST_SUM = 2**31 - 1


def eight_bit(graph: Graph) -> Graph:
    """Replace f32 operators between dequantize and quantize by operators on 8-bit numbers.

    Before:
        input %x: u8[1,2,2,1]
        const %w: i8[1,1,1,1] = {3}
        const %bias: f32[1] = {0.75}
        const %sw: f32[] = {0.5}
        const %zw: i8[] = {0}
        const %sx: f32[] = {0.25}
        const %zx: u8[] = {10}
        const %sy: f32[] = {0.5}
        const %zy: u8[] = {20}
        %f = dequantize(%x, %sx, %zx)
        %v = dequantize(%w, %sw, %zw)
        %c = conv2d(%f, %v, %bias)
        %r = relu(%c)
        %y = quantize(%r, %sy, %zy) to="u8"
        return %y
    After:
        input %x: u8[1,2,2,1]
        const %w: i8[1,1,1,1] = {3}
        const %bias.1: i32[1] = {6}
        const %multiplier.1: f32[1] = {0.25}
        %y = qconv2d(%x, %w, %bias.1, %multiplier.1) x_zero=10 out_zero=20 lo=20 hi=255 to="u8"
        return %y

    conv2d, matmul, add, sub, mul, avg_pool2d and reduce_mean have 8-bit forms; a function of one tensor becomes a table
    of 256 entries; data movements and max_pool2d move 8-bit numbers. Weights must be i8 with zero point 0; u8 with zero
    point 128 is converted. All other operators stay and compute in f32. Results differ by at most one quantum. Products
    and quotients of scales are rounded to f32 one by one, as in onnxruntime and XNNPACK: a last bit in a multiplier
    changes few results, but a network may amplify the difference to several quanta. A channel whose bias is so large
    that the integer sum could wrap around adds it in f32, after the multiplier.
    """
    walk = _QuantizedRewrite(graph)
    for node in graph.nodes:
        walk.visit(node)
    return walk.new.finish()


class _QuantizedRewrite:
    """One walk over a graph. The new graph gets the f32 form of each node too; `finish` removes unread nodes."""

    def __init__(self, graph: Graph) -> None:
        self.new = Rewrite(graph)
        self.sources: dict[str, EightBitTensor | None] = {}
        self.done: dict[tuple[str, Format], str | None] = {}

    def visit(self, node: Node) -> None:
        quantized = None
        if node.op == "quantize":
            scale, zero = (self.new.array(self.new.of(n)) for n in node.inputs[1:])
            target = constant_format(scale, zero, node.attr("to"))
            quantized = self.quantize(self.new.of(node.inputs[0]), target) if target else None
        if quantized is None:
            self.new.keep(node)
        else:
            self.new.alias(node.output, quantized)

    def eight_bit_source(self, name: str, depth: int = 0) -> EightBitTensor | None:
        """Return the 8-bit tensor from which data movements and dequantize make an f32 tensor, or None."""
        if name not in self.sources:
            self.sources[name] = self._find_eight_bit(name, depth + 1) if depth < MOST_STEPS else None
        return self.sources[name]

    def _find_eight_bit(self, name: str, depth: int) -> EightBitTensor | None:
        node = self.new.made.get(name)
        if node is None:
            return None
        if node.op == "dequantize":
            dtype = self.new.types[node.inputs[0]].dtype
            format = constant_format(self.new.array(node.inputs[1]), self.new.array(node.inputs[2]), dtype)
            return EightBitTensor(node.inputs[0], format) if format else None
        if node.op not in MOVES:
            return None
        parts = [self.eight_bit_source(n, depth) for n in node.inputs]
        first = parts[0]
        if first is None or any(p is None or p.format != first.format for p in parts):
            return None
        if node.op == "pad" and bound_of(node.attr("value"), first.format)[1] != node.attr("value"):
            return None
        return EightBitTensor(self.move(node, [p.name for p in parts if p], first.format), first.format)

    def move(self, node: Node, inputs: list[str], format: Format) -> str:
        """Add the data movement of a node for 8-bit instead of f32 inputs; return its output."""
        attrs = dict(node.attrs)
        if node.op == "pad":
            attrs["value"] = float(min(max(bound_of(node.attr("value"), format)[0], format.lo), format.hi))
        return self.new.add(node.op, inputs, node.output, node.origin, **attrs)

    def quantize(self, name: str, to: Format, depth: int = 0) -> str | None:
        """Return an 8-bit tensor equal to quantize(name) in this format; None if f32 arithmetic is needed for it."""
        key = (name, to)
        if key not in self.done:
            self.done[key] = self._quantize(name, to, depth + 1) if depth < MOST_STEPS else None
        return self.done[key]

    def _quantize(self, name: str, to: Format, depth: int) -> str | None:
        node = self.new.made.get(name)
        if node is None:
            return None
        if node.op == "dequantize":
            return self.requantize(name, to)
        if node.op in MOVES:
            return self.quantize_move(node, to, depth)
        if node.op in ("relu", "clip"):
            lo, hi = (0.0, np.inf) if node.op == "relu" else (node.attr("lo"), node.attr("hi"))
            if lo <= hi and self.new.only_reader(name):
                return self.quantize(node.inputs[0], to.within(lo, hi), depth)
        if not self.new.only_reader(name):
            return None
        if node.op in ("conv2d", "matmul"):
            return self.linear(node, to)
        if node.op in ("add", "sub", "mul") and (quantized := self.pair(node, to)) is not None:
            return quantized
        if node.op == "avg_pool2d" or (node.op == "reduce_mean" and node.attr("axes")):
            return self.mean(node, to)
        return self.function(name, to) if node.op in POINTWISE else None

    def requantize(self, name: str, to: Format) -> str | None:
        """Return a dequantized tensor in another format: the same 8-bit numbers, clamped, or through a table."""
        source = self.eight_bit_source(name)
        if source is None:
            return None
        return self.look_up(source, table_of(source.format, to, (), name, ""), to)

    def look_up(self, source: EightBitTensor, table: Array | None, to: Format) -> str | None:
        """Return table[q] for each element q: by a lookup, or by a clip or the source itself if those are equal."""
        if table is None:
            return None
        least, most = limits(source.format.dtype)
        same = np.arange(least, most + 1)
        if source.format.dtype == to.dtype and np.array_equal(table, same):
            return source.name
        if source.format.dtype == to.dtype and np.array_equal(table, np.clip(same, to.lo, to.hi)):
            return self.new.add("clip", (source.name,), source.name, lo=float(to.lo), hi=float(to.hi))
        return self.new.add("lookup", (source.name, self.new.constant(table, "table")), source.name)

    def quantize_move(self, node: Node, to: Format, depth: int) -> str | None:
        """Move a quantize before a data movement; exact, because these movements copy elements or select by order."""
        if not all(self.new.only_reader(n) or self.eight_bit_source(n) for n in (*node.inputs, node.output)):
            return None
        parts = [self.quantize(n, to, depth) for n in node.inputs]
        if all(part is None for part in parts):
            return None
        if any(part is None for part in parts) and (to.lo, to.hi) != limits(to.dtype):
            return None  # a quantize node has no bounds
        pairs = zip(node.inputs, parts, strict=True)
        inputs = [p or self.new.add("quantize", (n, *self.parameters(to)), n, to=to.dtype) for n, p in pairs]
        return self.move(node, inputs, to)

    def parameters(self, format: Format) -> tuple[str, str]:
        scale = self.new.constant(np.asarray(np.float32(format.scale)), "scale")
        zero = np.asarray(format.zero, np.int8 if format.dtype == "i8" else np.uint8)
        return scale, self.new.constant(zero, "zero")

    def weights(self, name: str, axis: int, channels: int) -> QuantizedWeights | None:
        """Return dequantized constants with zero point 0 and one scale, or one per position of `axis`, or None."""
        node = self.new.made.get(name)
        if node is None or node.op != "dequantize":
            return None
        array, scale, zero = (self.new.array(n) for n in node.inputs)
        if array is None or scale is None or zero is None or (scale.size > 1 and node.attr("axis") != axis):
            return None
        source = node.inputs[0]
        if array.dtype == np.uint8 and bool((zero == 128).all()):
            array = (array.astype(np.int16) - 128).astype(np.int8)
            source = self.new.constant(array, source)
        elif array.dtype != np.int8 or zero.any():
            return None
        return QuantizedWeights(source, array, np.broadcast_to(scale.reshape(-1).astype(np.float32), (channels,)))

    def linear(self, node: Node, to: Format) -> str | None:
        x, w, bias = node.inputs[:3]
        image, channels = self.eight_bit_source(x), self.new.types[node.output].shape[-1]
        last = len(self.new.types[w].shape) - 1
        axis = 0 if node.op == "conv2d" else last - 1 if node.attr("transpose_b") else last
        weights = self.weights(w, axis, channels)
        if image is None or weights is None or node.attr("act") or node.inputs[3]:
            return None
        scales = weights.scales * np.float32(image.format.scale)
        whole_bias = self.whole_bias(bias, scales)
        least, most = limits(image.format.dtype)
        furthest = max(image.format.zero - least, most - image.format.zero)
        by_channel = np.abs(np.moveaxis(weights.array.astype(np.int64), axis, 0)).reshape(channels, -1).sum(axis=1)
        if whole_bias is None or bool((by_channel * furthest > MOST_SUM).any()):
            return None
        multiplier = scales / np.float32(to.scale)
        # A bias with which a sum could wrap around in 32 bits is added to the scaled sum instead, as a real number.
        large = by_channel * furthest + np.abs(whole_bias) > MOST_SUM
        inputs = [
            image.name,
            weights.name,
            self.new.constant(np.where(large, 0, whole_bias).astype(np.int32), bias or "bias"),
            self.new.constant(multiplier, "multiplier"),
        ]
        if large.any():
            shift = np.where(large, whole_bias, 0) * multiplier.astype(np.float64)
            inputs.append(self.new.constant(shift.astype(np.float32), "shift"))
        attrs = {name: value for name, value in node.attrs if name not in ("act", "act_args", "exact", "weights")}
        attrs |= to.attrs() | {"x_zero": image.format.zero}
        return self.new.add("q" + node.op, inputs, node.output, node.origin, **attrs)

    def whole_bias(self, name: str, scales: Array) -> Array | None:
        """Return a bias in units of the integer sums, whole f64[channels]; None if it is not constant or not finite."""
        if not name:
            return np.zeros(len(scales))
        array, node = self.new.array(name), self.new.made.get(name)
        if node is not None and node.op == "dequantize":
            parts = [self.new.array(n) for n in node.inputs]
            if all(part is not None for part in parts):
                stored, scale, zero = (np.asarray(part).astype(np.float64) for part in parts)
                array = (stored - zero) * scale
        if array is None or not np.isfinite(array).all():
            return None
        with np.errstate(all="ignore"):
            units = np.rint(array.astype(np.float64) / scales.astype(np.float64))
        return units if bool(np.isfinite(units).all()) else None

    def pair(self, node: Node, to: Format) -> str | None:
        a, b = (self.eight_bit_source(n) for n in node.inputs)
        if a is None or b is None:
            return None
        attrs = to.attrs() | {"a_zero": a.format.zero, "b_zero": b.format.zero}
        if node.op == "mul":
            attrs["multiplier"] = _single(_single(a.format.scale * b.format.scale) / to.scale)
            return self.new.add("qmul", (a.name, b.name), node.output, node.origin, **attrs)
        sign = -1.0 if node.op == "sub" else 1.0
        attrs |= {"a_scale": _single(a.format.scale / to.scale), "b_scale": _single(sign * b.format.scale / to.scale)}
        return self.new.add("qadd", (a.name, b.name), node.output, node.origin, **attrs)

    def mean(self, node: Node, to: Format) -> str | None:
        source = self.eight_bit_source(node.inputs[0])
        if source is None:
            return None
        op = "qavg_pool2d" if node.op == "avg_pool2d" else "qmean"
        attrs = dict(node.attrs) | to.attrs() | {"x_zero": source.format.zero}
        attrs["multiplier"] = _single(source.format.scale / to.scale)
        return self.new.add(op, (source.name,), node.output, node.origin, **attrs)

    def function(self, name: str, to: Format) -> str | None:
        """Replace element-wise operators on one 8-bit tensor and scalar constants by a lookup table, if possible."""
        nodes: list[Node] = []
        start = self.collect_chain(name, nodes)
        if start is None:
            return None
        source = self.eight_bit_source(start)
        constants = {n: a for node in nodes for n in node.inputs if (a := self.new.array(n)) is not None}
        same_shape = source is not None and self.new.types[source.name].shape == self.new.types[name].shape
        if source is None or not same_shape or any(a.size != 1 for a in constants.values()):
            return None
        plain = {n: a.reshape(()) for n, a in constants.items()}
        steps = tuple(dict.fromkeys(nodes))
        return self.look_up(source, table_of(source.format, to, steps, start, name, plain), to)

    def collect_chain(self, name: str, nodes: list[Node], depth: int = 0) -> str | None:
        """Return the dequantized tensor that all element-wise operators before `name` start from, or None.

        nodes: the operators are appended to it, in order.
        """
        if self.eight_bit_source(name) is not None:
            return name
        node = self.new.made.get(name)
        if node is None or node.op not in POINTWISE or len(nodes) > MOST_NODES or depth > MOST_NODES:
            return None
        computed = [n for n in node.inputs if self.new.array(n) is None]
        sources = {self.collect_chain(n, nodes, depth + 1) for n in computed}
        nodes.append(node)
        return sources.pop() if len(sources) == 1 else None


def _single(value: float) -> float:
    """Round to f32."""
    return float(np.float32(value))
