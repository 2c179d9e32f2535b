"""Products of two computed matrices of floats, read in place: their spec, and loops over pieces of rows and columns."""

from dataclasses import dataclass, replace
from functools import partial
from math import prod

from llvmlite import ir

from mavcg.graph import DTYPES
from mavcg.kernels.builder.activation import activation
from mavcg.kernels.builder.emit import (
    address,
    const,
    finish_rows,
    kernel_function,
    operand,
    operands,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.tiles import in_part
from mavcg.kernels.conv.part_loops import block_channels, channel_blocks
from mavcg.kernels.gemm.loop_shape import vector_lanes
from mavcg.kernels.gemm.micro_kernel import emit_tile
from mavcg.kernels.gemm.register_tile import BlockRegisters, RegisterTiling, choose, tiling_of
from mavcg.kernels.gemm.sum_blocks import SumBlock, block_terms, sum_blocks
from mavcg.kernels.gemm.tile import F32_BYTES, Pointers, RegisterTile, Sum, WeightLayout
from mavcg.specs.kernel import KernelSpec, Machine, Words, arithmetic_of
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format
from mavcg.specs.sums_of_products import SumSizes, SumsOfProducts, TilingRules, Window
from mavcg.specs.tile_plan import MacroTile

PLAIN = MacroTile()
PIECE_ROWS = 24  # rows of the left side that a row of work computes


class UnpackedProducts(KernelSpec):
    """Base of the specs of matrix products neither of whose sides is packed.

    batch: the leading dimensions. m, k, n: sizes of one product, [m, k] x [k, n].
    """

    batch: tuple[int, ...]
    m: int
    k: int
    n: int

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.batch), f"m{self.m}n{self.n}k{self.k}")

    dtype: str

    @property
    def macs(self) -> int:
        return prod(self.batch) * self.m * self.k * self.n

    @property
    def arithmetic(self) -> str:
        return arithmetic_of(self.dtype)


