"""Emitters of loops over a nest: its rows of work, and runs of elements along the innermost dimension in vectors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from mavcg.kernels.builder.emit import address, const, index_value, repeat
from mavcg.kernels.builder.nest import Nest, NestNumbers
from mavcg.kernels.builder.run_numbers import Number, fixed_number, times


@dataclass(frozen=True)
class Line:
    """A run of elements along the innermost dimension.

    begin: index of its first element. length: elements of the whole dimension. block: elements of every run but the
    last; a multiple of the vector length unless the run is the whole dimension.
    """

    begin: ir.Value
    length: Number
    block: int

    def end(self, b: ir.IRBuilder) -> ir.Value:
        """Return the index after the run's last element."""
        if (length := fixed_number(self.length)) is not None and self.block >= length:
            return const(length)
        return minimum(b, b.add(self.begin, const(self.block)), index_value(self.length), "run_end")


Inner = Callable[[list[ir.Value], Line], None]
InnerPlane = Callable[[list[ir.Value], ir.Value, ir.Value], None]


def decode(b: ir.IRBuilder, index: ir.Value, lengths: Sequence[Number]) -> list[ir.Value]:
    """Return the indices of the dimensions `lengths` whose row-major flattened index is `index`."""
    indices: list[ir.Value] = []
    for at in range(len(lengths) - 1, 0, -1):
        length = index_value(lengths[at])
        rest = b.udiv(index, length, name=f"rest_{at}")
        indices.insert(0, b.sub(index, b.mul(rest, length), name=f"index_{at}"))
        index = rest
    return [index, *indices] if lengths else []


def advance(
    b: ir.IRBuilder,
    pointers: Sequence[ir.Value],
    steps: Sequence[Number],
    index: ir.Value,
    item_bytes: Sequence[int],
) -> list[ir.Value]:
    """Return each pointer advanced by index * step elements. item_bytes: element size of each operand."""
    return [
        pointer if fixed_number(step) == 0 else address(b, pointer, times(b, index, step, size))
        for pointer, step, size in zip(pointers, steps, item_bytes, strict=True)
    ]


def minimum(b: ir.IRBuilder, x: ir.Value, y: ir.Value, name: str = "") -> ir.Value:
    """Return the smaller of two signed integers."""
    return b.select(b.icmp_signed("<", x, y), x, y, name=name)


def maximum(b: ir.IRBuilder, x: ir.Value, y: ir.Value, name: str = "") -> ir.Value:
    """Return the larger of two signed integers."""
    return b.select(b.icmp_signed(">", x, y), x, y, name=name)


def clamp(b: ir.IRBuilder, value: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """Return a signed integer clamped to low .. high."""
    value = b.select(b.icmp_signed("<", value, low), low, value)
    return b.select(b.icmp_signed(">", value, high), high, value)


def nest_rows(
    b: ir.IRBuilder,
    nest: Nest,
    pointers: Sequence[ir.Value],
    item_bytes: Sequence[int],
    inner: Inner,
    numbers: NestNumbers | None = None,
    inner_plane: InnerPlane | None = None,
) -> None:
    """Emit the loops over the kernel's range of rows and the dimensions inside; `inner` emits each run of elements.

    inner: gets the address of each operand at index 0 of the innermost dimension, and the run. numbers: lengths and
    strides, if a run sets some. inner_plane: emits two dimensions at once where a row has whole innermost ones; it gets
    the addresses at index 0 of both, and the range of the outer one. The caller ends the function.
    """
    at, block = nest.row_split
    numbers = numbers or NestNumbers(nest.shape, nest.strides)
    lengths, last = numbers.shape, len(nest.shape) - 1
    split = fixed_number(lengths[at])
    in_blocks = split is None or split > block
    blocks: Number
    if split is not None:
        blocks = -(-split // block)
    else:
        blocks = b.udiv(b.add(index_value(lengths[at]), const(block - 1)), const(block), name="blocks")

    def steps(dim: int) -> list[Number]:
        return [s[dim] for s in numbers.strides]

    def loops(dim: int, addresses: list[ir.Value]) -> None:
        if dim == last:
            inner(addresses, Line(const(0), lengths[last], nest.shape[last]))
            return
        if dim == last - 1 and inner_plane is not None:
            inner_plane(addresses, const(0), index_value(lengths[dim]))
            return
        repeat(
            b,
            0,
            index_value(lengths[dim]),
            lambda i: loops(dim + 1, advance(b, addresses, steps(dim), i, item_bytes)),
            f"i{dim}",
        )

    def row(index: ir.Value) -> None:
        outer = decode(b, index, [*lengths[:at], blocks])
        addresses = list(pointers)
        for dim, i in enumerate(outer[:-1]):
            addresses = advance(b, addresses, steps(dim), i, item_bytes)
        begin = b.mul(outer[-1], const(block), name="begin_in_row") if in_blocks else const(0)
        if at == last:
            inner(addresses, Line(begin, lengths[last], block))
            return
        end = index_value(lengths[at])
        if in_blocks:
            end = minimum(b, b.add(begin, const(block)), end, "end_in_row")
        if at == last - 1 and inner_plane is not None:
            inner_plane(addresses, begin, end)
            return
        repeat(b, begin, end, lambda i: loops(at + 1, advance(b, addresses, steps(at), i, item_bytes)), f"i{at}")

    repeat(b, b.function.args[1], b.function.args[2], row, "row")


def along_line(
    b: ir.IRBuilder, line: Line, lanes: int, unroll: int, body: Callable[[ir.Value, int, int], None]
) -> None:
    """Emit body(index, vectors, used lanes) along a run, in vectors of `lanes`.

    `body` is emitted for `unroll` vectors at a time, for one vector, and for the line's tail: a partial vector, or, of
    a line whose length a run sets, one element after the other.
    """
    length = fixed_number(line.length)
    if length is None:
        _along_run(b, line, lanes, unroll, body)
        return
    whole = length // lanes * lanes
    tail = length - whole
    blocked = line.block < length
    if whole:
        end: ir.Value = const(whole)
        if blocked:
            end = minimum(b, b.add(line.begin, const(line.block)), end, "vectors_end")
        begin = line.begin
        if unroll > 1 and min(line.block, whole) >= lanes * unroll:
            group = lanes * unroll
            groups = b.sub(b.sub(end, begin), b.urem(b.sub(end, begin), const(group)))
            middle = b.add(begin, groups, name="groups_end")
            repeat(b, begin, middle, lambda i: body(i, unroll, lanes), "group", group)
            begin = middle
        repeat(b, begin, end, lambda i: body(i, 1, lanes), "vector", lanes)
    if tail:
        if not blocked:
            body(const(whole), 1, tail)
            return
        # Only the line's last block has a tail: all others are whole vectors.
        last = b.icmp_signed(">", b.add(line.begin, const(line.block)), const(whole), name="holds_tail")
        with b.if_then(last):
            body(const(whole), 1, tail)


def _along_run(
    b: ir.IRBuilder, line: Line, lanes: int, unroll: int, body: Callable[[ir.Value, int, int], None]
) -> None:
    """Emit along_line for a line whose length a run sets."""
    begin, end = line.begin, line.end(b)
    for count in dict.fromkeys((unroll, 1)):
        step = count * lanes
        groups = b.sub(b.sub(end, begin), b.urem(b.sub(end, begin), const(step)))
        middle = b.add(begin, groups, name="groups_end")
        repeat(b, begin, middle, lambda i, count=count: body(i, count, lanes), "group", step)  # type: ignore[misc]
        begin = middle
    repeat(b, begin, end, lambda i: body(i, 1, 1), "element")
