"""Sums of a node of a CPU part: what they are multiplied by, and how many bits the products need."""

import math
from typing import Any

import numpy as np

from mavcg.accelerators.fixed_point import LOWEST, reciprocal, slope_of
from mavcg.accelerators.windows import window_counts
from mavcg.accelerators.xgraph import CONVOLUTIONS, XGraph, XNode
from mavcg.graph import Array


def factors_of(xgraph: XGraph, node: XNode) -> tuple[Array, Array]:
    """Return (integers, exponents of 2) by which a node's sums are multiplied; both broadcast to the sums [n,h,w,c]."""
    if node.kind == "avg_pool":
        (source,) = (xgraph.by_name()[name] for name in node.inputs)
        pairs = [reciprocal(int(count)) for count in window_counts(node, source.shape).flat]
        multipliers, bits = np.array(pairs, np.int64).T.reshape(2, 1, *node.shape[1:3], 1)
        return multipliers, -bits
    return np.array(node.multipliers or 1, np.int64), np.array(0)


def greatest_product(xgraph: XGraph, node: XNode) -> int:
    """Return a bound on a node's sums times their factors and its slope, less the factors of 2, which take no bits."""
    multipliers, _ = factors_of(xgraph, node)
    return _greatest_sum(xgraph, node) * _odd_part(multipliers) * _odd_part(slope_of(node) or 1)


def _greatest_sum(xgraph: XGraph, node: XNode) -> int:
    """Return a bound on a node's sums, in units of the finest of their radix positions."""
    if node.kind in CONVOLUTIONS:
        parameters = xgraph.parameters[node.name]
        weights = np.abs(parameters.weights.astype(np.int64)).reshape(len(parameters.weights), -1).sum(1)
        return int((weights * -LOWEST + np.abs(parameters.bias.astype(np.int64))).max())
    if node.kind == "avg_pool":
        return math.prod(node.kernel) * -LOWEST
    if node.kind == "eltwise" and node.op == "mul":
        return LOWEST**2
    radixes = [xgraph.by_name()[name].radix or 0 for name in node.inputs]
    return sum(-LOWEST << max(radixes) - radix for radix in radixes)


def _odd_part(factors: Any) -> int:
    """Return the greatest of integers of at least 0, each without its factors of 2."""
    factors = np.maximum(np.asarray(factors, np.int64), 1)
    return int((factors // (factors & -factors)).max())
