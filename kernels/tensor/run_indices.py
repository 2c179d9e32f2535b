"""Kernels for indices computed at run time: checked and flattened to offsets (flat_index), written to (scatter).

Only flat_index can fail: for an index out of range it sets the run's fault word and continues with the nearest valid
index, so that readers and writers stay within their tensors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.builder.arithmetic import BINARY
from mavcg.kernels.builder.emit import (
    HALVES,
    I1,
    I32,
    I64,
    TYPES,
    address,
    const,
    element_bytes,
    for_range,
    index_value,
    kernel_function,
    length_times,
    operands,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.lanes import load_lanes, load_vector, store_lanes, store_vector
from mavcg.kernels.builder.nest import ROW_ELEMENTS, Nest, collapse, nest_numbers
from mavcg.kernels.builder.nest_loops import Line, along_line, decode, maximum, minimum, nest_rows
from mavcg.kernels.builder.run_numbers import Number, fixed_number, load_numbers, one_less, times
from mavcg.kernels.tensor.copies import relaid_steps
from mavcg.kernels.tensor.gather import index_at
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View, Words
from mavcg.specs.kernel_symbol import sizes_text
from mavcg.specs.serialize import spec_format


@spec_format("flat_index")
@dataclass(frozen=True)
class FlatIndexSpec(KernelSpec):
    """out[p] = sum over k of indices[p, k] * index_strides[k], plus the sum over d of p[d] * offsets[d], as i64.

    nest: loops with strides of indices without their last dimension, strides of out, and offsets. index_step: stride of
    the last dimension of indices, in elements. lengths: valid indices[.., k] are 0 to lengths[k] - 1, with from_end
    also -lengths[k] to -1. words: numbers that a run sets, of the nest, lengths and index_strides. Operands: indices,
    out, fault word, words.
    """

    index_bytes: int
    nest: Nest
    index_step: int
    lengths: tuple[int, ...]
    index_strides: tuple[int, ...]
    from_end: bool
    words: Words = ()

    @property
    def family(self) -> str:
        return f"flat_index_i{self.index_bytes * 8}"

    @property
    def symbol_shape(self) -> str:
        return sizes_text(*self.nest.shape)

    @property
    def row_positions(self) -> int:
        """Number of positions of a row of work; the last one may have fewer."""
        return self.nest.elements // self.nest.shape[0] if self.nest.single else ROW_ELEMENTS

    @property
    def rows(self) -> int:
        return -(-self.nest.elements // self.row_positions)

    @property
    def work(self) -> int:
        return 4 * self.nest.elements * len(self.lengths)


@spec_format("scatter")
@dataclass(frozen=True)
class ScatterSpec(KernelSpec):
    """out[indices[i]] = updates[i], or reduction(out[indices[i]], updates[i]), in the order of i.

    nest: loops over the elements of one update, with strides of updates and out. count, step: number and stride of the
    indices. length: rows of out; an index out of range is clamped. update_step, out_step: elements from one update, or
    row of out, to the next. reduction: "none" or a binary operator. per_index: indices for each index of the bounded
    dimension, whose length an operand gives; 0: their number is fixed, or a word. words: numbers that a run sets, count
    and length. Operands: indices, updates, out, then that length or the words.
    """

    dtype: str
    reduction: str
    nest: Nest
    index_bytes: int
    count: int
    step: int
    length: int
    update_step: int
    out_step: int
    per_index: int = 0
    words: Words = ()

    @property
    def family(self) -> str:
        return f"scatter_{self.reduction}_{self.dtype}"

    @property
    def symbol_shape(self) -> str:
        return sizes_text(self.count, *self.nest.shape)

    @property
    def rows(self) -> int:
        """Number of pieces of an update; two rows of work never write the same element, whatever the indices."""
        return self.nest.rows

    @property
    def work(self) -> int:
        return 4 * self.count + self.count * self.nest.elements


def _lower_flat_index(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    indices, out = views[node.inputs[0]], views[node.output]
    if out.elements == 0:
        return ()
    nest = collapse(out.shape, (indices.strides[:-1], out.strides, node.attr("offsets")))
    spec = FlatIndexSpec(
        indices.item_bytes,
        nest,
        indices.strides[-1],
        node.attr("lengths"),
        node.attr("strides"),
        bool(node.attr("from_end")),
    )
    operands = (Operand(node.inputs[0]), Operand(node.output, written=True), Operand(fault_word=True))
    return (Step(spec, operands, node.origin),)


def emit_flat_index(module: ir.Module, spec: FlatIndexSpec, machine: Machine) -> ir.Function:
    """Emit the loop over flattened positions, of which a row of work is a piece.

    Threads that set the fault word store the same aligned 32 bits, which is atomic on every core; the engine reads it
    after the step.
    """
    function, b = kernel_function(module, spec, machine)
    indices, out, fault = operands(b, "indices", "out", "fault")
    numbers = load_numbers(b, spec.words, 3)
    indices, out = numbers.at_place(0, indices), numbers.at_place(1, out)
    nest = nest_numbers(numbers, spec.nest)
    lengths, index_strides = (numbers.along(name, getattr(spec, name)) for name in ("lengths", "index_strides"))
    typ, size = ir.IntType(spec.index_bytes * 8), spec.index_bytes

    def offset_at(at: list[ir.Value], strides: tuple[Number, ...]) -> ir.Value:
        total: ir.Value = const(0)
        for index, stride in zip(at, strides, strict=True):
            total = total if stride == 0 else b.add(total, times(b, index, stride))
        return total

    def position(number: ir.Value, carried: tuple[ir.Value, ...]) -> tuple[ir.Value, ...]:
        (outside,) = carried
        at = decode(b, number, nest.shape)
        read, written, flat = (offset_at(at, strides) for strides in nest.strides)
        for k, (given, stride) in enumerate(zip(lengths, index_strides, strict=True)):
            length = index_value(given)
            element = b.add(read, const(k * spec.index_step))
            index = load_vector(b, address(b, indices, scale_index(b, element, size)), typ, name="index")
            index = b.sext(index, I64) if size < 8 else index
            if spec.from_end:
                index = b.select(b.icmp_signed("<", index, const(0)), b.add(index, length), index)
            outside = b.or_(outside, b.icmp_unsigned(">=", index, length), "outside")
            last = one_less(b, given)
            inside = minimum(b, maximum(b, index, const(0)), index_value(last), "index_inside")
            flat = b.add(flat, times(b, inside, stride))
        store_vector(b, flat, address(b, out, scale_index(b, written, 8)))
        return (outside,)

    begin = b.mul(function.args[1], const(spec.row_positions))
    positions: ir.Value = const(prod(each for each in map(fixed_number, nest.shape) if each is not None))
    for each in nest.shape:
        positions = b.mul(positions, each) if fixed_number(each) is None else positions
    end = minimum(b, b.mul(function.args[2], const(spec.row_positions)), positions)
    (outside,) = for_range(b, begin, end, 1, (const(0, I1),), position, "position")
    with b.if_then(outside, likely=False):
        b.store(const(1, I32), fault, align=4)
    b.ret_void()
    return function


def _lower_scatter(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the steps of a scatter node: a copy of x, then the updates."""
    x, indices, updates, out = (views[name] for name in (*node.inputs, node.output))
    if out.elements == 0:
        return ()
    reduction = node.attr("reduction")
    if reduction != "none" and x.dtype in (*HALVES, "bool"):
        raise MavcgError(f"node '{node.origin}' ({node.op}): no kernel for {x.dtype} with {reduction}; cast it before")
    copy = relaid_steps(node.inputs[0], node.output, views, node.origin)
    if updates.elements == 0:
        return copy
    spec = ScatterSpec(
        x.dtype,
        reduction,
        collapse(out.shape[1:], (updates.strides[1:], out.strides[1:])),
        indices.item_bytes,
        indices.shape[0],
        indices.strides[0],
        out.shape[0],
        updates.strides[0],
        out.strides[0],
    )
    operands = (Operand(node.inputs[1]), Operand(node.inputs[2]), Operand(node.output, written=True))
    return (*copy, Step(spec, operands, node.origin))


