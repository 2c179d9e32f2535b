"""Conversions of an image that several nodes read, each made once for all who want it.

As a PBQP: one more node for the image, whose alternatives are the layouts that are made of it. Its cost is the least
that makes them all, from one another; its edges forbid a reader a layout that is not among them.
"""

from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from mavcg.selection.dt_graph import LAYOUTS, NUMBER_OF, DtGraph
from mavcg.specs.primitive import Layout


@dataclass(frozen=True)
class SharedImage:
    """An image that several links carry. name: of its node in the instance; links: by number; graph: of its size."""

    name: str
    tensor: str
    links: tuple[int, ...]
    graph: DtGraph


@dataclass(frozen=True)
class MadeSet:
    """Layouts in which an image is there, and the conversions that make them of the one in which it is written."""

    begin: Layout
    layouts: frozenset[Layout]
    ms: float
    steps: tuple[tuple[Layout, Layout], ...]


def cheapest_sets(graph: DtGraph) -> tuple[MadeSet, ...]:
    """Return each layout with each set of others that can be made of it, for the least; an arborescence of direct
    routines.

    A layout that is only passed through is in the set like any other, so that no chains are needed.
    """
    return _sets(tuple(map(tuple, graph.direct.tolist())))


@cache
def _sets(direct: tuple[tuple[float, ...], ...]) -> tuple[MadeSet, ...]:
    found: list[MadeSet] = []
    for begin in LAYOUTS:
        others = [layout for layout in LAYOUTS if layout is not begin]
        best = {frozenset((begin,)): MadeSet(begin, frozenset((begin,)), 0.0, ())}
        for count in range(1, len(others) + 1):
            for some in combinations(others, count):
                layouts = frozenset((begin, *some))
                # The layout that is made last is a leaf: all others are there without it.
                chains = [
                    (best[layouts - {last}], from_, last)
                    for last in some
                    if layouts - {last} in best
                    for from_ in LAYOUTS
                    if from_ in layouts - {last}
                ]
                costs = [chain.ms + direct[NUMBER_OF[a]][NUMBER_OF[b]] for chain, a, b in chains]
                if costs and np.isfinite(min(costs)):
                    chain, a, b = chains[costs.index(min(costs))]
                    best[layouts] = MadeSet(begin, layouts, min(costs), (*chain.steps, (a, b)))
        found += best.values()
    return tuple(found)
