"""Emitter of products of two computed matrices whose sizes and strides a run sets, as of all channels of any image.

Each element is the bias, then the terms in their order, as in unpacked_matmul.py: the same bits as those of a kernel of
one length. Sums are not cut into blocks. Columns are cut into register tiles, then single vectors, then halves of one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.activation import activation
from mavcg.kernels.builder.emit import address, const, finish_rows, index_value, kernel_function, note_tile, repeat
from mavcg.kernels.builder.nest_loops import decode, minimum
from mavcg.kernels.builder.product_loop import TermPointers
from mavcg.kernels.builder.run_numbers import Number, RunNumbers, fixed_number, load_numbers, multiple, times
from mavcg.kernels.builder.tiles import repeat_tiles, row_tiles, whole_and_rest
from mavcg.kernels.conv.unpacked_matmul import PIECE_ROWS, MatMul
from mavcg.kernels.gemm.float_tile import Ends, FloatProducts, FloatTerm
from mavcg.kernels.gemm.loop_shape import lane_counts, unroll_factor, vector_lanes
from mavcg.kernels.gemm.register_tile import choose, short_tile
from mavcg.kernels.gemm.tile import F32_BYTES, Pointers, RegisterTile, WeightLayout
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value
NARROW_ROWS = 4  # at most, of register tiles of a single vector or a part of one


def emit_products_of_run(module: ir.Module, spec: MatMul, machine: Machine) -> ir.Function:
    """Emit the function of a spec with numbers of the run."""
    _, b = kernel_function(module, spec, machine)
    names = ["a", "b", "out", *["bias"] * spec.bias, *["residual"] * (spec.residual_strides is not None)]
    numbers = load_numbers(b, spec.words, len(names))
    pointers = {name: numbers.operand(index, name) for index, name in enumerate(names)}
    bias = pointers.pop("bias", None)
    emitter = _RunProducts(b, machine, spec, numbers, tuple(pointers.values()), bias)
    return finish_rows(b, emitter.task, "task")


@dataclass(frozen=True)
class _RunPiece:
    """Rows of one product. starts: addresses of its first elements in a, b, out and residual."""

    rows: Number
    starts: tuple[Value, ...]


@dataclass(frozen=True)
class _RunProducts:
    """Emits the rows of work: pieces of products. bases: pointers to a, b, out and, if there is one, residual."""

    b: ir.IRBuilder
    machine: Machine
    spec: MatMul
    numbers: RunNumbers
    bases: tuple[Value, ...]
    bias: Value | None

    @cached_property
    def lanes(self) -> int:
        """Elements of a vector."""
        return vector_lanes(self.machine, self.spec.dtype)

    @cached_property
    def strides(self) -> list[tuple[Number, ...]]:
        """Strides of a, b, out and, if there is one, residual, in elements."""
        names = ("a_strides", "b_strides", "out_strides", "residual_strides")
        found = [(name, getattr(self.spec, name)) for name in names]
        return [self.numbers.along(name, strides) for name, strides in found if strides is not None]

    def task(self, index: Value) -> None:
        """Emit a row of work: one piece of one product."""
        b, rows = self.b, self.numbers.at("m", self.spec.m)
        parts: Number = self.spec.pieces
        if fixed_number(rows) is None:
            parts = b.sdiv(b.add(index_value(rows), const(PIECE_ROWS - 1)), const(PIECE_ROWS))
        first = b.mul(b.srem(index, index_value(parts)), const(PIECE_ROWS))
        starts = self._starts(b.sdiv(index, index_value(parts)), first)
        fixed = self.spec.m if fixed_number(rows) is not None and self.spec.pieces == 1 else None
        count = minimum(b, b.sub(index_value(rows), first), const(PIECE_ROWS)) if fixed is None else fixed
        self._columns(_RunPiece(count, starts))

    def _starts(self, number: Value, first_row: Value) -> tuple[Value, ...]:
        """Return the addresses of a piece's first elements. number: which product of the batch."""
        b, item = self.b, self.spec.item_bytes
        indices = decode(b, number, self.numbers.along("batch", self.spec.batch))
        addresses = []
        for which, (base, strides) in enumerate(zip(self.bases, self.strides, strict=True)):
            pointer = base if which == 1 else address(b, base, times(b, first_row, strides[-2], item))
            for index, stride in zip(indices, strides[:-2], strict=True):
                pointer = address(b, pointer, times(b, index, stride, item))
            addresses.append(pointer)
        return tuple(addresses)

    def _columns(self, piece: _RunPiece) -> None:
        """Emit all columns of a piece."""
        b, lanes = self.b, self.lanes
        columns = self.numbers.at("n", self.spec.n)
        vectors = -(-self.spec.n // lanes)
        tiling = choose(self.machine, min(self.spec.m, PIECE_ROWS), vectors, self.spec.k, dtype=self.spec.dtype)
        rows, step = tiling.widths.mr, tiling.vectors * lanes

        def tile(first: Value, count: int) -> None:
            self._rows(piece, first, count, rows if count == step else NARROW_ROWS)

        if (fixed := fixed_number(columns)) is not None:
            repeat_tiles(b, whole_and_rest(fixed, step), tile, "column")
            return
        at, end = const(0), index_value(columns)
        for count in dict.fromkeys((step, *(lanes >> shift for shift in range(lanes.bit_length())))):
            stop = b.add(at, b.mul(b.sdiv(b.sub(end, at), const(count)), const(count)), name="columns_end")
            repeat(b, at, stop, partial(tile, count=count), "column", count)
            at = stop

    def _rows(self, piece: _RunPiece, column: Value, count: int, most: int) -> None:
        """Emit some columns of all rows of a piece, in register tiles of at most `most` rows."""
        vectors = -(-count // self.lanes)

        def tile(row: Value, pixels: int) -> None:
            self._tile(piece, row, pixels, column, count)

        if isinstance(piece.rows, int):
            repeat_tiles(self.b, whole_and_rest(piece.rows, min(most, piece.rows)), tile, "row")
        else:
            row_tiles(self.b, const(0), piece.rows, most, tile, short_tile(self.machine, vectors))

    def _tile(self, piece: _RunPiece, row: Value, pixels: int, column: Value, count: int) -> None:
        """Emit a register tile: `pixels` rows by `count` columns."""
        b, lanes, item, dtype = self.b, self.lanes, self.spec.item_bytes, self.spec.dtype
        vectors, used = -(-count // lanes), count - (-(-count // lanes) - 1) * lanes
        n_step = self.spec.b_strides[-1] * item if self.spec.n > 1 else item
        k_step = multiple(b, self.strides[1][-2], item)
        row_steps = [multiple(b, strides[-2], item) for strides in self.strides]
        offsets = [tuple(multiple(b, row_steps[i], p) for p in range(pixels)) for i in (0, 2, len(row_steps) - 1)]
        tile = RegisterTile(offsets[0], offsets[1], offsets[2], vectors, used)
        right = address(b, piece.starts[1], times(b, column, n_step))
        outs = [
            address(b, address(b, start, times(b, row, row_steps[2 + i])), times(b, column, item))
            for i, start in enumerate(piece.starts[2:])
        ]
        left = address(b, piece.starts[0], times(b, row, row_steps[0]))
        bias = None if self.bias is None else address(b, self.bias, times(b, column, F32_BYTES))
        at = Pointers(left, right, outs[0], bias, outs[1] if len(outs) > 1 else None)
        note_tile(b, pixels, vectors)
        counts = lane_counts(self.machine, vectors, used)
        lanes_used = [lanes] * (vectors - 1) + [used]
        ends = Ends(b, tile, at, lanes_used, counts, lanes, dtype)
        weights = WeightLayout(fixed_number(k_step) or 0, n_step, lanes * n_step, lanes, False, dtype=dtype)
        products = FloatProducts(b, self.machine, weights, tile.in_offsets, lanes_used, counts)
        ends.prefetch_residual(self.machine.arch == "x86_64")
        sums = self._sums(products, at, k_step, ends.start())
        ends.finish(sums, activation(b, self.spec.act, self.spec.act_args, dtype))

    def _sums(self, products: FloatProducts, at: Pointers, k_step: Number, sums: tuple[Value, ...]) -> Iterable[Value]:
        """Emit the terms: several in an iteration where their distance is known, then those that remain, one by one."""
        b, terms = self.b, index_value(self.numbers.at("k", self.spec.k))
        item = self.spec.item_bytes

        def steps(index: Value | int, some: int) -> Iterable[FloatTerm]:
            first = index if isinstance(index, ir.Value) else const(index)
            left = address(b, at.inputs, times(b, first, item), "x")
            right = address(b, at.weights, times(b, first, k_step), "w")
            return products.steps(TermPointers(left, right), some)

        whole: Value = const(0)
        if fixed_number(k_step) is not None:
            unroll = unroll_factor(self.machine, self.spec.k, self.spec.dtype)
            whole = b.sub(terms, b.srem(terms, const(unroll)), name="terms_end")
            sums = products.loop.loop(const(0), whole, unroll, steps, sums)
        return products.loop.loop(whole, terms, 1, steps, sums)
