"""Kernels of arg_max and arg_min: positions of the extreme elements along an axis, without vectors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph import DTYPES, Graph, Node
from mavcg.kernels.builder.arithmetic import is_float, widen_half
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
from mavcg.kernels.builder.nest import Nest, nest_numbers
from mavcg.kernels.builder.nest_loops import decode
from mavcg.kernels.builder.run_numbers import load_numbers, times
from mavcg.kernels.tensor.reduce import kept_loops
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View, Words
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format

Value: TypeAlias = ir.Value


@spec_format("arg_reduce")
@dataclass(frozen=True)
class ArgReduce(KernelSpec):
    """The index of the largest (kind max) or smallest element along an axis, as i64.

    last: the last of equal elements counts, else the first. kept: loops over the outputs. length, stride: of the axis,
    in elements. words: numbers of these that a run sets. A row of work is one output. Operands: x, out, words.
    """

    kind: str
    dtype: str
    kept: Nest
    length: int
    stride: int
    last: bool
    words: Words = ()

    @property
    def family(self) -> str:
        return f"arg_{self.kind}_{self.dtype}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.kept.shape), f"k{self.length}")

    @property
    def rows(self) -> int:
        return self.kept.elements

    @property
    def work(self) -> int:
        return self.kept.elements * self.length


def lower_arg(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of an arg_max or arg_min node."""
    x, out = views[node.inputs[0]], views[node.output]
    axis = node.attr("axis") % len(x.shape)
    kept = kept_loops(x, out, {axis}, node.attr("keepdims"))
    spec = ArgReduce(node.op.removeprefix("arg_"), x.dtype, kept, x.shape[axis], x.strides[axis], node.attr("last"))
    return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)


def emit_arg(module: ir.Module, spec: ArgReduce, machine: Machine) -> ir.Function:
    """Emit the loops over outputs and over the elements of the axis."""
    _, b = kernel_function(module, spec, machine)
    numbers = load_numbers(b, spec.words, 2)
    x, out, kept = numbers.operand(0, "x"), numbers.operand(1, "out"), nest_numbers(numbers, spec.kept, "kept")
    length, stride = numbers.at("length", spec.length), numbers.at("stride", spec.stride)
    typ, size = TYPES[spec.dtype], DTYPES[spec.dtype].itemsize
    sign = (">" if spec.kind == "max" else "<") + ("=" if spec.last else "")

    def widen(value: Value) -> Value:
        return widen_half(b, value) if spec.dtype == "bf16" else value

    def row(index: Value) -> None:
        from_, to = x, out
        for i, x_step, out_step in zip(decode(b, index, kept.shape), *kept.strides, strict=True):
            from_ = address(b, from_, times(b, i, x_step, size))
            to = address(b, to, times(b, i, out_step, 8))
        first = widen(b.load(from_, align=size, typ=typ))

        def candidate(i: Value, best: Values) -> Values:
            value = widen(b.load(address(b, from_, times(b, i, stride, size)), align=size, typ=typ))
            if is_float(spec.dtype):
                better = b.fcmp_ordered(sign, value, best[0])
            else:
                better = (b.icmp_unsigned if spec.dtype[0] in "ub" else b.icmp_signed)(sign, value, best[0])
            return b.select(better, value, best[0]), b.select(better, i, best[1])

        _, position = for_range(b, const(1), index_value(length), 1, (first, const(0)), candidate, "candidate")
        b.store(position, to, align=8)

    return finish_rows(b, row)


LOWER = {"arg_max": lower_arg, "arg_min": lower_arg}
EMIT = {ArgReduce: emit_arg}
HALF = {"arg_max": (), "arg_min": ()}
