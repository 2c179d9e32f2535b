"""Winograd convolution primitives: tiles along rows or squares, in one kernel or three, in all layouts.

One kernel transforms, multiplies and transforms back a block of tiles at a time, in the thread's scratch. Three kernels
compute one stage each for the whole image, in a workspace; threads then share the products by planes, so that each
thread reads only its part of the weights.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mavcg.graph import DTYPES
from mavcg.kernels.primitives.common import align_workspace, epilogue_operand_places, image_of
from mavcg.kernels.primitives.winograd.kernels import EMIT
from mavcg.kernels.primitives.winograd.matrices import transform_weights
from mavcg.kernels.primitives.winograd.planes import input_planes, products
from mavcg.kernels.primitives.winograd.spec import (
    TILES_OF_A_CHUNK,
    Winograd,
    WinogradInput,
    WinogradOutput,
    WinogradProducts,
)
from mavcg.kernels.primitives.winograd.tiles import SLACK_TILES, Located, Tiles, view_in_layout
from mavcg.specs.kernel import Array, View
from mavcg.specs.packed_constant import PackedConstant
from mavcg.specs.primitive import Epilogue, Layout, Lowering, Primitive, Scenario, Stage, StageOperand

__all__ = [
    "EMIT",
    "PRIMITIVES",
    "StagedKernels",
    "WinogradPrimitive",
    "staged_kernels",
    "pack_winograd",
    "packed_winograd",
    "winograd_spec",
]

# Tiles of a block: six register tiles for each panel of weights. On a Zen 3, on layers of VGG-19 and ResNet-50, this is
# within the noise (10 percent) of the best of 12 to 66 tiles; 12 are up to a third slower with large weights, and 120
# or
# more with few channels.
BLOCK_TILES = TILES_OF_A_CHUNK
BLOCK_TILES_1D = 72
LEAST_ROWS_1D = 4  # minimum rows of a block: each block transforms k - 1 additional rows of inputs
MOST_SCRATCH = 8 << 20  # maximum scratch of a thread, in bytes
CHUNK = 128  # output channels of a row of work of the products' kernel


def block_of(tiles: Tiles, long_blocks: bool = False) -> int:
    """Return the number of tiles of a block: BLOCK_TILES, or fewer if the image or MOST_SCRATCH limits it.

    long_blocks: of square tiles as many more as take no more bytes than the weights do, which each block reads, in
    even blocks. A block of in_ch and out_ch channels has (in_ch + out_ch) elements a tile and plane, weights have
    in_ch * out_ch.
    """
    per_tile = (input_planes(tiles, 0).pitch + products(tiles, 0).pitch) * tiles.planes
    if tiles.two_d:
        room = max(1, min(tiles.count, MOST_SCRATCH // per_tile))
        as_weights = tiles.in_ch * tiles.out_ch // (tiles.in_ch + tiles.out_ch)
        if not long_blocks or as_weights <= BLOCK_TILES:
            return min(room, BLOCK_TILES)
        return -(-tiles.count // -(-tiles.count // min(room, as_weights)))
    rows = max(LEAST_ROWS_1D, BLOCK_TILES_1D // tiles.across)
    room = max(1, MOST_SCRATCH // (per_tile * tiles.across))
    return min(tiles.rows, rows, room) * tiles.across


def tiles_between(x: View, out: View, m: int, k: int, two_d: bool, lanes: int, pad: tuple[int, int] = (0, 0)) -> Tiles:
    """Return the tiles of a stride-1 convolution between N, H, W, C views with any strides.

    m: outputs of a tile along a row. k: taps along a row. pad: (rows above, columns left) of zeros that are not in x;
    those below and right follow from the size of out. lanes: output channels of a panel of packed weights.
    """
    (_, in_h, in_w, in_ch), (_, out_h, out_w, out_ch) = x.shape, out.shape
    return Tiles(m, k, two_d, pad, in_h, in_w, in_ch, out_h, out_w, out_ch, lanes, dtype=x.dtype)


def winograd_spec(
    tiles: Tiles,
    x: View,
    out: View,
    residual: View | None,
    bias: bool,
    act: str,
    act_args: tuple[float, ...],
    long_blocks: bool = False,
) -> Winograd:
    """Return the spec of the single kernel of a convolution between N, H, W, C views with these tiles.

    long_blocks: as in block_of.
    """
    residual_view = Located(residual) if residual is not None else None
    block = block_of(tiles, long_blocks)
    return Winograd(tiles, Located(x), Located(out), residual_view, block, bias, act, act_args)


@dataclass(frozen=True)
class StagedKernels:
    """The three kernels of a convolution. sums_at: offset of the products' sums in the workspace, in bytes."""

    inputs: WinogradInput
    products: WinogradProducts
    output: WinogradOutput
    sums_at: int
    workspace_bytes: int


