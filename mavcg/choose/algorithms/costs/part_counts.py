"""The work of each family's primitives as parts, which are counted from the scenario alone.

Parts are steps of register tiles (as kernels.tiling chooses them for the kernels), elements that are transformed,
copied or transposed, and the time of the bytes from each memory level.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mavcg.choose.algorithms.costs.primitive_model import Parts, PrimitiveModel
from mavcg.hardware.fits import fit_of
from mavcg.hardware.instruction_mix import InstructionMix
from mavcg.kernels.gemm.register_tile import most_pixels, most_vectors, step_cycles
from mavcg.kernels.primitives.direct.depthwise_channels import DepthwisePrimitive
from mavcg.kernels.primitives.direct.spec import TileExtent, VectorAxis
from mavcg.kernels.primitives.direct.stages import MANY_WEIGHTS_BYTES, DirectPrimitive, SpecialLayer
from mavcg.kernels.primitives.direct.sum2d import Sum2d
from mavcg.kernels.primitives.direct.terms import TermOrder
from mavcg.kernels.primitives.fft.family import Fft, best_length
from mavcg.kernels.primitives.fft.specs import Transforms
from mavcg.kernels.primitives.im2.family import Im2
from mavcg.kernels.primitives.implicit_gemm import Implicit, ImplicitDepthwise
from mavcg.kernels.primitives.kn2.family import Kn2
from mavcg.kernels.primitives.sparse.family import Sparse
from mavcg.kernels.primitives.sparse.pattern import packed_bytes, stored_blocks
from mavcg.kernels.primitives.sparse.product import tile_vectors
from mavcg.kernels.primitives.winograd.family import BLOCK_TILES, BLOCK_TILES_1D, WinogradPrimitive
from mavcg.specs.primitive import F32_BYTES, Layout, Primitive, Scenario


def parts_of(model: PrimitiveModel, scenario: Scenario, primitive: Primitive) -> Parts | None:
    """Return the parts of a primitive's work; None for a family that this module does not know. The primitive must
    apply.

    The first image of a batch counts as if alone. For each further image the weights are read from the level that holds
    them by their size, or not at all if the primitive reads them once for the whole batch.
    """
    counted = _COUNTERS.get(type(primitive))
    if counted is None:
        return None
    s, more = scenario.image, scenario.batch - 1
    first = counted(model, s, primitive)
    if not more:
        return first
    near = replace(model, between_bytes=0.0)
    again = dict(counted(near, s, primitive))
    if primitive.batch_at_once:
        weights = s.m * s.c // s.groups * s.taps * F32_BYTES
        again["bytes"] = max(0.0, again.get("bytes", 0.0) - near.bytes_ns(weights, weights))
    else:
        again["kernel"] = again.get("kernel", 0.0) + 1.0
    return _add(first, {name: more * count for name, count in again.items()})


def _image_bytes(s: Scenario) -> int:
    return s.c * s.h * s.w * F32_BYTES


def _out_bytes(s: Scenario) -> int:
    return s.m * s.out_h * s.out_w * F32_BYTES


def _plain_bytes(
    model: PrimitiveModel, s: Scenario, weights: float = 0, passes: float = 1, parted: bool = False
) -> float:
    """Return the bytes of image and output once, and of the weights (the definition's by default) `passes` times.

    parted: rows of work need a part of the weights each, so that several threads read no more than one does.
    """
    passes = passes if parted else max(passes, model.readers)
    weights = weights or s.m * s.c // s.groups * s.taps * F32_BYTES
    images = _image_bytes(s) + _out_bytes(s)
    first = model.bytes_ns(weights, max(weights, model.between_bytes))
    return model.bytes_ns(images, images + weights) + first + model.bytes_ns(weights * (passes - 1), weights)


def _border(s: Scenario, phases: bool) -> dict[str, float]:
    """Return the part that copies the image with its border, in phases if vectors along the columns have a stride."""
    if phases and s.along.stride > 1:
        return {"gather": s.c * s.padded_pixels}
    return {"copy": s.c * s.padded_pixels} if any(s.pads) else {}


def _transpose_epilogue(layout: Layout, along_pixels: bool, elements: float) -> dict[str, float]:
    """Return the part of an epilogue that transposes, because neighbours in memory are not neighbours in vectors."""
    return {"turn": elements} if layout.planar is not along_pixels else {}


def _add(*several: Parts) -> dict[str, float]:
    total: dict[str, float] = {}
    for parts in several:
        for name, count in parts.items():
            total[name] = total.get(name, 0.0) + count
    return total


def _per_group(s: Scenario) -> tuple[int, int]:
    return s.c // s.groups, s.m // s.groups


def _direct(model: PrimitiveModel, s: Scenario, p: DirectPrimitive) -> Parts:
    in_ch, out_ch = _per_group(s)
    terms = in_ch * s.taps
    pixels, rows = s.out_w, s.out_h
    if p.special is SpecialLayer.ONE_BY_ONE:  # pixels are counted through
        pixels, rows = min(64, s.out_h * s.out_w), max(1, s.out_h * s.out_w // 64)
    across_channels = p.along is VectorAxis.CHANNELS
    scalars, columns = (pixels, out_ch) if across_channels else (out_ch, pixels)
    if p.tile_extent is TileExtent.BOTH:
        name = "columns" if not across_channels else "first" if p.special is SpecialLayer.FIRST_LAYER else "channels"
        if across_channels and p.order is TermOrder.CHANNELS:
            name = (
                "far_channels" if s.taps > 1 else "plane_channels"
            )  # successive terms of a sum are an image's size from one another
        cycles = model.product(scalars, columns, terms)
    else:
        pixel = p.tile_extent is TileExtent.ONE_SCALAR
        name = "columns_single" if not across_channels else "pixel" if pixel else "one_vector"
        cycles = _single(model, p.tile_extent, scalars, columns) * terms
    parts: dict[str, float] = {f"product_{name}": cycles * rows * s.groups}
    heavy = s.m * terms * F32_BYTES > MANY_WEIGHTS_BYTES
    passes = 1 if heavy else s.out_h
    ends = _transpose_epilogue(p.layout_out, not across_channels, s.m * s.out_h * s.out_w)
    return _add(
        parts,
        _border(s, not across_channels),
        ends,
        {"bytes": _plain_bytes(model, s, passes=passes, parted=heavy)},
    )


def _single(model: PrimitiveModel, tile_extent: TileExtent, scalars: int, columns: int) -> float:
    """Return the cycles of a step of all tiles of one scalar and several vectors, or of one vector and several scalars.

    A core with fewer multiply-adds per cycle than tiles are chosen by takes longer for them; its latency is the same.
    """
    vectors, chain = -(-columns // model.lanes), 1 / model.product_slowdown
    if tile_extent is TileExtent.ONE_SCALAR:
        most = min(vectors, most_vectors(model.machine, 1))
        return scalars * (vectors / most) * step_cycles(model.machine, 1, most, 1, chain)
    most = min(scalars, most_pixels(model.machine, 1))
    return vectors * math.ceil(scalars / most) * step_cycles(model.machine, most, 1, 1, chain)


def _depthwise(model: PrimitiveModel, s: Scenario, p: Primitive) -> Parts:
    return _add({"depthwise": s.m * s.out_h * s.out_w * s.taps}, _border(s, False), {"bytes": _plain_bytes(model, s)})


def _implicit(model: PrimitiveModel, s: Scenario, p: Implicit) -> Parts:
    in_ch, out_ch = _per_group(s)
    terms = in_ch * s.taps
    pixels, rows = (s.out_w, s.out_h) if s.taps > 1 else (min(64, s.out_h * s.out_w), max(1, s.out_h * s.out_w // 64))
    blocks = s.m // model.block if p.layout_out is Layout.CHWC else 1
    cycles = model.product(pixels, out_ch // blocks, terms) * blocks * rows * s.groups
    return _add(
        {"product_implicit": cycles}, _border(s, False), {"bytes": _plain_bytes(model, s)}, {"kernel": blocks - 1.0}
    )


def _im2(model: PrimitiveModel, s: Scenario, p: Im2) -> Parts:
    in_ch, out_ch = _per_group(s)
    terms, pixels = in_ch * s.taps, s.out_h * s.out_w
    along_pixels = p.layout_out.planar
    strip = min(64, pixels)
    if along_pixels:
        cycles = model.product(out_ch, strip, terms) * pixels / strip
        name = "im2_columns_turned" if p.transposed else "im2_columns"
    else:
        cycles = model.product(strip, out_ch, terms) * pixels / strip
        name = "im2_rows"
    elements = s.c * s.taps * pixels
    matrix = 0.0 if p.strips else model.bytes_ns(2 * elements * F32_BYTES)
    straight = p.layout_in.planar is p.columns and (p.columns or in_ch >= model.lanes)
    copied = ("patch" if s.along.stride == 1 or not p.columns else "patch_far") if straight else "patch_far"
    passes = pixels / 64 if p.strips else 1
    weights = s.m * terms * F32_BYTES
    return _add(
        {f"product_{name}": cycles * s.groups, copied: elements},
        {"bytes": matrix + _plain_bytes(model, s, weights, passes)},
    )


def _sparse(model: PrimitiveModel, s: Scenario, p: Sparse) -> Parts:
    pixels, terms, rows = s.out_h * s.out_w, s.c * s.taps, p.block_rows
    vectors = tile_vectors(model.machine, rows)
    live_vectors = min(vectors, -(-pixels // model.lanes))
    entry = InstructionMix(fma=rows * live_vectors, loads=live_vectors + 1 + rows, other=4, chain=1).cycles(
        model.core.rates
    )
    tiles = -(-pixels // (vectors * model.lanes))
    blocks = -(-s.m // rows) * model.fit.tile_cycles
    parts = {"sparse": tiles * (stored_blocks(s, rows) * entry + blocks)}
    if p.in_place(s):
        return _add(parts, {"bytes": _plain_bytes(model, s, packed_bytes(s, rows))})
    elements = terms * pixels
    copied = "patch" if s.along.stride == 1 and p.layout_in.planar else "patch_far"
    matrix = model.bytes_ns(2 * elements * F32_BYTES)
    return _add(parts, {copied: elements}, {"bytes": matrix + _plain_bytes(model, s, packed_bytes(s, rows))})


def _kn2(model: PrimitiveModel, s: Scenario, p: Kn2) -> Parts:
    in_ch, out_ch = _per_group(s)
    taps, along_pixels = s.taps, p.layout_out.planar
    pixels = s.out_h * s.out_w if p.accumulating else s.h * s.w
    strip = min(pixels, max(s.out_w, 64 if taps == 1 else s.out_w))
    a, b = (out_ch, strip) if along_pixels else (strip, out_ch)
    cycles = model.product(a, b, model.stored_channels(p.layout_in, in_ch)) * pixels / strip * taps * s.groups
    name = "kn2_row" if along_pixels else "kn2_col"
    sums = s.m * pixels * taps
    parts: dict[str, float] = {f"product_{name}": cycles}
    if not p.accumulating:
        parts["shifted"] = sums
        parts["bytes"] = model.bytes_ns(2 * sums * F32_BYTES)
    turned = _transpose_epilogue(p.layout_in, along_pixels, s.c * s.h * s.w) if taps > 1 else {}
    return _add(parts, turned, {"bytes": _plain_bytes(model, s)})


def _winograd(model: PrimitiveModel, s: Scenario, p: WinogradPrimitive) -> Parts:
    tiles = p.tiles(s, model.block)
    block = min(tiles.count, BLOCK_TILES if p.two_d else BLOCK_TILES_1D)
    rows = tiles.count if p.staged else block
    in_ch = model.stored_channels(p.layout_in, s.c)
    cycles = model.product(rows, s.m, tiles.terms) * tiles.planes * tiles.count / rows
    weights = tiles.planes * tiles.terms * s.m * F32_BYTES
    passes = 1.0 if p.staged else math.ceil(tiles.count / block)
    between = tiles.planes * tiles.count * (max(in_ch, model.lanes) + max(s.m, model.lanes))
    work = between * tiles.t * (2 if p.two_d else 1)
    moved = model.bytes_ns(2 * between * F32_BYTES, between * F32_BYTES * rows / tiles.count)
    ends = {
        "turn_winograd": sum(
            elements
            for layout, elements in ((p.layout_in, s.c * s.h * s.w), (p.layout_out, s.m * s.out_h * s.out_w))
            if layout.planar
        )
    }
    return _add(
        {"product_winograd_staged" if p.staged else "product_winograd": cycles, "transform": work},
        ends,
        {"bytes": moved + _plain_bytes(model, s, weights, passes, p.staged)},
    )


def _fft(model: PrimitiveModel, s: Scenario, p: Fft) -> Parts:
    t = Transforms(s, p.length or best_length(s))
    in_ch, out_ch = t.in_channels, t.out_channels
    rows = 2 * t.tiles * s.out_h
    cycles = model.product(min(rows, 64), out_ch, 2 * in_ch * s.k) * rows / min(rows, 64) * s.groups
    weights = t.coefficients * 2 * s.c // s.groups * s.k * s.m * F32_BYTES
    between = t.in_bytes * t.coefficients + t.out_bytes * t.coefficients
    transformed = (t.tiles * t.in_rows * s.c + t.tiles * s.out_h * s.m) * t.length * math.log2(t.length)
    ends = _add(
        _transpose_epilogue(p.layout_in, False, s.c * s.h * s.w),
        _transpose_epilogue(p.layout_out, False, s.m * s.out_h * s.out_w),
    )
    return _add(
        {"product_fft": cycles * (t.coefficients - 1), "butterfly": transformed},
        ends,
        {"bytes": model.bytes_ns(2 * between) + _plain_bytes(model, s, weights, parted=True)},
    )


def _sum2d(model: PrimitiveModel, s: Scenario, p: Sum2d) -> Parts:
    in_ch, _ = _per_group(s)
    outputs = s.m * s.out_h * s.out_w * in_ch
    vectors = s.m * s.out_h * in_ch * -(-s.out_w // model.lanes)
    if not p.columns:
        latency = fit_of(model.machine).register_tile.fma_latency
        return _add({"product_scalar": outputs * (s.taps * latency)}, _border(s, False))
    return _add(
        {"product_sum2d": vectors * s.taps, "product_sum2d_sofar": vectors},
        _border(s, True),
        {"bytes": model.bytes_ns(outputs * F32_BYTES, s.out_h * s.out_w * F32_BYTES)},
    )


_COUNTERS: dict[type[Primitive], Callable[[PrimitiveModel, Scenario, Any], Parts]] = {
    DirectPrimitive: _direct,
    DepthwisePrimitive: _depthwise,
    Implicit: _implicit,
    ImplicitDepthwise: _depthwise,
    Im2: _im2,
    Kn2: _kn2,
    Sparse: _sparse,
    WinogradPrimitive: _winograd,
    Fft: _fft,
    Sum2d: _sum2d,
}
