"""Loop nests over the elements of several strided operands, shared by element-wise kernels and copies.

Neighbouring dimensions that are contiguous in every operand are merged. A row of work has about ROW_ELEMENTS elements;
where it is cut depends on the shape only, so that it is the same on every core. Vectors run along the innermost
dimension only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from mavcg.kernels.builder.emit import (
    I32,
    address,
    const,
    element_bytes,
    i32_lanes,
    lanes_and_element,
    load_vector,
    repeat,
    vector,
)
from mavcg.kernels.builder.run_numbers import Number, RunNumbers, times, value_of
from mavcg.specs.kernel import KernelSpec, View
from mavcg.specs.kernel_symbol import sizes_text
from mavcg.specs.serialize import spec_format

ROW_ELEMENTS = 1024  # a multiple of every vector length, so that only the last row of a line has a tail


@spec_format("nest")
@dataclass(frozen=True)
class Nest:
    """Loops over `shape`, outermost first.

    strides: of each operand, one per dimension, in elements; 0 broadcasts. There is at least one dimension; none has
    length 1, except the single one of a scalar, and the last where `single`. single: no row of work extends over
    several indices of the outermost of two or more dimensions, so that rows may end after each (docs/lengths.md).
    """

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    single: bool = False

    @property
    def row_split(self) -> tuple[int, int]:
        """(dimension, block): a row is `block` steps of this dimension with all that is inside."""
        inner, at = 1, len(self.shape) - 1
        while at > self.single and inner * self.shape[at] <= ROW_ELEMENTS:
            inner *= self.shape[at]
            at -= 1
        return at, max(1, min(self.shape[at], ROW_ELEMENTS // max(1, inner)))

    @property
    def rows(self) -> int:
        """Number of rows of work."""
        at, block = self.row_split
        return prod(self.shape[:at]) * -(-self.shape[at] // block)

    @property
    def elements(self) -> int:
        """Number of elements that the loops visit."""
        return prod(self.shape)


@dataclass(frozen=True)
class NestNumbers:
    """The lengths and strides of a nest, some of which a run may set."""

    shape: tuple[Number, ...]
    strides: tuple[tuple[Number, ...], ...]


def nest_numbers(numbers: RunNumbers, nest: Nest, path: str = "nest") -> NestNumbers:
    """Return the numbers of a nest that lies in a spec at a path."""
    strides = (numbers.along(f"{path}.strides.{i}", each) for i, each in enumerate(nest.strides))
    return NestNumbers(numbers.along(f"{path}.shape", nest.shape), tuple(strides))


class NestKernel(KernelSpec):
    """Base of the specs of kernels that visit the elements of a nest, a block of its rows after the other.

    Those whose nest a run may set have a field `words` (run_numbers.py).
    """

    nest: Nest

    @property
    def symbol_shape(self) -> str:
        return sizes_text(*self.nest.shape)

    @property
    def rows(self) -> int:
        return self.nest.rows

    @property
    def work(self) -> int:
        return self.nest.elements


def broadcast_strides(view: View, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a view that is broadcast to `shape` by NumPy's rules."""
    missing = len(shape) - len(view.shape)
    return (0,) * missing + tuple(
        0 if length == 1 else stride for length, stride in zip(view.shape, view.strides, strict=True)
    )


