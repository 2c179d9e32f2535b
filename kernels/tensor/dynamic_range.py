"""Kernels of dynamic quantization: the extremes of a tensor, by all threads, then its scale and zero point."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan, prod
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph import Graph, Node
from mavcg.kernels.builder.activation import clip
from mavcg.kernels.builder.arithmetic import larger, smaller
from mavcg.kernels.builder.emit import (
    F32,
    I32,
    Values,
    address,
    const,
    element_bytes,
    finish_rows,
    for_range,
    intrinsic,
    kernel_function,
    length_times,
    operand,
    scale_index,
    vector,
)
from mavcg.kernels.builder.lanes import load_lanes, shuffle
from mavcg.kernels.builder.nest import Nest, collapse
from mavcg.kernels.builder.nest_loops import decode, maximum, minimum
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format

Value: TypeAlias = ir.Value
Combine = Callable[[ir.IRBuilder, str, Value, Value], Value]

PIECE = 4096  # elements of a row of work
VECTORS = 4  # vectors that are compared independently of each other, to hide the latency of a comparison
PAIR_BYTES = 8  # size of a pair: smallest and largest element of a piece
LEVELS = 255.0  # difference of the largest and the smallest u8


@spec_format("extremes")
@dataclass(frozen=True)
class Extremes(KernelSpec):
    """The pairs (smallest, largest) of each piece of an f32 tensor, where 0 counts as an element too.

    nest: the loops over x. A row of work is a piece of PIECE elements along the innermost loop. per_index: iterations
    of the outermost loop for each index of the bounded dimension, whose length an operand gives; 0: their number is
    fixed. Rows behind the length have pairs of zeros. Operands: x, pairs f32 [rows, 2], length?.
    """

    nest: Nest
    per_index: int = 0

    @property
    def family(self) -> str:
        return "extremes_f32"

    @property
    def symbol_shape(self) -> str:
        return sizes_text(*self.nest.shape)

    @property
    def pieces(self) -> int:
        """Number of pieces of a line, that is of the innermost loop."""
        return -(-self.nest.shape[-1] // PIECE)

    @property
    def rows(self) -> int:
        return prod(self.nest.shape[:-1]) * self.pieces

    @property
    def work(self) -> int:
        return self.nest.elements


@spec_format("dynamic_range")
@dataclass(frozen=True)
class DynamicRange(KernelSpec):
    """The scale and zero point of u8 for the range that `pairs` pairs span. Operands: pairs, out f32 [2]."""

    pairs: int

    @property
    def family(self) -> str:
        return "dynamic_range_f32"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(2), f"k{self.pairs}")

    @property
    def rows(self) -> int:
        return 1

    @property
    def work(self) -> int:
        return self.pairs


def lower_dynamic_range(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the two steps of a dynamic_range node; the pairs are in a workspace."""
    x = views[node.inputs[0]]
    spec = Extremes(collapse(x.shape, (x.strides,)))
    pairs = Operand(workspace_bytes=max(1, spec.rows) * PAIR_BYTES)
    written = Operand(workspace_bytes=pairs.workspace_bytes, written=True)
    extremes = Step(spec, (Operand(node.inputs[0]), written), node.origin)
    result = Step(DynamicRange(spec.rows), (pairs, Operand(node.output, written=True)), node.origin)
    return (extremes, result) if spec.rows else (result,)


def _merge_pairs(b: ir.IRBuilder, low: Value, high: Value, x: Value, y: Value) -> tuple[Value, Value]:
    return smaller(b, "f32", x, low), larger(b, "f32", y, high)