@spec_format("matmul")
@dataclass(frozen=True)
class MatMul(UnpackedProducts):
    """act(a b + bias + residual) of matrices of floats, neither of which is packed.

    batch: the leading dimensions. m, k, n: sizes of one product, [m, k] x [k, n]. Strides are in elements: one for each
    batch dimension, 0 to broadcast, then two of the matrix. dtype: of all but the bias, which is f32. A row of work is
    PIECE_ROWS rows of one product. words: numbers that a run sets, of all sizes and strides but the last ones; f16 has
    none. Operands: a, b, out, bias?, residual?, words.
    """

    batch: tuple[int, ...]
    m: int
    k: int
    n: int
    a_strides: tuple[int, ...]
    b_strides: tuple[int, ...]
    out_strides: tuple[int, ...]
    residual_strides: tuple[int, ...] | None
    bias: bool
    act: str
    act_args: tuple[float, ...]
    dtype: str = "f32"
    words: Words = ()

    @property
    def family(self) -> str:
        return f"matmul_{self.dtype}"

    @property
    def item_bytes(self) -> int:
        """Size of an element of the matrices, in bytes."""
        return DTYPES[self.dtype].itemsize

    @property
    def products(self) -> SumsOfProducts:
        # Each piece counts as a group of its own, whose rows are the pixels of a single row.
        columns = min(self.m, PIECE_ROWS)
        sizes = SumSizes(self.n, self.k, 1, columns, 1, columns, self.item_bytes)
        return SumsOfProducts(sizes, Window(groups=max(1, self.rows)), TilingRules(partial_sums=self.dtype == "f32"))

    @property
    def pieces(self) -> int:
        """Number of pieces that the rows of one product are cut into."""
        return -(-self.m // PIECE_ROWS)

    @property
    def rows(self) -> int:
        return prod(self.batch) * self.pieces if self.n else 0

    @property
    def work(self) -> int:
        return 2 * self.macs


def emit_matmul(module: ir.Module, spec: MatMul, machine: Machine, macro: MacroTile = PLAIN) -> ir.Function:
    """Emit the function of a spec for a machine.

    Only nc, nr and kc of the macro-tile are used: rows are cut into pieces by the spec. f16 sums are not cut by kc.
    """
    macro = macro if spec.products.rules.partial_sums else replace(macro, kc=None)
    _, b = kernel_function(module, spec, machine)
    bases = [*operands(b, "a", "b", "out")]
    bias = operand(b, 3, "bias") if spec.bias else None
    if spec.residual_strides is not None:
        bases.append(operand(b, 3 + spec.bias, "residual"))
    emitter = _ProductEmitter(b, machine, spec, macro, tuple(bases), bias)
    return finish_rows(b, emitter.task, "task")


@dataclass(frozen=True)
class _ProductPiece:
    """Rows of one product. starts: addresses of its first elements in a, b, out and residual."""

    tiling: RegisterTiling
    starts: tuple[ir.Value, ...]


@dataclass(frozen=True)
class _ProductEmitter:
    """Emits the tasks of a matmul function. bases: pointers to a, b, out and, if there is one, residual."""

    b: ir.IRBuilder
    machine: Machine
    spec: MatMul
    macro: MacroTile
    bases: tuple[ir.Value, ...]
    bias: ir.Value | None

    @property
    def lanes(self) -> int:
        return vector_lanes(self.machine, self.spec.dtype)

    @property
    def total(self) -> Sum:
        return Sum(((self.spec.k, self.spec.item_bytes),))

    def task(self, index: ir.Value) -> None:
        """Emit a row of work: one piece of one product."""
        b, spec = self.b, self.spec
        number = b.sdiv(index, const(spec.pieces))
        part = b.srem(index, const(spec.pieces))
        starts = self._starts(number, b.mul(part, const(PIECE_ROWS)))
        in_part(b, part, spec.m, PIECE_ROWS, lambda rows: self._piece(rows, starts))

    def _starts(self, number: ir.Value, first_row: ir.Value) -> tuple[ir.Value, ...]:
        """Return the addresses of a piece's first elements. number: which product of the batch."""
        b, spec = self.b, self.spec
        strides = [spec.a_strides, spec.b_strides, spec.out_strides]
        if spec.residual_strides is not None:
            strides.append(spec.residual_strides)
        addresses = []
        for base, all_strides in zip(self.bases, strides, strict=True):
            offset, outer = scale_index(b, first_row, all_strides[-2] * spec.item_bytes), number
            if all_strides is spec.b_strides:
                offset = const(0)
            for length, stride in reversed(list(zip(spec.batch, all_strides[:-2], strict=True))):
                offset = b.add(offset, scale_index(b, b.srem(outer, const(length)), stride * spec.item_bytes))
                outer = b.sdiv(outer, const(length))
            addresses.append(address(b, base, offset))
        return tuple(addresses)

    def _piece(self, rows: int, starts: tuple[ir.Value, ...]) -> None:
        """Emit `rows` rows of one product, all columns: block by block of nc columns and kc terms."""
        b, spec, macro = self.b, self.spec, self.macro
        piece = _ProductPiece(self._tiling(rows), starts)

        def column_block(first: ir.Value, count: int) -> None:
            sum_blocks(b, self.total, macro.kc, lambda block: self._block(piece, first, count, block))

        channel_blocks(b, spec.n, block_channels(macro, piece.tiling.vectors * self.lanes), column_block)

    def _tiling(self, rows: int) -> RegisterTiling:
        """Return the register tiles of a piece: as wide as nr, or those with the fewest cycles."""
        nr, dtype, vectors = self.macro.nr, self.spec.dtype, -(-self.spec.n // self.lanes)
        terms = block_terms(self.total, self.macro.kc)[0]
        if nr is None:
            return choose(self.machine, rows, vectors, terms, dtype=dtype)
        return tiling_of(self.machine, rows, vectors, min(vectors, max(1, nr // self.lanes)), terms, dtype=dtype)

    def _block(self, piece: _ProductPiece, first: ir.Value, count: int, block: SumBlock) -> None:
        """Emit a block of columns for some terms of the sum, register tile by register tile."""
        b, step = self.b, piece.tiling.vectors * self.lanes
        whole = count // step * step
        repeat(b, 0, whole, lambda column: self._columns(piece, b.add(first, column), step, block), "column", step)
        if count > whole:
            self._columns(piece, b.add(first, const(whole)), count - whole, block)

    def _columns(self, piece: _ProductPiece, first: ir.Value, count: int, block: SumBlock) -> None:
        """Emit the columns of one register tile, or fewer, for all rows of the piece."""
        b, spec, lanes, tiling, starts = self.b, self.spec, self.lanes, piece.tiling, piece.starts
        item = spec.item_bytes
        steps = [s[-2] * item for s in (spec.a_strides, spec.out_strides, spec.residual_strides or (0, 0))]
        k_step, n_step = (s * item for s in spec.b_strides[-2:])
        n_step = n_step if spec.n > 1 else item
        weights = WeightLayout(k_step, n_step, lanes * n_step, lanes, False, dtype=spec.dtype)
        used = count - (-(-count // lanes) - 1) * lanes
        column = b.mul(first, const(item))
        bias_column = column if item == F32_BYTES else b.mul(first, const(F32_BYTES))
        inputs = address(b, starts[0], block.in_bytes)
        weights_offset = b.add(scale_index(b, first, n_step), scale_index(b, block.first_term, k_step))

        def emit_rows(row: ir.Value, tile: RegisterTile) -> None:
            pointers = Pointers(
                address(b, inputs, scale_index(b, row, steps[0])),
                address(b, starts[1], weights_offset),
                address(b, starts[2], b.add(scale_index(b, row, steps[1]), column)),
                address(b, self.bias, bias_column) if self.bias is not None else None,
                address(b, starts[3], b.add(scale_index(b, row, steps[2]), column)) if len(starts) > 3 else None,
            )
            act = activation(b, spec.act, spec.act_args, spec.dtype)
            emit_tile(b, self.machine, block.total, weights, tile, pointers, act, block.part)

        done = 0
        for mr, tiles in (tiling.widths if count == tiling.vectors * lanes else tiling.rest).tiles:
            offsets = [tuple(step * p for p in range(mr)) for step in steps]
            tile = RegisterTile(offsets[0], offsets[1], offsets[2], -(-count // lanes), used)
            repeat(b, done, done + mr * tiles, partial(emit_rows, tile=tile), "row", mr)
            done += mr * tiles


def matmul_registers(spec: MatMul, machine: Machine, macro: MacroTile, channels: int) -> BlockRegisters:
    """Return the register tiles of all columns of a piece."""
    lanes, rows = vector_lanes(machine, spec.dtype), min(spec.m, PIECE_ROWS)
    vectors = -(-spec.n // lanes)
    tiling = choose(machine, rows, vectors, min(spec.k, macro.kc or spec.k), dtype=spec.dtype)
    cycles = tiling_of(machine, rows, vectors, tiling.vectors, 0, dtype=spec.dtype).cycles
    return BlockRegisters(tiling.widths, tiling.vectors * lanes, tiling.vectors, cycles, False, cycles)
