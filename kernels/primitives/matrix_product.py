"""Emitter of matrix products of constant sizes, shared by the families of primitives that are built on products.

The left side's elements are scalars, the right side's columns form vectors: output pixels are the rows and output
channels the columns, or vice versa. Each sum is in the order of the left side's rows.

Images' pixels, and output channels, are cut into pieces of work.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.activation import activation
from mavcg.kernels.builder.emit import F32, I1, address, const, scale_index
from mavcg.kernels.builder.lanes import splat, store_vector
from mavcg.kernels.builder.tiles import repeat_tiles, whole_and_rest
from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.kernels.gemm.micro_kernel import emit_tile
from mavcg.kernels.gemm.register_tile import choose
from mavcg.kernels.gemm.sum_blocks import SumBlock, block_terms, sum_blocks
from mavcg.kernels.gemm.tile import F32_BYTES, Part, Pointers, RegisterTile, Sum, WeightLayout
from mavcg.kernels.primitives.common import MOST_BLOCK, PANEL, Image
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import Epilogue, Layout, Scenario

Value: TypeAlias = ir.Value

# Terms of a block (KC): a panel of this many rows stays in a level-1 cache.
TERMS_BLOCK = 512


@dataclass(frozen=True)
class MatrixProduct:
    """The product out[i, j] = act(start + sum over k of left[i, k] * right[k, j] + residual[i, j]).

    total: levels of the loop over k along a row of the left side. left_step, out_step: bytes from a row to the next;
    the columns of out are contiguous. k_step, panel_step: bytes of the right side from k to k + 1, and from PANEL
    columns to the next PANEL; columns within a panel are contiguous. packed: panels are complete, with padding. bias:
    the index of the bias, "rows" or "columns"; "": sums start at 0. rows_outer: rows are the outer loop, else columns
    are.
    """

    rows: int
    columns: int
    total: Sum
    left_step: int
    k_step: int
    panel_step: int
    packed: bool
    out_step: int
    bias: str
    act: str
    act_args: tuple[float, ...]
    rows_outer: bool


def packed_product(
    rows: int,
    columns: int,
    total: Sum,
    left_step: int,
    out_step: int,
    bias: str = "",
    act: str = "",
    act_args: tuple[float, ...] = (),
) -> MatrixProduct:
    """Return a product whose right side is in panels of PANEL columns (common.pack_panels); columns are the outer
    loop."""
    k_step = PANEL * F32_BYTES
    return MatrixProduct(
        rows, columns, total, left_step, k_step, total.length * k_step, True, out_step, bias, act, act_args, False
    )


def blocks_within_groups(scenario: Scenario, layout_in: Layout, layout_out: Layout) -> bool:
    """Return True if no block of a CHWc image has channels of two groups, for any length of blocks."""
    ends = ((layout_in, scenario.c), (layout_out, scenario.m))
    return scenario.groups == 1 or all(
        layout is not Layout.CHWC or channels // scenario.groups % MOST_BLOCK == 0 for layout, channels in ends
    )


def activation_of(epilogue: Epilogue) -> tuple[str, tuple[float, ...]]:
    """Return (activation, its arguments) as the micro-kernel takes them; "" for no activation."""
    return ("" if epilogue.act == "none" else epilogue.act), epilogue.act_args


def emit_product(
    b: ir.IRBuilder, machine: Machine, product: MatrixProduct, at: Pointers, part: Part | None = None
) -> None:
    """Emit the loops over the tiles.

    at: pointers to the first element of each operand; at.bias: bias of the first row or column. part: position of the
    block of terms to compute, whose partial sums are in out; None: the whole sums, cut into blocks here if long.
    """
    if part is not None:
        _tiles(b, machine, product, at, SumBlock(product.total, const(0), const(0), part))
        return
    sum_blocks(b, product.total, TERMS_BLOCK, lambda block: _tiles(b, machine, product, at, block))


def _tiles(b: ir.IRBuilder, machine: Machine, product: MatrixProduct, at: Pointers, block: SumBlock) -> None:
    lanes = lanes_f32(machine)
    vectors = -(-product.columns // lanes)
    terms = block_terms(product.total, TERMS_BLOCK)[0]
    panel = max(1, PANEL // lanes) if product.packed and product.columns > PANEL else 1
    tiling = choose(machine, product.rows, vectors, terms, panel)
    step = tiling.vectors * lanes
    weights = WeightLayout(product.k_step, F32_BYTES, product.panel_step, PANEL, product.packed)
    at = replace(
        at,
        inputs=address(b, at.inputs, block.in_bytes),
        weights=address(b, at.weights, scale_index(b, block.first_term, product.k_step)),
    )

    def tile(row: Value, column: Value, rows: int, columns: int) -> None:
        steps = [tuple(s * i for i in range(rows)) for s in (product.left_step, product.out_step)]
        used = columns - (-(-columns // lanes) - 1) * lanes
        shape = RegisterTile(steps[0], steps[1], steps[1], -(-columns // lanes), used)
        out = b.add(scale_index(b, row, product.out_step), scale_index(b, column, F32_BYTES))
        pointers = Pointers(
            address(b, at.inputs, scale_index(b, row, product.left_step)),
            address(b, at.weights, scale_index(b, column, product.panel_step // PANEL)),
            address(b, at.out, out),
            None,
            address(b, at.residual, out) if at.residual is not None else None,
        )
        part = block.part
        if at.bias is not None and product.bias == "columns":
            pointers = replace(pointers, bias=address(b, at.bias, scale_index(b, column, F32_BYTES)))
        elif at.bias is not None and product.bias == "rows":
            part = _store_bias(b, address(b, at.bias, scale_index(b, row, F32_BYTES)), pointers.out, shape, lanes, part)
        emit_tile(b, machine, block.total, weights, shape, pointers, activation(b, product.act, product.act_args), part)

    def over_rows(body: Callable[[Value, int], None]) -> None:
        repeat_tiles(b, tiling.widths.tiles, body, "row")

    def over_columns(body: Callable[[Value, int], None]) -> None:
        repeat_tiles(b, whole_and_rest(product.columns, step), body, "column")

    if product.rows_outer:
        over_rows(lambda row, mr: over_columns(lambda column, nr: tile(row, column, mr, nr)))
    else:
        over_columns(lambda column, nr: over_rows(lambda row, mr: tile(row, column, mr, nr)))


def _store_bias(b: ir.IRBuilder, bias: Value, out: Value, shape: RegisterTile, lanes: int, part: Part | None) -> Part:
    """Emit stores of each row's bias to the outputs, as the partial sums of an earlier block of terms."""

    def fill() -> None:
        for row, offset in enumerate(shape.out_offsets):
            scalar = b.load(address(b, bias, row * F32_BYTES), align=4, typ=F32, name="bias")
            for v in range(shape.vectors):
                used = shape.used if v == shape.vectors - 1 else lanes
                pointer = address(b, address(b, out, offset), v * lanes * F32_BYTES)
                store_vector(b, splat(b, scalar, lanes), pointer, used)

    if part is None:
        fill()
        return Part(const(0, I1), const(1, I1))
    with b.if_then(part.first):
        fill()
    return Part(const(0, I1), part.last)


