"""Time that bytes take through memory levels: the bandwidth bound of the cost model.

The levels work at the same time, so the slowest one counts. An operand is held by the nearest level that is larger than
the bytes touched between two uses of it, as in a least-recently-used cache.
"""

from collections.abc import Sequence

from mavcg.hardware.accelerator import MemoryLevel


def level_for(footprint: float, levels: Sequence[MemoryLevel]) -> int:
    """Return the number of the nearest level that holds `footprint` bytes; len(levels) if none does."""
    for number, level in enumerate(levels):
        if footprint <= level.shared_bytes:
            return number
    return len(levels)


def level_ns(crossing: Sequence[float], levels: Sequence[MemoryLevel]) -> list[float]:
    """Return the time of the bytes that cross each level, in ns; arguments as for transfer_ns."""
    return [size / level.bandwidth_gb_per_s for size, level in zip(crossing, levels, strict=False)]


def transfer_ns(crossing: Sequence[float], levels: Sequence[MemoryLevel]) -> float:
    """Return the time of the slowest level, in ns. crossing[n]: bytes that move between level n and what is behind it.

    crossing may be shorter than levels; nothing moves behind its end.
    """
    return max(level_ns(crossing, levels), default=0.0)


def read_ns(size: float, footprint: float, levels: Sequence[MemoryLevel]) -> float:
    """Return the time to read `size` bytes from the nearest level that holds the footprint, in ns; 0 for level 1.

    size, footprint: in bytes.
    """
    passed = levels[: level_for(footprint, levels)]
    return size / min(level.bandwidth_gb_per_s for level in passed) if passed else 0.0
