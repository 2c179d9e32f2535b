"""Kernel of arg_top: positions of the largest or smallest elements along an axis, in order, without vectors."""

from collections.abc import Mapping
from dataclasses import dataclass

from llvmlite import ir

from mavcg.graph import DTYPES, Graph, Node
from mavcg.kernels.builder.arithmetic import is_float, widen_half
from mavcg.kernels.builder.emit import I64, TYPES, address, const, finish_rows, index_value, kernel_function, repeat
from mavcg.kernels.builder.nest import Nest, nest_numbers
from mavcg.kernels.builder.nest_loops import decode, minimum
from mavcg.kernels.builder.run_numbers import load_numbers, times
from mavcg.kernels.tensor.reduce import kept_loops
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View, Words
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format

_INDEX_BYTES = 8


@spec_format("arg_top")
@dataclass(frozen=True)
class ArgTop(KernelSpec):
    """The indices of the `count` largest (kind max) or smallest elements along an axis, as i64, the best first.

    Of equal elements the first comes first. lines: loops over the lines along the axis. length, stride, out_stride: of
    the axis in x and of its place in out, in elements. words: numbers of these that a run sets. A row of work is one
    line. Operands: x, out, words.
    """

    kind: str
    dtype: str
    lines: Nest
    length: int
    stride: int
    count: int
    out_stride: int
    words: Words = ()

    @property
    def family(self) -> str:
        return f"arg_top_{self.kind}_{self.dtype}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.lines.shape, self.count), f"k{self.length}")

    @property
    def rows(self) -> int:
        return self.lines.elements

    @property
    def work(self) -> int:
        """Steps where the order of elements is random: each is compared with the last of the best, few are moved."""
        return self.lines.elements * (self.length + self.count * self.count)


def lower_arg_top(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of an arg_top node."""
    x, out = views[node.inputs[0]], views[node.output]
    axis = node.attr("axis") % len(x.shape)
    spec = ArgTop(
        "min" if node.attr("smallest") else "max",
        x.dtype,
        kept_loops(x, out, {axis}, True),
        x.shape[axis],
        x.strides[axis],
        node.attr("count"),
        out.strides[axis],
    )
    return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)


def emit_arg_top(module: ir.Module, spec: ArgTop, machine: Machine) -> ir.Function:
    """Emit, for each line, the insertion of each element's index among the best so far, which are in order."""
    _, b = kernel_function(module, spec, machine)
    numbers = load_numbers(b, spec.words, 2)
    x, out, lines = numbers.operand(0, "x"), numbers.operand(1, "out"), nest_numbers(numbers, spec.lines, "lines")
    stride, out_stride = numbers.at("stride", spec.stride), numbers.at("out_stride", spec.out_stride)
    typ, size = TYPES[spec.dtype], DTYPES[spec.dtype].itemsize
    sign = ">" if spec.kind == "max" else "<"

    def better(a: ir.Value, c: ir.Value) -> ir.Value:
        if is_float(spec.dtype):
            return b.fcmp_ordered(sign, a, c)
        return (b.icmp_unsigned if spec.dtype[0] in "ub" else b.icmp_signed)(sign, a, c)

    def row(index: ir.Value) -> None:
        line, best = x, out
        for i, x_step, out_step in zip(decode(b, index, lines.shape), *lines.strides, strict=True):
            line = address(b, line, times(b, i, x_step, size))
            best = address(b, best, times(b, i, out_step, _INDEX_BYTES))

        def value(i: ir.Value) -> ir.Value:
            loaded = b.load(address(b, line, times(b, i, stride, size)), align=size, typ=typ)
            return widen_half(b, loaded) if spec.dtype == "bf16" else loaded

        def place(i: ir.Value) -> ir.Value:
            return address(b, best, times(b, i, out_stride, _INDEX_BYTES))

        def store_inside(i: ir.Value, number: ir.Value) -> None:
            with b.if_then(b.icmp_signed("<", i, const(spec.count))):
                b.store(number, place(i), align=_INDEX_BYTES)

        def insert(i: ir.Value) -> None:
            """Move worse ones back by one place, from the last on, and store i where one is as good."""
            candidate = value(i)
            before = b.block
            head, compare, move, found = (
                b.append_basic_block(f"insert_{name}") for name in ("head", "compare", "move", "found")
            )
            filled = minimum(b, i, const(spec.count))
            b.branch(head)
            b.position_at_end(head)
            at = b.phi(I64, name="at")
            at.add_incoming(filled, before)
            b.cbranch(b.icmp_signed(">", at, const(0)), compare, found)
            b.position_at_end(compare)
            above = b.sub(at, const(1))
            other = b.load(place(above), align=_INDEX_BYTES, typ=I64)
            b.cbranch(better(candidate, value(other)), move, found)
            b.position_at_end(move)
            store_inside(at, other)
            at.add_incoming(above, b.block)
            b.branch(head)
            b.position_at_end(found)
            store_inside(at, i)

        repeat(b, 0, index_value(numbers.at("length", spec.length)), insert)

    return finish_rows(b, row)


LOWER = {"arg_top": lower_arg_top}
EMIT = {ArgTop: emit_arg_top}
HALF = {"arg_top": ()}
