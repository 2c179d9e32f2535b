"""Kernels that copy between strided views: reshape, broadcast_to, concat and slice that did not become views."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from mavcg.graph import Graph, Node
from mavcg.graph.layout import dense_strides
from mavcg.kernels.builder.emit import address, const, kernel_function, operand, repeat, scale_index
from mavcg.kernels.builder.lanes import load_lanes, load_vector, splat, store_lanes, store_vector
from mavcg.kernels.builder.nest import ROW_ELEMENTS, Nest, NestKernel, broadcast_strides, collapse, nest_numbers
from mavcg.kernels.builder.nest_loops import Line, along_line, decode, minimum, nest_rows
from mavcg.kernels.builder.run_numbers import fixed_number, load_numbers, multiple, times
from mavcg.kernels.tensor.transpose_blocks import Plane, interleave
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View, Words
from mavcg.specs.kernel_symbol import sizes_text
from mavcg.specs.serialize import spec_format


@spec_format("copy")
@dataclass(frozen=True)
class CopySpec(NestKernel):
    """A copy target[..] = source[..]. nest: loops with the strides of source and target. Offsets are in elements.

    A stride of the source may be 0 or negative. words: numbers of nest and offsets that a run sets. Operands: source,
    target, words.
    """

    item_bytes: int
    nest: Nest
    source_offset: int = 0
    target_offset: int = 0
    words: Words = ()

    @property
    def family(self) -> str:
        return f"copy_{self.item_bytes * 8}"


@spec_format("copy_strided")
@dataclass(frozen=True)
class RelaidSpec(KernelSpec):
    """A copy in row-major order between two views of different shapes, for which no common loop nest exists."""

    source: View
    target: View

    @property
    def family(self) -> str:
        return f"relaid_{self.source.item_bytes * 8}"

    @property
    def symbol_shape(self) -> str:
        return sizes_text(*self.target.shape)

    @property
    def rows(self) -> int:
        return -(-self.source.elements // ROW_ELEMENTS)

    @property
    def work(self) -> int:
        return 8 * self.source.elements


def copy_steps(
    source: str,
    target: str,
    item_bytes: int,
    nest: Nest,
    source_offset: int = 0,
    target_offset: int = 0,
    origin: str = "",
) -> tuple[Step, ...]:
    """Return the step of a copy; no step for zero elements."""
    if nest.elements == 0:
        return ()
    spec = CopySpec(item_bytes, nest, source_offset, target_offset)
    return (Step(spec, (Operand(source), Operand(target, written=True)), origin),)


def emit_copy(module: ir.Module, spec: CopySpec, machine: Machine) -> ir.Function:
    """Emit a copy, in vectors where the innermost dimension is contiguous in both views or broadcasts an element, or
    where it has two to four elements that interleave lines of the source, as an image's channels of a file do."""
    function, b = kernel_function(module, spec, machine)
    size = spec.item_bytes
    typ = ir.IntType(size * 8)
    numbers = load_numbers(b, spec.words, 2)
    nest = nest_numbers(numbers, spec.nest)
    starts = numbers.at("source_offset", spec.source_offset), numbers.at("target_offset", spec.target_offset)
    source, target = (
        address(b, numbers.operand(i, name), times(b, const(size), start))
        for i, (name, start) in enumerate(zip(("source", "target"), starts, strict=True))
    )
    from_step, to_step = (strides[-1] for strides in nest.strides)
    lanes = machine.vector_bytes // size

    def dense(addresses: list[ir.Value], line: Line) -> None:
        repeated = splat(b, load_vector(b, addresses[0], typ, name="value"), lanes) if from_step == 0 else None

        def vectors(index: ir.Value, count: int, used: int) -> None:
            at = [address(b, pointer, scale_index(b, index, size)) for pointer in addresses]
            step = lanes * size
            values = [
                repeated or load_lanes(b, address(b, at[0], i * step), typ, lanes, used, "value") for i in range(count)
            ]
            for i, value in enumerate(values):
                store_lanes(b, value, address(b, at[1], i * step), lanes, used)

        along_line(b, line, lanes, 4, vectors)

    def copy_strided(addresses: list[ir.Value], line: Line) -> None:
        def emit_element(index: ir.Value) -> None:
            value = load_vector(b, address(b, addresses[0], times(b, index, from_step, size)), typ, name="value")
            store_vector(b, value, address(b, addresses[1], times(b, index, to_step, size)))

        repeat(b, line.begin, line.end(b), emit_element, "element")

    count = fixed_number(nest.shape[-1]) or 0
    lines = [strides[-2:] for strides in nest.strides]
    weaves = 2 <= count <= 4 and from_step != 0 and lines[0][0] == 1 and lines[1] == (count, 1)

    def weave(addresses: list[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        plane = Plane(addresses[0], addresses[1], size, multiple(b, from_step, size), count * size)
        interleave(b, plane, (begin, end), (const(0), const(count)), lanes, count)

    inner = dense if to_step == 1 and from_step in (0, 1) else copy_strided
    nest_rows(b, spec.nest, (source, target), (size, size), inner, nest, weave if weaves else None)
    b.ret_void()
    return function


def emit_relaid(module: ir.Module, spec: RelaidSpec, machine: Machine) -> ir.Function:
    """Emit a copy in row-major order, one element at a time; both addresses are computed for every element."""
    function, b = kernel_function(module, spec, machine)
    size = spec.source.item_bytes
    pointers = (operand(b, 0, "source"), operand(b, 1, "target"))
    end = minimum(b, b.mul(function.args[2], const(ROW_ELEMENTS)), const(spec.source.elements))

    def emit_element(index: ir.Value) -> None:
        at = [
            advance_all(b, pointer, view, decode(b, index, view.shape))
            for pointer, view in zip(pointers, (spec.source, spec.target), strict=True)
        ]
        store_vector(b, load_vector(b, at[0], ir.IntType(size * 8), name="value"), at[1])

    repeat(b, b.mul(function.args[1], const(ROW_ELEMENTS)), end, emit_element, "element")
    b.ret_void()
    return function


def advance_all(b: ir.IRBuilder, pointer: ir.Value, view: View, indices: Sequence[ir.Value]) -> ir.Value:
    """Return the address of the element of a view at these indices."""
    for index, stride in zip(indices, view.strides, strict=True):
        pointer = address(b, pointer, scale_index(b, index, stride * view.item_bytes))
    return pointer


def relaid_steps(source: str, target: str, views: Mapping[str, View], origin: str) -> tuple[Step, ...]:
    """Return the step of a copy in row-major order between two views with equally many elements."""
    x, y = views[source], views[target]
    if x.elements == 0:
        return ()
    size = x.item_bytes
    if y.dense:
        return copy_steps(source, target, size, collapse(x.shape, (x.strides, dense_strides(x.shape))), origin=origin)
    if x.dense:
        return copy_steps(source, target, size, collapse(y.shape, (dense_strides(y.shape), y.strides)), origin=origin)
    lengths = _common_lengths(x.shape, y.shape)
    if lengths:
        return copy_steps(source, target, size, collapse(lengths, [_refine(v, lengths) for v in (x, y)]), origin=origin)
    return (Step(RelaidSpec(x, y), (Operand(source), Operand(target, written=True)), origin),)


def _common_lengths(x: Sequence[int], y: Sequence[int]) -> tuple[int, ...]:
    """Return a common refinement of the shapes x and y: lengths of which runs multiply to each length of x, and of y.

    The result is () where there is none.
    """
    left, right = [n for n in reversed(x) if n != 1], [n for n in reversed(y) if n != 1]
    common: list[int] = []
    while left and right:
        small = min(left[0], right[0])
        if left[0] % small or right[0] % small:
            return ()
        common.insert(0, small)
        for side in (left, right):
            side[0] //= small
            if side[0] == 1:
                side.pop(0)
    return tuple(common)


def _refine(view: View, lengths: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a view whose dimensions are split into `lengths`."""
    dims = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n != 1]
    strides: list[int] = []
    left = 1
    for length in lengths:
        if left == 1:
            (left, stride), dims = dims[0], dims[1:]
        left //= length
        strides.append(stride * left)
    return tuple(strides)


def _lower_reshape(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    return relaid_steps(node.inputs[0], node.output, views, node.origin)


def _lower_broadcast(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    x, y = views[node.inputs[0]], views[node.output]
    nest = collapse(y.shape, (broadcast_strides(x, y.shape), y.strides))
    return copy_steps(node.inputs[0], node.output, y.item_bytes, nest, origin=node.origin)


def _lower_concat(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return a copy for each part, whose rows of work suit the part's size."""
    y, axis = views[node.output], node.attr("axis")
    steps: list[Step] = []
    start = 0
    for name in node.inputs:
        x = views[name]
        nest = collapse(x.shape, (x.strides, y.strides))
        steps += copy_steps(name, node.output, y.item_bytes, nest, 0, start * y.strides[axis], node.origin)
        start += x.shape[axis]
    return tuple(steps)


def _lower_slice(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    x, y = views[node.inputs[0]], views[node.output]
    starts, steps = node.attr("starts"), node.attr("steps")
    nest = collapse(y.shape, ([s * step for s, step in zip(x.strides, steps, strict=True)], y.strides))
    start = sum(s * first for s, first in zip(x.strides, starts, strict=True))
    return copy_steps(node.inputs[0], node.output, y.item_bytes, nest, start, 0, node.origin)


def _lower_next(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    return relaid_steps(node.inputs[1], node.output, views, node.origin)


LOWER = {
    "reshape": _lower_reshape,
    "loop_state": _lower_reshape,
    "loop_enter": _lower_reshape,
    "loop_copy": _lower_reshape,
    "loop_next": _lower_next,
    "loop_final": _lower_reshape,
    "broadcast_to": _lower_broadcast,
    "concat": _lower_concat,
    "slice": _lower_slice,
}
EMIT = {CopySpec: emit_copy, RelaidSpec: emit_relaid}
HALF = dict.fromkeys(("reshape", "broadcast_to", "concat", "slice"), ())
