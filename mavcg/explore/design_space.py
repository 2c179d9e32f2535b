"""A design space: accelerators whose keys each have one value or several; the space is the product of all of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.technology import Technology

# Keys whose values change which tiling is best. The others, bandwidth and frequency, only change the time of it.
MEMORY_KEYS = ("mem_size", "levels")  # a space has one of them
STRUCTURE_KEYS = (*MEMORY_KEYS, "pe_len", "pe_mapping", "precision")
RATE_KEYS = ("bandwidth", "frequency")
AXIS_KEYS = STRUCTURE_KEYS + RATE_KEYS


@dataclass(frozen=True)
class SpaceAxis:
    """A key of the space and its values, as an accelerator's file writes them."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Structure:
    """The part of a machine that its tilings depend on. number: among the space's structures.

    memory: the outermost on the chip, which tilings are made for; inner: those nearer to the array, the nearest first.
    precision: the element type of all layers; "" for the networks' own.
    """

    number: int
    memory: MemoryLevel
    pe_len: tuple[int, int]
    pe_mapping: tuple[tuple[str, ...], tuple[str, ...]]
    precision: str
    inner: tuple[MemoryLevel, ...] = ()

    @property
    def nearest(self) -> MemoryLevel:
        """The memory that the array reads."""
        return self.inner[0] if self.inner else self.memory

    @property
    def pes(self) -> int:
        """Number of processing elements."""
        return prod(self.pe_len)

    def parallel(self, dimension: str) -> int:
        """Return the number of iterations of a loop that the array does at once, as Accelerator.parallel."""
        return dict(self.arrays).get(dimension, 1)

    @property
    def arrays(self) -> tuple[tuple[str, int], ...]:
        """The loops that run along the array, each with the length of its side, by name."""
        sides = zip(self.pe_len, self.pe_mapping, strict=True)
        return tuple(sorted((mapped[0], length) for length, mapped in sides if mapped))

    @property
    def memory_bytes(self) -> int:
        """Bytes of all memories on the chip."""
        return sum(sum(sizes_of(level)) for level in (*self.inner, self.memory))


def sizes_of(level: MemoryLevel) -> tuple[int, ...]:
    """Return the bytes of each memory of a level: one that all operands share, or three."""
    return (level.shared_bytes,) if level.shared_bytes else (level.input_bytes, level.weight_bytes, level.output_bytes)


@dataclass(frozen=True)
class DesignSpace:
    """A space as read. axes: by AXIS_KEYS, in that order; precision only if the space has it.

    memories: levels, the nearest first, of each value of mem_size or levels; arrays: of each pair of values of pe_len
    and pe_mapping.
    """

    axes: tuple[SpaceAxis, ...]
    technology: Technology
    memories: tuple[tuple[MemoryLevel, ...], ...]
    arrays: Mapping[tuple[int, int], tuple[tuple[int, int], tuple[tuple[str, ...], tuple[str, ...]]]]

    def values(self, key: str) -> tuple[Any, ...]:
        """Return the values of a key; none for one that the space has not."""
        return next((axis.values for axis in self.axes if axis.key == key), ())

    @property
    def structures(self) -> int:
        """Number of structures: points that differ in more than bandwidth and frequency."""
        return prod(len(axis.values) for axis in self.axes if axis.key in STRUCTURE_KEYS)

    @property
    def rates(self) -> int:
        """Number of points of each structure: bandwidths times frequencies."""
        return prod(len(self.values(key)) for key in RATE_KEYS)

    @property
    def points(self) -> int:
        """Number of points."""
        return self.structures * self.rates

    def all_structures(self) -> Iterator[Structure]:
        """Yield the structures in order: the last of STRUCTURE_KEYS varies fastest."""
        for number in range(self.structures):
            at = self._places(number, STRUCTURE_KEYS)
            pe_len, pe_mapping = self.arrays[at["pe_len"], at["pe_mapping"]]
            precision = self.values("precision")[at["precision"]] if "precision" in at else ""
            *inner, memory = self.memories[at["levels"] if "levels" in at else at["mem_size"]]
            yield Structure(number, memory, pe_len, pe_mapping, precision, tuple(inner))

    def point(self, number: int) -> dict[str, Any]:
        """Return a point as an accelerator's file has it. number: structure * rates + rate, bandwidth before clock."""
        structure, rate = divmod(number, self.rates)
        at = self._places(structure, STRUCTURE_KEYS) | self._places(rate, RATE_KEYS)
        return {axis.key: axis.values[at[axis.key]] for axis in self.axes}

    def _places(self, number: int, keys: tuple[str, ...]) -> dict[str, int]:
        places: dict[str, int] = {}
        for axis in reversed(self.axes):
            if axis.key in keys:
                number, places[axis.key] = divmod(number, len(axis.values))
        return places
