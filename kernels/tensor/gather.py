"""Kernels that read elements by computed indices: gather, and look-up in a table of 256 results for 8-bit inputs."""

from collections.abc import Mapping
from dataclasses import dataclass

from llvmlite import ir

from mavcg.graph import Graph, Node
from mavcg.kernels.builder.emit import (
    I8,
    I64,
    address,
    const,
    element,
    index_value,
    kernel_function,
    operands,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.lanes import load_lanes, load_vector, store_lanes, store_vector
from mavcg.kernels.builder.nest import Nest, NestKernel, collapse, nest_numbers
from mavcg.kernels.builder.nest_loops import Line, along_line, maximum, minimum, nest_rows
from mavcg.kernels.builder.run_numbers import Number, load_numbers, one_less, times
from mavcg.specs.kernel import Machine, Operand, Packing, Step, View, Words
from mavcg.specs.serialize import spec_format


@spec_format("gather")
@dataclass(frozen=True)
class GatherSpec(NestKernel):
    """A gather: out = the elements of x at computed indices along one axis of x.

    nest: loops with the strides of x without that axis, of indices, of the output. index_bytes: 4 or 8. length, step:
    length and stride of x along the axis, in elements. An index out of range is clamped, so that no other memory is
    read. words: length, step and numbers of the nest that a run sets. Operands: x, indices, output, words.
    """

    item_bytes: int
    nest: Nest
    index_bytes: int
    length: int
    step: int
    words: Words = ()

    @property
    def family(self) -> str:
        return f"gather_{self.item_bytes * 8}"


def _lower_gather(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    x, indices = (views[name] for name in node.inputs)
    out = views[node.output]
    if out.elements == 0:
        return ()
    axis = node.attr("axis") % len(x.shape)
    chosen = len(indices.shape)
    before, after = x.strides[:axis], x.strides[axis + 1 :]
    strides = (
        (*before, *(0,) * chosen, *after),
        (*(0,) * len(before), *indices.strides, *(0,) * len(after)),
        out.strides,
    )
    nest = collapse(out.shape, strides)
    spec = GatherSpec(out.item_bytes, nest, indices.item_bytes, x.shape[axis], x.strides[axis])
    return (Step(spec, (*map(Operand, node.inputs), Operand(node.output, written=True)), node.origin),)


def index_at(b: ir.IRBuilder, pointer: ir.Value, index_bytes: int, length: Number) -> ir.Value:
    """Return an index loaded from memory, clamped to 0 .. length - 1; a negative index counts from the end."""
    index = load_vector(b, pointer, ir.IntType(index_bytes * 8), name="index")
    if index_bytes < 8:
        index = b.sext(index, I64)
    index = b.select(b.icmp_signed("<", index, const(0)), b.add(index, index_value(length)), index)
    last = index_value(one_less(b, length))
    return minimum(b, maximum(b, index, const(0)), last, "index_inside")


def emit_gather(module: ir.Module, spec: GatherSpec, machine: Machine) -> ir.Function:
    """Emit a gather: elements that share an index are copied in vectors; else each element is loaded by its own
    index."""
    function, b = kernel_function(module, spec, machine)
    size = spec.item_bytes
    typ, lanes = ir.IntType(size * 8), machine.vector_bytes // size
    sizes = (size, spec.index_bytes, size)
    numbers = load_numbers(b, spec.words, 3)
    nest = nest_numbers(numbers, spec.nest)
    length, step = numbers.at("length", spec.length), numbers.at("step", spec.step)
    x_step, index_step, out_step = (strides[-1] for strides in nest.strides)

    def element_address(x: ir.Value, index_place: ir.Value) -> ir.Value:
        index = index_at(b, index_place, spec.index_bytes, length)
        return address(b, x, times(b, index, step, size), "chosen")

    def lines(addresses: list[ir.Value], line: Line) -> None:
        source = element_address(addresses[0], addresses[1])

        def emit_vectors(at: ir.Value, count: int, used: int) -> None:
            for i in range(count):
                offset = scale_index(b, b.add(at, const(i * lanes)), size)
                value = load_lanes(b, address(b, source, offset), typ, lanes, used, "value")
                store_lanes(b, value, address(b, addresses[2], offset), lanes, used)

        along_line(b, line, lanes, 2, emit_vectors)

    def singly(addresses: list[ir.Value], line: Line) -> None:
        def emit_element(at: ir.Value) -> None:
            x, index, out = (
                address(b, pointer, times(b, at, stride, item))
                for pointer, stride, item in zip(addresses, (x_step, index_step, out_step), sizes, strict=True)
            )
            store_vector(b, load_vector(b, element_address(x, index), typ, name="value"), out)

        repeat(b, line.begin, line.end(b), emit_element, "element")

    pointers = operands(b, "x", "indices", "out")
    nest_rows(b, spec.nest, pointers, sizes, lines if (x_step, index_step, out_step) == (1, 0, 1) else singly, nest)
    b.ret_void()
    return function


@spec_format("lookup")
@dataclass(frozen=True)
class LookupSpec(NestKernel):
    """A table look-up, out = table[x - smallest number of x's type]. nest: strides of x and out. Operands: x, table,
    out."""

    signed: bool
    nest: Nest

    @property
    def family(self) -> str:
        return "lookup_i8" if self.signed else "lookup_u8"

    @property
    def work(self) -> int:
        return 4 * self.nest.elements


def _lower_lookup(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    x, out = views[node.inputs[0]], views[node.output]
    if out.elements == 0:
        return ()
    spec = LookupSpec(x.dtype == "i8", collapse(out.shape, (x.strides, out.strides)))
    return (Step(spec, (*map(Operand, node.inputs), Operand(node.output, written=True)), node.origin),)


def emit_lookup(module: ir.Module, spec: LookupSpec, machine: Machine) -> ir.Function:
    """Emit a table look-up: NEON has 16 look-ups per instruction in registers; on other targets each is a load."""
    function, b = kernel_function(module, spec, machine)
    x, table, out = operands(b, "x", "table", "out")
    steps = [strides[-1] for strides in spec.nest.strides]
    flip = 0x80 if spec.signed else 0
    in_registers = machine.arch == "aarch64" and steps == [1, 1]
    quarters = _table_registers(b, table) if in_registers else []

    def vectors(addresses: list[ir.Value], line: Line) -> None:
        def emit_vectors(at: ir.Value, count: int, used: int) -> None:
            numbers = load_lanes(b, address(b, addresses[0], at), I8, 16, used, "numbers")
            store_lanes(b, _look_up(b, quarters, numbers, flip), address(b, addresses[1], at), 16, used)

        along_line(b, line, 16, 1, emit_vectors)

    def singly(addresses: list[ir.Value], line: Line) -> None:
        def emit_element(at: ir.Value) -> None:
            number = load_vector(b, address(b, addresses[0], scale_index(b, at, steps[0])), I8, name="number")
            index = b.zext(b.xor(number, const(flip, I8)), I64)
            value = load_vector(b, element(b, table, index, I8), I8, name="value")
            store_vector(b, value, address(b, addresses[1], scale_index(b, at, steps[1])))

        repeat(b, line.begin, line.end(b), emit_element, "element")

    nest_rows(b, spec.nest, (x, out), (1, 1), vectors if in_registers else singly)
    b.ret_void()
    return function


_BYTES = ir.VectorType(I8, 16)


def _table_registers(b: ir.IRBuilder, table: ir.Value) -> list[list[ir.Value]]:
    """Return the table in 16 registers: four quarters of four registers, a quarter per tbl or tbx instruction."""
    return [
        [load_vector(b, address(b, table, 64 * q + 16 * r), _BYTES, name=f"table_{q}_{r}") for r in range(4)]
        for q in range(4)
    ]


def _look_up(b: ir.IRBuilder, quarters: list[list[ir.Value]], numbers: ir.Value, flip: int) -> ir.Value:
    """Emit a look-up by tbl, which gives 0 for an index beyond its 64 bytes, and tbx, which then keeps its
    destination."""
    index = b.xor(numbers, ir.Constant(_BYTES, [flip] * 16)) if flip else numbers
    looked_up = _neon(b, "tbl4", [*quarters[0], index])
    for q in (1, 2, 3):
        shifted = b.sub(index, ir.Constant(_BYTES, [64 * q] * 16))
        looked_up = _neon(b, "tbx4", [looked_up, *quarters[q], shifted])
    return looked_up


def _neon(b: ir.IRBuilder, name: str, args: list[ir.Value]) -> ir.Value:
    full = f"llvm.aarch64.neon.{name}.v16i8"
    kind = ir.FunctionType(_BYTES, [_BYTES] * len(args))
    return b.call(b.module.globals.get(full) or ir.Function(b.module, kind, full), args, name=name)


LOWER = {"gather": _lower_gather, "lookup": _lower_lookup}
EMIT = {GatherSpec: emit_gather, LookupSpec: emit_lookup}
HALF = {"gather": ()}
