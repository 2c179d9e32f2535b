"""Kernels of padding: the border only, if the producer of the input writes the inside in place, else both."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from mavcg.graph import DTYPES, Graph, Node
from mavcg.kernels.builder.emit import (
    TYPES,
    address,
    const,
    element_bytes,
    finish_rows,
    index_value,
    kernel_function,
    operand,
    repeat,
    row_count,
    scale_index,
)
from mavcg.kernels.builder.lanes import splat, store_lanes
from mavcg.kernels.builder.nest import Nest, collapse
from mavcg.kernels.builder.nest_loops import Line, along_line, decode, maximum, minimum
from mavcg.kernels.builder.run_numbers import Number, RunNumbers, difference, load_numbers, times
from mavcg.kernels.tensor.copies import copy_steps
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View, Words
from mavcg.specs.kernel_symbol import sizes_text
from mavcg.specs.serialize import spec_format

Region = tuple[tuple[int, int], ...]  # (begin, end) along each axis


# Elementary operations per element of a border. Borders are written in short runs, to cache lines that are in the cache
# of the core that computed the interior.
BORDER_WORK = 8


class PadKernel(KernelSpec):
    """Base of the specs of paddings. out: the larger tensor. before: width of the border along each axis."""

    out: View
    before: tuple[int, ...]

    @property
    def symbol_shape(self) -> str:
        return sizes_text(*self.out.shape)

    @property
    def out_view(self) -> View:
        return self.out


@spec_format("pad_border")
@dataclass(frozen=True)
class PadBorder(PadKernel):
    """The fill of a constant border: every element of `out` outside of the inside becomes `bits`.

    bits: the element's bytes as an unsigned number; None: the value is a second operand, a scalar. before, after: width
    of the border along each axis; a run may set them. counts_rows: True if an operand has the length of out along
    `axis` in a run, at most that of the view; the border after the inside then begins where a run's inside ends. words:
    lengths and strides of out, and widths of the border, that a run sets. Operands: out, value?, rows?, words.

    A row of work is an index along the first axis longer than 1, usually a row of pixels, so that each thread writes
    the border of about the rows whose pixels it computes before and after.
    """

    out: View
    before: tuple[int, ...]
    after: tuple[int, ...]
    bits: int | None
    counts_rows: bool = False
    words: Words = ()

    @property
    def family(self) -> str:
        return f"pad_border_{self.out.item_bytes * 8}"

    @property
    def accessed_elements(self) -> int:
        return self.elements

    @property
    def axis(self) -> int:
        """Axis that the work is cut along: the first one longer than 1."""
        return next((i for i, length in enumerate(self.out.shape) if length > 1), 0)

    @property
    def rows(self) -> int:
        return self.out.shape[self.axis] if self.elements else 0

    @property
    def elements(self) -> int:
        """Number of elements of the border."""
        inside = 1
        for length, low, high in zip(self.out.shape, self.before, self.after, strict=True):
            inside *= length - low - high
        return self.out.elements - inside

    @property
    def work(self) -> int:
        return BORDER_WORK * self.elements


@spec_format("pad_mapped")
@dataclass(frozen=True)
class PadMapped(PadKernel):
    """A pad whose border copies elements of x: the nearest (mode edge) or the mirror image (mode reflect).

    words: lengths and strides of x and out that a run sets. A row of work is a line along the last axis. Operands: x,
    out, words.
    """

    x: View
    out: View
    before: tuple[int, ...]
    mode: str
    words: Words = ()

    @property
    def family(self) -> str:
        return f"pad_{self.mode}_{self.out.item_bytes * 8}"

    @property
    def rows(self) -> int:
        return self.out.elements // self.out.shape[-1] if self.out.elements else 0

    @property
    def work(self) -> int:
        return 4 * self.out.elements


def lower_border(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a pad with a constant whose input already lies inside of its output."""
    out = views[node.output]
    around = tuple(node.attr("before")), tuple(node.attr("after"))
    if node.op == "pad_with":
        operands = (Operand(node.output, written=True), Operand(node.inputs[1]))
        return (Step(PadBorder(out, *around, None), operands, node.origin),)
    bits = int.from_bytes(DTYPES[out.dtype].type(node.attr("value")).tobytes(), "little")
    return (Step(PadBorder(out, *around, bits), (Operand(node.output, written=True),), node.origin),)


