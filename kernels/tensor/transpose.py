"""Kernels of transposes between strided views: squares in registers, or two to four lines interleaved or separated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from mavcg.graph import Graph, Node
from mavcg.kernels.builder.emit import (
    address,
    const,
    finish_rows,
    index_value,
    kernel_function,
    load_vector,
    operand,
    repeat,
    row_count,
    scale_index,
    store_vector,
)
from mavcg.kernels.builder.nest import Nest, advance, collapse, decode, minimum, shuffle
from mavcg.kernels.tensor.copies import copy_steps
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.specs.kernel_symbol import sizes_text
from mavcg.specs.serialize import spec_format

_BLOCK = 64  # elements of a side of a block: a multiple of every tile, and a few cache lines


@spec_format("transpose")
@dataclass(frozen=True)
class TransposeSpec(KernelSpec):
    """A transposing copy: the target is contiguous along dimension q, the source along dimension p.

    nest: loops with strides of source and target; its last dimension is q. across: number of dimension p. A row of work
    is a block along p and q at one index of the other dimensions.

    free: the dimension whose length follows from a count of the run, `longest` of which its length in the nest is a
    multiple; -1: none. scaled: strides that are so, too, as (0 for the source's or 1 for the target's, dimension); one
    of p or q. Operands: source, target, count?.
    """

    item_bytes: int
    nest: Nest
    across: int
    free: int = -1
    longest: int = 0
    scaled: tuple[tuple[int, int], ...] = ()

    @property
    def family(self) -> str:
        return f"transpose_{self.item_bytes * 8}"

    @property
    def symbol_shape(self) -> str:
        return sizes_text(*self.nest.shape)

    @property
    def sides(self) -> tuple[int, int]:
        """Lengths of the dimensions p and q."""
        return self.nest.shape[self.across], self.nest.shape[-1]

    @property
    def blocks(self) -> tuple[int, int]:
        """Elements of a block along p and along q."""
        p, q = self.sides
        narrow_p, narrow_q = min(p, _BLOCK), min(q, _BLOCK)
        return min(p, _BLOCK * (_BLOCK // narrow_q)), min(q, _BLOCK * (_BLOCK // narrow_p))

    @property
    def outer(self) -> tuple[int, ...]:
        """Numbers of the dimensions other than p and q."""
        return tuple(i for i in range(len(self.nest.shape) - 1) if i != self.across)

    @property
    def row_loops(self) -> tuple[tuple[int, int], ...]:
        """(dimension, number) of each loop over rows: of the free dimension, of others, of blocks along p, along q."""
        p, q = (-(-side // block) for side, block in zip(self.sides, self.blocks, strict=True))
        loops = [*((i, self.nest.shape[i]) for i in self.outer), (self.across, p), (len(self.nest.shape) - 1, q)]
        return tuple(sorted(loops, key=lambda loop: loop[0] != self.free))

    @property
    def free_block(self) -> int:
        """Indices of the free dimension in a row of work."""
        blocks = dict(zip((self.across, len(self.nest.shape) - 1), self.blocks, strict=True))
        return blocks.get(self.free, 1)

    @property
    def rows(self) -> int:
        return prod(number for _, number in self.row_loops)

    @property
    def work(self) -> int:
        return 2 * self.nest.elements


def transpose_steps(source: str, target: str, item_bytes: int, nest: Nest, origin: str = "") -> tuple[Step, ...]:
    """Return the step of a copy between two views of the same shape, with loops in the target's order."""
    from_, to = nest.strides
    dense = [i for i, step in enumerate(from_[:-1]) if step == 1 and nest.shape[i] > 1]
    if nest.elements == 0 or to[-1] != 1 or from_[-1] in (0, 1) or not dense:
        return copy_steps(source, target, item_bytes, nest, origin=origin)
    spec = TransposeSpec(item_bytes, nest, dense[-1])
    return (Step(spec, (Operand(source), Operand(target, written=True)), origin),)


@dataclass(frozen=True)
class _Plane:
    """A block of two dimensions in memory, contiguous along p in the source and along q in the target.

    In bytes: item, size of an element; source_step, from one q to the next; target_step, from one p to the next.
    """

    source: ir.Value
    target: ir.Value
    item: int
    source_step: int | ir.Value
    target_step: int | ir.Value

    def source_at(self, b: ir.IRBuilder, p: ir.Value, q: ir.Value) -> ir.Value:
        return address(b, address(b, self.source, scale_index(b, p, self.item)), _times(b, q, self.source_step))

    def target_at(self, b: ir.IRBuilder, p: ir.Value, q: ir.Value) -> ir.Value:
        return address(b, address(b, self.target, _times(b, p, self.target_step)), scale_index(b, q, self.item))