def emit_scatter(module: ir.Module, spec: ScatterSpec, machine: Machine) -> ir.Function:
    """Emit a scatter: each row of work visits all indices in order, so that the last of equal indices wins."""
    function, b = kernel_function(module, spec, machine)
    indices, updates, out = operands(b, "indices", "updates", "out")
    numbers = load_numbers(b, spec.words, 3)
    indices, updates, out = (numbers.at_place(i, each) for i, each in enumerate((indices, updates, out)))
    length = numbers.at("length", spec.length)
    count = length_times(b, 3, spec.per_index) if spec.per_index else index_value(numbers.at("count", spec.count))
    moved = spec.reduction == "none"
    typ = TYPES[spec.dtype]
    size = element_bytes(typ)
    typ = ir.IntType(size * 8) if moved else typ
    lanes = machine.vector_bytes // size
    from_step, to_step = (strides[-1] for strides in spec.nest.strides)

    def combine(old_at: ir.Value, new: ir.Value, used: int, lanes: int) -> ir.Value:
        if moved:
            return new
        old = load_lanes(b, old_at, typ, lanes, used, "old") if lanes > 1 else load_vector(b, old_at, typ, name="old")
        return BINARY[spec.reduction](b, spec.dtype, old, new)

    def all_indices(addresses: list[ir.Value], line: Line) -> None:
        def update(number: ir.Value) -> None:
            index_place = address(b, indices, scale_index(b, number, spec.step * spec.index_bytes))
            index = index_at(b, index_place, spec.index_bytes, length)
            source = address(b, addresses[0], scale_index(b, number, spec.update_step * size), "source")
            target = address(b, addresses[1], scale_index(b, index, spec.out_step * size), "target")

            def vectors(at: ir.Value, count: int, used: int) -> None:
                for i in range(count):
                    offset = scale_index(b, b.add(at, const(i * lanes)), size)
                    new = load_lanes(b, address(b, source, offset), typ, lanes, used, "new")
                    to = address(b, target, offset)
                    store_lanes(b, combine(to, new, used, lanes), to, lanes, used)

            def emit_element(at: ir.Value) -> None:
                new = load_vector(b, address(b, source, scale_index(b, at, from_step * size)), typ, name="new")
                to = address(b, target, scale_index(b, at, to_step * size))
                store_vector(b, combine(to, new, 1, 1), to)

            if from_step == to_step == 1 and line.length >= lanes:
                along_line(b, line, lanes, 1, vectors)
            else:
                repeat(b, line.begin, line.end(b), emit_element, "element")

        repeat(b, 0, count, update, "update")

    nest_rows(b, spec.nest, [updates, out], (size, size), all_indices)
    b.ret_void()
    return function


LOWER = {"flat_index": _lower_flat_index, "scatter": _lower_scatter}
EMIT = {FlatIndexSpec: emit_flat_index, ScatterSpec: emit_scatter}
HALF = {"scatter": ()}


def refuses_half(node: Node, graph: Graph) -> bool:
    """Return True for a scatter that combines numbers."""
    return bool(node.attr("reduction") != "none")