def lower_pad(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the steps of a pad whose input has a buffer of its own."""
    x, out = views[node.inputs[0]], views[node.output]
    before = tuple(node.attr("before"))
    if node.op == "pad" and node.attr("mode") != "constant":
        spec = PadMapped(x, out, before, node.attr("mode"))
        return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)
    start = sum(stride * first for stride, first in zip(out.strides, before, strict=True))
    nest = collapse(x.shape, (x.strides, out.strides))
    copy = copy_steps(node.inputs[0], node.output, out.item_bytes, nest, 0, start, node.origin)
    return (*lower_border(node, graph, views, packing), *copy)


def border(shape: Sequence[int], before: Sequence[int], after: Sequence[int]) -> list[Region]:
    """Return disjoint boxes that cover everything but the inside of a tensor.

    Each axis has two boxes, at its ends, which along earlier axes cover the inside only.
    """
    boxes: list[Region] = []
    for axis, length in enumerate(shape):
        outer = [(before[i], shape[i] - after[i]) for i in range(axis)]
        inner = [(0, n) for n in shape[axis + 1 :]]
        for low, high in ((0, before[axis]), (length - after[axis], length)):
            if low < high:
                boxes.append((*outer, (low, high), *inner))
    return [region for region in boxes if all(low < high for low, high in region)]


def emit_border(module: ir.Module, spec: PadBorder, machine: Machine) -> ir.Function:
    """Emit the stores of a border, a loop nest for each of its boxes."""
    function, b = kernel_function(module, spec, machine)
    size = spec.out.item_bytes
    typ = ir.IntType(8 * size)
    lanes = machine.vector_bytes // size
    numbers = load_numbers(b, spec.words, 1 + (spec.bits is None) + spec.counts_rows)
    base = numbers.operand(0, "out")
    if spec.bits is None:
        fill_value = b.load(operand(b, 1, "fill"), name="fill", align=size, typ=typ)
    else:
        fill_value = ir.Constant(typ, spec.bits)
    value = splat(b, fill_value, lanes, "value")

    def fill(pointer: ir.Value, nest: Nest, axis: int) -> None:
        (strides,) = nest.strides
        length, stride = nest.shape[axis], strides[axis]
        if axis + 1 < len(nest.shape) or stride != 1:

            def border_line(index: ir.Value) -> None:
                pointer_at = address(b, pointer, scale_index(b, index, stride * size))
                if axis + 1 < len(nest.shape):
                    fill(pointer_at, nest, axis + 1)
                else:
                    b.store(fill_value, pointer_at, align=size)

            repeat(b, 0, length, border_line, "border")
            return

        def vectors(index: ir.Value, count: int, used: int) -> None:
            for i in range(count):
                pointer_at = address(b, pointer, b.add(scale_index(b, index, size), const(i * lanes * size)))
                store_lanes(b, value, pointer_at, lanes, used)

        along_line(b, Line(const(0), length, length), lanes, 1, vectors)

    _, begin, end, _ = function.args
    if spec.words:
        _fill_of_run(b, spec, numbers, base, lambda pointer, count: fill(pointer, Nest((count,), ((1,),)), 0))
        b.ret_void()
        return function
    step = spec.out.strides[spec.axis] * size if spec.rows else 0
    length = spec.out.shape[spec.axis]
    inside_end = length - spec.after[spec.axis]
    missing = const(0)  # rows that a run has less than the view
    if spec.counts_rows:
        missing = b.sub(const(length), row_count(b, 1 + (spec.bits is None)), name="missing")

    def box(region: Region) -> None:
        """Emit the part of a box that lies in the rows begin to end."""
        bounds = region[spec.axis]
        low, high = (const(at) if at < inside_end else b.sub(const(at), missing) for at in bounds)
        other_axes = [(to - from_, stride) for (from_, to), stride in zip(region, spec.out.strides, strict=True)]
        del other_axes[spec.axis]
        lengths, strides = zip(*other_axes, strict=True) if other_axes else ((1,), (1,))
        nest = collapse(lengths, (strides,))
        first = sum(
            from_ * s for i, ((from_, _), s) in enumerate(zip(region, spec.out.strides, strict=True)) if i != spec.axis
        )
        pointer = address(b, base, first * size)

        def row(index: ir.Value) -> None:
            fill(address(b, pointer, scale_index(b, index, step)), nest, 0)

        repeat(b, maximum(b, begin, low), minimum(b, end, high), row, "row")

    for region in border(spec.out.shape, spec.before, spec.after) if spec.rows else ():
        box(region)
    b.ret_void()
    return function


def _fill_of_run(
    b: ir.IRBuilder,
    spec: PadBorder,
    numbers: RunNumbers,
    base: ir.Value,
    store: Callable[[ir.Value, int], None],
) -> None:
    """Emit the stores of a border whose lengths and strides a run sets, a line of the last axis after the other.

    store: emits the stores of as many neighbouring elements.
    """
    _, begin, end, _ = b.function.args
    lengths, strides = (numbers.along(f"out.{name}", getattr(spec.out, name)) for name in ("shape", "strides"))
    before, after = numbers.along("before", spec.before), numbers.along("after", spec.after)
    last, size = len(lengths) - 1, spec.out.item_bytes

    def at(pointer: ir.Value, axis: int, index: ir.Value) -> ir.Value:
        return address(b, pointer, times(b, index, strides[axis], size))

    def lines(axis: int, pointer: ir.Value, bounds: Sequence[tuple[Number, Number]]) -> None:
        low, high = bounds[axis]
        if axis == last and axis != spec.axis and strides[axis] == 1 and isinstance(low, int) and isinstance(high, int):
            store(address(b, pointer, low * size), high - low)
            return
        low, high = index_value(low), index_value(high)
        if axis == spec.axis:
            low, high = maximum(b, begin, low), minimum(b, end, high)

        def inside(index: ir.Value) -> None:
            if axis == last:
                store(at(pointer, axis, index), 1)
            else:
                lines(axis + 1, at(pointer, axis, index), bounds)

        repeat(b, low, high, inside, f"border_{axis}")

    ends = [difference(b, length, high) for length, high in zip(lengths, after, strict=True)]
    for axis, length in enumerate(lengths):
        outer, inner = list(zip(before[:axis], ends, strict=False)), [(0, n) for n in lengths[axis + 1 :]]
        if before[axis] != 0:
            lines(0, base, [*outer, (0, before[axis]), *inner])
        if after[axis] != 0:
            lines(0, base, [*outer, (ends[axis], length), *inner])


def emit_mapped(module: ir.Module, spec: PadMapped, machine: Machine) -> ir.Function:
    """Emit a pad by edge or reflect, one element at a time, as it is rare and small."""
    _, b = kernel_function(module, spec, machine)
    numbers = load_numbers(b, spec.words, 2)
    x, out = numbers.operand(0, "x"), numbers.operand(1, "out")
    of_x, of_out = (numbers.along(f"{name}.strides", view.strides) for name, view in (("x", spec.x), ("out", spec.out)))
    lengths, out_shape = numbers.along("x.shape", spec.x.shape), numbers.along("out.shape", spec.out.shape)
    typ = TYPES[spec.out.dtype]
    size = element_bytes(typ)
    last = len(spec.out.shape) - 1

    def source(index: ir.Value, axis: int) -> ir.Value:
        at = b.sub(index, const(spec.before[axis]))
        end = index_value(difference(b, lengths[axis], 1))
        if spec.mode == "reflect":
            at = maximum(b, at, b.sub(const(0), at))
            return b.sub(end, maximum(b, b.sub(end, at), b.sub(at, end)))
        return minimum(b, maximum(b, at, const(0)), end)

    def row(index: ir.Value) -> None:
        outer = decode(b, index, out_shape[:-1])
        from_, to = x, out
        for axis, i in enumerate(outer):
            from_ = address(b, from_, times(b, source(i, axis), of_x[axis], size))
            to = address(b, to, times(b, i, of_out[axis], size))

        def emit_element(i: ir.Value) -> None:
            pointer_at = address(b, from_, times(b, source(i, last), of_x[last], size))
            value = b.load(pointer_at, align=size, typ=typ)
            b.store(value, address(b, to, times(b, i, of_out[last], size)), align=size)

        repeat(b, 0, index_value(out_shape[last]), emit_element, "element")

    return finish_rows(b, row)


LOWER = {"pad": lower_pad, "pad_with": lower_pad}
EMIT = {PadBorder: emit_border, PadMapped: emit_mapped}
HALF = {"pad": ()}
