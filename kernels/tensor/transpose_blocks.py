"""Emitters of the transpose of a block of two dimensions: squares in registers, lines interleaved or separated."""

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from mavcg.kernels.builder.emit import address, const, index_value, repeat, scale_index
from mavcg.kernels.builder.lanes import load_vector, shuffle, store_vector
from mavcg.kernels.builder.run_numbers import times


@dataclass(frozen=True)
class Plane:
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
    return times(b, index_value(index), step)


Range = tuple[ir.Value, ir.Value]


def _by_elements(b: ir.IRBuilder, plane: Plane, p_range: Range, q_range: Range) -> None:
    typ = ir.IntType(plane.item * 8)

    def emit_element(p: ir.Value, q: ir.Value) -> None:
        store_vector(b, load_vector(b, plane.source_at(b, p, q), typ, name="value"), plane.target_at(b, p, q))

    repeat(b, *p_range, lambda p: repeat(b, *q_range, lambda q: emit_element(p, q), "q"), "p")


def _square(b: ir.IRBuilder, plane: Plane, p: ir.Value, q: ir.Value, groups: int) -> None:
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


def squares(b: ir.IRBuilder, plane: Plane, p_range: Range, q_range: Range, groups: Sequence[int]) -> None:
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
    squares(b, plane, p_range, (q_end, q1), groups[1:])


def interleave(b: ir.IRBuilder, plane: Plane, p_range: Range, q_range: Range, lanes: int, count: int) -> None:
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


def separate(b: ir.IRBuilder, plane: Plane, p_range: Range, q_range: Range, lanes: int, count: int) -> None:
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
