"""Layout conversions of images: the edges of the DT graph (Anderson and Gregg, CGO 2018, section 4).

A conversion is one copy or one transpose of strided views. CHWc is [blocks, H, W, block], which is a strided view too
if the channels fill their blocks. If the last block is partial, the kernel RaggedBlocks copies row by row, block by
block, and writes the zeros that pad it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.kernels.builder.emit import F32, address, const, finish_rows, kernel_function, operand, repeat, scale_index
from mavcg.kernels.builder.lanes import load_vector, store_vector
from mavcg.kernels.builder.nest import collapse
from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.kernels.primitives.common import Image, image_of
from mavcg.kernels.primitives.runs import along, copy_run, fill_zeros
from mavcg.kernels.tensor.transpose import transpose_steps
from mavcg.kernels.tensor.transpose_blocks import concatenate_vectors, transpose_squares
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.kernel_symbol import shape_text
from mavcg.specs.primitive import F32_BYTES, Layout, Stage, StageOperand
from mavcg.specs.serialize import spec_format

Value: TypeAlias = ir.Value
_SIDE = 4  # side of the squares that are transposed in registers: 16 bytes, which every machine's vectors have


@dataclass(frozen=True)
class LayoutConversion:
    """A layout conversion: a routine that copies an image from one layout into another, without a workspace."""

    layout_from: Layout
    layout_to: Layout

    @property
    def name(self) -> str:
        """The routine's unique name, such as chw_to_hwc."""
        return f"{self.layout_from.lower()}_to_{self.layout_to.lower()}"


_CONVERSIONS = tuple(LayoutConversion(a, b) for a in Layout for b in Layout if a is not b)


def conversions() -> tuple[LayoutConversion, ...]:
    """Return the conversions between all pairs of layouts."""
    return _CONVERSIONS


def find_conversion(layout_from: Layout, layout_to: Layout) -> LayoutConversion:
    """Return the conversion between two layouts. Raises: MavcgError for equal layouts."""
    conversion = LayoutConversion(layout_from, layout_to)
    if conversion not in _CONVERSIONS:
        raise MavcgError(f"conversion of {layout_from} into {layout_to}: there is no routine; name two that differ")
    return conversion


def lower_conversion(conversion: LayoutConversion, c: int, h: int, w: int, block: int) -> Stage:
    """Return the kernel that converts an image of c channels, h rows, w columns; operands "x" and "out".

    block: channels of a block of CHWc. Raises: MavcgError for an image without elements.
    """
    if min(c, h, w, block) < 1:
        raise MavcgError(f"{conversion.name}: an image of {c} x {h} x {w} in blocks of {block}; give 1 or more of each")
    source, target = (image_of(layout, c, h, w, block) for layout in (conversion.layout_from, conversion.layout_to))
    return Stage(_spec(source, target), (StageOperand("x"), StageOperand("out")))


@spec_format("ragged_blocks")
@dataclass(frozen=True)
class RaggedBlocks(KernelSpec):
    """A copy between layouts where source or target is CHWc with a partial last block, padded with zeros in a target.

    Operands: source, target. A row of work is a row of the image.
    """

    source: Image
    target: Image

    @property
    def family(self) -> str:
        return "ragged_blocks_f32"

    @property
    def symbol_shape(self) -> str:
        return shape_text(self.source.layout_text, self.target.layout_text, self.target.sizes_text)

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
    nest = collapse([lengths[d] for d in dims], [[steps[d] for d in dims] for steps in strides])
    (step,) = transpose_steps("x", "out", F32_BYTES, nest)
    return step.spec


def emit_ragged_blocks(module: ir.Module, spec: RaggedBlocks, machine: Machine) -> ir.Function:
    """Emit the copy, row by row and block by block.

    Channels are contiguous in at least one of source and target, columns or channels in the other.
    """
    _, b = kernel_function(module, spec, machine)
    pointers = operand(b, 0, "source"), operand(b, 1, "target")
    source, target = spec.source, spec.target
    block = max(source.block, target.block)
    whole, rest = divmod(source.channels, block)
    copy_row = _block_copy(source, target)

    def row(y: Value) -> None:
        rows = [
            address(b, pointer, scale_index(b, y, image.row_step * F32_BYTES))
            for pointer, image in zip(pointers, (source, target), strict=True)
        ]

        def copy_block(number: Value, channels: int) -> None:
            from_, to = (
                address(b, at, scale_index(b, number, (image.block_step or block * image.channel_step) * F32_BYTES))
                for at, image in zip(rows, (source, target), strict=True)
            )
            copy_row(b, _BlockRow(spec, machine, from_, to), channels)
            if target.layout is Layout.CHWC and channels < block:
                spare = address(b, to, channels * F32_BYTES)
                _each_column(
                    b, spec, lambda x: fill_zeros(b, _element_address(b, spare, x, block), block - channels, 1)
                )

        repeat(b, 0, whole, lambda number: copy_block(number, block), "block")
        copy_block(const(whole), rest)

    return finish_rows(b, row)


