"""Result of a cycle-accurate simulation: cycles, busy cycles of each unit, and stalls by cause."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Cycles [start, end) in which a unit executed an instruction."""

    unit: int
    index: int
    start: int
    end: int


@dataclass(frozen=True)
class SimulatedTime:
    """Result of a simulation for one image.

    busy: cycles in which each unit executed. stalls: idle cycles of units with work left, and cycles lost inside of
    instructions, by cause. ddr_bytes: DDR traffic, including code. spans: all instructions, in the order of their ends.
    """

    cycles: int
    busy: dict[str, int]
    stalls: dict[str, int]
    ddr_bytes: int
    spans: tuple[Span, ...]
