"""Vectors of channels of a tile, a cache line of each plane at a time, the next ones asked for beforehand.

A tile has a line in each of some dozen planes, which are more streams than hardware follows: where all planes together
are larger than a level-2 cache, each vector would wait for a line of each plane. So it is with the image, of which a
tile has a line in each of 36 or 16 pixels: of a large image all are far away, and the next tile's are asked for.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernel import Machine
from mavcg.kernels.emit import I32, PTR, address, const, repeat, scaled
from mavcg.kernels.nest import minimum
from mavcg.kernels.primitives.winograd_spec import LINE, Located, Planes, Tiles
from mavcg.primitive import F32_BYTES

Value: TypeAlias = ir.Value

# Of all planes: so few are near enough. On a Zen 3 with 512 KiB of level 2, asking for 330 to 660 KiB made whole layers
# 3 percent slower; for 900 and more it takes 5 to 15 percent off the transforms.
NEAR_BYTES = 3 << 18


def by_lines(
    b: ir.IRBuilder, planes: Planes, tile: Value, vectors: int, lanes: int, body: Callable[[Value], None], write: bool,
    pixels: Value | None, steps: Sequence[int],
) -> None:  # fmt: skip
    """body(number of a vector of channels) for all vectors of a tile, whose first plane begins at `tile`.

    write: whether the planes are written, and the image read; else the other way round. pixels: the next tile's first
    pixel in the image; None: nothing of it is asked for. steps: bytes from there to each of its pixels.
    """
    per_line = max(1, LINE // (lanes * F32_BYTES))
    far = planes.bytes > NEAR_BYTES
    if not far and pixels is None:
        repeat(b, 0, vectors, body, "channels")
        return

    def line(first: Value) -> None:
        here = scaled(b, first, lanes * F32_BYTES)
        if pixels is not None:
            pixel = address(b, pixels, here)
            for step in steps:
                ask(b, address(b, pixel, step), not write)
        ahead = address(b, tile, here)
        for plane in range(planes.count if far else 0):
            ask(b, address(b, ahead, plane * planes.plane + max(LINE, lanes * F32_BYTES)), write)
        end = minimum(b, b.add(first, const(per_line)), const(vectors))
        repeat(b, first, end, body, "channels")

    repeat(b, const(0), const(vectors), line, "line", per_line)


def asks_for_pixels(machine: Machine, tiles: Tiles, image: Located) -> bool:
    """Whether a kernel that does all of a block asks for the next tile's pixels. Measured on a Zen 3.

    Of three kernels, the first and the last are the slower for it where they ask for planes as well.
    """
    return machine.arch == "x86_64" and tiles.two_d and image.along_channels and not image.block


def ask(b: ir.IRBuilder, place: Value, write: bool) -> None:
    """Prefetch a line into the level-1 cache; it need not be the program's."""
    full = "llvm.prefetch.p0"
    kind = ir.FunctionType(ir.VoidType(), [PTR, I32, I32, I32])
    function = b.module.globals.get(full) or ir.Function(b.module, kind, full)
    b.call(function, [place, const(int(write), I32), const(3, I32), const(1, I32)])
