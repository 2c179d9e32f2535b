"""A PBQP instance: costs of the nodes' alternatives, and of pairs of alternatives along edges."""

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
    """Costs of pairs: [alternatives of source, alternatives of target], float64; infinity forbids a pair."""

    source: str
    target: str
    costs: Costs


@dataclass(frozen=True)
class Instance:
    """A PBQP instance; `make_instance` creates and checks it.

    nodes: name -> [alternatives], float64; infinity forbids an alternative. Several edges between two nodes add up; an
    edge from a node to itself adds its diagonal to the node's costs.
    """

    nodes: Mapping[str, Costs]
    edges: tuple[PbqpEdge, ...]


def make_instance(
    nodes: Mapping[str, ArrayLike], edges: Sequence[tuple[str, str, ArrayLike] | PbqpEdge] = ()
) -> Instance:
    """Return an instance of vectors by node, and of (source, target, matrix) by edge.

    Raises: MavcgError for a node without alternatives, an edge to an unknown node or of a shape other than its nodes'
    alternatives, a NaN, minus infinity, or a finite cost beyond 1e200.
    """
    vectors = {name: _costs(costs, f"nodes.{name}", 1) for name, costs in nodes.items()}
    for name, vector in vectors.items():
        if not len(vector):
            raise MavcgError(f"nodes.{name}: has no alternatives; give at least one cost, or leave the node out")
    checked = []
    for number, edge in enumerate(edges):
        source, target, costs = (edge.source, edge.target, edge.costs) if isinstance(edge, PbqpEdge) else edge
        location = f"edges[{number}]"
        for end, name in (("from", source), ("to", target)):
            if name not in vectors:
                raise MavcgError(f"{location}.{end}: no node is named {name!r}; name one of nodes, or add it there")
        matrix = _costs(costs, f"{location}.costs", 2)
        shape = (len(vectors[source]), len(vectors[target]))
        if matrix.shape != shape:
            raise MavcgError(
                f"{location}.costs: {_by(matrix.shape)} costs; from {source!r} to {target!r} requires {_by(shape)}, "
                "a row "
                f"for each alternative of {source!r}"
            )
        checked.append(PbqpEdge(source, target, matrix))
    return Instance(vectors, tuple(checked))


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _costs(values: ArrayLike, location: str, dimensions: int) -> Costs:
    try:
        costs = np.array(values, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise MavcgError(f"{location}: {error}; give numbers, in rows of one length") from None
    if costs.ndim != dimensions:
        expected = "one row of numbers" if dimensions == 1 else "rows of numbers"
        raise MavcgError(f"{location}: has {costs.ndim} dimensions; give {expected}")
    wrong = np.isnan(costs) | (costs == -np.inf) | ((np.abs(costs) > LARGEST_COST) & np.isfinite(costs))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        index = "".join(f"[{i}]" for i in at)
        raise MavcgError(
            f"{location}{index}: {costs[at]} is not a cost; give a number of at most {LARGEST_COST:.0e} in "
            "magnitude, or "
            f"infinity for a forbidden choice"
        )
    costs.setflags(write=False)
    return costs


def total_cost(instance: Instance, choice: Mapping[str, int]) -> float:
    """Return the cost of a choice of all nodes, correctly rounded, so that the order of the sum does not matter.

    Raises: MavcgError for a node without a choice, or with the number of an alternative that it lacks.
    """
    return math.fsum(cost_terms(instance, choice))


def cost_terms(instance: Instance, choice: Mapping[str, int]) -> Iterator[float]:
    """Yield the costs that add up to a choice's cost, node by node, then edge by edge. Raises: as total_cost."""
    for name, costs in instance.nodes.items():
        if name not in choice or not 0 <= choice[name] < len(costs):
            raise MavcgError(
                f"choice of {name!r}: {choice.get(name)} is not one of its {len(costs)} alternatives; they count from 0"
            )
        yield float(costs[choice[name]])
    for edge in instance.edges:
        yield float(edge.costs[choice[edge.source], choice[edge.target]])
