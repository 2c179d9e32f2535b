"""A design space: accelerators whose keys each have one value or several; the space is their Cartesian product."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.technology import Technology
from mavcg.profiles import schema
from mavcg.profiles.schema import refuse

# Keys on which the best tiling depends. The others, bandwidth and frequency, only change its time.
MEMORY_KEYS = ("mem_size", "levels")  # a space has exactly one of them
STRUCTURE_KEYS = (*MEMORY_KEYS, "pe_len", "pe_mapping", "precision")
RATE_KEYS = ("bandwidth", "frequency")
AXIS_KEYS = STRUCTURE_KEYS + RATE_KEYS


@dataclass(frozen=True)
class SpaceAxis:
    """A key of the space and its values, in the form of an accelerator's file."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Structure:
    """The part of a machine that its tilings depend on. number: among the space's structures.

    memory: the outermost on-chip memory, for which tilings are made. inner: memories nearer to the array, nearest
    first. precision: element type of all layers; "" for the networks' own.
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
        """Return the iterations of a loop that the array executes at once, like Accelerator.parallel."""
        return dict(self.arrays).get(dimension, 1)

    @property
    def arrays(self) -> tuple[tuple[str, int], ...]:
        """Loops along the array and the lengths of their sides, sorted by name."""
        sides = zip(self.pe_len, self.pe_mapping, strict=True)
        return tuple(sorted((mapped[0], length) for length, mapped in sides if mapped))

    @property
    def memory_bytes(self) -> int:
        """Bytes of all on-chip memories."""
        return sum(sum(sizes_of(level)) for level in (*self.inner, self.memory))


def sizes_of(level: MemoryLevel) -> tuple[int, ...]:
    """Return the bytes of each memory of a level: one if all operands share it, else three."""
    return (level.shared_bytes,) if level.shared_bytes else (level.input_bytes, level.weight_bytes, level.output_bytes)


@dataclass(frozen=True)
class DesignSpace:
    """A design space.

    axes: in the order of AXIS_KEYS; precision only if the space has it. memories: levels, nearest first, for each value
    of mem_size or levels. arrays: for each pair of values of pe_len and pe_mapping.
    """

    axes: tuple[SpaceAxis, ...]
    technology: Technology
    memories: tuple[tuple[MemoryLevel, ...], ...]
    arrays: Mapping[tuple[int, int], tuple[tuple[int, int], tuple[tuple[str, ...], tuple[str, ...]]]]

    def values(self, key: str) -> tuple[Any, ...]:
        """Return the values of a key; empty if the space lacks it."""
        return next((axis.values for axis in self.axes if axis.key == key), ())

    @property
    def structures(self) -> int:
        """Number of structures: points that differ in other keys than bandwidth and frequency."""
        return prod(len(axis.values) for axis in self.axes if axis.key in STRUCTURE_KEYS)

    @property
    def rates(self) -> int:
        """Number of points per structure: bandwidths times frequencies."""
        return prod(len(self.values(key)) for key in RATE_KEYS)

    @property
    def points(self) -> int:
        """Number of points."""
        return self.structures * self.rates

    def all_structures(self) -> Iterator[Structure]:
        """Yield the structures in order; the last of STRUCTURE_KEYS varies fastest."""
        for number in range(self.structures):
            index = self._indices(number, STRUCTURE_KEYS)
            pe_len, pe_mapping = self.arrays[index["pe_len"], index["pe_mapping"]]
            precision = self.values("precision")[index["precision"]] if "precision" in index else ""
            *inner, memory = self.memories[index["levels"] if "levels" in index else index["mem_size"]]
            yield Structure(number, memory, pe_len, pe_mapping, precision, tuple(inner))

    def point(self, number: int) -> dict[str, Any]:
        """Return a point in the form of an accelerator's file.

        number: structure * rates + rate; the clock varies fastest.
        """
        structure, rate = divmod(number, self.rates)
        index = self._indices(structure, STRUCTURE_KEYS) | self._indices(rate, RATE_KEYS)
        return {axis.key: axis.values[index[axis.key]] for axis in self.axes}

    def _indices(self, number: int, keys: tuple[str, ...]) -> dict[str, int]:
        indices: dict[str, int] = {}
        for axis in reversed(self.axes):
            if axis.key in keys:
                number, indices[axis.key] = divmod(number, len(axis.values))
        return indices


def read_table(path: Path, document: Mapping[str, Any], name: str, known: tuple[str, ...], remedy: str) -> Any:
    """Return the table of this name in a space's file. known: its keys. remedy: for a file without it.

    Raises: ProfileError if it is missing or no table, and for another key.
    """
    table = schema.table_of(path, document.get(name), name, remedy)
    schema.only(path, table, known, f"{name}.")
    return table


def read_values(path: Path, key_path: str, listed: Any, check: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return the values of a key, at least one and none twice, each as `check` returns it. Raises: ProfileError."""
    values = listed if isinstance(listed, list) else [listed]
    if not values:
        raise refuse(path, key_path, "has no values", "give it at least one, or a value without a list")
    for number, value in enumerate(values):
        if value in values[:number]:
            raise refuse(path, key_path, f"{schema.value_text(value)} is given twice", "remove one of them")
    return tuple(map(check, values))