@dataclass(frozen=True)
class _BlockRow:
    """A row of a block of channels. source, target: pointers to its first element in either image."""

    spec: RaggedBlocks
    machine: Machine
    source: Value
    target: Value


def _element_address(b: ir.IRBuilder, pointer: Value, index: Value, step: int) -> Value:
    return address(b, pointer, scale_index(b, index, step * F32_BYTES))


def _each_column(b: ir.IRBuilder, spec: RaggedBlocks, body: Callable[[Value], None]) -> None:
    repeat(b, 0, spec.target.width, body, "column")


def _block_copy(source: Image, target: Image) -> Callable[[ir.IRBuilder, _BlockRow, int], None]:
    """Return the emitter that copies the first channels of a block's row; its last argument is their number."""
    if source.column_step == 1 and source.layout.planar:
        return _copy_columns_to_channels
    return _copy_channels_to_columns if target.layout.planar else _copy_channels


def _copy_channels(b: ir.IRBuilder, line: _BlockRow, channels: int) -> None:
    """Emit the copy if channels are contiguous in source and target."""
    source, target, lanes = line.spec.source, line.spec.target, lanes_f32(line.machine)

    def column(x: Value) -> None:
        from_, to = (
            _element_address(b, line.source, x, source.column_step),
            _element_address(b, line.target, x, target.column_step),
        )
        copy_run(b, from_, to, channels, lanes)

    _each_column(b, line.spec, column)


def _copy_columns_to_channels(b: ir.IRBuilder, line: _BlockRow, channels: int) -> None:
    """Emit the copy if columns are contiguous in the source and channels in the target."""
    source, target = line.spec.source, line.spec.target
    matrices = _Matrices(line.source, line.target, source.channel_step, target.column_step)
    _transpose(b, line.machine, matrices, target.width, channels)


def _copy_channels_to_columns(b: ir.IRBuilder, line: _BlockRow, channels: int) -> None:
    """Emit the copy if channels are contiguous in the source and columns in the target."""
    source, target = line.spec.source, line.spec.target
    matrices = _Matrices(line.source, line.target, source.column_step, target.channel_step)
    _transpose(b, line.machine, matrices, channels, target.width)


@dataclass(frozen=True)
class _Matrices:
    """The source [q, p] and the target [p, q] of a transpose; p is contiguous in the source, q in the target.

    In elements: source_step, from one q to the next in the source; target_step, from one p to the next in the target.
    """

    source: Value
    target: Value
    source_step: int
    target_step: int

    def load(self, b: ir.IRBuilder, p: Value, q: Value, typ: ir.Type) -> Value:
        return load_vector(
            b, _element_address(b, _element_address(b, self.source, p, 1), q, self.source_step), typ, name="value"
        )

    def store(self, b: ir.IRBuilder, value: Value, p: Value, q: Value) -> None:
        store_vector(b, value, _element_address(b, _element_address(b, self.target, q, 1), p, self.target_step))


def _transpose(b: ir.IRBuilder, machine: Machine, matrices: _Matrices, p_length: int, q_length: int) -> None:
    """Emit target[p, q] = source[q, p]: squares in registers, several along q, then single elements."""
    p_whole = p_length // _SIDE * _SIDE
    wide = min(lanes_f32(machine), 1 << (max(q_length, 1).bit_length() - 1))
    quarter = ir.VectorType(F32, _SIDE)

    def single(p: Value, q: Value) -> None:
        matrices.store(b, matrices.load(b, p, q, F32), p, q)

    def square(p: Value, q: Value, lanes: int) -> None:
        rows = []
        for r in range(_SIDE):
            quarters = [matrices.load(b, p, b.add(q, const(r + first)), quarter) for first in range(0, lanes, _SIDE)]
            rows.append(concatenate_vectors(b, quarters))
        for r, column in enumerate(transpose_squares(b, rows, _SIDE)):
            matrices.store(b, column, b.add(p, const(r)), q)

    def strip(q: Value, lanes: int) -> None:
        """Emit the transpose of all p for `lanes` neighbours along q."""
        if lanes >= _SIDE:
            repeat(b, 0, p_whole, lambda p: square(p, q, lanes), "p", _SIDE)
        begin = p_whole if lanes >= _SIDE else 0
        last = b.add(q, const(lanes))
        repeat(b, begin, p_length, lambda p: repeat(b, q, last, lambda i: single(p, i), "q"), "p")

    along(b, q_length, wide, strip)


EMIT = {RaggedBlocks: emit_ragged_blocks}
