"""Definition of the operator on decision trees: all samples go down all trees, a level at a time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.graph import Array, Node
from mavcg.graph.ops.trees import COMPARISONS, LEAF, NAN_HOLDS, levels_of

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {name: getattr(np, name) for name in COMPARISONS}


def _tree_leaves(node: Node, inputs: Sequence[Any]) -> Array:
    x, nodes, thresholds, roots = inputs
    at = np.broadcast_to(roots, (len(x), len(roots)))
    samples = np.arange(len(x))[:, None]
    for _ in range(int(levels_of(nodes, roots).max(initial=0))):
        feature, if_true, if_false, rule = np.moveaxis(nodes[at], -1, 0)
        value = x[samples, np.where(rule == LEAF, 0, feature)]
        holds = np.isnan(value) & (rule & NAN_HOLDS != 0)
        for number, name in enumerate(COMPARISONS):
            holds |= (rule & ~NAN_HOLDS == number) & _COMPARE[name](value, thresholds[at])
        at = np.where(rule == LEAF, at, np.where(holds, if_true, if_false))
    return np.array(at, np.int32)


DEFINITIONS: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = {"tree_leaves": _tree_leaves}
