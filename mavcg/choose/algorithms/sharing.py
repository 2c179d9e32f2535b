"""Shared conversions: an image that several nodes read is converted once into each layout that any of them reads.

In the PBQP the image is one more node, whose alternatives are sets of layouts. A set costs the cheapest conversions
that make all its layouts, from one another; edges forbid a reader the layouts that are not in the set.
"""

from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from mavcg.choose.algorithms.dt_graph import LAYOUTS, NUMBER_OF, DtGraph
from mavcg.specs.primitive import Layout


@dataclass(frozen=True)
class SharedImage:
    """An image that several links carry. name: of its PBQP node. links: their numbers. graph: DT graph of its size."""

    name: str
    tensor: str
    links: tuple[int, ...]
    graph: DtGraph


@dataclass(frozen=True)
class MadeSet:
    """A set of layouts of one image, and the conversions that make them from the layout in which it is written."""

    begin: Layout
    layouts: frozenset[Layout]
    ms: float
    steps: tuple[tuple[Layout, Layout], ...]


def cheapest_sets(graph: DtGraph) -> tuple[MadeSet, ...]:
    """Return for each initial layout and each set of further layouts the cheapest conversions that make the set.

    The conversions form an arborescence of direct routines. An intermediate layout is in the set like any other, so no
    chains are needed.
    """
    return _sets(tuple(map(tuple, graph.direct.tolist())))


@cache
def _sets(direct: tuple[tuple[float, ...], ...]) -> tuple[MadeSet, ...]:
    sets: list[MadeSet] = []
    for begin in LAYOUTS:
        others = [layout for layout in LAYOUTS if layout is not begin]
        best = {frozenset((begin,)): MadeSet(begin, frozenset((begin,)), 0.0, ())}
        for count in range(1, len(others) + 1):
            for targets in combinations(others, count):
                layouts = frozenset((begin, *targets))
                # The layout that is made last is a leaf: all others can be made without it.
                chains = [
                    (best[layouts - {last}], from_, last)
                    for last in targets
                    if layouts - {last} in best
                    for from_ in LAYOUTS
                    if from_ in layouts - {last}
                ]
                costs = [chain.ms + direct[NUMBER_OF[a]][NUMBER_OF[b]] for chain, a, b in chains]
                if costs and np.isfinite(min(costs)):
                    chain, a, b = chains[costs.index(min(costs))]
                    best[layouts] = MadeSet(begin, layouts, min(costs), (*chain.steps, (a, b)))
        sets += best.values()
    return tuple(sets)
