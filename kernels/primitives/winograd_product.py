"""The products of transformed inputs and weights: of each plane a matrix product, tiles x terms by terms x channels.

The micro-kernel is that of convolutions (kernels/gemm.py): each sum runs over all terms in their order, whatever the
register tile is, so that all machines have the same bits.
"""

from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernel import Machine
from mavcg.kernels.emit import address, const, repeat, scaled
from mavcg.kernels.gemm import Pointers, Sum, Tile, Weights, emit_tile, merged
from mavcg.kernels.nest import maximum
from mavcg.kernels.primitives.winograd_spec import Planes, Tiles
from mavcg.kernels.tiling import Tiling, choose, lanes_f32, most_pixels
from mavcg.primitive import F32_BYTES

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Product:
    """The code that multiplies; usual: how many tiles there are as a rule, which the register tiles are chosen for."""

    b: ir.IRBuilder
    machine: Machine
    tiles: Tiles
    inputs: Planes
    sums: Planes
    usual: int

    @property
    def total(self) -> Sum:
        """How the terms lie: channels, and by rows only those of the next rows."""
        tiles = self.tiles
        return merged([(tiles.taps, tiles.across * self.inputs.pitch), (tiles.in_ch, F32_BYTES)])

    @property
    def weights(self) -> Weights:
        """How the weights of a plane lie."""
        lanes = self.tiles.lanes
        return Weights(lanes * F32_BYTES, F32_BYTES, self.tiles.panel_bytes, lanes, True)

    def tiling(self, channels: int) -> Tiling:
        """The register tiles for so many output channels."""
        lanes = lanes_f32(self.machine)
        panel = max(1, self.tiles.lanes // lanes)
        return choose(self.machine, self.usual, -(-channels // lanes), self.tiles.terms, panel)

    def emit(self, inputs: Value, weights: Value, sums: Value, count: Value | int, channels: int) -> None:
        """One plane, `count` tiles, `channels` output channels; pointers to the first of each.

        Where `count` is known at run time only, up to a register tile more may be read and written.
        """
        b, lanes = self.b, lanes_f32(self.machine)
        tiling = self.tiling(channels)
        width = tiling.vectors * lanes
        chunks, rest = divmod(-(-channels // self.tiles.lanes) * self.tiles.lanes, width)

        def chunk(first: Value, vectors: int) -> None:
            w = address(b, weights, scaled(b, first, self.tiles.panel_bytes // self.tiles.lanes))
            self.chunk(tiling, Pointers(inputs, w, address(b, sums, scaled(b, first, F32_BYTES))), count, vectors)

        if chunks == 1:
            chunk(const(0), tiling.vectors)
        elif chunks:
            repeat(b, 0, chunks * width, lambda first: chunk(first, tiling.vectors), "channel", width)
        if rest:
            chunk(const(chunks * width), -(-rest // lanes))

    def chunk(self, tiling: Tiling, at: Pointers, count: Value | int, vectors: int) -> None:
        """Channels of a register tile, all tiles."""
        b = self.b
        if isinstance(count, int) and count == self.usual:
            done = 0
            for mr, times in tiling.widths.tiles:
                self.run(mr, vectors, at, const(done), const(done + mr * times))
                done += mr * times
            return
        number = const(count) if isinstance(count, int) else count
        mr = most_pixels(self.machine, tiling.vectors) if self.usual >= 2 * tiling.widths.mr else tiling.widths.mr
        # As many register tiles as must be, some of them one narrower so that they end where the tiles do.
        groups = b.sdiv(b.add(number, const(mr - 1)), const(mr))
        over = b.sub(b.mul(groups, const(mr)), number)
        wide = maximum(b, b.sub(groups, over), const(0)) if mr > 1 else groups
        middle = b.mul(wide, const(mr))
        self.run(mr, vectors, at, const(0), middle)
        if mr > 1:
            end = b.add(middle, b.mul(b.sub(groups, wide), const(mr - 1)))
            self.run(mr - 1, vectors, at, middle, end)

    def run(self, mr: int, vectors: int, at: Pointers, first: Value, end: Value) -> None:
        """Register tiles of `mr` tiles."""
        b = self.b
        x, s = self.inputs.pitch, self.sums.pitch
        offsets = tuple(x * p for p in range(mr)), tuple(s * p for p in range(mr))
        tile = Tile(*offsets, (), vectors, lanes_f32(self.machine))

        def one(index: Value) -> None:
            here = Pointers(
                address(b, at.inputs, scaled(b, index, x)), at.weights, address(b, at.out, scaled(b, index, s))
            )
            emit_tile(b, self.machine, self.total, self.weights, tile, here, "", ())

        repeat(b, first, end, one, "tiles", mr)
