"""Latency, energy, traffic and area of machines, for many structures and all bandwidths and clocks at once.

Latency is the roofline's of exact.py: each layer at the lower of its two roofs, that of the elements which are busy and
that of the bandwidth. Energy has three parts:
- each off-chip byte, once off chip and once in its operand's on-chip memory;
- the array's on-chip reads and writes: an input for all elements along which OC runs, a weight for those along which OH
  and OW run, a partial sum in and out for those along which IC, KH and KW run, each at the cost of a byte in its
  operand's nearest memory. Elements have no registers but for their current operands;
- a multiply-accumulate of the layers' type.
Area is that of the elements' multiply-accumulate units and of the memories. Energy and area exclude control, clocks,
wires, leakage and pins; transfers between on-chip memory levels are in neither the energy nor the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from mavcg.accelerators.explore.design_space import RATE_KEYS, DesignSpace, Structure, sizes_of
from mavcg.accelerators.explore.pareto import Floats
from mavcg.accelerators.explore.workload import Workload, at_precision, element_type
from mavcg.cost.layer import ConvLayer
from mavcg.cost.traffic import no_reload
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.technology import ELEMENT_TYPES, Technology

Integers = NDArray[np.int64]
OPERANDS = 3  # input, weight, output
# Factor on a bound that is a sum of products: it stays a lower bound in spite of rounding.
_ROUNDING = 1 - 1e-12


@dataclass(frozen=True)
class Metrics:
    """Figures of structures.

    latency_s: [network, structure, rate]. energy_j, traffic_bytes: [network, structure]. area_mm2: [structure].
    bandwidth_gb_per_s, frequency_ghz: [rate].
    """

    latency_s: Floats
    energy_j: Floats
    traffic_bytes: Floats
    area_mm2: Floats
    bandwidth_gb_per_s: Floats
    frequency_ghz: Floats


def operand_bytes(level: MemoryLevel) -> tuple[int, int, int]:
    """Return for each operand the size of the memory that holds it."""
    if level.shared_bytes:
        return level.shared_bytes, level.shared_bytes, level.shared_bytes
    return level.input_bytes, level.weight_bytes, level.output_bytes


def area_mm2(structure: Structure, technology: Technology, layers: Sequence[ConvLayer]) -> float:
    """Return the area of a structure in mm2; its units are as wide as the widest type of the layers."""
    widest = min(ELEMENT_TYPES.index(element_type(layer)) for layer in layers)
    sizes = [size for level in (*structure.inner, structure.memory) for size in sizes_of(level)]
    return structure.pes * technology.macs[widest].um2 / 1e6 + sum(map(technology.sram_mm2, sizes))


def array_share(layer: ConvLayer, structure: Structure) -> float:
    """Return the fraction of a structure's elements that a layer keeps busy."""
    sides = {name: structure.parallel(name) for name in layer.loops}
    return prod(length / (-(-length // sides[name]) * sides[name]) for name, length in layer.loops.items())


def array_bytes(layer: ConvLayer, structure: Structure) -> tuple[float, float, float]:
    """Return the bytes of input, weights and partial sums that the array reads and writes on chip."""

    def sharing_elements(*names: str) -> float:
        """Return the mean number of elements that use one operand at once; fewer are busy at the end of a loop."""
        loops = layer.loops
        return prod(loops[name] / -(-loops[name] // structure.parallel(name)) for name in names)

    items = layer.items
    return (
        layer.macs * items.input / sharing_elements("OC"),
        layer.macs * items.weight / sharing_elements("OH", "OW"),
        2 * layer.macs * items.psum / sharing_elements("IC", "KH", "KW"),
    )


@dataclass(frozen=True)
class _LayerCosts:
    """Energy of layers on structures in picojoules: per byte moved by operand, and fixed."""

    per_byte: Floats  # [structure, 1, operand]
    fixed: Floats  # [structure, layer]


class MetricModel:
    """Figures of a design space for a workload, for known traffic or as lower bounds."""

    def __init__(self, space: DesignSpace, workload: Workload, paper_roof: bool = False) -> None:
        """Prepare the figures of a space. paper_roof: all elements count as busy, as in the thesis's algorithm 4."""
        self._space = space
        self._workload = workload
        self._paper_roof = paper_roof
        self._busy: dict[tuple[tuple[tuple[str, int], ...], tuple[int, int]], Floats] = {}
        rates = [(bandwidth, clock) for bandwidth in space.values("bandwidth") for clock in space.values("frequency")]
        self._bandwidth, self._frequency = np.array(rates, np.float64).reshape(-1, len(RATE_KEYS)).T
        self._layers = {
            name: tuple(at_precision(layer, name) for layer in workload.layers)
            for name in space.values("precision") or ("",)
        }
        self._once = {
            name: np.array([_once(layer) for layer in layers], np.int64) for name, layers in self._layers.items()
        }
        self._by_array: dict[tuple[tuple[tuple[str, int], ...], str], tuple[Floats, Floats]] = {}
        self._macs = np.array([layer.macs for layer in workload.layers], np.float64)

    def layers(self, structure: Structure) -> tuple[ConvLayer, ...]:
        """Return the workload's layers at a structure's precision."""
        return self._layers[structure.precision]

    def least_bytes(self, structure: Structure) -> Integers:
        """Return the bytes of each layer, [layer, operand], if each is moved once: a lower bound of every tiling."""
        return self._once[structure.precision]

    def figures(self, structures: Sequence[Structure], moved: Integers) -> Metrics:
        """Return the figures of structures. moved: bytes, [structure, layer, operand]."""
        costs = self._costs(structures)
        energy = costs.fixed + (moved * costs.per_byte).sum(axis=2)
        return self._metrics(structures, moved.sum(axis=2), energy, 1.0)

    def bounds(self, structures: Sequence[Structure], total_bytes: Integers) -> Metrics:
        """Return lower bounds of the structures' figures. total_bytes: lower bounds of traffic, [structure, layer]."""
        costs = self._costs(structures)
        once = np.stack([self.least_bytes(structure) for structure in structures])
        by_operand = (once * costs.per_byte).sum(axis=2)
        by_total = total_bytes * costs.per_byte.min(axis=2)
        return self._metrics(structures, total_bytes, costs.fixed + np.maximum(by_operand, by_total), _ROUNDING)

    def _costs(self, structures: Sequence[Structure]) -> _LayerCosts:
        technology = self._space.technology
        on_chip, read = (
            np.array([list(map(technology.sram_pj_per_byte, operand_bytes(level))) for level in levels])
            for levels in ([s.memory for s in structures], [s.nearest for s in structures])
        )
        reads, macs = zip(*(self._array_costs(structure) for structure in structures), strict=True)
        fixed = (np.stack(reads) * read[:, None, :]).sum(axis=2) + np.stack(macs)
        return _LayerCosts(on_chip[:, None, :] + technology.dram_pj_per_byte, fixed)

    def _array_costs(self, structure: Structure) -> tuple[Floats, Floats]:
        """Return the bytes that the array reads, [layer, operand], and the energy of its arithmetic in pJ, [layer]."""
        key = (structure.arrays, structure.precision)
        if key not in self._by_array:
            layers = self.layers(structure)
            reads = np.array([array_bytes(layer, structure) for layer in layers])
            mac_pj = [layer.macs * self._space.technology.mac(element_type(layer)).pj for layer in layers]
            self._by_array[key] = (reads, np.array(mac_pj))
        return self._by_array[key]

    def _busy_elements(self, structure: Structure) -> Floats:
        """Return the mean number of busy elements of each layer, [layer], the same for all tilings of the searches."""
        key = (structure.arrays, structure.pe_len)
        if key not in self._busy:
            layers = self.layers(structure)
            shares = [1.0 if self._paper_roof else array_share(layer, structure) for layer in layers]
            self._busy[key] = structure.pes * np.array(shares, np.float64)
        return self._busy[key]

    def _metrics(
        self, structures: Sequence[Structure], total_bytes: Integers, energy_pj: Floats, rounding: float
    ) -> Metrics:
        networks, count = self._workload.counts, len(structures)
        busy = np.stack([self._busy_elements(structure) for structure in structures])
        latency = np.zeros((len(networks), count, len(self._bandwidth)))
        energy, traffic = np.zeros((len(networks), count)), np.zeros((len(networks), count))
        for i, macs in enumerate(
            self._macs.tolist()
        ):  # one by one, so that rounding does not depend on the other structures
            memory = self._bandwidth[None, :] * macs / total_bytes[:, i, None]
            compute = self._frequency[None, :] * busy[:, i, None]
            seconds = macs / (np.minimum(compute, memory) * 1e9)
            for n, (_, counts) in enumerate(networks):
                if counts[i]:
                    latency[n] += counts[i] * seconds
                    energy[n] += counts[i] * (energy_pj[:, i] / 1e12)
                    traffic[n] += counts[i] * total_bytes[:, i]
        areas = [area_mm2(s, self._space.technology, self.layers(s)) for s in structures]
        return Metrics(
            latency * rounding, energy * rounding, traffic, np.array(areas), self._bandwidth, self._frequency
        )


def _once(layer: ConvLayer) -> tuple[int, int, int]:
    moved = no_reload(layer)
    return moved.input_bytes, moved.weight_bytes, moved.output_bytes
