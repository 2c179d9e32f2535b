"""Kernel of cumulative_sum and cumulative_prod: the sum or product of all elements up to each one along an axis.

Elements are added one after the other, as NumPy and onnxruntime do, so the bits do not depend on the length.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph import DTYPES, Graph, Node
from mavcg.kernels.builder.arithmetic import is_float, round_to, widen_half
from mavcg.kernels.builder.emit import (
    TYPES,
    Values,
    address,
    const,
    finish_rows,
    for_range,
    index_value,
    kernel_function,
)
from mavcg.kernels.builder.lanes import load_lanes, splat, store_lanes
from mavcg.kernels.builder.nest import Nest, nest_numbers
from mavcg.kernels.builder.nest_loops import decode
from mavcg.kernels.builder.run_numbers import load_numbers, one_less, times
from mavcg.kernels.tensor.axis_lines import LANES, AxisSpec, axis_lines, emit_line
from mavcg.kernels.tensor.reduce import combiner, identity, partial_type
from mavcg.specs.kernel import Machine, Operand, Packing, Step, View, Words
from mavcg.specs.serialize import spec_format

Value: TypeAlias = ir.Value


@spec_format("cumulative")
@dataclass(frozen=True)
class Cumulative(AxisSpec):
    """Cumulative sums or products along an axis; kind: sum or prod. Those of f16 and bf16 are f32, rounded when stored.

    exclusive: without the element itself. reverse: from the last element on. words: numbers of outer, axis and line
    that a run sets. Operands: x, out, words.
    """

    kind: str
    dtype: str
    outer: Nest
    axis: tuple[int, int, int]
    line: int
    exclusive: bool
    reverse: bool
    words: Words = ()

    @property
    def family(self) -> str:
        return f"cumulative_{self.kind}_{self.dtype}"


def lower_cumulative(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a cumulative_sum or cumulative_prod node; none for a tensor without elements."""
    x, out = views[node.inputs[0]], views[node.output]
    kind = node.op.removeprefix("cumulative_")
    lines = axis_lines(x, out, node.attr("axis"))
    spec = Cumulative(kind, x.dtype, *lines, node.attr("exclusive"), node.attr("reverse"))
    if not x.elements:
        return ()
    return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)


def emit_cumulative(module: ir.Module, spec: Cumulative, machine: Machine) -> ir.Function:
    """Emit, for each line, a loop along the axis; along a line of outputs each lane has a sum of its own."""
    _, b = kernel_function(module, spec, machine)
    numbers = load_numbers(b, spec.words, 2)
    x, out, outer = numbers.operand(0, "x"), numbers.operand(1, "out"), nest_numbers(numbers, spec.outer, "outer")
    length, x_step, out_step = numbers.along("axis", spec.axis)
    typ, size = TYPES[spec.dtype], DTYPES[spec.dtype].itemsize
    combine, partial = combiner(spec.kind, spec.dtype), partial_type(spec.kind, spec.dtype)
    start = identity(spec.kind, spec.dtype)
    if spec.kind == "sum" and is_float(spec.dtype) and not spec.exclusive:
        start = -0.0  # so that a first element of -0 stays it

    def row(index: Value) -> None:
        from_, to = x, out
        for i, x_stride, out_stride in zip(decode(b, index, outer.shape), *outer.strides, strict=True):
            from_ = address(b, from_, times(b, i, x_stride, size))
            to = address(b, to, times(b, i, out_stride, size))

        def along_axis(first: Value, used: int) -> None:
            lanes = 1 if used == 1 else LANES
            source, target = (address(b, pointer, times(b, first, size)) for pointer in (from_, to))

            def element(i: Value, before: Values) -> Values:
                at = b.sub(index_value(one_less(b, length)), i) if spec.reverse else i
                loaded = load_lanes(b, address(b, source, times(b, at, x_step, size)), typ, lanes, used)
                after = combine(b, before[0], widen_half(b, loaded) if partial != typ else loaded)
                made = round_to(b, before[0] if spec.exclusive else after, spec.dtype)
                store_lanes(b, made, address(b, target, times(b, at, out_step, size)), lanes, used)
                return (after,)

            starts = (splat(b, ir.Constant(partial, start), lanes),)
            for_range(b, const(0), index_value(length), 1, starts, element, "element")

        emit_line(b, numbers.at("line", spec.line), LANES, along_axis, "line")

    return finish_rows(b, row)


LOWER = dict.fromkeys(("cumulative_sum", "cumulative_prod"), lower_cumulative)
EMIT = {Cumulative: emit_cumulative}
HALF = dict.fromkeys(LOWER, ())
