"""8-bit convolutions by AMX's tiles: blocks of exact sums of up to four tiles, then the epilogue, pixel by pixel.

A tile of sums is up to 16 pixels of a row by the 16 channels of a panel. Packed weights are what a product reads: a row
of 64 bytes has four terms of each of 16 channels. Inputs are read in place, a row of a tile from each pixel. LLVM knows
no values in tile registers, so that these loops are not a ProductLoop's: its sums are values, which loops carry.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from llvmlite import ir

from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.builder.emit import I32, Values, address, const, for_range, note_tile, repeat, scale_index
from mavcg.kernels.builder.product_loop import nested_loops, prefetch
from mavcg.kernels.builder.run_numbers import times
from mavcg.kernels.builder.x86_tiles import (
    ROW_BYTES,
    TILE_ROWS,
    TileShape,
    add_tile_products,
    clear_tile,
    configure_tiles,
    load_tile,
    store_tile,
)
from mavcg.kernels.int8.register_tile import GROUP, SUM_TILES, ProductForm, SumRun
from mavcg.kernels.int8.tile import QPointers, QTile, TileEnding, TileSums

Value: TypeAlias = ir.Value
INPUTS, WEIGHTS = SUM_TILES, SUM_TILES + 2  # tile registers after those of sums, two of each


@dataclass(frozen=True)
class PixelTiles:
    """A row of pixels cut into tiles of equally many pixels; the last begins early where they do not divide the row.

    width: pixels of the row. pixels: of a tile. count: tiles of the row.
    """

    width: int
    pixels: int
    count: int

    @property
    def again(self) -> int:
        """Pixels of the last tile that are in the tile before it, too."""
        return self.pixels * self.count - self.width


def pixel_tiles(width: int) -> PixelTiles:
    """Cut a row of `width` pixels into as few tiles as possible."""
    count = -(-width // TILE_ROWS)
    return PixelTiles(width, -(-width // count), count)


def configure_sums(b: ir.IRBuilder, form: ProductForm, pixels: PixelTiles) -> None:
    """Emit the configuration of a kernel's tile registers."""
    sums = dict.fromkeys(range(SUM_TILES), TileShape(pixels.pixels, ROW_BYTES))
    inputs = dict.fromkeys((INPUTS, INPUTS + 1), TileShape(pixels.pixels, form.row_terms))
    weights = dict.fromkeys((WEIGHTS, WEIGHTS + 1), TileShape(form.row_terms // GROUP, ROW_BYTES))
    configure_tiles(b, sums | inputs | weights)


@dataclass(frozen=True)
class _Pixels:
    """The pixels of a tile: pointers to the first, and the number of those that another tile has stored."""

    at: QPointers
    stored: Value


@dataclass(frozen=True)
class _Place:
    """A position in the loops of a sum: offset of the inputs from a tile's first, in bytes, and number of the group."""

    offset: Value
    group: Value


@dataclass(frozen=True)
class TileRows:
    """Emitter of the outputs of a chunk of channels for some rows of pixels, by tiles.

    pointers(row): addresses of a row's first pixel. steps: from a pixel to the next in x, out and residual, in bytes.
    tile: of one pixel, all vectors of the chunk. room: memory of SUM_TILES tiles.
    """

    b: ir.IRBuilder
    form: ProductForm
    run: SumRun
    pixels: PixelTiles
    tile: QTile
    steps: tuple[int, int, int]
    pointers: Callable[[Value], QPointers]
    ending: TileEnding
    room: Value

    def emit(self, begin: Value, end: Value) -> None:
        """Emit the rows from begin to end: as many tiles of pixels at once as have registers, then fewer."""
        b, most, count = self.b, SUM_TILES // self.tile.vectors, self.pixels.count
        at, last = scale_index(b, begin, count), scale_index(b, end, count)
        while most:
            stop = b.sub(last, b.urem(b.sub(last, at), const(most)), name="tiles_end") if most > 1 else last
            repeat(b, at, stop, lambda first, n=most: self.block(first, n), "tile", most)  # type: ignore[misc]
            at, most = stop, most // 2

    def block(self, first: Value, count: int) -> None:
        """Emit `count` tiles of pixels by all vectors of the chunk."""
        b, vectors = self.b, self.tile.vectors
        note_tile(b, count * self.pixels.pixels, vectors)
        tiles = [self.place(b.add(first, const(number))) for number in range(count)]
        self.start(count)
        self.products([tile.at.inputs for tile in tiles], tiles[0].at.weights)
        pixel_bytes = vectors * ROW_BYTES
        for row in range(count):
            for vector in range(vectors):
                there = address(b, self.room, row * self.pixels.pixels * pixel_bytes + vector * ROW_BYTES)
                store_tile(b, row * vectors + vector, there, pixel_bytes)
        for row, tile in enumerate(tiles):
            self.results(tile, address(b, self.room, row * self.pixels.pixels * pixel_bytes))

    def start(self, count: int) -> None:
        """Emit what the sums of `count` tiles of pixels begin with: a row that all rows of a tile load, or 0."""
        b, first = self.b, self.ending.tile_start()
        for number in range(count * self.tile.vectors):
            if first is None:
                clear_tile(b, number)
            else:
                load_tile(b, number, address(b, first, number % self.tile.vectors * ROW_BYTES), 0)

    def place(self, number: Value) -> _Pixels:
        """Return the pixels of a tile, by its number through all rows."""
        b, pixels = self.b, self.pixels
        if pixels.count == 1:
            return _Pixels(self.pointers(number), const(0))
        column = b.urem(number, const(pixels.count))
        is_last = b.icmp_signed("==", column, const(pixels.count - 1))
        stored = b.select(is_last, const(pixels.again), const(0), name="stored") if pixels.again else const(0)
        first = b.sub(scale_index(b, column, pixels.pixels), stored)
        return _Pixels(self.at_pixel(self.pointers(b.udiv(number, const(pixels.count))), first), stored)

    def at_pixel(self, at: QPointers, pixel: Value) -> QPointers:
        """Return the pointers to a pixel. at: those to the first."""
        inputs, out, residual = (
            pointer and address(self.b, pointer, scale_index(self.b, pixel, step))
            for pointer, step in zip((at.inputs, at.out, at.residual), self.steps, strict=True)
        )
        return replace(at, inputs=inputs, out=out, residual=residual)

    def products(self, inputs: Sequence[Value], weights: Value) -> None:
        """Emit the loops over all terms, which add to the tiles of sums."""
        b, levels, tile_groups = self.b, self.run.levels, self.form.row_terms // GROUP
        counts = [count for count, _ in levels]

        def move(at: _Place, level: int, index: Value) -> _Place:
            inside = prod(counts[level + 1 :]) * self.run.groups
            offset = b.add(at.offset, times(b, index, levels[level][1]))
            return _Place(offset, b.add(at.group, scale_index(b, index, inside)))

        def run(at: _Place, _: Values) -> Values:
            def step(index: Value, _: Values) -> Values:
                offset = b.add(at.offset, scale_index(b, index, self.form.row_terms))
                group = b.add(at.group, scale_index(b, index, tile_groups))
                rows = address(b, weights, scale_index(b, group, ROW_BYTES))
                self.step([address(b, pointer, offset) for pointer in inputs], rows)
                return ()

            return for_range(b, const(0), const(self.run.groups // tile_groups), 1, (), step, "k")

        nested_loops(b, counts, _Place(const(0), const(0)), move, run, ())

    def step(self, inputs: Sequence[Value], weights: Value) -> None:
        """Emit the products of a row of terms: each tile of pixels by each vector of weights.

        Of the fewer of the two all are loaded first, into two registers; those of the other one take turns.
        """
        b, vectors = self.b, self.tile.vectors

        def load_pixels(row: int) -> None:
            load_tile(b, INPUTS + row % 2, inputs[row], self.steps[0])

        def load_weights(vector: int) -> None:
            panel = address(b, weights, vector * self.tile.panel_bytes)
            for row in range(self.form.row_terms // GROUP if self.tile.ahead else 0):
                prefetch(b, panel, row * LINE_BYTES + self.tile.ahead)
            load_tile(b, WEIGHTS + vector % 2, panel, ROW_BYTES)

        def multiply(row: int, vector: int) -> None:
            add_tile_products(b, self.form.kind, row * vectors + vector, INPUTS + row % 2, WEIGHTS + vector % 2)

        if len(inputs) < vectors:
            for row in range(len(inputs)):
                load_pixels(row)
            for vector in range(vectors):
                load_weights(vector)
                for row in range(len(inputs)):
                    multiply(row, vector)
        else:
            for vector in range(vectors):
                load_weights(vector)
            for row in range(len(inputs)):
                load_pixels(row)
                for vector in range(vectors):
                    multiply(row, vector)

    def results(self, tile: _Pixels, sums: Value) -> None:
        """Emit the epilogue of a tile's pixels. sums: pointer to those of its first pixel."""
        b, vectors, lanes = self.b, self.tile.vectors, ir.VectorType(I32, self.form.lanes)

        def pixel(number: Value) -> None:
            row = address(b, sums, scale_index(b, number, vectors * ROW_BYTES))
            loaded = [
                b.load(address(b, row, vector * ROW_BYTES), name="sums", align=ROW_BYTES, typ=lanes)
                for vector in range(vectors)
            ]
            self.ending.store(self.form, self.tile, self.at_pixel(tile.at, number), TileSums([loaded], []))

        # Results that are stored twice are the same, unless they lie in the buffer of the residual.
        first = const(0) if tile.at.residual is None else tile.stored
        repeat(b, first, self.pixels.pixels, pixel, "pixel")
