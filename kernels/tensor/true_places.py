"""Kernel of true_places: the number of true elements, and their places, without vectors."""

from collections.abc import Mapping
from dataclasses import dataclass

from llvmlite import ir

from mavcg.graph import Graph, Node
from mavcg.kernels.builder.emit import (
    I8,
    I64,
    Values,
    address,
    const,
    element,
    finish_rows,
    for_range,
    kernel_function,
    operand,
    repeat,
    scale_index,
)
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.specs.kernel_symbol import sizes_text
from mavcg.specs.serialize import spec_format

_PLACE_BYTES = 8


@spec_format("true_places")
@dataclass(frozen=True)
class TruePlaces(KernelSpec):
    """out[0] = number of flags that are not 0; out[1..] = their indices in order, then zeros, as i64.

    length, stride: of the flags, in elements. out_stride: of out. All of it is one row of work, since each place
    depends on the flags before it. Operands: flags, out.
    """

    length: int
    stride: int
    out_stride: int

    @property
    def family(self) -> str:
        return "true_places_bool"

    @property
    def symbol_shape(self) -> str:
        return sizes_text(self.length)

    @property
    def rows(self) -> int:
        return 1

    @property
    def work(self) -> int:
        return 2 * self.length


def lower_true_places(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a true_places node."""
    flags, out = views[node.inputs[0]], views[node.output]
    spec = TruePlaces(flags.shape[0], flags.strides[0], out.strides[0])
    return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)


def emit_true_places(module: ir.Module, spec: TruePlaces, machine: Machine) -> ir.Function:
    """Emit a loop that writes each index to the next place, which the one after it overwrites unless the flag is set.

    At index i at most i places are filled, so that every write is inside of out.
    """
    _, b = kernel_function(module, spec, machine)
    flags, out = operand(b, 0, "flags"), operand(b, 1, "out")

    def place(number: ir.Value) -> ir.Value:
        return address(b, out, scale_index(b, number, spec.out_stride * _PLACE_BYTES))

    def row(_: ir.Value) -> None:
        def flag(i: ir.Value, carried: Values) -> Values:
            (filled,) = carried
            value = b.load(element(b, flags, scale_index(b, i, spec.stride), I8), align=1, typ=I8, name="flag")
            after = b.add(filled, const(1))
            b.store(i, place(after), align=_PLACE_BYTES)
            return (b.select(b.icmp_unsigned("!=", value, const(0, I8)), after, filled, "filled"),)

        (count,) = for_range(b, const(0), const(spec.length), 1, (const(0),), flag, "flag")
        unused = b.add(count, const(1))
        repeat(
            b, unused, const(spec.length + 1), lambda i: b.store(const(0, I64), place(i), align=_PLACE_BYTES), "rest"
        )
        b.store(count, place(const(0)), align=_PLACE_BYTES)

    return finish_rows(b, row)


LOWER = {"true_places": lower_true_places}
EMIT = {TruePlaces: emit_true_places}
