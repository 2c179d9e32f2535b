"""Rows of work of a primitive's stages: the units that threads share, and how evenly.

A stage of 3 rows keeps at most 3 threads busy. The numbers equal those of the kernels' specs (`KernelSpec.rows`), but
are computed without packing weights.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mavcg.kernels.conv import spec as conv_spec
from mavcg.kernels.conv.conv2d import PIECE_PIXELS
from mavcg.kernels.primitives.direct import stages as direct_primitive
from mavcg.kernels.primitives.direct.depthwise_channels import CHUNK_CHANNELS, DepthwisePrimitive
from mavcg.kernels.primitives.direct.spec import VectorAxis
from mavcg.kernels.primitives.direct.stages import COLUMN_PANEL, PIECE_LEAST, PIECE_MOST, DirectPrimitive, SpecialLayer
from mavcg.kernels.primitives.direct.sum2d import Sum2d
from mavcg.kernels.primitives.fft.family import Fft, best_length
from mavcg.kernels.primitives.im2.family import Im2
from mavcg.kernels.primitives.im2.pieces import STRIP_PIXELS, channels_of_part, pieces_of
from mavcg.kernels.primitives.implicit_gemm import Implicit, ImplicitDepthwise
from mavcg.kernels.primitives.kn2.family import Kn2, as_one_row
from mavcg.kernels.primitives.sparse.family import Sparse
from mavcg.kernels.primitives.winograd.family import CHUNK, WinogradPrimitive
from mavcg.specs.primitive import F32_BYTES, Epilogue, Layout, Primitive, Scenario


@dataclass(frozen=True)
class StageRows:
    """Rows of the stage that computes products, and of the other stages by their parts (part_counts.py).

    stages: number of stages; for example 1 plus the copy of a border.
    """

    main: int
    others: Mapping[str, int] = field(default_factory=dict)
    stages: int = 1

    def of(self, part: str) -> int:
        """Return the number of rows of the stage that does a part."""
        return self.others.get(part, self.main)


def stage_rows(scenario: Scenario, primitive: Primitive, block: int) -> StageRows:
    """Return the rows of each stage of a primitive that applies. block: channels of a block of CHWc."""
    s, counted = scenario.image, _COUNTED.get(type(primitive))
    rows = StageRows(s.out_h) if counted is None else counted(s, primitive, block)
    if scenario.batch == 1:
        return rows
    if primitive.batch_at_once:  # the last stage is one of all images
        return StageRows(rows.main * scenario.batch, rows.others, 1 + scenario.batch * (rows.stages - 1))
    return StageRows(rows.main, rows.others, rows.stages * scenario.batch)


def _add_border(s: Scenario, main: int, phases: bool, stages: int = 1) -> StageRows:
    """Add the stage that copies an image with a border, or with its columns in phases."""
    if not any(s.pads) and not (phases and s.along.stride > 1):
        return StageRows(main, stages=stages)
    rows = s.h + 2 * s.pad
    return StageRows(main, {"copy": rows, "gather": rows}, stages + 1)


def _pixel_rows(pixels: int, rows: int, most: int) -> int:
    """Return the number of rows into which the direct primitive divides an image of so many pixels.

    rows: rows of the image. most: largest number of pixels of a row. The image is one row if it has at most `most`
    pixels, else rows of the largest length up to `most` that divides it, else the image's own rows.
    """
    if pixels <= most:
        return 1
    whole = [n for n in range(PIECE_LEAST, most + 1) if pixels % n == 0]
    return pixels // whole[-1] if whole else rows


def _channel_parts(pieces: int, groups: int, channels: int) -> int:
    """Return the number of parts of a group's output channels if there are few pieces."""
    return -(-channels // channels_of_part(channels, pieces * groups))


def _direct(s: Scenario, p: DirectPrimitive, block: int) -> StageRows:
    per_group, columns = s.m // s.groups, p.along is VectorAxis.COLUMNS
    rows = s.out_h
    if p.special is SpecialLayer.ONE_BY_ONE:
        rows = _pixel_rows(s.out_h * s.out_w, s.out_h, PIECE_MOST[p.along])
    weight_bytes = s.m * (s.c // s.groups) * s.taps * F32_BYTES
    heavy = weight_bytes > direct_primitive.MANY_WEIGHTS_BYTES or rows < direct_primitive.FEW_ROWS
    panel = COLUMN_PANEL if columns else block
    chunk = min(per_group, direct_primitive.CHUNK_PANELS * panel) if heavy else per_group
    return _add_border(s, s.groups * -(-per_group // chunk) * rows, columns)


def _implicit(s: Scenario, p: Implicit, block: int) -> StageRows:
    blocks = s.m // block if p.layout_out is Layout.CHWC else 1
    rows = (
        _pixel_rows(s.out_h * s.out_w, s.out_h, PIECE_PIXELS) if (s.kernel, s.strides) == ((1, 1), (1, 1)) else s.out_h
    )
    channels = s.m // blocks
    panels = s.groups * -(-(channels // s.groups) // block)
    weights = channels * (s.c // s.groups) * s.taps
    pixels = s.out_h * s.out_w
    images = s.c * min(s.padded_pixels, pixels * s.taps) + channels * pixels
    heavy = weights > max(conv_spec.MANY_WEIGHTS // F32_BYTES, images)
    by_channels = panels >= conv_spec.FEW_ROWS and (heavy or rows < conv_spec.FEW_ROWS)
    return _add_border(s, panels if by_channels else rows, False, blocks)


def _im2(s: Scenario, p: Im2, block: int) -> StageRows:
    pieces = pieces_of(s.out_h, s.out_w, p.layout_out is Layout.HCW).count
    if p.strips:
        return StageRows(pieces)
    made = s.c * s.k if p.columns else s.out_h
    main = pieces * s.groups * _channel_parts(pieces, s.groups, s.m // s.groups)
    return StageRows(main, {"patch": made, "patch_far": made}, 2)


def _kn2(s: Scenario, p: Kn2, block: int) -> StageRows:
    even = Layout.HCW not in (p.layout_in, p.layout_out)
    flat = as_one_row(s) if even and s.taps == 1 and not any(s.pads) else s
    if not p.accumulating:
        rows = as_one_row(s).h if even else s.h
        return StageRows(rows * s.groups * s.taps, {"shifted": flat.out_h}, 2)
    blocks = -(-flat.out_h // min(flat.out_h, max(1, STRIP_PIXELS // flat.out_w)))
    return StageRows(blocks * s.groups * _channel_parts(blocks, s.groups, s.m // s.groups))


def _winograd(s: Scenario, p: WinogradPrimitive, block: int) -> StageRows:
    grid = p.tiles(s, block)
    tiles = grid.count // grid.unit
    if not p.staged:
        return StageRows(tiles)
    planes = grid.planes
    lanes = -(-s.m // block) * block
    return StageRows(planes * -(-lanes // CHUNK), {"transform": tiles, "turn_winograd": tiles}, 3)


def _fft(s: Scenario, p: Fft, block: int) -> StageRows:
    coefficients = (p.length or best_length(s)) // 2 + 1
    return StageRows(coefficients * s.groups, {"butterfly": s.out_h, "turn": s.out_h}, 3)


def _sparse(s: Scenario, p: Sparse, block: int) -> StageRows:
    main = p.product(s, block, Epilogue()).rows
    return StageRows(main) if p.in_place(s) else StageRows(main, {"patch": s.c * s.k, "patch_far": s.c * s.k}, 2)


def _depthwise(s: Scenario, p: Primitive, block: int) -> StageRows:
    return _add_border(s, s.out_h * -(-s.m // CHUNK_CHANNELS), False)


def _of_engine(s: Scenario, p: Primitive, block: int) -> StageRows:
    return _add_border(s, s.out_h, False)


def _sum2d(s: Scenario, p: Sum2d, block: int) -> StageRows:
    return _add_border(s, s.m, p.columns)


_COUNTED: dict[type[Primitive], Callable[[Scenario, Any, int], StageRows]] = {
    DirectPrimitive: _direct,
    DepthwisePrimitive: _depthwise,
    Implicit: _implicit,
    ImplicitDepthwise: _of_engine,
    Im2: _im2,
    Kn2: _kn2,
    Sparse: _sparse,
    WinogradPrimitive: _winograd,
    Fft: _fft,
    Sum2d: _sum2d,
}
