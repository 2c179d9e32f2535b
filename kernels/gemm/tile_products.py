"""Products of bf16 in a register tile by blocks of up to 32 terms: the bits of AMX's TDPBF16PS, also without it.

A block's even terms are added up by fused multiply-adds, from 0 on, and its odd terms likewise; the sum of both is
added to the total. Each operation rounds to nearest even, and subnormal numbers are 0 (Intel SDM volume 2, TDPBF16PS).
TileProducts has the instruction. BlockProducts computes the same by f32 multiply-adds, of which it takes as many as
widened bf16, and two additions a block. MXCSR flushes subnormal numbers around both (`flushed_subnormals`).

Packed weights have two terms of each output channel next to each other: 16 channels of up to 16 pairs are a tile.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from llvmlite import ir

from mavcg.kernels.builder.arithmetic import half_of_pairs
from mavcg.kernels.builder.emit import F32, I32, Values, address, const, fma, for_range, vector
from mavcg.kernels.builder.lanes import load_vector, splat
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile, TermPointers
from mavcg.kernels.builder.run_numbers import offset_pointer
from mavcg.kernels.builder.x86_tiles import (
    ROW_BYTES,
    TILE_BYTES,
    TILE_ROWS,
    TileShape,
    add_tile_products,
    aligned_memory,
    clear_tile,
    configure_tiles,
    load_tile,
    release_tiles,
    store_tile,
)
from mavcg.kernels.gemm.loop_shape import keeps_inputs, vector_lanes
from mavcg.kernels.gemm.product_types import step_terms
from mavcg.kernels.gemm.register_tile import MOST_TILED_PIXELS, cut
from mavcg.kernels.gemm.tile import RegisterTile, WeightLayout
from mavcg.specs.kernel import Machine

PAIR_BYTES = 4


class _BlockTerm(NamedTuple):
    """A term of a block: pointers to the block, the number of its pair, and its number in the pair."""

    at: TermPointers
    pair: int
    half: int


@dataclass(frozen=True)
class BlockProducts:
    """Sums by f32 multiply-adds: an input in all lanes is a left value, weights of channels are a right value.

    weights: packed. in_offsets: of each pixel, in bytes. counts: lanes that are computed of each vector of channels.
    """

    b: ir.IRBuilder
    machine: Machine
    weights: WeightLayout
    in_offsets: tuple[int | ir.Value, ...]
    counts: Sequence[int]

    def begin(self) -> Values:
        """Return the initial values of the sums."""
        return tuple(ir.Constant(vector(F32, n), [0.0] * n) for _ in self.in_offsets for n in self.counts)

    def run(
        self, count: int, unroll: int, pointers: Callable[[ir.Value | int, int], TermPointers], sums: Values
    ) -> Values:
        """Emit `count` neighbouring blocks. pointers: to a block, by its number."""
        pixels, vectors = len(self.in_offsets), len(self.counts)
        tile = SumTile(pixels, vectors, keeps_inputs(self.machine, pixels, vectors), chains=2)
        loop = ProductLoop(self.b, tile, self.inputs, self.weight_vectors, self.multiply_add)
        pairs = step_terms(self.weights.dtype) // 2

        def block(index: ir.Value, totals: Values) -> Values:
            at = pointers(index, 1)
            terms = (_BlockTerm(at, pair, half) for pair in range(pairs) for half in (0, 1))
            added = loop.terms(terms, 2 * self.begin())
            halves = zip(added[: len(totals)], added[len(totals) :], strict=True)
            return tuple(self.b.fadd(t, self.b.fadd(*both)) for t, both in zip(totals, halves, strict=True))

        return for_range(self.b, const(0), const(count), 1, sums, block, "block")

    def inputs(self, term: _BlockTerm) -> Iterator[dict[int, ir.Value]]:
        """Return each pixel's input in all lanes, by the number of lanes."""
        for offset in self.in_offsets:
            pointer = offset_pointer(self.b, term.at.left, offset, term.pair * PAIR_BYTES)
            pair = load_vector(self.b, pointer, I32, name="x2", align=PAIR_BYTES // 2)
            yield {n: half_of_pairs(self.b, splat(self.b, pair, n), term.half) for n in dict.fromkeys(self.counts)}

    def weight_vectors(self, term: _BlockTerm) -> Iterator[ir.Value]:
        """Return the weights, a vector of channels after the other."""
        lanes, ws = vector_lanes(self.machine, self.weights.dtype), self.weights
        for number, count in enumerate(self.counts):
            pointer = address(self.b, term.at.right, ws.offset(number * lanes) + term.pair * ws.lanes * PAIR_BYTES)
            pairs = load_vector(self.b, pointer, vector(I32, count), name="w2", align=PAIR_BYTES)
            yield half_of_pairs(self.b, pairs, term.half)

    def multiply_add(
        self, total: ir.Value, x: dict[int, ir.Value], weights: ir.Value, pixel: int, column: int
    ) -> ir.Value:
        """Return total + x * weights, rounded once."""
        return fma(self.b, x[self.counts[column]], weights, total)

    def by_pixel(self, sums: Sequence[ir.Value]) -> Sequence[ir.Value]:
        """Return the sums by pixel, then vector."""
        return sums


# Tile registers: the first are sums, the next inputs and weights. Two by two tiles read least for each product; a
# single one of inputs is multiplied by up to four of weights.
SUM_TILES, FIRST_INPUT, LAST_TILE = 4, 4, 7
MEMORY = "tile_memory"  # of the stack, where sums are stored


def tile_rows(pixels: int) -> int:
    """Return the pixels of a tile of inputs, where an image's row has so many; the same in all of a kernel."""
    widest = cut(pixels, MOST_TILED_PIXELS).mr
    return widest if widest <= TILE_ROWS else -(-widest // 2)


@contextmanager
def tiles_of_kernel(b: ir.IRBuilder, pixels: int, terms: int) -> Iterator[None]:
    """Emit the code of the `with` block with tile registers for rows of so many pixels and blocks of so many terms."""
    rows = tile_rows(pixels)
    two = cut(pixels, MOST_TILED_PIXELS).mr > TILE_ROWS
    inputs, weights = TileShape(rows, 2 * terms), TileShape(terms // 2, ROW_BYTES)
    shapes = dict.fromkeys(range(SUM_TILES), TileShape(rows, ROW_BYTES))
    shapes |= {n: inputs if n == FIRST_INPUT or (two and n == FIRST_INPUT + 1) else weights for n in range(4, 8)}
    aligned_memory(b, SUM_TILES * TILE_BYTES, MEMORY)
    configure_tiles(b, shapes)
    yield
    release_tiles(b)


@dataclass(frozen=True)
class TileProducts:
    """Sums in tile registers: a tile of pixels by a block of terms is a left value, one of weights a right value.

    A second tile of pixels has the last ones, of which the first may have some, too. rows: pixels of a tile. counts:
    channels that are needed of each vector of them. in_offsets: of each pixel, in bytes, evenly spaced.
    """

    b: ir.IRBuilder
    weights: WeightLayout
    in_offsets: tuple[int | ir.Value, ...]
    counts: Sequence[int]
    rows: int

    @property
    def first_pixels(self) -> tuple[int, ...]:
        """The first pixel of each tile of inputs."""
        pixels = len(self.in_offsets)
        assert self.rows <= pixels <= 2 * self.rows and len(self.counts) * -(-pixels // self.rows) <= SUM_TILES
        return (0,) if pixels == self.rows else (0, pixels - self.rows)

    def begin(self) -> Values:
        """Emit zeros in the tiles of sums; no values are carried through loops."""
        for tile in range(len(self.first_pixels) * len(self.counts)):
            clear_tile(self.b, tile)
        return ()

    def run(
        self, count: int, unroll: int, pointers: Callable[[ir.Value | int, int], TermPointers], sums: Values
    ) -> Values:
        """Emit `count` neighbouring blocks. pointers: to a block, by its number."""
        tile = SumTile(len(self.first_pixels), len(self.counts), holds_left=True)
        loop = ProductLoop(self.b, tile, self.input_tiles, self.weight_tiles, self.multiply_add)

        def block(index: ir.Value, _: Values) -> Values:
            loop.terms((pointers(index, 1),), range(tile.rows * tile.columns))
            return ()

        return for_range(self.b, const(0), const(count), 1, sums, block, "block")

    def input_tiles(self, at: TermPointers) -> Iterator[int]:
        """Load the tiles of inputs; return their numbers."""
        first, *others = self.in_offsets
        step = others[0] - first if others else ROW_BYTES
        for number, pixel in enumerate(self.first_pixels, FIRST_INPUT):
            load_tile(self.b, number, offset_pointer(self.b, at.left, self.in_offsets[pixel]), step)
            yield number

    def weight_tiles(self, at: TermPointers) -> Iterator[int]:
        """Load the tiles of weights; return their numbers."""
        first = FIRST_INPUT + len(self.first_pixels)
        for panel in range(len(self.counts)):
            number = first + panel % (LAST_TILE + 1 - first)
            pointer = address(self.b, at.right, self.weights.offset(panel * TILE_ROWS))
            load_tile(self.b, number, pointer, self.weights.lanes * PAIR_BYTES)
            yield number

    def multiply_add(self, total: int, x: int, weights: int, row: int, column: int) -> int:
        """Add the products of two tiles to one of sums."""
        add_tile_products(self.b, "tdpbf16ps", total, x, weights)
        return total

    def by_pixel(self, sums: Sequence[ir.Value]) -> Iterator[ir.Value]:
        """Store the sums, and load each just before its use: by pixel, then vector."""
        b, firsts, vectors = self.b, self.first_pixels, len(self.counts)
        memory = next(value for value in b.function.entry_basic_block.instructions if value.name == MEMORY)
        for tile in range(len(firsts) * vectors):
            store_tile(b, tile, address(b, memory, tile * TILE_BYTES), ROW_BYTES)
        for pixel in range(len(self.in_offsets)):
            row = int(pixel >= self.rows)
            for number, count in enumerate(self.counts):
                at = (row * vectors + number) * TILE_BYTES + (pixel - firsts[row]) * ROW_BYTES
                yield load_vector(b, address(b, memory, at), vector(F32, count), name="sum")


def block_products(
    b: ir.IRBuilder, machine: Machine, weights: WeightLayout, tile: RegisterTile, counts: Sequence[int]
) -> BlockProducts | TileProducts:
    """Return the products of blocks of terms in a register tile, by AMX where the machine has it."""
    if machine.bf16_tiles:
        return TileProducts(b, weights, tile.in_offsets, counts, tile.rows)
    return BlockProducts(b, machine, weights, tile.in_offsets, counts)
