"""Kernels of softmax and log_softmax along one axis; the largest element is subtracted first to prevent overflow.

Along a last axis, softmax has the bits of onnxruntime's on a processor with AVX-512: its polynomial, and sums in 16
parts. A single other rounding before a dynamic quantization can change a whole network.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
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
    for_range,
    index_value,
    kernel_function,
    lanes_and_element,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.float_math import exp_of_negative, log_
from mavcg.kernels.builder.lanes import load_lanes, splat, store_lanes
from mavcg.kernels.builder.nest import Nest, NestNumbers, nest_numbers
from mavcg.kernels.builder.nest_loops import decode
from mavcg.kernels.builder.run_numbers import Number, fixed_number, load_numbers, times
from mavcg.kernels.tensor.axis_lines import LANES, AxisSpec, axis_lines, emit_line
from mavcg.kernels.tensor.layer_norm import refuse_other_types
from mavcg.kernels.tensor.reduce import combiner, partial_type
from mavcg.kernels.tensor.terms import Reduction, total_of
from mavcg.specs.kernel import F32_BYTES, Machine, Operand, Packing, Step, View, Words
from mavcg.specs.serialize import spec_format

Value: TypeAlias = ir.Value
_SUM = Reduction(combiner("sum", "f32"), 0.0, neighbours=True, partial=F32)


@spec_format("softmax")
@dataclass(frozen=True)
class Softmax(AxisSpec):
    """A softmax along one axis. log: its logarithm instead. Of f16 it is computed in f32 and rounded once.

    words: numbers of outer, axis and line that a run sets, but not the strides of a last axis. Operands: x, out, which
    may be the same buffer, words.
    """

    log: bool
    outer: Nest
    axis: tuple[int, int, int]
    line: int
    dtype: str = "f32"
    words: Words = ()

    @property
    def family(self) -> str:
        return f"{'log_' if self.log else ''}softmax_{self.dtype}"

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return DTYPES[self.dtype].itemsize

    @property
    def scratch_bytes(self) -> int:
        """Exponentials of halves are kept in f32 until their sum is known; those of f32 lie in the output."""
        lanes = 1 if self.line == 1 else LANES
        return 0 if self.log or self.dtype == "f32" else self.axis[0] * lanes * F32_BYTES

    @property
    def work(self) -> int:
        return 30 * super().work


def lower_softmax(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a softmax or log_softmax node. Raises: as refuse_other_types."""
    x, out = views[node.inputs[0]], views[node.output]
    refuse_other_types(node, x)
    outer, axis, line = axis_lines(x, out, node.attr("axis") % len(x.shape))
    spec = Softmax(node.op == "log_softmax", outer, axis, line, x.dtype)
    if not x.elements:
        return ()
    return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)


@dataclass(frozen=True)
class _Elements:
    """The elements of a line along the axis. first: pointer to the first one. step: between two, in elements."""

    first: Value
    step: Number
    dtype: str

    def at(self, b: ir.IRBuilder, i: Value) -> Value:
        """Return the address of element i."""
        return address(b, self.first, times(b, i, self.step, DTYPES[self.dtype].itemsize))


@dataclass(frozen=True)
class _Axis:
    """The numbers of a softmax's axis, some of which a run may set: length, strides in x and out, length of a line."""

    length: Number
    x_step: Number
    out_step: Number
    line: Number


def emit_softmax(module: ir.Module, spec: Softmax, machine: Machine) -> ir.Function:
    """Emit loops along the axis: the largest element, the exponentials, their sum, the results."""
    function, b = kernel_function(module, spec, machine)
    numbers = load_numbers(b, spec.words, 2)
    x, out, scratch = numbers.operand(0, "x"), numbers.operand(1, "out"), function.args[3]
    outer, (length, *steps) = nest_numbers(numbers, spec.outer, "outer"), numbers.along("axis", spec.axis)
    axis = _Axis(length, steps[0], steps[1], numbers.at("line", spec.line))

    def row(index: Value) -> None:
        from_, to = x, out
        for i, x_step, out_step in zip(decode(b, index, outer.shape), *outer.strides, strict=True):
            from_ = address(b, from_, times(b, i, x_step, spec.size))
            to = address(b, to, times(b, i, out_step, spec.size))
        (_along_axis if spec.line == 1 else _across_lines)(b, spec, axis, from_, to, scratch)

    return finish_rows(b, row)


