"""What it costs and brings to ask early for weights of the next chunk of channels, by a model of x86 cores.

Register tiles of a chunk share the asking (kernels/conv_tiling.ask_bytes). Two things come of it: lines from beyond
level 2 are there in time, which engine_cost counts in bytes; and so are the first lines that a chunk's first tile reads
from level 2, before the core has seen that a stream begins. The constants were fitted to layers of SqueezeNet on a
Zen 3, one asking and one not (docs/design/engine-tiles.md).
"""

from dataclasses import dataclass
from typing import TypeGuard

from mavcg.kernel import KernelSpec, Machine
from mavcg.kernels.conv_spec import Conv2d
from mavcg.kernels.conv_tiling import LEAST_SHARING, ask_bytes
from mavcg.kernels.prefetch import LINE_BYTES
from mavcg.kernels.tiling import Widths, unrolled
from mavcg.tile_plan import MacroTile

ASK_CYCLES = 0.4  # of one prefetch
# Of a line besides, where a chunk's weights do not stay in level 1: it is gone before its tile comes, and took the
# place of what the tiles in between read.
LOST_LINE_CYCLES = 0.5
BEGIN_CYCLES = 57.0  # of a chunk whose weights lie in level 2; it does not depend on how many they are


@dataclass(frozen=True)
class Pass:
    """Rows of pixels that pass over a chunk of channels, all its register tiles: once for each block of rows.

    widths: of one row's tiles, or of all rows' where they cross from one to the next. chunk_bytes: of its weights of a
    block of terms. returns_bytes: what goes through level 1 until a pass over the same chunk follows: the task's
    weights, inputs and outputs; 0 where these weights are all of the task, None where no pass follows. pixel_bytes: of
    a register tile's inputs. terms: of a block.
    """

    widths: Widths
    crossing: bool
    rows: int
    chunk_bytes: int
    returns_bytes: int | None
    pixel_bytes: int
    terms: int


def known(spec: KernelSpec, machine: Machine) -> TypeGuard[Conv2d]:
    """Whether this model is of such a kernel on such a core."""
    return machine.arch == "x86_64" and isinstance(spec, Conv2d) and spec.packed


def shares(spec: KernelSpec, machine: Machine, one: Pass) -> bool:
    """Whether register tiles share the asking, if their macro-tile asks, where this model is of them."""
    return known(spec, machine) and _tiles(one) >= LEAST_SHARING


def cycles(spec: Conv2d, machine: Machine, macro: MacroTile, one: Pass, free_bytes: float) -> float:
    """Of a pass: the prefetches where there are any, else what a chunk waits for as it begins.

    free_bytes: of level 1.
    """
    stays = one.chunk_bytes + one.pixel_bytes <= free_bytes
    if not macro.prefetch_bytes:
        near = one.returns_bytes is not None and one.returns_bytes <= free_bytes
        return BEGIN_CYCLES if stays and not near else 0.0
    turn = unrolled(machine, one.terms)
    asks = one.terms / turn * -(-turn * _of_a_term(spec, macro, one) // LINE_BYTES)
    lost = 0.0 if stays else one.chunk_bytes / LINE_BYTES * LOST_LINE_CYCLES
    return _tiles(one) * asks * ASK_CYCLES + lost


def _tiles(one: Pass) -> int:
    return (one.widths.count + one.widths.count_less) * (1 if one.crossing else one.rows)


def _of_a_term(spec: Conv2d, macro: MacroTile, one: Pass) -> int:
    return ask_bytes(spec, macro, one.chunk_bytes // one.terms, _tiles(one))
