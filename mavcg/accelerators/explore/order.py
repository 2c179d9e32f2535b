"""Order in which an exploration visits structures, and traffic bounds of those that it has not visited."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from mavcg.accelerators.explore.design_space import Structure
from mavcg.accelerators.explore.metrics import Integers

LEAST_ROUND = 4  # fewest structures in a round; bounds are updated between rounds
ROUNDS = 32
_Key = tuple[tuple[tuple[str, int], ...], str]


def rounds(structures: Iterable[Structure]) -> Iterator[tuple[Structure, ...]]:
    """Yield the structures in rounds; for each array the largest and the smallest memory first, then those between.

    A larger memory bounds the traffic of a smaller one from below, and a small memory is better in area than all larger
    ones: once both are known, many structures between them can be skipped. The order is the same in each run.
    """
    by_array: defaultdict[_Key, list[Structure]] = defaultdict(list)
    for structure in structures:
        by_array[structure.arrays, structure.precision].append(structure)
    sequences = []
    for group in by_array.values():
        group.sort(key=lambda structure: (structure.memory_bytes, structure.number))
        sequences.append([group[i] for i in _bisection(len(group))])
    order = [group[i] for i in range(max(map(len, sequences))) for group in sequences if i < len(group)]
    size = max(LEAST_ROUND, -(-len(order) // ROUNDS))
    for start in range(0, len(order), size):
        yield tuple(order[start : start + size])


def _bisection(count: int) -> list[int]:
    """Return 0 to count - 1 in the order: the last, the first, then the middle of each remaining gap, breadth first."""
    order = [count - 1] + [0] * (count > 1)
    gaps = [(0, count - 1)]
    while gaps:
        below = []
        for low, high in gaps:
            middle = (low + high) // 2
            if middle > low:
                order.append(middle)
                below += [(low, middle), (middle, high)]
        gaps = below
    return order


class TrafficBounds:
    """Lower bounds of a structure's traffic, from larger memories beside the same array."""

    def __init__(self) -> None:
        self._memories: defaultdict[_Key, list[tuple[int, int, int, int]]] = defaultdict(list)
        self._totals: defaultdict[_Key, list[Integers]] = defaultdict(list)

    def add(self, structure: Structure, total_bytes: Integers) -> None:
        """Record the traffic of a structure, [layer]."""
        level = structure.memory
        key = (structure.arrays, structure.precision)
        self._memories[key].append((level.input_bytes, level.weight_bytes, level.output_bytes, level.shared_bytes))
        self._totals[key].append(total_bytes)

    def least(self, structure: Structure, once: Integers) -> Integers:
        """Return a lower bound of the traffic of any tiling of the structure, [layer]. once.

        Traffic with everything moved once.
        Tiles that fit a memory fit a larger one, so the best tiling of the larger memory is no worse.
        """
        key = (structure.arrays, structure.precision)
        if not self._memories[key]:
            return once
        level = structure.memory
        memories = np.array(self._memories[key], np.int64)
        if level.shared_bytes:
            larger = memories[:, 3] >= level.shared_bytes
        else:
            own = np.array((level.input_bytes, level.weight_bytes, level.output_bytes))
            larger = (memories[:, :3] >= own).all(axis=1) | (memories[:, 3] >= own.sum())
        indices: Sequence[int] = np.flatnonzero(larger).tolist()
        least: Integers = np.maximum.reduce([once, *(self._totals[key][i] for i in indices)])
        return least
