"""Loops over the vectors of channels of a tile, a cache line of each plane at a time, the next ones prefetched.

A tile has a line in each of some dozen planes, which are more streams than hardware follows: where all planes together
are larger than a level-2 cache, each vector would wait for a line of each plane. So it is with the image, of which a
tile has a line in each of 36 or 16 pixels: of a large image all are far away, and the next tile's are prefetched.
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

# Size of all planes up to which none is prefetched. On a Zen 3 with 512 KiB of level 2, prefetches of 330 to 660 KiB
# made whole layers 3 percent slower; of 900 and more they take 5 to 15 percent off the transforms.
NEAR_BYTES = 3 << 18


def over_cache_lines(
    b: ir.IRBuilder, planes: Planes, tile: Value, vectors: int, lanes: int, body: Callable[[Value], None], write: bool,
    pixels: Value | None, steps: Sequence[int],
) -> None:  # fmt: skip
    """Emit body(number of a vector of channels) for all vectors of a tile, whose first plane begins at `tile`.

    write: True if the planes are written and the image is read, else vice versa. pixels: pointer to the next tile's
    first pixel in the image; None: no pixels are prefetched. steps: bytes from there to each of its pixels.
    """
    per_line = max(1, LINE // (lanes * F32_BYTES))
    far = planes.bytes > NEAR_BYTES
    if not far and pixels is None:
        repeat(b, 0, vectors, body, "channels")
        return

    def line(first: Value) -> None:
        here = scale_index(b, first, lanes * F32_BYTES)
        if pixels is not None:
            pixel = address(b, pixels, here)
            for step in steps:
                prefetch_to_l1(b, address(b, pixel, step), not write)
        ahead = address(b, tile, here)
        for plane in range(planes.count if far else 0):
            prefetch_to_l1(b, address(b, ahead, plane * planes.plane + max(LINE, lanes * F32_BYTES)), write)
        end = minimum(b, b.add(first, const(per_line)), const(vectors))
        repeat(b, first, end, body, "channels")

    repeat(b, const(0), const(vectors), line, "line", per_line)


def prefetches_pixels(machine: Machine, tiles: Tiles, image: Located) -> bool:
    """Return True if the one kernel for a whole block prefetches the next tile's pixels. Measured on a Zen 3.

    Of three kernels, the first and the last are slower with it where they prefetch planes as well.
    """
    return machine.arch == "x86_64" and tiles.two_d and image.along_channels and not image.block


def prefetch_to_l1(b: ir.IRBuilder, pointer: Value, write: bool) -> None:
    """Emit a prefetch of a line into the level-1 cache; the address may be outside the program's memory."""
    full = "llvm.prefetch.p0"
    kind = ir.FunctionType(ir.VoidType(), [PTR, I32, I32, I32])
    function = b.module.globals.get(full) or ir.Function(b.module, kind, full)
    b.call(function, [pointer, const(int(write), I32), const(3, I32), const(1, I32)])