def emit_in_blocks(
    b: ir.IRBuilder, machine: Machine, product: MatrixProduct, at: Pointers, out: Image, part: Part | None = None
) -> None:
    """Emit a product whose columns are channels of a CHWc image; the first column begins a block and a panel."""

    def block(number: Value, count: int) -> None:
        channel = scale_index(b, number, out.block)
        inside = b.add(
            b.mul(b.udiv(channel, const(PANEL)), const(product.panel_step)),
            b.mul(b.urem(channel, const(PANEL)), const(F32_BYTES)),
        )
        offset = scale_index(b, number, out.block_step * F32_BYTES)
        moved = Pointers(
            at.inputs,
            address(b, at.weights, inside),
            address(b, at.out, offset),
            address(b, at.bias, scale_index(b, channel, F32_BYTES)) if at.bias is not None else None,
            address(b, at.residual, offset) if at.residual is not None else None,
        )
        emit_product(b, machine, replace(product, columns=count), moved, part)

    whole, rest = divmod(product.columns, out.block)
    repeat_tiles(b, ((1, whole),), lambda number, _: block(number, out.block), "block")
    if rest:
        block(const(whole), rest)


STRIP_PIXELS = 64  # pixels of a piece: weights are reused often, and the patches stay in a level-2 cache
FEW_PIECES = 8  # with fewer pieces the output channels are cut too, so that all threads have work
LEAST_CHANNELS = 32  # minimum output channels of such a part


@dataclass(frozen=True)
class PixelPieces:
    """A cut of an image's pixels into pieces: some whole rows each, or parts of one row.

    rows, columns: size of every piece but the last of the image or of a row.
    """

    height: int
    width: int
    rows: int
    columns: int

    @property
    def across(self) -> int:
        """Number of pieces of a row."""
        return -(-self.width // self.columns)

    @property
    def count(self) -> int:
        """Number of pieces of the image."""
        return -(-self.height // self.rows) * self.across

    @property
    def rest(self) -> tuple[int, int]:
        """(rows, columns) of the last piece of the image, or of each row."""
        if self.across > 1:
            return 1, self.width - (self.across - 1) * self.columns
        return self.height - (self.count - 1) * self.rows, self.columns


def pieces_of(height: int, width: int, one_row: bool) -> PixelPieces:
    """Cut an image of height x width pixels into pieces of about STRIP_PIXELS.

    one_row: a piece must lie within one row.
    """
    if one_row or width >= STRIP_PIXELS:
        columns = -(-width // -(-width // STRIP_PIXELS))
        return PixelPieces(height, width, 1, min(width, -(-columns // PANEL) * PANEL))
    down = -(-height // max(1, STRIP_PIXELS // width))
    return PixelPieces(height, width, -(-height // down), width)


def channels_of_part(channels: int, pieces: int) -> int:
    """Return the output channels of a part: all of a group unless there are too few pieces for threads to share."""
    parts = -(-FEW_PIECES // pieces)
    return channels if parts == 1 else min(channels, max(LEAST_CHANNELS, -(-channels // (parts * PANEL)) * PANEL))
