"""Cycles of the work that a kernel's spec counts, as named terms.

The spec of a kernel counts its products, vector work and bytes (specs/work_counts.py); each count is multiplied by a
constant of the core's kind, from profiles/fits (docs/tuning-models.md). Cores of a kind differ in clock, vectors,
multiply-adds per cycle and caches.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mavcg.cost.cycles import BYTES, Cycles
from mavcg.cost.memory import level_for, read_ns
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.cost_fit import PrimitiveFit
from mavcg.kernels.gemm.register_tile import choose, most_pixels, most_vectors, step_cycles, tile_rates
from mavcg.specs.work_counts import TileProduct, VectorWork, WeightReads, WorkCounts, WorkUnit


@dataclass(frozen=True)
class Run:
    """Surroundings of a kernel: what is touched between two uses of its operands, and where these are.

    image_bytes, weight_bytes: images, and weights, that are touched between two uses of the same ones, if the kernel's
    computation runs again and again by itself. between_bytes: bytes touched between two uses of the weights in a
    network; 0 for a computation by itself. readers: threads that compute the kernel together. read_passed,
    write_passed: True if a stage of the computation writes what the kernel reads, or reads what it writes.
    """

    image_bytes: float = 0.0
    weight_bytes: float = 0.0
    between_bytes: float = 0.0
    readers: int = 1
    read_passed: bool = False
    write_passed: bool = False


ALONE = Run()


def counted_cycles(
    counts: WorkCounts, core: CoreModel, run: Run = ALONE, constants: PrimitiveFit | None = None
) -> Cycles:
    """Return the cycles of counted work on one core. constants: replace those of the core's kind."""
    fit = constants or core.fit.primitives
    terms: dict[str, float] = {}
    for name, cycles in _terms(counts, core, run, fit):
        terms[name] = terms.get(name, 0.0) + cycles
    return Cycles(terms)


def _terms(counts: WorkCounts, core: CoreModel, run: Run, fit: PrimitiveFit) -> Iterator[tuple[str, float]]:
    # Multiply-adds of the model of register tiles, over those that the core has in a cycle.
    slower = tile_rates(core.machine).fma_per_cycle / core.rates.fma_per_cycle
    for product in counts.products:
        yield product.name, fit.cycles[product.name] * slower * _product(product, core, fit, slower)
    for loop in counts.loops:
        own = loop.iterations * loop.mix.cycles(core.rates) + loop.ends * fit.tile_cycles
        yield loop.name, fit.cycles[loop.name] * own
    for work in counts.vectors:
        yield work.name, fit.cycles[work.name] * _vectors(work, core)
    for moved, passed in ((counts.read, run.read_passed), (counts.written, run.write_passed)):
        yield from _bytes(moved.size, moved.touched if passed else run.image_bytes or moved.size, core, fit)
    yield from _bytes(counts.within.size, counts.within.touched, core, fit)
    if counts.weights is not None:
        yield from _weights(counts.weights, core, run, fit)


def _product(product: TileProduct, core: CoreModel, fit: PrimitiveFit, slower: float) -> float:
    """Return the cycles of a product by the model of register tiles.

    slower: time of multiply-adds over the model's; waiting for the one before does not take longer.
    """
    machine, rows, terms = core.machine, product.rows, product.terms
    vectors = -(-product.columns // core.lanes)
    if product.most_rows:
        most = min(vectors, most_vectors(machine, product.most_rows))
        steps = rows * (vectors / most) * step_cycles(machine, 1, most, 1, 1 / slower)
        return steps * terms * product.times
    if product.most_vectors:
        most = min(rows, most_pixels(machine, product.most_vectors))
        return vectors * math.ceil(rows / most) * step_cycles(machine, most, 1, 1, 1 / slower) * terms * product.times
    tiling = choose(machine, rows, vectors, terms)
    tiles = (tiling.widths.count + tiling.widths.count_less) * -(-vectors // tiling.vectors)
    return (tiling.cycles * terms + tiles * fit.tile_cycles) * product.times


def _vectors(work: VectorWork, core: CoreModel) -> float:
    """Return the number of vectors or waits, scaled to a core that is slower or faster than the typical one."""
    typical = core.fit.register_tile
    if work.unit is WorkUnit.CHAINED:
        return work.count * typical.fma_latency
    vectors = work.count / core.lanes if work.unit is WorkUnit.ELEMENTS else work.count
    return vectors * typical.fma_per_cycle / core.rates.fma_per_cycle


def _weights(weights: WeightReads, core: CoreModel, run: Run, fit: PrimitiveFit) -> Iterator[tuple[str, float]]:
    """Yield the first read of the weights, from where the network left them, and the others."""
    passes = weights.passes if weights.divided else max(weights.passes, run.readers)
    touched = run.weight_bytes or weights.size
    yield from _bytes(weights.size, max(touched, run.between_bytes), core, fit)
    yield from _bytes(weights.size * (passes - 1), touched, core, fit)


def _bytes(size: float, touched: float, core: CoreModel, fit: PrimitiveFit) -> Iterator[tuple[str, float]]:
    """Yield the exposed cycles of bytes from the nearest level that holds all that is touched; none for level 1."""
    ns = read_ns(size, touched, core.levels)
    if ns:
        level = level_for(touched, core.levels)
        source = core.levels[level].name if level < len(core.levels) else "memory"
        yield f"{BYTES} {source}", ns * fit.bytes_exposed / core.cycle_ns
