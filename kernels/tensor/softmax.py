"""Kernels of softmax and log_softmax along one axis; the largest element is subtracted first to prevent overflow.

Along a last axis, softmax has the bits of onnxruntime's on a processor with AVX-512: its polynomial, and sums in 16
parts. A single other rounding before a dynamic quantization can change a whole network.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, prod
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph import DTYPES, Graph, Node
from mavcg.kernels.builder.activation import at_least
from mavcg.kernels.builder.arithmetic import round_to, widen_half
from mavcg.kernels.builder.emit import (
    F32,
    TYPES,
    Values,
    address,
    const,
    finish_rows,
    kernel_function,
    lanes_and_element,
    operand,
    repeat,
    scale_index,
    splat,
)
from mavcg.kernels.builder.float_math import exp_of_negative, log_
from mavcg.kernels.builder.nest import Nest, decode, load_lanes, store_lanes
from mavcg.kernels.tensor.layer_norm import refuse_other_types
from mavcg.kernels.tensor.reduce import Reduction, combiner, partial_type, total_of, walk
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format

Value: TypeAlias = ir.Value
_SUM = Reduction(combiner("sum", "f32"), 0.0, neighbours=True, partial=F32)
LANES = 8  # of the emitted vectors, on every core; LLVM splits or joins them for other vector lengths


@spec_format("softmax")
@dataclass(frozen=True)
class Softmax(KernelSpec):
    """A softmax along one axis. log: its logarithm instead. Of f16 it is computed in f32 and rounded once.

    axis: (length, stride in x, stride in out). line: length of the last dimension, along which vectors run; 1 if the
    axis itself is last. outer: the other dimensions, with strides of x and out. A row of work is one point of the outer
    dimensions. Operands: x, out, which may be the same buffer.
    """

    log: bool
    outer: Nest
    axis: tuple[int, int, int]
    line: int
    dtype: str = "f32"

    @property
    def family(self) -> str:
        return f"{'log_' if self.log else ''}softmax_{self.dtype}"

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return DTYPES[self.dtype].itemsize

    @property
    def twice(self) -> bool:
        """True if exponentials are computed for the sum and again for the results, which are stored once."""
        return self.log or self.dtype != "f32"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.outer.shape, self.line), f"k{self.axis[0]}")

    @property
    def rows(self) -> int:
        return prod(self.outer.shape)

    @property
    def work(self) -> int:
        return 30 * self.rows * self.axis[0] * self.line


def lower_softmax(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a softmax or log_softmax node. Raises: as refuse_other_types."""
    x, out = views[node.inputs[0]], views[node.output]
    refuse_other_types(node, x)
    rank = len(x.shape)
    axis = node.attr("axis") % rank
    last = rank - 1
    others = [a for a in range(rank) if a != axis and (a != last or axis == last)]
    line = x.shape[last] if axis != last else 1
    outer = Nest(
        tuple(x.shape[a] for a in others) or (1,),
        (tuple(x.strides[a] for a in others) or (0,), tuple(out.strides[a] for a in others) or (0,)),
    )
    spec = Softmax(node.op == "log_softmax", outer, (x.shape[axis], x.strides[axis], out.strides[axis]), line, x.dtype)
    if not x.elements:
        return ()
    return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)


def emit_softmax(module: ir.Module, spec: Softmax, machine: Machine) -> ir.Function:
    """Emit three loops along the axis: the largest element, the sum of exponentials, the results."""
    _, b = kernel_function(module, spec, machine)
    x, out = operand(b, 0, "x"), operand(b, 1, "out")

    def row(index: Value) -> None:
        from_, to = x, out
        for i, x_step, out_step in zip(decode(b, index, spec.outer.shape), *spec.outer.strides, strict=True):
            from_ = address(b, from_, scale_index(b, i, x_step * spec.size))
            to = address(b, to, scale_index(b, i, out_step * spec.size))
        (_along_axis if spec.line == 1 else _across_lines)(b, spec, from_, to)

    return finish_rows(b, row)


