"""Placement of several users' memory in one arena: users that may run at the same time must not overlap."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

EXACT = 200_000  # node limit of the search


@dataclass(frozen=True)
class SharedPlacement:
    """A placement. offsets: of each user. extent: of the arena, in bytes. optimal: no arena is smaller."""

    offsets: tuple[int, ...]
    extent: int
    optimal: bool


def place_together(
    sizes: Sequence[int], together: Collection[frozenset[int]], align: int = 1, nodes: int = EXACT
) -> SharedPlacement:
    """Place blocks of these sizes, in bytes, each at a multiple of align.

    together: pairs of blocks that must not overlap. Any placement can be compacted, block by block in order of the
    offsets, until each block lies at the lowest offset that the earlier ones leave: so the search tries orders, largest
    first, and returns the best one after `nodes` partial orders.
    """
    conflicts = [
        frozenset(b for b in range(len(sizes)) if b != a and frozenset((a, b)) in together) for a in range(len(sizes))
    ]
    search = _OrderSearch(tuple(sizes), conflicts, align, nodes)
    linked = sorted((n for n in range(len(sizes)) if conflicts[n]), key=lambda n: -sizes[n])
    alone = {n: 0 for n in range(len(sizes)) if not conflicts[n]}
    search.bound = max(sizes, default=0)
    search.visit(linked, {}, 0)
    offsets = search.best | alone
    extent = max((offsets[n] + size for n, size in enumerate(sizes)), default=0)
    return SharedPlacement(tuple(offsets[n] for n in range(len(sizes))), extent, search.nodes > 0)


class _OrderSearch:
    """Depth-first search for the order with the smallest extent. bound: lower bound of the extent."""

    def __init__(self, sizes: tuple[int, ...], conflicts: Sequence[frozenset[int]], align: int, nodes: int) -> None:
        self.sizes, self.conflicts, self.align, self.nodes = sizes, conflicts, align, nodes
        self.best: dict[int, int] = {}
        self.extent, self.bound = 1 + sum(size + align for size in sizes), 0

    def visit(self, remaining: Sequence[int], placed: dict[int, int], extent: int) -> None:
        """Complete a partial placement in every order."""
        if not remaining:
            self.best, self.extent = dict(placed), extent
            return
        for n in remaining:
            at = self._lowest(n, placed)
            end = max(extent, at + self.sizes[n])
            if end >= self.extent or self.extent <= self.bound:
                continue
            if self.nodes <= 0 and self.best:
                return
            self.nodes -= 1
            self.visit([left for left in remaining if left != n], placed | {n: at}, end)

    def _lowest(self, n: int, placed: dict[int, int]) -> int:
        """Return the lowest offset at which the block overlaps none that it conflicts with."""
        at = 0
        for start, conflicting in sorted((placed[m], m) for m in self.conflicts[n] if m in placed):
            if at + self.sizes[n] <= start:
                break
            at = max(at, -(-(start + self.sizes[conflicting]) // self.align) * self.align)
        return at
