"""A core as the model of primitives' costs knows it: what a part of a primitive takes there.

A primitive is a sum of parts (part_counts.py). A part costs a constant of the table below, which was fitted once
(docs/tuning-models.md); what differs between cores is their clock, vectors, multiply-adds a cycle and caches.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mavcg.kernel import Machine
from mavcg.kernels.tiling import choose
from mavcg.primitive import F32_BYTES, Layout

Parts = Mapping[str, float]

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

# Products that are counted without regard to what a core does in a cycle: in vectors; in latencies.
_VECTORS, _LATENCIES = ("product_sum2d", "product_sum2d_sofar"), ("product_scalar",)
TILE_CYCLES = 20  # of a register tile beside its sums: to begin them, and to store them
LEAST_US = 0.3  # of a kernel: calls, and what loops cost before they begin


@dataclass(frozen=True)
class CoreModel:
    """A core, one thread of it.

    machine: as emitters know the core; cycle_ns: of its clock; slower: how many times as long as kernels.tiling says
    multiply-adds take on it; vectors_slower: how many times as many cycles as on the machine of the fit other work on
    vectors takes, of which tiling says nothing; caches: (bytes, GB/s of what is behind), the nearest one first.
    readers: threads that work on the same primitive: where each of them needs all weights, they are read that many
    times at the least. between_bytes: that are read and written until a primitive's weights are wanted again, such as
    those of a whole network; 0: they are where their own size says, as where a primitive alone runs again and again.
    """

    machine: Machine
    cycle_ns: float
    slower: float
    caches: tuple[tuple[int, float], ...]
    block: int
    readers: int = 1
    vectors_slower: float = 1.0
    between_bytes: float = 0.0

    def ns(self, parts: Parts) -> float:
        """Of all parts together, and of a primitive's beginning."""
        total = LEAST_US * 1e3
        for name, count in parts.items():
            total += self.part_ns(name, count)
        return total

    def part_ns(self, name: str, count: float) -> float:
        """Of a part: `bytes` in ns, `kernel` how many more than one, products in cycles, others in elements."""
        if name in ("bytes", "kernel"):
            return count * CYCLES[name]
        if name in _LATENCIES:
            return count * self.cycle_ns * CYCLES[name]
        if name in _VECTORS:
            return count * self.vectors_slower * self.cycle_ns * CYCLES[name]
        if name.startswith("product"):
            return count * self.slower * self.cycle_ns * CYCLES[name]
        return count / self.lanes * self.vectors_slower * self.cycle_ns * CYCLES[name]

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

    def filled(self, layout: Layout, channels: int) -> int:
        """Channels that an image has in memory."""
        return -(-channels // self.block) * self.block if layout is Layout.CHWC else channels
