"""Emitter of loops over the vectors of channels of a tile, one cache line of each plane at a time, with prefetches.

A tile has a line in each of dozens of planes, more streams than hardware prefetchers track: if all planes together
exceed a level-2 cache, each vector would wait for a line of each plane. Likewise a tile has a line in each of 36 or 16
pixels of the image, which for a large image are not in the caches: the next tile's pixels are prefetched.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import I32, PTR, address, const, repeat, scale_index
from mavcg.kernels.builder.nest import minimum
from mavcg.kernels.primitives.winograd.tiles import LINE, Located, Planes, Tiles
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES

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
    per_line = max(1, LINE // (lanes * F32_BYTES))
    far = planes.bytes > NEAR_BYTES
    if not far and pixels is None:
        repeat(b, 0, vectors, body, "channels")
        return

    def line(first: Value) -> None:
        here = scale_index(b, first, lanes * F32_BYTES)
        if pixels is not None:
            start, steps = pixels
            pixel = address(b, start, here)
            for step in steps:
                prefetch_to_l1(b, address(b, pixel, step), not write)
        ahead = address(b, tile, here)
        for plane in range(planes.count if far else 0):
            prefetch_to_l1(b, address(b, ahead, plane * planes.plane + max(LINE, lanes * F32_BYTES)), write)
        end = minimum(b, b.add(first, const(per_line)), const(vectors))
        repeat(b, first, end, body, "channels")

    repeat(b, const(0), const(vectors), line, "line", per_line)


def prefetches_pixels(machine: Machine, tiles: Tiles, image: Located) -> bool:
    """Return True if the single kernel prefetches the next tile's pixels. Measured on a Zen 3.

    The first and the last of three kernels are slower with these prefetches if they prefetch planes as well.
    """
    return machine.arch == "x86_64" and tiles.two_d and image.along_channels and not image.block


def prefetch_to_l1(b: ir.IRBuilder, pointer: Value, write: bool) -> None:
    """Emit a prefetch of a cache line into level 1; the address may be invalid."""
    full = "llvm.prefetch.p0"
    kind = ir.FunctionType(ir.VoidType(), [PTR, I32, I32, I32])
    function = b.module.globals.get(full) or ir.Function(b.module, kind, full)
    b.call(function, [pointer, const(int(write), I32), const(3, I32), const(1, I32)])
