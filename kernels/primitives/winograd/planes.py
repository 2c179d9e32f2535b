"""Planes of transformed tiles in memory, and the loop over a tile's vectors of channels in all planes, with prefetches.

The loop runs along one cache line of each plane at a time. A tile has a line in each of dozens of planes, more streams
than hardware prefetchers track: if all planes together exceed a level-2 cache, each vector would wait for a line of
each plane. Likewise a tile has a line in each of 36 or 16 pixels of the image, which for a large image are not in the
caches: the next tile's pixels are prefetched.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import address, const, prefetch_line, repeat, scale_index
from mavcg.kernels.builder.nest_loops import minimum
from mavcg.kernels.primitives.winograd.tiles import Located, Tiles
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES

LINE = 64  # size of a cache line, in bytes
# The sets of a level-1 cache repeat every 4096 bytes or fewer; neighbouring planes begin in different sets.
SETS_REPEAT = 4096


@dataclass(frozen=True)
class Planes:
    """A transformed image, [planes, tiles, channels]; `extra` tiles may be read or written past its end."""

    count: int
    tiles: int
    channels: int
    extra: int = 0
    item_bytes: int = F32_BYTES

    @property
    def pitch(self) -> int:
        """Distance from a tile to the next in bytes: whole cache lines, and not a distance that maps all tiles to few
        sets."""
        pitch = -(-self.channels * self.item_bytes // LINE) * LINE
        return pitch + LINE if pitch % (SETS_REPEAT // 4) == 0 else pitch

    @property
    def plane(self) -> int:
        """Distance from a plane to the next in bytes: an odd number of cache lines."""
        lines = self.tiles * self.pitch // LINE
        return (lines + 1 - lines % 2) * LINE

    @property
    def bytes(self) -> int:
        """Size of all planes, in bytes."""
        return self.count * self.plane + self.extra * self.pitch


def input_planes(tiles: Tiles, count: int, extra: int = 0) -> Planes:
    """Return the planes of the inputs of `count` tiles, with the input rows below that filters reach unless two_d."""
    return Planes(tiles.planes, count + (tiles.taps - 1) * tiles.across, tiles.in_ch, extra, tiles.item_bytes)


def products(tiles: Tiles, count: int, extra: int = 0) -> Planes:
    """Return the planes of the sums of `count` tiles, for all panels."""
    return Planes(tiles.planes, count, tiles.panels * tiles.lanes, extra, tiles.item_bytes)


Value: TypeAlias = ir.Value
# Size of all planes up to which they are not prefetched. On a Zen 3 with 512 KiB of level 2, prefetches made whole
# layers
# 3 percent slower for 330 to 660 KiB of planes, and transforms 5 to 15 percent faster for 900 KiB and more.
NEAR_BYTES = 3 << 18


def over_cache_lines(
    b: ir.IRBuilder,
    planes: Planes,
    tile: Value,
    vectors: int,
    lanes: int,
    body: Callable[[Value], None],
    write: bool,
    pixels: tuple[Value, Sequence[int]] | None,
) -> None:
    """Emit body(number of a vector of channels) for all vectors of a tile, with prefetches of its planes and pixels.

    tile: pointer to the tile in the first plane. write: True if planes are written and the image is read, else vice
    versa. pixels: (pointer to the next tile's first pixel, bytes from there to each of its pixels); None: pixels are
    not prefetched.
    """
    vector_bytes = lanes * planes.item_bytes
    per_line = max(1, LINE // vector_bytes)
    far = planes.bytes > NEAR_BYTES
    if not far and pixels is None:
        repeat(b, 0, vectors, body, "channels")
        return

    def line(first: Value) -> None:
        here = scale_index(b, first, vector_bytes)
        if pixels is not None:
            start, steps = pixels
            pixel = address(b, start, here)
            for step in steps:
                prefetch_line(b, address(b, pixel, step), write=not write)
        ahead = address(b, tile, here)
        for plane in range(planes.count if far else 0):
            prefetch_line(b, address(b, ahead, plane * planes.plane + max(LINE, vector_bytes)), write=write)
        end = minimum(b, b.add(first, const(per_line)), const(vectors))
        repeat(b, first, end, body, "channels")

    repeat(b, const(0), const(vectors), line, "line", per_line)


def prefetches_pixels(machine: Machine, tiles: Tiles, image: Located) -> bool:
    """Return True if the single kernel prefetches the next tile's pixels. Measured on a Zen 3.

    The first and the last of three kernels are slower with these prefetches if they prefetch planes as well.
    """
    return machine.arch == "x86_64" and tiles.two_d and image.along_channels and not image.block
