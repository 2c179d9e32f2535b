"""Model of a core for the costs of primitives: the time of each part of a primitive.

A primitive is a sum of parts (part_counts.py). A part costs a constant of the core's kind, from profiles/fits
(docs/tuning-models.md); cores of a kind differ in clock, vectors, multiply-adds per cycle and caches.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from mavcg.cost.memory import read_ns
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.cost_fit import PrimitiveFit
from mavcg.hardware.fits import fit_of
from mavcg.kernels.gemm.register_tile import choose, tile_rates
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import Layout

Parts = Mapping[str, float]

# Products that are counted without regard to what a core does in a cycle: in vectors; in latencies.
# Cycles that are counted at the rates of the core itself.
_CYCLES = ("sparse",)
_VECTORS, _LATENCIES = ("product_sum2d", "product_sum2d_sofar"), ("product_scalar",)


@dataclass(frozen=True)
class PrimitiveModel:
    """Costs of primitives on one thread of a core.

    block: channels per block of CHWc. readers: threads that compute the same primitive; weights that each thread needs
    whole are read at least so many times. between_bytes: bytes moved between two uses of a primitive's weights, such as
    those of a whole network; 0 if the primitive runs again and again by itself, so that the size of the weights decides
    which memory level holds them. constants: replace those of the core's kind.
    """

    core: CoreModel
    block: int
    readers: int = 1
    between_bytes: float = 0.0
    constants: PrimitiveFit | None = None

    @cached_property
    def machine(self) -> Machine:
        """The core, as kernel emitters use it."""
        return self.core.machine

    @cached_property
    def fit(self) -> PrimitiveFit:
        """Fitted constants of the parts."""
        return self.constants or fit_of(self.machine).primitives

    @cached_property
    def cycle_ns(self) -> float:
        """Nanoseconds of a cycle."""
        return self.core.cycle_ns

    @cached_property
    def lanes(self) -> int:
        """Number of f32 elements of a vector."""
        return self.core.lanes

    @cached_property
    def product_slowdown(self) -> float:
        """Time of multiply-adds divided by the model of register tiles' time."""
        return tile_rates(self.machine).fma_per_cycle / self.core.rates.fma_per_cycle

    @cached_property
    def vector_slowdown(self) -> float:
        """Cycles of other vector work, which the model of register tiles lacks, divided by those on a typical core."""
        return fit_of(self.machine).register_tile.fma_per_cycle / self.core.rates.fma_per_cycle

    def ns(self, parts: Parts) -> float:
        """Return the time of all parts together and of the start of a primitive, in ns."""
        total = self.fit.least_us * 1e3
        for name, count in parts.items():
            total += self.part_ns(name, count)
        return total

    def part_ns(self, name: str, count: float) -> float:
        """Return the time of a part in ns.

        count: for `bytes` ns, for `kernel` the number of further kernels, for products cycles, for others elements.
        """
        fit = self.fit
        if name == "bytes":
            return count * fit.bytes_exposed
        if name == "kernel":
            return count * fit.kernel_ns
        cycles = fit.cycles[name]
        if name in _LATENCIES or name in _CYCLES:
            return count * self.cycle_ns * cycles
        if name in _VECTORS:
            return count * self.vector_slowdown * self.cycle_ns * cycles
        if name.startswith("product"):
            return count * self.product_slowdown * self.cycle_ns * cycles
        return count / self.lanes * self.vector_slowdown * self.cycle_ns * cycles

    def bytes_ns(self, moved: float, footprint: float = 0) -> float:
        """Return the time to read `moved` bytes from the first level that holds the footprint, in ns.

        0 for the nearest.
        footprint: in bytes; 0: as large as moved.
        """
        return read_ns(moved, footprint or moved, self.core.levels)

    def product(self, rows: int, columns: int, terms: int) -> float:
        """Return the cycles of a product of matrices by kernels.tiling; vectors are of columns."""
        vectors = -(-columns // self.lanes)
        tiling = choose(self.machine, rows, vectors, terms)
        tiles = (tiling.widths.count + tiling.widths.count_less) * -(-vectors // tiling.vectors)
        return tiling.cycles * terms + tiles * self.fit.tile_cycles

    def stored_channels(self, layout: Layout, channels: int) -> int:
        """Return the number of channels that an image has in memory, with the padding of blocks."""
        return -(-channels // self.block) * self.block if layout is Layout.CHWC else channels