def staged_kernels(spec: Winograd) -> StagedKernels:
    """Split a single kernel, for a batch of one image, into three kernels, which give the same bits."""
    tiles = spec.tiles
    sums_at = align_workspace(input_planes(tiles, tiles.count).bytes)
    chunk = min(-(-CHUNK // tiles.lanes), tiles.panels) * tiles.lanes
    return StagedKernels(
        WinogradInput(tiles, spec.x),
        WinogradProducts(tiles, chunk),
        WinogradOutput(tiles, spec.out, spec.residual, spec.bias, spec.act, spec.act_args),
        sums_at,
        sums_at + align_workspace(products(tiles, tiles.count).bytes),
    )


def pack_winograd(tiles: Tiles, weights: Array) -> Array:
    """Transform weights in double precision, round once, and pack them.

    weights: [O, KH, KW, I]. Returns: [planes, panels, terms, lanes], of the type of the tiles; finite numbers beyond
    its range are its largest.
    """
    # Output channels are the last dimension from the start, so that the final transpose moves whole rows of panels.
    channels_last = np.zeros((weights.shape[3], *weights.shape[1:3], tiles.panels * tiles.lanes))
    channels_last[..., : tiles.out_ch] = weights.transpose(3, 1, 2, 0)
    planes = transform_weights(tiles.m, channels_last, tiles.two_d)
    if not tiles.two_d:
        planes = planes.transpose(0, 2, 1, 3)
    split = planes.reshape(tiles.planes, tiles.terms, tiles.panels, tiles.lanes)
    packed = split.transpose(0, 2, 1, 3)
    if tiles.dtype == "f32":
        return np.ascontiguousarray(packed, np.float32)
    largest = float(np.finfo(np.float16).max)
    return np.ascontiguousarray(np.clip(packed, -largest, largest), np.float16)


def packed_winograd(tiles: Tiles, tensor: str) -> PackedConstant:
    """Return the recipe of `pack_winograd` for a constant of shape [O, KH, KW, I]. tensor: the constant's name."""
    shape = (tiles.planes, tiles.panels, tiles.terms, tiles.lanes)
    return PackedConstant(_pack_constant, (tensor,), (tiles,), shape, np.dtype(DTYPES[tiles.dtype]).name)


def _pack_constant(weights: Array, tiles: Tiles) -> Array:
    return pack_winograd(tiles, weights)


def _transpose(located: Located) -> Located:
    """Return the view of the same image with rows and columns exchanged."""
    view = located.view
    shape, strides = ((n, w, h, c) for n, h, w, c in (view.shape, view.strides))
    return replace(located, view=View(view.dtype, shape, strides))


@dataclass(frozen=True)
class WinogradPrimitive(Primitive):
    """A convolution by F(m, k) along rows, or, with two_d, by F(m x m, k x k). staged: in three kernels.

    down: F(m, k) along columns instead of rows, for filters with columns and rows of different length.
    """

    m: int = 4
    k: int = 3
    two_d: bool = True
    staged: bool = False
    down: bool = False

    @property
    def family(self) -> str:
        return "winograd"

    @property
    def stem(self) -> str:
        dimensions, form = 2 if self.two_d else 1, "_staged" if self.staged else "_down" if self.down else ""
        return f"winograd_{dimensions}d_f{self.m}_k{self.k}{form}"

    @property
    def error_bound(self) -> float:
        return ERROR_BOUNDS[self.two_d, self.m, self.k]

    @property
    def plain_sums(self) -> bool:
        return False

    def computes(self, scenario: Scenario) -> bool:
        s, (k_h, k_w) = scenario, scenario.kernel
        if (*s.strides, *s.dilations, s.groups) != (1,) * 5:
            return False
        if self.two_d:
            return k_h == k_w == self.k
        return k_h == self.k != k_w if self.down else k_w == self.k

    def workspace_bytes(self, scenario: Scenario) -> int:
        """Return the bytes of three kernels' workspace, or of a single kernel's scratch per thread."""
        tiles = self.tiles(scenario, 1)
        if self.staged:
            sums = products(self.tiles(scenario, 16), tiles.count)
            return align_workspace(input_planes(tiles, tiles.count).bytes) + align_workspace(sums.bytes)
        block = block_of(tiles)
        sums = products(self.tiles(scenario, 16), block, SLACK_TILES)
        return tiles.patch_bytes + input_planes(tiles, block, SLACK_TILES).bytes + sums.bytes

    def tiles(self, s: Scenario, lanes: int) -> Tiles:
        """Return the tiles of a scenario; lanes: output channels of a panel."""
        (pad_h, pad_w), (k_h, k_w) = s.pads, s.kernel
        if self.down:
            sizes, pad, rows = (s.w, s.h, s.c, s.out_w, s.out_h, s.m), (pad_w, pad_h), k_w
        else:
            sizes, pad, rows = (s.h, s.w, s.c, s.out_h, s.out_w, s.m), (pad_h, pad_w), k_h
        return Tiles(self.m, self.k, self.two_d, pad, *sizes, lanes, None if rows == self.k else rows)

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        s, tiles = scenario, self.tiles(scenario, block)
        x = view_in_layout(image_of(self.layout_in, s.c, s.h, s.w, block))
        out = view_in_layout(image_of(self.layout_out, s.m, s.out_h, s.out_w, block))
        filters = np.asarray(weights).transpose(0, 2, 3, 1)
        if self.down:
            x, out, filters = _transpose(x), _transpose(out), filters.transpose(0, 2, 1, 3)
        residual = out if epilogue.residual else None
        packed = partial(pack_winograd, tiles, filters)
        shape = (tiles.planes, tiles.panels, tiles.terms, tiles.lanes)
        act = "" if epilogue.act == "none" else epilogue.act
        epilogue_places = epilogue_operand_places(epilogue)
        spec = Winograd(tiles, x, out, residual, block_of(tiles), epilogue.bias, act, epilogue.act_args)
        if not self.staged:
            return Lowering(
                (Stage(spec, (StageOperand("x"), StageOperand("weights"), StageOperand("out"), *epilogue_places)),),
                packed,
                shape,
            )
        three = staged_kernels(spec)
        inputs, sums = StageOperand("workspace"), StageOperand("workspace", three.sums_at)
        stages = (
            Stage(three.inputs, (StageOperand("x"), inputs)),
            Stage(three.products, (inputs, StageOperand("weights"), sums)),
            Stage(three.output, (sums, StageOperand("out"), *epilogue_places)),
        )
        return Lowering(stages, packed, shape, three.workspace_bytes)


# The same for f16 images by m x m outputs of a filter of k x k: roundings of products, planes and transforms.
HALF_ERROR_BOUNDS = {(2, 3): 2e-2, (4, 3): 6e-2}
# (two_d, m, k) -> error bound: four to eight times the largest error over images of 1 to 512 channels with uniform and
# normal numbers. Images of a single output are excluded: an output near 0 has a larger error by any sum in f32.
ERROR_BOUNDS = {
    (True, 2, 3): 1e-5,
    (True, 4, 3): 2e-5,
    (True, 6, 3): 1.2e-4,
    (True, 2, 5): 2e-5,
    (True, 4, 5): 1e-4,
    (False, 2, 3): 1e-5,
    (False, 4, 3): 1.5e-5,
    (False, 6, 3): 4e-5,
    (False, 2, 5): 2e-5,
    (False, 4, 5): 4e-5,
    (False, 2, 7): 6e-5,
}


def _primitives() -> tuple[Primitive, ...]:
    chw, hcw, hwc, chwc = Layout.CHW, Layout.HCW, Layout.HWC, Layout.CHWC
    layouts = [(hwc, hwc), (chwc, chwc), (chw, chw), (chw, hwc), (hwc, chw), (chwc, hwc), (hwc, chwc)]
    primitives = [WinogradPrimitive(i, o, m, k, two_d) for two_d, m, k in ERROR_BOUNDS for i, o in layouts]
    primitives += [WinogradPrimitive(hcw, hcw, m, 3, False) for m in (2, 4, 6)]
    # Three kernels are faster if weights are large compared with the image; not with tiles along rows, which save less.
    staged = [(hwc, hwc), (chwc, chwc)]
    primitives += [
        WinogradPrimitive(i, o, m, k, True, True) for two_d, m, k in ERROR_BOUNDS if two_d for i, o in staged
    ]
    # Along columns only for filters of one column: for all others, rows or squares are as good.
    along_channels = [(hwc, hwc), (chwc, chwc)]
    primitives += [
        WinogradPrimitive(i, o, m, k, False, down=True)
        for two_d, m, k in ERROR_BOUNDS
        if not two_d
        for i, o in along_channels
    ]
    return tuple(primitives)


PRIMITIVES: tuple[Primitive, ...] = _primitives()
