"""A PBQP instance: costs of the nodes' alternatives, and of pairs of them along edges."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mavcg.errors import MavcgError

Costs = NDArray[np.float64]

# Sums of some thousand finite costs must stay finite, or they would look forbidden.
LARGEST_COST = 1e200


@dataclass(frozen=True)
class PbqpEdge:
    """costs: [alternatives of source, alternatives of target], float64; infinite where the two exclude each other."""

    source: str
    target: str
    costs: Costs


@dataclass(frozen=True)
class Instance:
    """nodes: name -> [alternatives], float64, infinite where one is forbidden. Made by `make_instance`, which checks.

    Several edges between two nodes add up; an edge from a node to itself adds its diagonal to the node's costs.
    """

    nodes: Mapping[str, Costs]
    edges: tuple[PbqpEdge, ...]


def make_instance(
    nodes: Mapping[str, ArrayLike], edges: Sequence[tuple[str, str, ArrayLike] | PbqpEdge] = ()
) -> Instance:
    """Return an instance of vectors by node, and of (source, target, matrix) by edge.

    Raises: MavcgError for a node without alternatives, an edge to an unknown node or of another shape than its nodes'
    alternatives, a NaN, minus infinity, or a finite cost beyond 1e200.
    """
    vectors = {name: _costs(costs, f"nodes.{name}", 1) for name, costs in nodes.items()}
    for name, vector in vectors.items():
        if not len(vector):
            raise MavcgError(f"nodes.{name}: has no alternatives; give at least one cost, or leave the node out")
    made = []
    for number, edge in enumerate(edges):
        source, target, costs = (edge.source, edge.target, edge.costs) if isinstance(edge, PbqpEdge) else edge
        place = f"edges[{number}]"
        for end, name in (("from", source), ("to", target)):
            if name not in vectors:
                raise MavcgError(f"{place}.{end}: no node is named {name!r}; name one of nodes, or add it there")
        matrix = _costs(costs, f"{place}.costs", 2)
        shape = (len(vectors[source]), len(vectors[target]))
        if matrix.shape != shape:
            raise MavcgError(
                f"{place}.costs: {_by(matrix.shape)} costs; from {source!r} to {target!r} takes {_by(shape)}, a row "
                f"for each alternative of {source!r}"
            )
        made.append(PbqpEdge(source, target, matrix))
    return Instance(vectors, tuple(made))


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _costs(values: ArrayLike, place: str, dimensions: int) -> Costs:
    try:
        costs = np.array(values, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise MavcgError(f"{place}: {error}; give numbers, in rows of one length") from None
    if costs.ndim != dimensions:
        expected = "one row of numbers" if dimensions == 1 else "rows of numbers"
        raise MavcgError(f"{place}: has {costs.ndim} dimensions; give {expected}")
    wrong = np.isnan(costs) | (costs == -np.inf) | ((np.abs(costs) > LARGEST_COST) & np.isfinite(costs))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        index = "".join(f"[{i}]" for i in at)
        raise MavcgError(
            f"{place}{index}: {costs[at]} is no cost; give a number of at most {LARGEST_COST:.0e} in magnitude, or "
            f"infinity for what is forbidden"
        )
    costs.setflags(write=False)
    return costs


def total_cost(instance: Instance, choice: Mapping[str, int]) -> float:
    """Return the cost of a choice of all nodes by the instance; the correctly rounded sum, so that no order matters.

    Raises: MavcgError for a node that has no choice, or not the alternative that is chosen.
    """
    return math.fsum(cost_terms(instance, choice))


def cost_terms(instance: Instance, choice: Mapping[str, int]) -> Iterator[float]:
    """Yield the costs that a choice adds up, node by node and edge by edge. Raises: as total_cost."""
    for name, costs in instance.nodes.items():
        if name not in choice or not 0 <= choice[name] < len(costs):
            raise MavcgError(
                f"choice of {name!r}: {choice.get(name)} is none of its {len(costs)} alternatives; they count from 0"
            )
        yield float(costs[choice[name]])
    for edge in instance.edges:
        yield float(edge.costs[choice[edge.source], choice[edge.target]])