def _along_axis(b: ir.IRBuilder, spec: Softmax, x: Value, out: Value) -> None:
    """Emit the softmax along a last axis, with partial sums as in a reduction along the last axis."""
    length, x_step, out_step = spec.axis
    dtype, typ, size = spec.dtype, TYPES[spec.dtype], spec.size
    partial = partial_type("max", dtype)
    maxima = Reduction(combiner("max", dtype), -inf, partial=partial)

    def widen_maximum(value: Value) -> Value:
        return widen_half(b, value) if partial == F32 else value

    largest = widen_half(b, total_of(b, Nest((length,), ((x_step,),)), dtype, x, maxima, widen_maximum))
    dense = x_step == out_step == 1

    def update_all(change: object) -> None:
        assert callable(change)
        if not dense:

            def emit_element(i: Value) -> None:
                value = b.load(address(b, x, scale_index(b, i, x_step * size)), align=size, typ=typ)
                old = b.load(address(b, out, scale_index(b, i, out_step * size)), align=size, typ=typ)
                result = round_to(b, change(widen_half(b, value), widen_half(b, old), 1), dtype)
                b.store(result, address(b, out, scale_index(b, i, out_step * size)), align=size)

            repeat(b, 0, length, emit_element, "element")
            return

        def vectors(i: Value, used: int) -> None:
            at = [address(b, p, scale_index(b, i, size)) for p in (x, out)]
            value, old = (widen_half(b, load_lanes(b, p, typ, LANES, used)) for p in at)
            store_lanes(b, round_to(b, change(value, old, LANES), dtype), at[1], LANES, used)

        whole = length // LANES * LANES
        repeat(b, 0, whole, lambda i: vectors(i, LANES), "vector", LANES)
        if length % LANES:
            vectors(const(whole), length % LANES)

    def subtract_largest(value: Value, lanes: int) -> Value:
        return b.fsub(value, splat(b, largest, lanes))

    def term(value: Value) -> Value:
        return exp_of_negative(b, subtract_largest(widen_half(b, value), lanes_and_element(value.type)[0]))

    if spec.twice:
        total = total_of(b, Nest((length,), ((x_step,),)), dtype, x, _SUM, term)
    else:
        update_all(lambda value, _, lanes: exp_of_negative(b, subtract_largest(value, lanes)))
        total = total_of(b, Nest((length,), ((out_step,),)), dtype, out, _SUM)
    if spec.log:
        log_total = log_(b, total)
        update_all(lambda value, _, lanes: b.fsub(subtract_largest(value, lanes), splat(b, log_total, lanes)))
        return
    factor = b.fdiv(ir.Constant(F32, 1.0), total)
    if spec.twice:
        update_all(lambda value, _, lanes: b.fmul(term(value), splat(b, factor, lanes)))
    else:
        update_all(lambda _, old, lanes: b.fmul(old, splat(b, factor, lanes)))


def _across_lines(b: ir.IRBuilder, spec: Softmax, x: Value, out: Value) -> None:
    """Emit the softmax along an axis that is not the last: update_all lane of a vector is a softmax of its own."""
    length, x_step, out_step = spec.axis
    size = spec.size

    def vectors(first: Value, used: int) -> None:
        from_, to = (address(b, p, scale_index(b, first, size)) for p in (x, out))
        typ = ir.VectorType(F32, LANES)

        def load(at: Value) -> Value:
            return widen_half(b, load_lanes(b, at, TYPES[spec.dtype], LANES, used))

        along_x, along_out = Nest((length,), ((x_step,),)), Nest((length,), ((out_step,),))
        low = ir.Constant(typ, [-inf] * LANES)
        (largest,) = walk(b, along_x, size, from_, (low,), lambda at, acc: (at_least(b, load(at), acc[0]),))

        def update_all(change: object) -> None:
            assert callable(change)

            def emit_element(i: Value) -> None:
                pointer = address(b, to, scale_index(b, i, out_step * size))
                value = load(address(b, from_, scale_index(b, i, x_step * size)))
                store_lanes(b, round_to(b, change(value, load(pointer)), spec.dtype), pointer, LANES, used)

            repeat(b, 0, length, emit_element, "element")

        zero = ir.Constant(typ, [0.0] * LANES)

        def term(at: Value, acc: Values) -> Values:
            return (b.fadd(acc[0], exp_of_negative(b, b.fsub(load(at), largest))),)

        if spec.twice:  # x is read again at the end, and may be the buffer of the results
            (total,) = walk(b, along_x, size, from_, (zero,), term)
        else:
            update_all(lambda value, _: exp_of_negative(b, b.fsub(value, largest)))
            (total,) = walk(b, along_out, size, to, (zero,), lambda at, acc: (b.fadd(acc[0], load(at)),))
        if spec.log:
            log_total = log_(b, total)
            update_all(lambda value, _: b.fsub(b.fsub(value, largest), log_total))
            return
        factor = b.fdiv(ir.Constant(typ, [1.0] * LANES), total)
        if spec.twice:
            update_all(lambda value, _: b.fmul(exp_of_negative(b, b.fsub(value, largest)), factor))
        else:
            update_all(lambda _, old: b.fmul(old, factor))

    whole = spec.line // LANES * LANES
    repeat(b, 0, whole, lambda i: vectors(i, LANES), "line", LANES)
    if spec.line % LANES:
        vectors(const(whole), spec.line % LANES)


LOWER = {"softmax": lower_softmax, "log_softmax": lower_softmax}
EMIT = {Softmax: emit_softmax}
HALF = dict.fromkeys(LOWER, ())