def emit_extremes(module: ir.Module, spec: Extremes, machine: Machine) -> ir.Function:
    """Emit the loops over pieces and their vectors, or their elements where these are not contiguous."""
    _, b = kernel_function(module, spec, machine)
    x, pairs = operand(b, 0, "x"), operand(b, 1, "pairs")
    (strides,) = spec.nest.strides
    size, length = element_bytes(F32), spec.nest.shape[-1]
    lanes = machine.vector_bytes // size if strides[-1] == 1 else 1
    of_vector = vector(F32, lanes)
    zero = ir.Constant(of_vector, [0.0] * lanes if lanes > 1 else 0.0)
    limit = length_times(b, 2, spec.per_index) if spec.per_index else None

    def vectors(line: Value, begin: Value, end: Value, count: int, acc: Values) -> Values:
        """Emit a loop that compares `count` vectors per iteration; acc: smallest and largest of each."""

        def compare(index: Value, acc: Values) -> Values:
            there = address(b, line, scale_index(b, index, strides[-1] * size))
            pairs_of_vectors: list[Value] = []
            for v in range(count):
                at = address(b, there, v * lanes * strides[-1] * size)
                value = b.load(at, name="x", align=size, typ=of_vector)
                pairs_of_vectors += _merge_pairs(b, acc[2 * v], acc[2 * v + 1], value, value)
            return tuple(pairs_of_vectors) + tuple(acc[2 * count :])

        return for_range(b, begin, end, count * lanes, acc, compare, "vector")

    def element(line: Value, index: Value, acc: Values) -> Values:
        value = b.load(address(b, line, scale_index(b, index, strides[-1] * size)), name="x", align=size, typ=F32)
        return _merge_pairs(b, acc[0], acc[1], value, value)

    def row(index: Value) -> None:
        *outer, piece = decode(b, index, (*spec.nest.shape[:-1], spec.pieces))
        line = x
        for at, stride in zip(outer, strides, strict=False):
            line = address(b, line, scale_index(b, at, stride * size))
        begin = scale_index(b, piece, PIECE)
        if limit is None:
            whole = const(length // lanes * lanes)
            end = minimum(b, b.add(begin, const(PIECE)), whole) if spec.pieces > 1 else whole
            stop = end
        else:
            in_line = b.select(b.icmp_signed("<", outer[0], limit), const(length), const(0)) if outer else limit
            stop = maximum(b, minimum(b, b.add(begin, const(PIECE)), in_line), begin, "stop")
            end = b.sub(stop, b.srem(b.sub(stop, begin), const(lanes)), name="end")
        acc: Values = (zero,) * (2 * VECTORS)
        group = VECTORS * lanes
        middle = b.sub(end, b.srem(b.sub(end, begin), const(group)))
        acc = vectors(line, begin, middle, VECTORS, acc)
        acc = vectors(line, middle, end, 1, acc)
        low, high = acc[:2]
        for v in range(1, VECTORS):
            low, high = _merge_pairs(b, low, high, acc[2 * v], acc[2 * v + 1])
        if limit is None and length % lanes:
            rest = _tail_vector(b, line, length, lanes, zero)
            low, high = _merge_pairs(b, low, high, rest, rest)
        low, high = (_reduce_lanes(b, kind, value, lanes) for kind, value in ((smaller, low), (larger, high)))
        if limit is not None:
            low, high = for_range(b, end, stop, 1, (low, high), lambda i, acc: element(line, i, acc), "element")
        to = address(b, pairs, scale_index(b, index, PAIR_BYTES))
        b.store(low, to, align=size)
        b.store(high, address(b, to, size), align=size)

    return finish_rows(b, row)


def _tail_vector(b: ir.IRBuilder, line: Value, length: int, lanes: int, zero: ir.Constant) -> Value:
    """Return a vector with the elements after a line's last whole vector.

    Other lanes hold earlier elements of the line, or zeros, which count anyway.
    """
    size = element_bytes(F32)
    if length > lanes:
        return b.load(address(b, line, (length - lanes) * size), name="rest", align=size, typ=vector(F32, lanes))
    loaded = load_lanes(b, line, F32, lanes, length, "rest")
    return shuffle(b, loaded, zero, [i if i < length else lanes + i for i in range(lanes)])


def _reduce_lanes(b: ir.IRBuilder, combine: Combine, value: Value, lanes: int) -> Value:
    """Return the combination of all lanes, by halves."""
    while lanes > 1:
        lanes //= 2
        halves = [shuffle(b, value, value, range(first, first + lanes)) for first in (0, lanes)]
        value = combine(b, "f32", *halves)
    return b.extract_element(value, const(0, I32)) if isinstance(value.type, ir.VectorType) else value


def emit_dynamic_range(module: ir.Module, spec: DynamicRange, machine: Machine) -> ir.Function:
    """Emit the reduction of the pairs, then scale and zero point as ONNX's DynamicQuantizeLinear defines them."""
    _, b = kernel_function(module, spec, machine)
    pairs, out = operand(b, 0, "pairs"), operand(b, 1, "out")
    size = element_bytes(F32)
    zero, unit_scale = ir.Constant(F32, 0.0), ir.Constant(F32, 1.0)

    def row(_: Value) -> None:
        def pair(index: Value, acc: Values) -> Values:
            there = address(b, pairs, scale_index(b, index, PAIR_BYTES))
            ends: Sequence[Value] = [b.load(address(b, there, i * size), align=size, typ=F32) for i in (0, 1)]
            return _merge_pairs(b, acc[0], acc[1], ends[0], ends[1])

        low, high = for_range(b, const(0), const(spec.pairs), 1, (zero, zero), pair, "pair")
        scale = b.fdiv(b.fsub(high, low), ir.Constant(F32, LEVELS))
        scale = b.select(b.fcmp_ordered("==", scale, zero), unit_scale, scale)
        scale = b.select(b.fcmp_unordered("uno", scale, scale), ir.Constant(F32, nan), scale)
        point = clip(b, intrinsic(b, "roundeven", [b.fdiv(b.fneg(low), scale)]), 0.0, LEVELS)
        point = b.select(b.fcmp_unordered("uno", point, point), zero, point)
        b.store(scale, out, align=size)
        b.store(point, address(b, out, size), align=size)

    return finish_rows(b, row)


LOWER = {"dynamic_range": lower_dynamic_range}
EMIT = {Extremes: emit_extremes, DynamicRange: emit_dynamic_range}