def _times(b: ir.IRBuilder, index: ir.Value | int, step: int | ir.Value) -> ir.Value:
    """Return index * step, where a run may set the step."""
    return scale_index(b, index_value(index), step) if isinstance(step, int) else b.mul(index_value(index), step)


Range = tuple[ir.Value, ir.Value]


def _by_elements(b: ir.IRBuilder, plane: _Plane, p_range: Range, q_range: Range) -> None:
    typ = ir.IntType(plane.item * 8)

    def emit_element(p: ir.Value, q: ir.Value) -> None:
        store_vector(b, load_vector(b, plane.source_at(b, p, q), typ, name="value"), plane.target_at(b, p, q))

    repeat(b, *p_range, lambda p: repeat(b, *q_range, lambda q: emit_element(p, q), "q"), "p")


def _square(b: ir.IRBuilder, plane: _Plane, p: ir.Value, q: ir.Value, groups: int) -> None:
    """Emit the transpose of n elements along p by groups * n along q, where n elements are 16 bytes.

    The vector of row r holds row r of every group, 16 bytes each, so that no shuffle crosses 16 bytes, which is slow in
    wider registers.
    """
    n = 16 // plane.item
    quarter = ir.VectorType(ir.IntType(plane.item * 8), n)
    rows = []
    for r in range(n):
        corner = plane.source_at(b, p, q)
        parts = [
            load_vector(b, address(b, corner, _times(b, r + n * g, plane.source_step)), quarter, name=f"row_{r}_{g}")
            for g in range(groups)
        ]
        rows.append(concatenate_vectors(b, parts))
    for r, column in enumerate(transpose_squares(b, rows, n)):
        store_vector(b, column, address(b, plane.target_at(b, p, q), _times(b, r, plane.target_step)))


