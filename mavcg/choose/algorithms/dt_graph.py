"""The DT graph of an image: costs of converting it between layouts, over chains of routines.

Nodes are layouts, edges are routines that convert one into another (Anderson and Gregg, CGO 2018, section 4). The cost
of a routine depends on the image, so each size of image has its own graph and shortest paths.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from mavcg.choose.algorithms.costs.provider import Cost, CostProvider
from mavcg.graph.layout import Layout, same_order

LAYOUTS: tuple[Layout, ...] = tuple(Layout)
NUMBER_OF = {layout: number for number, layout in enumerate(LAYOUTS)}
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Size:
    """Size of an image: channels, rows, columns. n: images of a batch, which are converted one after the other."""

    c: int
    h: int
    w: int
    n: int = 1

    def __str__(self) -> str:
        return f"{self.c}x{self.h}x{self.w}" + (f" x {self.n}" if self.n > 1 else "")


@dataclass(frozen=True)
class DtGraph:
    """All shortest paths between the layouts of images of one size.

    direct: costs of single routines. shortest: [from, to] by layout number, in ms; infinite if no chain leads there.
    following: the next layout on the path. kinds: kind of each routine's cost, "measured" and so on.
    """

    size: Size
    direct: Matrix
    shortest: Matrix
    following: tuple[tuple[int, ...], ...]
    kinds: tuple[tuple[str, ...], ...]

    def ms(self, layout_from: Layout, layout_to: Layout) -> float:
        """Return the cost of the cheapest chain, in ms; 0 from a layout to itself."""
        return float(self.shortest[NUMBER_OF[layout_from], NUMBER_OF[layout_to]])

    def chain(self, layout_from: Layout, layout_to: Layout) -> tuple[Layout, ...]:
        """Return the layouts of the cheapest chain, both ends included; () if there is none."""
        layout, end = NUMBER_OF[layout_from], NUMBER_OF[layout_to]
        if np.isinf(self.shortest[layout, end]):
            return ()
        path = [layout]
        while layout != end:
            layout = self.following[layout][end]
            path.append(layout)
        return tuple(LAYOUTS[number] for number in path)

    def kind(self, chain: tuple[Layout, ...]) -> str:
        """Return the kinds of the costs of a chain's routines, separated by commas."""
        steps = zip(chain, chain[1:], strict=False)
        return ", ".join(sorted({self.kinds[NUMBER_OF[a]][NUMBER_OF[b]] for a, b in steps}))


def dt_graph(costs: CostProvider, size: Size) -> DtGraph:
    """Return the DT graph of a size, with all shortest paths (Floyd and Warshall).

    A chain replaces a routine only if it costs less. A routine without a cost is absent.
    """
    count = len(LAYOUTS)
    direct = np.full((count, count), np.inf)
    np.fill_diagonal(direct, 0.0)
    kinds = [[""] * count for _ in LAYOUTS]
    for a in LAYOUTS:
        for b in LAYOUTS:
            cost = None if a is b else _direct(costs, a, b, size)
            if cost is not None:
                direct[NUMBER_OF[a], NUMBER_OF[b]] = cost.ms
                kinds[NUMBER_OF[a]][NUMBER_OF[b]] = cost.kind
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
    cost = costs.conversion(a, b, size.c, size.h, size.w)
    return (
        cost if cost is None or size.n == 1 else replace(cost, ms=cost.ms * size.n, spread_ms=cost.spread_ms * size.n)
    )


SAME = "same in memory"


def same_in_memory(a: Layout, b: Layout, size: Size) -> bool:
    """True if both layouts store every element of such an image at the same address, as CHW and HWC of 1 x 1 do."""
    return same_order(a, b, size.c, size.h, size.w)


def dt_graphs(costs: CostProvider) -> Callable[[Size], DtGraph]:
    """Return a function that returns the DT graph of a size, computed once."""
    known: dict[Size, DtGraph] = {}

    def graph_of(size: Size) -> DtGraph:
        if size not in known:
            known[size] = dt_graph(costs, size)
        return known[size]

    return graph_of
