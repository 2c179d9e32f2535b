"""Vectors of channels of a tile, a cache line of each plane at a time, the next ones asked for beforehand.

A tile has a line in each of some dozen planes, which are more streams than hardware follows: where all planes together
are larger than a level-2 cache, each vector would wait for a line of each plane.
"""

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.emit import I32, PTR, address, const, repeat, scaled
from mavcg.kernels.nest import minimum
from mavcg.kernels.primitives.winograd_spec import LINE, Planes
from mavcg.primitive import F32_BYTES

Value: TypeAlias = ir.Value

# Of all planes: so few are near enough. On a Zen 3 with 512 KiB of level 2, asking for 330 to 660 KiB made whole layers
# 3 percent slower; for 900 and more it takes 5 to 15 percent off the transforms.
NEAR_BYTES = 3 << 18


def by_lines(
    b: ir.IRBuilder, planes: Planes, tile: Value, vectors: int, lanes: int, body: Callable[[Value], None], write: bool
) -> None:
    """body(number of a vector of channels) for all vectors of a tile, whose first plane begins at `tile`.

    write: whether the planes are written; else they are read.
    """
    per_line = max(1, LINE // (lanes * F32_BYTES))
    if planes.bytes <= NEAR_BYTES:
        repeat(b, 0, vectors, body, "channels")
        return

    def line(first: Value) -> None:
        ahead = address(b, tile, scaled(b, first, lanes * F32_BYTES))
        for plane in range(planes.count):
            ask(b, address(b, ahead, plane * planes.plane + max(LINE, lanes * F32_BYTES)), write)
        end = minimum(b, b.add(first, const(per_line)), const(vectors))
        repeat(b, first, end, body, "channels")

    repeat(b, const(0), const(vectors), line, "line", per_line)


def ask(b: ir.IRBuilder, place: Value, write: bool) -> None:
    """Prefetch a line into the level-1 cache; it need not be the program's."""
    full = "llvm.prefetch.p0"
    kind = ir.FunctionType(ir.VoidType(), [PTR, I32, I32, I32])
    function = b.module.globals.get(full) or ir.Function(b.module, kind, full)
    b.call(function, [place, const(int(write), I32), const(3, I32), const(1, I32)])