def concatenate_vectors(b: ir.IRBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    """Return the concatenation of vectors of one type, whose number is a power of two."""
    while len(parts) > 1:
        lanes = list(range(2 * parts[0].type.count))
        parts = [shuffle(b, x, y, lanes) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def transpose_squares(b: ir.IRBuilder, rows: Sequence[ir.Value], n: int) -> list[ir.Value]:
    """Return the columns of n rows of n lanes, in each group of n lanes of longer rows; n is a power of two.

    Interleaving row i with row i + n/2, log2(n) times, transposes a square.
    """
    count = rows[0].type.count
    vectors = list(rows)
    for _ in range(n.bit_length() - 1):
        pairs = []
        for i in range(n // 2):
            for half in (0, n // 2):
                mask = [g + half + j // 2 + (count if j % 2 else 0) for g in range(0, count, n) for j in range(n)]
                pairs.append(shuffle(b, vectors[i], vectors[i + n // 2], mask))
        vectors = pairs
    return vectors


def _squares(b: ir.IRBuilder, plane: _Plane, p_range: Range, q_range: Range, groups: Sequence[int]) -> None:
    """Emit a block by squares of the largest number of groups first, then of fewer, then single elements at the
    edges."""
    n = 16 // plane.item
    (p0, p1), (q0, q1) = p_range, q_range
    if not groups:
        _by_elements(b, plane, p_range, q_range)
        return
    wide = n * groups[0]
    p_end = b.add(p0, b.and_(b.sub(p1, p0), const(-n)), name="p_end")
    q_end = b.add(q0, b.and_(b.sub(q1, q0), const(-wide)), name="q_end")

    def column(q: ir.Value) -> None:
        repeat(b, p0, p_end, lambda p: _square(b, plane, p, q, groups[0]), "p", n)
        _by_elements(b, plane, (p_end, p1), (q, b.add(q, const(wide))))

    repeat(b, q0, q_end, column, "q", wide)
    _squares(b, plane, p_range, (q_end, q1), groups[1:])


def _interleave(b: ir.IRBuilder, plane: _Plane, p_range: Range, q_range: Range, lanes: int, count: int) -> None:
    """Emit a block whose q has `count` elements, 2 to 4, by interleaving lines along p; p and q are dense in the
    target."""
    typ = ir.VectorType(ir.IntType(plane.item * 8), lanes)
    p0, p1 = p_range
    end = b.add(p0, b.and_(b.sub(p1, p0), const(-lanes)), name="p_end")

    def weave(p: ir.Value) -> None:
        corner = plane.source_at(b, p, q_range[0])
        at = [address(b, corner, _times(b, i, plane.source_step)) for i in range(count)]
        lines = [load_vector(b, pointer, typ, name=f"line_{i}") for i, pointer in enumerate(at)]
        if count == 2:
            whole = shuffle(b, lines[0], lines[1], [j // 2 + (j % 2) * lanes for j in range(2 * lanes)])
        else:
            both = list(range(2 * lanes))
            first, second = shuffle(b, lines[0], lines[1], both), shuffle(b, lines[2], lines[-1], both)
            whole = shuffle(b, first, second, [j // count + (j % count) * lanes for j in range(count * lanes)])
        store_vector(b, whole, plane.target_at(b, p, q_range[0]))

    repeat(b, p0, end, weave, "p", lanes)
    _by_elements(b, plane, (end, p1), q_range)


def _separate(b: ir.IRBuilder, plane: _Plane, p_range: Range, q_range: Range, lanes: int, count: int) -> None:
    """Emit a block whose p has `count` elements, 2 to 4, by separating lines along q; p and q are dense in the
    source."""
    typ = ir.VectorType(ir.IntType(plane.item * 8), lanes * count)
    q0, q1 = q_range
    end = b.add(q0, b.and_(b.sub(q1, q0), const(-lanes)), name="q_end")

    def separate(q: ir.Value) -> None:
        whole = load_vector(b, plane.source_at(b, p_range[0], q), typ, name="woven")
        corner = plane.target_at(b, p_range[0], q)
        for i in range(count):
            line = shuffle(b, whole, whole, [i + count * j for j in range(lanes)], f"line_{i}")
            store_vector(b, line, address(b, corner, _times(b, i, plane.target_step)))

    repeat(b, q0, end, separate, "q", lanes)
    _by_elements(b, plane, p_range, (end, q1))


def _block_routine(spec: TransposeSpec, machine: Machine) -> Callable[[ir.IRBuilder, _Plane, Range, Range], None]:
    """Return the emitter of a block, chosen by the lengths and strides of p and q."""
    size = spec.item_bytes
    (p, q), n = spec.sides, 16 // size
    lanes = machine.vector_bytes // size
    source, target = spec.nest.strides
    if 2 <= q <= 4 and target[spec.across] == q and spec.free != len(source) - 1:
        return lambda b, plane, ps, qs: _interleave(b, plane, ps, qs, lanes, q)
    if 2 <= p <= 4 and source[-1] == p and spec.free != spec.across:
        return lambda b, plane, ps, qs: _separate(b, plane, ps, qs, lanes, p)
    # A square of bytes has 16 elements on a side already: one group.
    most = machine.vector_bytes // 16 if size > 1 else 1
    groups = [g for g in (4, 2, 1) if g <= most and n * g <= q] if p >= n else []
    return lambda b, plane, ps, qs: _squares(b, plane, ps, qs, groups)


def emit_transpose(module: ir.Module, spec: TransposeSpec, machine: Machine) -> ir.Function:
    """Emit a transpose, block by block."""
    _, b = kernel_function(module, spec, machine)
    size = spec.item_bytes
    pointers = [operand(b, 0, "source"), operand(b, 1, "target")]
    source, target = spec.nest.strides
    transpose_block = _block_routine(spec, machine)
    count = row_count(b, 2) if spec.free >= 0 else const(0)

    def step(operand_number: int, dim: int) -> int | ir.Value:
        """Return the distance of neighbours along a dimension of p and q, in bytes."""
        elements = (source, target)[operand_number][dim]
        if (operand_number, dim) in spec.scaled:
            return scale_index(b, count, elements // spec.longest * size)
        return elements * size

    steps = step(0, len(source) - 1), step(1, spec.across)

    def row(index: ir.Value) -> None:
        indices = decode(b, index, [number for _, number in spec.row_loops])
        at = {dim: i for (dim, _), i in zip(spec.row_loops, indices, strict=True)}
        addresses: list[ir.Value] = list(pointers)
        for dim in spec.outer:
            addresses = advance(b, addresses, (source[dim], target[dim]), at[dim], (size, size))
        ranges = []
        for dim, block in zip((spec.across, len(source) - 1), spec.blocks, strict=True):
            length = spec.nest.shape[dim]
            end = scale_index(b, count, length // spec.longest) if dim == spec.free else const(length)
            begin = b.mul(at[dim], const(block)) if block < length else const(0)
            ranges.append((begin, minimum(b, b.add(begin, const(block)), end) if block < length else end))
        transpose_block(b, _Plane(addresses[0], addresses[1], size, *steps), *ranges)

    return finish_rows(b, row)


def _lower(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    x, y = views[node.inputs[0]], views[node.output]
    nest = collapse(y.shape, ([x.strides[i] for i in node.attr("perm")], y.strides))
    return transpose_steps(node.inputs[0], node.output, y.item_bytes, nest, node.origin)


LOWER = {"transpose": _lower}
EMIT = {TransposeSpec: emit_transpose}
HALF = {"transpose": ()}
