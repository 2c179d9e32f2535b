"""What primitives cost by a model of a core: at once, for any board, without running anything.

A primitive is a sum of parts, each counted from the scenario: steps of the register tiles that its products take
(kernels.tiling chooses these for the kernels too), elements that are transformed, copied or turned round, and bytes
that come from each level of the caches. A part costs a constant of the table below. The constants were fitted once
(docs/tuning-models.md); what differs between cores is their clock, vectors, multiply-adds a cycle and caches.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mavcg.kernel import Machine
from mavcg.kernels.primitives.depthwise_channels import DepthwisePrimitive
from mavcg.kernels.primitives.direct_conv import Along, Held
from mavcg.kernels.primitives.direct_primitive import DirectPrimitive, Special
from mavcg.kernels.primitives.fft import Fft, best_length
from mavcg.kernels.primitives.fft_specs import Transforms
from mavcg.kernels.primitives.im2 import Im2
from mavcg.kernels.primitives.implicit import Implicit, ImplicitDepthwise
from mavcg.kernels.primitives.kn2 import Kn2
from mavcg.kernels.primitives.sum2d import Sum2d
from mavcg.kernels.primitives.terms import Order
from mavcg.kernels.primitives.winograd import BLOCK_TILES, BLOCK_TILES_1D, WinogradPrimitive
from mavcg.kernels.primitives.winograd_spec import Tiles
from mavcg.kernels.tiling import FMA_LATENCY, FMA_PER_CYCLE, choose, most_pixels, most_vectors, step_cycles
from mavcg.machines import GENERIC, machines_for
from mavcg.planner.board_machine import ClusterMachine
from mavcg.primitive import F32_BYTES, Layout, Primitive, Scenario
from mavcg.selection.costs import MODELLED, Cost
from mavcg.target import default_target

Parts = Mapping[str, float]
ALONG_PIXELS = (Layout.CHW, Layout.HCW)

# Fitted to 1,600 medians on a Zen 3: 37 scenarios, all kinds of primitives; conversions to 60.
CYCLES: dict[str, float] = {
    # For each cycle that kernels.tiling counts: what is left out there, such as loads of inputs that lie far apart.
    "product_channels": 1.24, "product_plane_channels": 1.30, "product_far_channels": 1.81, "product_first": 1.33,
    "product_columns": 1.50, "product_columns_single": 1.55, "product_pixel": 2.07, "product_one_vector": 2.01,
    "product_implicit": 1.30, "product_im2_columns": 1.49, "product_im2_columns_turned": 1.76,
    "product_im2_rows": 1.16, "product_kn2_col": 1.34, "product_kn2_row": 1.61, "product_fft": 1.35,
    "product_winograd": 1.28, "product_winograd_staged": 1.50,
    "product_scalar": 0.46, "product_sum2d": 1.93, "product_sum2d_sofar": 2.88,
    # For each vector of elements: an image that is copied in runs, by steps, or stored across the vectors; patches;
    # partial results that are added; an image that is converted.
    "copy": 7.0, "gather": 13.4, "turn": 6.4, "turn_winograd": 7.2, "patch": 8.2, "patch_far": 26.3, "shifted": 7.2,
    "convert": 3.5,
    # For each vector of multiply-adds, of terms of a transform, of halves of a butterfly.
    "depthwise": 0.72, "transform": 0.21, "butterfly": 6.1,
    # Of the time that bytes take, what is not hidden; nanoseconds of each kernel after the first.
    "bytes": 0.6, "kernel": 1000.0,
}  # fmt: skip

TILE_CYCLES = 20  # of a register tile beside its sums: to begin them, and to store them
LEAST_US = 0.3  # of a kernel: calls, and what loops cost before they begin


@dataclass(frozen=True)
class ModelledCosts:
    """A CostProvider that knows every primitive that applies, and every conversion.

    machine: as emitters know the core; cycle_ns: of its clock; slower: how many times as long as kernels.tiling says
    multiply-adds take on it; caches: (bytes, GB/s of what is behind), the nearest one first.
    """

    machine: Machine
    cycle_ns: float
    slower: float
    caches: tuple[tuple[int, float], ...]
    block: int

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        """As CostProvider."""
        if not primitive.applies(scenario):
            return None
        counted = _COUNTERS.get(type(primitive))
        if counted is None:
            return None
        return Cost(self.ns(counted(self, scenario, primitive)) / 1e6, MODELLED)

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        """As CostProvider: what is copied or turned round, with what fills up blocks, and its bytes."""
        if layout_from is layout_to:
            return Cost(0.0, MODELLED)
        ends = [_filled(self, layout, c) * h * w for layout in (layout_from, layout_to)]
        parts = {"convert": float(max(ends)), "bytes": self.bytes_ns(sum(ends) * F32_BYTES)}
        return Cost(self.ns(parts) / 1e6, MODELLED)

    def ns(self, parts: Parts) -> float:
        """Of all parts: `bytes` in ns, `kernel` how many more than one, products in cycles, others in elements."""
        total = LEAST_US * 1e3
        for name, count in parts.items():
            if name in ("bytes", "kernel"):
                total += count * CYCLES[name]
            elif name.startswith("product"):
                total += count * self.slower * self.cycle_ns * CYCLES[name]
            else:
                total += count / self.lanes * self.slower * self.cycle_ns * CYCLES[name]
        return total

    @property
    def lanes(self) -> int:
        """f32 of a vector."""
        return self.machine.vector_bytes // F32_BYTES

    def bytes_ns(self, moved: float, footprint: float = 0) -> float:
        """Nanoseconds for so many bytes of a footprint (as many, if none is given): from the first level that holds it.

        Nothing where that is the nearest one.
        """
        footprint = footprint or moved
        found = 0.0
        for size, behind in self.caches:
            if footprint <= size:
                break
            found = moved / behind
        return found

    def product(self, rows: int, columns: int, terms: int) -> float:
        """Cycles of a product of matrices by kernels.tiling; vectors are of columns."""
        vectors = -(-columns // self.lanes)
        tiling = choose(self.machine, rows, vectors, terms)
        tiles = (tiling.widths.count + tiling.widths.count_less) * -(-vectors // tiling.vectors)
        return tiling.cycles * terms + tiles * TILE_CYCLES


def modelled_costs(machine: ClusterMachine) -> ModelledCosts:
    """Costs of one thread on a core of a cluster, while as many work as the machine says."""
    core, accelerator = machine.core, machine.accelerator
    arch = "x86_64" if core is None and accelerator.pe_len[0] >= 8 else "aarch64" if core is None else core.arch
    emitted = machines_for(() if core is None else (core,), default_target(arch))[core.name if core else GENERIC]
    lanes = emitted.vector_bytes // F32_BYTES
    assumed = lanes * (1 if emitted.in_order else FMA_PER_CYCLE)
    return ModelledCosts(
        emitted,
        1 / accelerator.frequency_ghz,
        assumed / accelerator.pes,
        tuple((level.shared_bytes, level.bandwidth_gb_per_s) for level in accelerator.levels),
        16 if arch == "x86_64" else 8,
    )


def _image_bytes(s: Scenario) -> int:
    return s.c * s.h * s.w * F32_BYTES


def _out_bytes(s: Scenario) -> int:
    return s.m * s.out_h * s.out_w * F32_BYTES


def _plain_bytes(model: ModelledCosts, s: Scenario, weights: float = 0, passes: float = 1) -> float:
    """Of image and output once, and of the weights (the definition's if no other number is given) `passes` times."""
    weights = weights or s.m * s.c // s.groups * s.k * s.k * F32_BYTES
    images = _image_bytes(s) + _out_bytes(s)
    return model.bytes_ns(images, images + weights) + model.bytes_ns(weights * passes, weights)


def _border(s: Scenario, phases: bool) -> dict[str, float]:
    """Of a copy of the image with its border, in phases where vectors along the columns take steps."""
    if phases and s.stride > 1:
        return {"gather": s.c * (s.h + 2 * s.pad) * (s.w + 2 * s.pad)}
    return {"copy": s.c * (s.h + 2 * s.pad) * (s.w + 2 * s.pad)} if s.pad else {}


def _turned(layout: Layout, along_pixels: bool, elements: float) -> dict[str, float]:
    """Of an end whose neighbours in memory are not those of the vectors."""
    return {"turn": elements} if (layout in ALONG_PIXELS) is not along_pixels else {}


def _added(*several: Parts) -> dict[str, float]:
    found: dict[str, float] = {}
    for parts in several:
        for name, count in parts.items():
            found[name] = found.get(name, 0.0) + count
    return found


def _filled(model: ModelledCosts, layout: Layout, channels: int) -> int:
    """Channels that an image has in memory."""
    return -(-channels // model.block) * model.block if layout is Layout.CHWC else channels


def _per_group(s: Scenario) -> tuple[int, int]:
    return s.c // s.groups, s.m // s.groups


def _direct(model: ModelledCosts, s: Scenario, p: DirectPrimitive) -> Parts:
    in_ch, out_ch = _per_group(s)
    terms = in_ch * s.k * s.k
    pixels, rows = s.out_w, s.out_h
    if p.special is Special.ONE_BY_ONE:  # pixels are counted through
        pixels, rows = min(64, s.out_h * s.out_w), max(1, s.out_h * s.out_w // 64)
    across_channels = p.along is Along.CHANNELS
    scalars, columns = (pixels, out_ch) if across_channels else (out_ch, pixels)
    if p.held is Held.BOTH:
        name = "columns" if not across_channels else "first" if p.special is Special.FIRST_LAYER else "channels"
        if across_channels and p.order is Order.CHANNELS:
            name = "far_channels" if s.k > 1 else "plane_channels"  # terms of a sum lie an image apart
        cycles = model.product(scalars, columns, terms)
    else:
        name = "columns_single" if not across_channels else "pixel" if p.held is Held.ONE_SCALAR else "one_vector"
        cycles = _single(model, p.held, scalars, columns) * terms
    parts: dict[str, float] = {f"product_{name}": cycles * rows * s.groups}
    heavy = s.m * terms * F32_BYTES > 1 << 18
    passes = 1 if heavy else s.out_h
    ends = _turned(p.layout_out, not across_channels, s.m * s.out_h * s.out_w)
    return _added(
        parts, _border(s, not across_channels), ends, {"bytes": _plain_bytes(model, s, passes=passes)},
    )  # fmt: skip


def _single(model: ModelledCosts, held: Held, scalars: int, columns: int) -> float:
    """Cycles of a step of all tiles of one scalar and several vectors, or of one vector and several scalars."""
    vectors = -(-columns // model.lanes)
    if held is Held.ONE_SCALAR:
        most = min(vectors, most_vectors(model.machine, 1))
        return scalars * (vectors / most) * step_cycles(model.machine, 1, most, 1)
    most = min(scalars, most_pixels(model.machine, 1))
    return vectors * math.ceil(scalars / most) * step_cycles(model.machine, most, 1, 1)


def _depthwise(model: ModelledCosts, s: Scenario, p: Primitive) -> Parts:
    return _added(
        {"depthwise": s.m * s.out_h * s.out_w * s.k * s.k}, _border(s, False), {"bytes": _plain_bytes(model, s)}
    )


def _implicit(model: ModelledCosts, s: Scenario, p: Implicit) -> Parts:
    in_ch, out_ch = _per_group(s)
    terms = in_ch * s.k * s.k
    pixels, rows = (s.out_w, s.out_h) if s.k > 1 else (min(64, s.out_h * s.out_w), max(1, s.out_h * s.out_w // 64))
    blocks = s.m // model.block if p.layout_out is Layout.CHWC else 1
    cycles = model.product(pixels, out_ch // blocks, terms) * blocks * rows * s.groups
    return _added(
        {"product_implicit": cycles}, _border(s, False), {"bytes": _plain_bytes(model, s)}, {"kernel": blocks - 1.0}
    )


def _im2(model: ModelledCosts, s: Scenario, p: Im2) -> Parts:
    in_ch, out_ch = _per_group(s)
    terms, pixels = in_ch * s.k * s.k, s.out_h * s.out_w
    along_pixels = p.layout_out in ALONG_PIXELS
    strip = min(64, pixels)
    if along_pixels:
        cycles = model.product(out_ch, strip, terms) * pixels / strip
        name = "im2_columns_turned" if p.turned else "im2_columns"
    else:
        cycles = model.product(strip, out_ch, terms) * pixels / strip
        name = "im2_rows"
    elements = s.c * s.k * s.k * pixels
    matrix = 0.0 if p.strips else model.bytes_ns(2 * elements * F32_BYTES)
    straight = (p.layout_in in ALONG_PIXELS) is p.columns and (p.columns or in_ch >= model.lanes)
    copied = ("patch" if s.stride == 1 or not p.columns else "patch_far") if straight else "patch_far"
    passes = pixels / 64 if p.strips else 1
    weights = s.m * terms * F32_BYTES
    return _added(
        {f"product_{name}": cycles * s.groups, copied: elements},
        {"bytes": matrix + _plain_bytes(model, s, weights, passes)},
    )


def _kn2(model: ModelledCosts, s: Scenario, p: Kn2) -> Parts:
    in_ch, out_ch = _per_group(s)
    taps, along_pixels = s.k * s.k, p.layout_out in ALONG_PIXELS
    pixels = s.out_h * s.out_w if p.accumulating else s.h * s.w
    strip = min(pixels, max(s.out_w, 64 if s.k == 1 else s.out_w))
    a, b = (out_ch, strip) if along_pixels else (strip, out_ch)
    cycles = model.product(a, b, _filled(model, p.layout_in, in_ch)) * pixels / strip * taps * s.groups
    name = "kn2_row" if along_pixels else "kn2_col"
    sums = s.m * pixels * taps
    parts: dict[str, float] = {f"product_{name}": cycles}
    if not p.accumulating:
        parts["shifted"] = sums
        parts["bytes"] = model.bytes_ns(2 * sums * F32_BYTES)
    turned = _turned(p.layout_in, along_pixels, s.c * s.h * s.w) if s.k > 1 else {}
    return _added(parts, turned, {"bytes": _plain_bytes(model, s)})


def _winograd(model: ModelledCosts, s: Scenario, p: WinogradPrimitive) -> Parts:
    tiles = Tiles(p.m, p.k, p.two_d, (s.pad, s.pad), s.h, s.w, s.c, s.out_h, s.out_w, s.m, model.block)
    block = min(tiles.count, BLOCK_TILES if p.two_d else BLOCK_TILES_1D)
    rows = tiles.count if p.staged else block
    in_ch = _filled(model, p.layout_in, s.c)
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
            if layout in ALONG_PIXELS
        )
    }
    return _added(
        {"product_winograd_staged" if p.staged else "product_winograd": cycles, "transform": work}, ends,
        {"bytes": moved + _plain_bytes(model, s, weights, passes)},
    )  # fmt: skip


def _fft(model: ModelledCosts, s: Scenario, p: Fft) -> Parts:
    t = Transforms(s, p.length or best_length(s))
    in_ch, out_ch = t.in_channels, t.out_channels
    rows = 2 * t.tiles * s.out_h
    cycles = model.product(min(rows, 64), out_ch, 2 * in_ch * s.k) * rows / min(rows, 64) * s.groups
    weights = t.coefficients * 2 * s.c // s.groups * s.k * s.m * F32_BYTES
    between = t.in_bytes * t.coefficients + t.out_bytes * t.coefficients
    transformed = (t.tiles * t.in_rows * s.c + t.tiles * s.out_h * s.m) * t.length * math.log2(t.length)
    ends = _added(_turned(p.layout_in, False, s.c * s.h * s.w), _turned(p.layout_out, False, s.m * s.out_h * s.out_w))
    return _added(
        {"product_fft": cycles * (t.coefficients - 1), "butterfly": transformed}, ends,
        {"bytes": model.bytes_ns(2 * between) + _plain_bytes(model, s, weights)},
    )  # fmt: skip


def _sum2d(model: ModelledCosts, s: Scenario, p: Sum2d) -> Parts:
    in_ch, _ = _per_group(s)
    outputs = s.m * s.out_h * s.out_w * in_ch
    vectors = s.m * s.out_h * in_ch * -(-s.out_w // model.lanes)
    if not p.columns:
        return _added({"product_scalar": outputs * (s.k * s.k * FMA_LATENCY)}, _border(s, False))
    return _added(
        {"product_sum2d": vectors * s.k * s.k, "product_sum2d_sofar": vectors * s.k ** 0}, _border(s, True),
        {"bytes": model.bytes_ns(outputs * F32_BYTES, s.out_h * s.out_w * F32_BYTES)},
    )  # fmt: skip


_COUNTERS: dict[type[Primitive], Callable[[ModelledCosts, Scenario, Any], Parts]] = {
    DirectPrimitive: _direct, DepthwisePrimitive: _depthwise, Implicit: _implicit, ImplicitDepthwise: _depthwise,
    Im2: _im2, Kn2: _kn2, WinogradPrimitive: _winograd, Fft: _fft, Sum2d: _sum2d,
}  # fmt: skip