def collapse(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> Nest:
    """Return an equivalent nest with as few dimensions as possible, in the same order."""
    if 0 in shape:
        return Nest((0,), tuple((1,) for _ in strides))
    lengths: list[int] = []
    steps: list[tuple[int, ...]] = []  # the stride of each operand, by dimension
    for at, length in enumerate(shape):
        step = tuple(s[at] for s in strides)
        if length == 1:
            continue
        if steps and all(outer == inner * length for outer, inner in zip(steps[-1], step, strict=True)):
            lengths[-1] *= length
            steps[-1] = step
        else:
            lengths.append(length)
            steps.append(step)
    if not lengths:
        return Nest((1,), tuple((1,) for _ in strides))
    return Nest(tuple(lengths), tuple(tuple(step[i] for step in steps) for i in range(len(strides))))


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
        if isinstance(self.length, int) and self.block >= self.length:
            return const(self.length)
        return minimum(b, b.add(self.begin, const(self.block)), value_of(self.length), "run_end")


Inner = Callable[[list[ir.Value], Line], None]


def decode(b: ir.IRBuilder, index: ir.Value, lengths: Sequence[Number]) -> list[ir.Value]:
    """Return the indices of the dimensions `lengths` whose row-major flattened index is `index`."""
    indices: list[ir.Value] = []
    for at in range(len(lengths) - 1, 0, -1):
        length = value_of(lengths[at])
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
        pointer if isinstance(step, int) and not step else address(b, pointer, times(b, index, step, size))
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
) -> None:
    """Emit the loops over the kernel's range of rows and the dimensions inside; `inner` emits each run of elements.

    inner: gets the address of each operand at index 0 of the innermost dimension, and the run. numbers: lengths and
    strides, if a run sets some. The caller ends the function.
    """
    at, block = nest.row_split
    numbers = numbers or NestNumbers(nest.shape, nest.strides)
    lengths, last = numbers.shape, len(nest.shape) - 1
    split = lengths[at]
    in_blocks = not isinstance(split, int) or split > block
    blocks: Number = 1
    if isinstance(split, int):
        blocks = -(-split // block)
    else:
        blocks = b.udiv(b.add(split, const(block - 1)), const(block), name="blocks")

    def steps(dim: int) -> list[Number]:
        return [s[dim] for s in numbers.strides]

    def loops(dim: int, addresses: list[ir.Value]) -> None:
        if dim == last:
            inner(addresses, Line(const(0), lengths[last], nest.shape[last]))
            return
        repeat(
            b,
            0,
            value_of(lengths[dim]),
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
        end = value_of(split)
        if in_blocks:
            end = minimum(b, b.add(begin, const(block)), end, "end_in_row")
        repeat(b, begin, end, lambda i: loops(at + 1, advance(b, addresses, steps(at), i, item_bytes)), f"i{at}")

    repeat(b, b.function.args[1], b.function.args[2], row, "row")


def along_line(
    b: ir.IRBuilder, line: Line, lanes: int, unroll: int, body: Callable[[ir.Value, int, int], None]
) -> None:
    """Emit body(index, vectors, used lanes) along a run, in vectors of `lanes`.

    `body` is emitted for `unroll` vectors at a time, for one vector, and for the line's tail: a partial vector, or, of
    a line whose length a run sets, one element after the other.
    """
    if not isinstance(line.length, int):
        _along_run(b, line, lanes, unroll, body)
        return
    whole = line.length // lanes * lanes
    tail = line.length - whole
    blocked = line.block < line.length
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


def load_lanes(b: ir.IRBuilder, pointer: ir.Value, typ: ir.Type, lanes: int, used: int, name: str = "") -> ir.Value:
    """Return a vector whose first `used` lanes are loaded, in powers of two; the other lanes are undefined."""
    if used == lanes:
        return load_vector(b, pointer, vector(typ, lanes), name=name)
    whole = ir.Constant(ir.VectorType(typ, lanes), ir.Undefined)
    at = 0
    for size in _powers_of_two(used):
        piece = load_vector(b, address(b, pointer, at * element_bytes(typ)), vector(typ, size), name=name)
        if size == 1:
            whole = b.insert_element(whole, piece, const(at, I32))
        else:
            wide = [i % size for i in range(lanes)]  # LLVM finds that the other lanes are not used
            spread = shuffle(b, piece, piece, wide)
            whole = shuffle(b, whole, spread, [i - at + lanes if at <= i < at + size else i for i in range(lanes)])
        at += size
    return whole


def store_lanes(b: ir.IRBuilder, value: ir.Value, pointer: ir.Value, lanes: int, used: int) -> None:
    """Emit stores of the first `used` lanes of a vector, in powers of two."""
    _, typ = lanes_and_element(value.type)
    size_of = element_bytes(typ)
    if used == lanes:
        b.store(value, pointer, align=size_of)
        return
    at = 0
    for size in _powers_of_two(used):
        if size == 1:
            piece = b.extract_element(value, const(at, I32))
        else:
            piece = shuffle(b, value, value, [at + i for i in range(size)])
        b.store(piece, address(b, pointer, at * size_of), align=size_of)
        at += size


def _powers_of_two(used: int) -> list[int]:
    """Return the powers of two whose sum is `used`, the largest first."""
    return [1 << bit for bit in range(used.bit_length() - 1, -1, -1) if used >> bit & 1]


def shuffle(b: ir.IRBuilder, x: ir.Value, y: ir.Value, lanes: Sequence[int], name: str = "") -> ir.Value:
    """Return a vector of the given lanes of x and y; y's lanes are numbered after x's."""
    return b.shuffle_vector(x, y, i32_lanes(tuple(lanes)), name)
