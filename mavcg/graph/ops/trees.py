"""The operator on decision trees: which leaf of each tree a sample reaches."""

import numpy as np

from mavcg.graph import Array, TensorType
from mavcg.graph.ops.op import Operator, TypedNode

# How a branch compares its feature with its threshold; a sample for which that holds goes to the child if_true. The
# rule of a branch is an index here, plus NAN_HOLDS where a feature that is NaN goes to if_true too; LEAF of a leaf.
COMPARISONS = ("less_equal", "less", "greater_equal", "greater", "equal", "not_equal")
NAN_HOLDS, LEAF = 8, -1
MOST_LEVELS = 256


def levels_of(nodes: Array, roots: Array) -> Array:
    """Return the largest number of branches from each root to a leaf, [trees]; MOST_LEVELS + 1 where it is more than
    MOST_LEVELS, as it is in a cycle.

    nodes, roots: as of tree_leaves. A leaf's children may be any nodes.
    """
    branch = np.flatnonzero(nodes[:, 3] != LEAF)
    children = nodes[branch, 1:3]
    levels = np.zeros(len(nodes), np.int64)
    for _ in range(MOST_LEVELS + 1):
        of_branches = 1 + levels[children].max(1, initial=0)
        if (of_branches == levels[branch]).all():
            break
        levels[branch] = of_branches
    return np.minimum(levels[roots], MOST_LEVELS + 1)


def _tree_leaves(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x", ("f32", "f64"), rank=2)
    case.same_dtype("x", "thresholds")
    case.type("nodes", ("i32",), rank=2), case.type("roots", ("i32",), rank=1)
    nodes, roots, thresholds = (case.value(name) for name in ("nodes", "roots", "thresholds"))
    if nodes is None or roots is None or thresholds is None:
        raise case.fail("nodes, thresholds and roots must be constants")
    if nodes.shape[1] != 4 or thresholds.shape != nodes.shape[:1] or not len(nodes):
        raise case.fail("nodes and thresholds must be [nodes, 4] and [nodes]")
    count, (_, features) = len(nodes), x.shape
    rules = nodes[:, 3]
    branches = nodes[rules != LEAF]
    inside = (roots >= 0).all() and (roots < count).all()
    inside = inside and (branches[:, 1:3] >= 0).all() and (branches[:, 1:3] < count).all()
    if not inside:
        raise case.fail(f"a root or child is outside of {count} nodes")
    if (branches[:, 0] < 0).any() or (branches[:, 0] >= features).any():
        raise case.fail(f"a branch's feature is outside of {features} features")
    if not np.isin(branches[:, 3] & ~NAN_HOLDS, np.arange(len(COMPARISONS))).all():
        raise case.fail(f"a rule is none of {LEAF}, 0 to {len(COMPARISONS) - 1}, and these plus {NAN_HOLDS}")
    return (TensorType("i32", (x.shape[0], len(roots))),)


OPS = (Operator("tree_leaves", ("x", "nodes", "thresholds", "roots"), _tree_leaves, {}),)
