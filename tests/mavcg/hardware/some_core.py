"""Models of cores that tests make up, with the constants and the rates that are typical of their kind."""

from collections.abc import Sequence
from dataclasses import replace

from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.board import Cluster
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.machine import Machine
from mavcg.profiles.cost_fits import fit_of


def some_core(
    machine: Machine, ghz: float, fma_per_cycle: int, levels: Sequence[tuple[int, float]], number: int = 0
) -> CoreModel:
    """Return a core. levels: size in bytes, and bandwidth behind it in GB/s, of each level of cache."""
    named = tuple(MemoryLevel(f"L{n}", rate, shared_bytes=size) for n, (size, rate) in enumerate(levels, 1))
    rates = replace(fit_of(machine).typical_rates, fma_per_cycle=float(fma_per_cycle))
    return CoreModel(
        machine,
        Cluster(machine.name, (number,)),
        number,
        fit_of(machine),
        ghz,
        machine.vector_bytes // 4 * fma_per_cycle,
        named,
        rates,
    )