def _along_axis(b: ir.IRBuilder, spec: Softmax, axis: _Axis, x: Value, out: Value, scratch: Value) -> None:
    """Emit the softmax along a last axis, with partial sums as in a reduction along the last axis."""
    most, x_step, out_step = spec.axis
    in_run = NestNumbers((axis.length,), ((x_step,),)) if fixed_number(axis.length) is None else None
    dtype = spec.dtype
    inputs, results = _Elements(x, x_step, dtype), _Elements(out, out_step, dtype)
    exponentials = _Elements(scratch, 1, "f32") if spec.scratch_bytes else results
    partial = partial_type("max", dtype)
    maxima = Reduction(combiner("max", dtype), -inf, partial=partial)

    def widen_maximum(value: Value) -> Value:
        return widen_half(b, value) if partial == F32 else value

    terms = Nest((most,), ((x_step,),))
    largest = widen_half(b, total_of(b, terms, dtype, x, maxima, widen_maximum, in_run))

    def update_all(source: _Elements, target: _Elements, change: Callable[[Value, int], Value]) -> None:
        lanes = LANES if source.step == target.step == 1 else 1

        def update(i: Value, used: int) -> None:
            value = widen_half(b, load_lanes(b, source.at(b, i), TYPES[source.dtype], lanes, used))
            store_lanes(b, round_to(b, change(value, lanes), target.dtype), target.at(b, i), lanes, used)

        emit_line(b, axis.length, lanes, update, "vector")

    def subtract_largest(value: Value, lanes: int) -> Value:
        return b.fsub(value, splat(b, largest, lanes))

    if spec.log:

        def term(value: Value) -> Value:
            return exp_of_negative(b, subtract_largest(widen_half(b, value), lanes_and_element(value.type)[0]))

        log_total = log_(b, total_of(b, terms, dtype, x, _SUM, term, in_run))
        update_all(inputs, results, lambda x, n: b.fsub(subtract_largest(x, n), splat(b, log_total, n)))
        return
    update_all(inputs, exponentials, lambda value, lanes: exp_of_negative(b, subtract_largest(value, lanes)))
    step = 1 if spec.scratch_bytes else out_step
    of_sum = in_run and NestNumbers(in_run.shape, ((step,),))
    total = total_of(b, Nest((most,), ((step,),)), "f32", exponentials.first, _SUM, numbers=of_sum)
    factor = b.fdiv(ir.Constant(F32, 1.0), total)
    update_all(exponentials, results, lambda value, lanes: b.fmul(value, splat(b, factor, lanes)))


def _across_lines(b: ir.IRBuilder, spec: Softmax, axis: _Axis, x: Value, out: Value, scratch: Value) -> None:
    """Emit the softmax along an axis that is not the last: each lane of a vector is a softmax of its own."""

    def vectors(first: Value, used: int) -> None:
        from_, to = (address(b, p, scale_index(b, first, spec.size)) for p in (x, out))
        inputs, results = _Elements(from_, axis.x_step, spec.dtype), _Elements(to, axis.out_step, spec.dtype)
        exponentials = _Elements(scratch, LANES, "f32") if spec.scratch_bytes else results
        typ = ir.VectorType(F32, LANES)

        def load(at: Value, dtype: str) -> Value:
            return widen_half(b, load_lanes(b, at, TYPES[dtype], LANES, used))

        def fold(source: _Elements, start: float, change: Callable[[Value, Value], Value]) -> Value:
            def term(i: Value, acc: Values) -> Values:
                return (change(load(source.at(b, i), source.dtype), acc[0]),)

            starts = (ir.Constant(typ, [start] * LANES),)
            (result,) = for_range(b, const(0), index_value(axis.length), 1, starts, term, "term_0")
            return result

        def update_all(source: _Elements, target: _Elements, change: Callable[[Value], Value]) -> None:
            def update(i: Value) -> None:
                result = round_to(b, change(load(source.at(b, i), source.dtype)), target.dtype)
                store_lanes(b, result, target.at(b, i), LANES, used)

            repeat(b, 0, index_value(axis.length), update, "element")

        largest = fold(inputs, -inf, lambda value, acc: at_least(b, value, acc))
        if spec.log:
            total = fold(inputs, 0.0, lambda x, acc: b.fadd(acc, exp_of_negative(b, b.fsub(x, largest))))
            log_total = log_(b, total)
            update_all(inputs, results, lambda value: b.fsub(b.fsub(value, largest), log_total))
            return
        update_all(inputs, exponentials, lambda value: exp_of_negative(b, b.fsub(value, largest)))
        total = fold(exponentials, 0.0, lambda value, acc: b.fadd(acc, value))
        factor = b.fdiv(ir.Constant(typ, [1.0] * LANES), total)
        update_all(exponentials, results, lambda value: b.fmul(value, factor))

    emit_line(b, axis.line, LANES, vectors, "line")


LOWER = {"softmax": lower_softmax, "log_softmax": lower_softmax}
EMIT = {Softmax: emit_softmax}
HALF = dict.fromkeys(LOWER, ())
