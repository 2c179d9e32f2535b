"""The DT graph of an image: what it costs to bring it from one layout into another, over as many routines as it takes.

Nodes are layouts, edges are routines that convert one into another (Anderson and Gregg, CGO 2018, section 4). What
a routine costs depends on the image, so that there is a graph, and shortest paths, for each size of image.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from mavcg.selection.costs.provider import Cost, CostProvider
from mavcg.specs.layout import Layout, same_order

LAYOUTS: tuple[Layout, ...] = tuple(Layout)
NUMBER_OF = {layout: number for number, layout in enumerate(LAYOUTS)}
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Size:
    """Size of an image: channels, rows, columns; n: images of a batch, which are converted one after the other."""

    c: int
    h: int
    w: int
    n: int = 1

    def __str__(self) -> str:
        return f"{self.c}x{self.h}x{self.w}" + (f" x {self.n}" if self.n > 1 else "")


@dataclass(frozen=True)
class DtGraph:
    """All shortest paths between layouts of images of one size.

    shortest: [from, to], ms, by the layouts' numbers; infinite where no chain of routines leads. following: the layout
    that comes next on the path. direct: the routines' own costs. kind: "measured" and so on; of several, all of them.
    """

    size: Size
    direct: Matrix
    shortest: Matrix
    following: tuple[tuple[int, ...], ...]
    kinds: tuple[tuple[str, ...], ...]

    def ms(self, layout_from: Layout, layout_to: Layout) -> float:
        """Return the cost of the cheapest chain, in ms; 0 from a layout into itself."""
        return float(self.shortest[NUMBER_OF[layout_from], NUMBER_OF[layout_to]])

    def chain(self, layout_from: Layout, layout_to: Layout) -> tuple[Layout, ...]:
        """Return the layouts that the cheapest chain goes through, both ends among them; () where there is none."""
        at, end = NUMBER_OF[layout_from], NUMBER_OF[layout_to]
        if np.isinf(self.shortest[at, end]):
            return ()
        found = [at]
        while at != end:
            at = self.following[at][end]
            found.append(at)
        return tuple(LAYOUTS[number] for number in found)

    def kind(self, chain: tuple[Layout, ...]) -> str:
        """Return the kind of the costs of a chain's routines."""
        steps = zip(chain, chain[1:], strict=False)
        return ", ".join(sorted({self.kinds[NUMBER_OF[a]][NUMBER_OF[b]] for a, b in steps}))


def dt_graph(costs: CostProvider, size: Size) -> DtGraph:
    """Return the shortest paths by Floyd and Warshall, with the paths; a chain only where it costs less than the
    routine itself.

    A routine that the provider has no cost of is not there.
    """
    count = len(LAYOUTS)
    direct = np.full((count, count), np.inf)
    np.fill_diagonal(direct, 0.0)
    kinds = [[""] * count for _ in LAYOUTS]
    for a in LAYOUTS:
        for b in LAYOUTS:
            found = None if a is b else _direct(costs, a, b, size)
            if found is not None:
                direct[NUMBER_OF[a], NUMBER_OF[b]] = found.ms
                kinds[NUMBER_OF[a]][NUMBER_OF[b]] = found.kind
    shortest = direct.copy()
    following = [list(range(count)) for _ in LAYOUTS]
    numbers = range(count)
    for via, i, j in product(numbers, numbers, numbers):
        length = shortest[i, via] + shortest[via, j]
        if length < shortest[i, j]:
            shortest[i, j] = length
            following[i][j] = following[i][via]
    for matrix in (direct, shortest):
        matrix.setflags(write=False)
    return DtGraph(size, direct, shortest, tuple(map(tuple, following)), tuple(map(tuple, kinds)))


def _direct(costs: CostProvider, a: Layout, b: Layout, size: Size) -> Cost | None:
    if same_in_memory(a, b, size):
        return Cost(0.0, SAME)
    one = costs.conversion(a, b, size.c, size.h, size.w)
    return one if one is None or size.n == 1 else replace(one, ms=one.ms * size.n, spread_ms=one.spread_ms * size.n)


SAME = "same in memory"


def same_in_memory(a: Layout, b: Layout, size: Size) -> bool:
    """True if both layouts put every element of such an image at the same address, as CHW and HWC of 1 x 1 do."""
    return same_order(a, b, size.c, size.h, size.w)


def dt_graphs(costs: CostProvider) -> Callable[[Size], DtGraph]:
    """Return the graph of each size, made once."""
    known: dict[Size, DtGraph] = {}

    def of(size: Size) -> DtGraph:
        if size not in known:
            known[size] = dt_graph(costs, size)
        return known[size]

    return of
