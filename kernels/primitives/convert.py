"""Conversions of images between layouts: the edges of the DT graph (Anderson and Gregg, CGO 2018, section 4).

A conversion is one copy or one transpose of strided views: CHWc is [blocks, H, W, block], so that an image whose
channels fill their blocks is such a view, too, with the channel cut in two. Where the last block is not full, a kernel
of its own goes row by row, block by block, and writes the zeros that fill it up.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.kernel import KernelSpec, Machine
from mavcg.kernels.emit import F32, address, const, kernel_function, load_vector, operand, repeat, scaled, store_vector
from mavcg.kernels.nest import collapsed
from mavcg.kernels.primitives.common import Image, image_of
from mavcg.kernels.primitives.runs import along, copy_run, fill_zeros
from mavcg.kernels.tiling import lanes_f32
from mavcg.kernels.transpose import joined, transpose_steps, turned
from mavcg.primitive import F32_BYTES, Layout, Place, Stage

Value: TypeAlias = ir.Value
_SIDE = 4  # of the squares that are turned in registers: 16 bytes, which every machine's vectors have


@dataclass(frozen=True)
class Conversion:
    """A routine that copies an image from one layout into another; it computes nothing and needs no workspace."""

    layout_from: Layout
    layout_to: Layout

    @property
    def name(self) -> str:
        """Unique, such as chw_to_hwc."""
        return f"{self.layout_from.lower()}_to_{self.layout_to.lower()}"


_CONVERSIONS = tuple(Conversion(a, b) for a in Layout for b in Layout if a is not b)


def conversions() -> tuple[Conversion, ...]:
    """Every routine that there is: from each layout into each other one."""
    return _CONVERSIONS


def find_conversion(layout_from: Layout, layout_to: Layout) -> Conversion:
    """The routine between two layouts. Raises: MavcgError where there is none."""
    wanted = Conversion(layout_from, layout_to)
    if wanted not in _CONVERSIONS:
        raise MavcgError(f"conversion of {layout_from} into {layout_to}: there is no routine; name two that differ")
    return wanted


def lower_conversion(conversion: Conversion, c: int, h: int, w: int, block: int) -> Stage:
    """The kernel that converts an image of c channels, h rows, w columns; operands "x" and "out".

    block: channels of a block of CHWc. Raises: MavcgError for an image without elements.
    """
    if min(c, h, w, block) < 1:
        raise MavcgError(f"{conversion.name}: an image of {c} x {h} x {w} in blocks of {block}; give 1 or more of each")
    source, target = (image_of(layout, c, h, w, block) for layout in (conversion.layout_from, conversion.layout_to))
    return Stage(_spec(source, target), (Place("x"), Place("out")))


@dataclass(frozen=True)
class RaggedBlocks(KernelSpec):
    """target = source, where one of the two is CHWc with a last block that is not full: zeros fill it up in a target.

    Operands: source, target. A row of work is a row of the image.
    """

    source: Image
    target: Image

    @property
    def family(self) -> str:
        return "ragged_blocks_f32"

    @property
    def rows(self) -> int:
        return self.target.height

    @property
    def work(self) -> int:
        return 2 * self.target.elements


def _spec(source: Image, target: Image) -> KernelSpec:
    block = max(source.block, target.block)
    if source.channels % block:
        return RaggedBlocks(source, target)
    # In the order of the target's dimensions: blocks of channels, channels of a block, rows, columns.
    lengths = (source.channels // block, block, source.height, source.width)
    order = {Layout.CHW: (0, 1, 2, 3), Layout.HCW: (2, 0, 1, 3), Layout.HWC: (2, 3, 0, 1), Layout.CHWC: (0, 2, 3, 1)}
    strides = [
        (image.block_step or block * image.channel_step, image.channel_step, image.row_step, image.column_step)
        for image in (source, target)
    ]
    dims = order[target.layout]
    nest = collapsed([lengths[d] for d in dims], [[steps[d] for d in dims] for steps in strides])
    (step,) = transpose_steps("x", "out", F32_BYTES, nest)
    return step.spec


def emit_ragged_blocks(module: ir.Module, spec: KernelSpec, machine: Machine) -> ir.Function:
    """Of each block, a row: channels lie densely in at least one of the two, columns or channels in the other."""
    assert isinstance(spec, RaggedBlocks)
    function, b = kernel_function(module, spec, machine)
    places = operand(b, 0, "source"), operand(b, 1, "target")
    source, target = spec.source, spec.target
    block = max(source.block, target.block)
    whole, rest = divmod(source.channels, block)
    moved = _mover(source, target)

    def row(y: Value) -> None:
        rows = [
            address(b, place, scaled(b, y, image.row_step * F32_BYTES))
            for place, image in zip(places, (source, target), strict=True)
        ]

        def some(number: Value, channels: int) -> None:
            from_, to = (
                address(b, at, scaled(b, number, (image.block_step or block * image.channel_step) * F32_BYTES))
                for at, image in zip(rows, (source, target), strict=True)
            )
            moved(b, _Line(spec, machine, from_, to), channels)
            if target.layout is Layout.CHWC and channels < block:
                spare = address(b, to, channels * F32_BYTES)
                _each_column(b, spec, lambda x: fill_zeros(b, _at(b, spare, x, block), block - channels, 1))

        repeat(b, 0, whole, lambda number: some(number, block), "block")
        some(const(whole), rest)

    repeat(b, function.args[1], function.args[2], row, "row")
    b.ret_void()
    return function


@dataclass(frozen=True)
class _Line:
    """A row of a block of channels: where its first element lies in source and target."""

    spec: RaggedBlocks
    machine: Machine
    source: Value
    target: Value


def _at(b: ir.IRBuilder, place: Value, index: Value, step: int) -> Value:
    return address(b, place, scaled(b, index, step * F32_BYTES))


def _each_column(b: ir.IRBuilder, spec: RaggedBlocks, body: Callable[[Value], None]) -> None:
    repeat(b, 0, spec.target.width, body, "column")


def _mover(source: Image, target: Image) -> Callable[[ir.IRBuilder, _Line, int], None]:
    """How the first so many channels of a block are moved."""
    if source.column_step == 1 and source.layout.planar:
        return _gathered
    return _scattered if target.layout.planar else _copied


def _copied(b: ir.IRBuilder, line: _Line, channels: int) -> None:
    """Channels lie densely on both sides."""
    source, target, lanes = line.spec.source, line.spec.target, lanes_f32(line.machine)

    def column(x: Value) -> None:
        from_, to = _at(b, line.source, x, source.column_step), _at(b, line.target, x, target.column_step)
        copy_run(b, from_, to, channels, lanes)

    _each_column(b, line.spec, column)


def _gathered(b: ir.IRBuilder, line: _Line, channels: int) -> None:
    """Columns lie densely in the source, channels in the target."""
    source, target = line.spec.source, line.spec.target
    ends = _Ends(line.source, line.target, source.channel_step, target.column_step)
    _turned(b, line.machine, ends, target.width, channels)


def _scattered(b: ir.IRBuilder, line: _Line, channels: int) -> None:
    """Channels lie densely in the source, columns in the target."""
    source, target = line.spec.source, line.spec.target
    ends = _Ends(line.source, line.target, source.column_step, target.channel_step)
    _turned(b, line.machine, ends, channels, target.width)


@dataclass(frozen=True)
class _Ends:
    """p is dense in the source, q in the target; steps: from one q, or one p, to the next, in elements."""

    source: Value
    target: Value
    source_step: int
    target_step: int

    def load(self, b: ir.IRBuilder, p: Value, q: Value, typ: ir.Type) -> Value:
        return load_vector(b, _at(b, _at(b, self.source, p, 1), q, self.source_step), typ, name="value")

    def store(self, b: ir.IRBuilder, value: Value, p: Value, q: Value) -> None:
        store_vector(b, value, _at(b, _at(b, self.target, q, 1), p, self.target_step))


def _turned(b: ir.IRBuilder, machine: Machine, ends: _Ends, p_length: int, q_length: int) -> None:
    """target[p, q] = source[q, p]: squares, as many beside each other along q as a vector holds; then single ones."""
    p_whole = p_length // _SIDE * _SIDE
    wide = min(lanes_f32(machine), 1 << (max(q_length, 1).bit_length() - 1))
    quarter = ir.VectorType(F32, _SIDE)

    def single(p: Value, q: Value) -> None:
        ends.store(b, ends.load(b, p, q, F32), p, q)

    def square(p: Value, q: Value, lanes: int) -> None:
        rows = []
        for r in range(_SIDE):
            some = [ends.load(b, p, b.add(q, const(r + first)), quarter) for first in range(0, lanes, _SIDE)]
            rows.append(joined(b, some))
        for r, column in enumerate(turned(b, rows, _SIDE)):
            ends.store(b, column, b.add(p, const(r)), q)

    def strip(q: Value, lanes: int) -> None:
        """All of p, for so many neighbours along q."""
        if lanes >= _SIDE:
            repeat(b, 0, p_whole, lambda p: square(p, q, lanes), "p", _SIDE)
        begin = p_whole if lanes >= _SIDE else 0
        last = b.add(q, const(lanes))
        repeat(b, begin, p_length, lambda p: repeat(b, q, last, lambda i: single(p, i), "q"), "p")

    along(b, q_length, wide, strip)


EMIT = {RaggedBlocks: emit_ragged_blocks}
