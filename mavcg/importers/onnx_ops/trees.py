"""Handlers of ensembles of decision trees (ai.onnx.ml): TreeEnsembleRegressor, TreeEnsembleClassifier, TreeEnsemble.

The sums of leaves' weights differ from other runtimes' in their order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.graph import Array
from mavcg.graph.ops.trees import LEAF, MOST_LEVELS, NAN_HOLDS, levels_of
from mavcg.importers.movement import element
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.value import Value, constant

# In the order of TreeEnsemble's numbers, and of COMPARISONS.
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_LEAF = "LEAF"
_POST = ("NONE", "SOFTMAX", "LOGISTIC")


@dataclass(frozen=True)
class Forest:
    """Trees as tables, a row for each node.

    nodes: i64 [nodes, 4], and roots, [trees], as of the graph's tree_leaves. weights: of leaves, [nodes, targets].
    """

    roots: Array
    nodes: Array
    threshold: Array
    weights: Array


def _nodes(mode: Array, feature: Array, children: Sequence[Array], when_missing: Array) -> Array:
    """Return nodes of tree_leaves.

    mode: index of _MODES, or len(_MODES) for a leaf. children: (if_true, if_false). when_missing: True where NaN goes
    to the child if_true.
    """
    rule = np.where(mode < len(_MODES), mode + NAN_HOLDS * when_missing, LEAF)
    return np.stack((np.where(rule == LEAF, 0, feature), *children, rule), 1)


def _sum_of_leaves(call: OnnxCall, forest: Forest, aggregate: str) -> Value:
    """Return the sums (or AVERAGE, MIN, MAX) of the leaves' weights that rows of X reach, [N, targets]."""
    x = call.input(0)
    x = call.reshape(x, (1, *x.shape)) if x.rank == 1 else x
    if x.rank != 2 or x.type.elements == 0:
        raise call.fail(f"its input X is {x.type}; [rows, features] is needed")
    x = x if x.dtype in ("f32", "f64") else call.cast(x, "f32")
    rows, features = x.shape
    feature = forest.nodes[:, 0]
    if len(feature) and not 0 <= feature.min() <= feature.max() < features:
        raise call.fail(f"feature {feature.max()} of {features}")
    targets, trees = forest.weights.shape[1], len(forest.roots)
    call.count_size(rows * trees, 8)
    if aggregate not in ("SUM", "AVERAGE") and targets > 1:
        raise call.unsupported(f"aggregate_function {aggregate} of {targets} targets", "one target")
    levels = levels_of(forest.nodes, forest.roots)
    if levels.max(initial=0) > MOST_LEVELS:
        raise call.unsupported(f"trees with more than {MOST_LEVELS} levels, or without leaves", "less")
    trees_as_constants = (
        constant(forest.nodes, "i32"),
        constant(forest.threshold, x.dtype),
        constant(forest.roots, "i32"),
    )
    node = call.add("tree_leaves", x, *trees_as_constants)
    leaves = call.add("gather", constant(forest.weights), node, axis=0)  # [rows, trees, targets]
    operators = {"SUM": "reduce_sum", "AVERAGE": "reduce_mean", "MIN": "reduce_min", "MAX": "reduce_max"}
    if aggregate not in operators:
        raise call.fail(f"aggregate_function {aggregate!r}; there are {', '.join(operators)}")
    return call.add(operators[aggregate], leaves, axes=(1,), keepdims=False)


def _post_transform(call: OnnxCall, scores: Value, name: str) -> Value:
    if name not in _POST:
        raise call.unsupported(f"post_transform {name}", ", ".join(_POST))
    if name == "NONE":
        return scores
    return call.add("softmax", scores, axis=1) if name == "SOFTMAX" else call.add("sigmoid", scores)


def _forest(call: OnnxCall, prefix: str, targets: int) -> Forest:
    """Return the trees of a TreeEnsembleRegressor or -Classifier. prefix: of the attributes of weights."""
    if any(name.endswith("_as_tensor") for name in call.attrs):
        raise call.unsupported("thresholds and weights as tensors of doubles", "as floats")
    trees, ids = call.attr_ints("nodes_treeids"), call.attr_ints("nodes_nodeids")
    count = len(trees)

    def floats(name: str, length: int) -> Array:
        return np.array(call.attr_floats(name, length=length), np.float32)

    modes = call.attrs.get("nodes_modes", ())
    if not count or len(ids) != count or len(modes) != count or not set(modes) <= {*_MODES, _LEAF}:
        raise call.fail(f"{count} nodes_treeids, {len(ids)} nodes_nodeids, {len(modes)} nodes_modes")
    row = {key: number for number, key in enumerate(zip(trees, ids, strict=True))}
    if len(row) != count:
        raise call.fail("a node of a tree is given twice")
    mode = np.array([(*_MODES, _LEAF).index(name) for name in modes], np.int64)

    def rows_of(trees: Sequence[int], ids: Sequence[int], name: str) -> Array:
        found = [row.get(key, -1) for key in zip(trees, ids, strict=True)]
        if min(found, default=0) < 0:
            raise call.fail(f"attribute {name} names a node that is not there")
        return np.array(found, np.int64)

    branch = np.flatnonzero(mode < len(_MODES)).tolist()
    children: list[Array] = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        given = call.attr_ints(name, length=count)
        child = np.arange(count, dtype=np.int64)
        child[branch] = rows_of([trees[i] for i in branch], [given[i] for i in branch], name)
        children.append(child)
    weights = np.zeros((count, targets), np.float32)
    weight_trees, weight_ids = call.attr_ints(f"{prefix}_treeids"), call.attr_ints(f"{prefix}_nodeids")
    target_ids = call.attr_ints(f"{prefix}_ids", length=len(weight_trees))
    if len(weight_ids) != len(weight_trees) or not all(0 <= i < targets for i in target_ids):
        raise call.fail(f"attributes {prefix}_nodeids and {prefix}_ids, of {targets} targets")
    at = rows_of(weight_trees, weight_ids, f"{prefix}_nodeids")
    np.add.at(weights, (at, np.array(target_ids, np.int64)), floats(f"{prefix}_weights", len(weight_trees)))
    missing = call.attr_ints("nodes_missing_value_tracks_true", (0,) * count)
    features = np.array(call.attr_ints("nodes_featureids", length=count), np.int64)
    when_missing = np.array([bool(m) for m in missing] if len(missing) == count else [False] * count)
    return Forest(
        np.unique(np.array(trees), return_index=True)[1].astype(np.int64),  # the first node of each tree
        _nodes(mode, features, children, when_missing),
        floats("nodes_values", count),
        weights,
    )


def _base_values(call: OnnxCall) -> Array:
    return np.array(call.attr_floats("base_values"), np.float32)


def regressor(call: OnnxCall) -> Results:
    """Import TreeEnsembleRegressor."""
    forest = _forest(call, "target", call.attr_int("n_targets", 1))
    made = _sum_of_leaves(call, forest, call.attr_str("aggregate_function", "SUM"))
    base = _base_values(call)
    if base.size:
        made = call.add("add", made, constant(base))
    return _post_transform(call, made, call.attr_str("post_transform", "NONE"))


def classifier(call: OnnxCall) -> Results:
    """Import TreeEnsembleClassifier with numbers as labels: the label of the best class, and the scores."""
    if "classlabels_strings" in call.attrs:
        raise call.unsupported("classlabels_strings", "classlabels_int64s")
    labels, ids = call.attr_ints("classlabels_int64s"), call.attr_ints("class_ids")
    post, base = call.attr_str("post_transform", "NONE"), _base_values(call)
    binary = len(labels) == 2 and len(set(ids)) == 1  # one score decides
    one_score = binary and ids[0] == 0  # the other class's follows from it; else that is 0
    forest = _forest(call, "class", len(labels))
    if base.size not in ((0, 1) if one_score else (0,) if binary else (0, len(labels))):
        raise call.unsupported(f"{base.size} base_values of {len(labels)} classes", "one for each score")
    scores = _sum_of_leaves(call, forest, "SUM")
    names = constant(np.array(labels, np.int64))
    positive = bool((forest.weights >= 0).all())  # then one score is a probability
    if one_score:
        score = call.reshape(element(call, scores, 1, 0), (scores.shape[0], 1))
        score = call.add("add", score, constant(base)) if base.size else score
        probability = positive and post == "NONE"
        other = call.add("sub", call.scalar(1, score), score) if probability else call.add("neg", score)
        scores = call.add("concat", other, score, axis=1)
        if post not in ("NONE", "LOGISTIC"):
            raise call.unsupported(f"post_transform {post} of one score", "NONE, LOGISTIC")
    elif base.size:
        scores = call.add("add", scores, constant(base))
    if binary:
        decides = element(call, scores, 1, 1)
        least = call.scalar(0.5 if positive else 0, decides)
        best = call.cast(call.add("greater", decides, least), "i64")
    else:
        best = call.add("arg_max", scores, axis=1, keepdims=False)
    return call.add("gather", names, best, axis=0), _post_transform(call, scores, post)


def tree_ensemble(call: OnnxCall) -> Results:
    """Import TreeEnsemble, the form since version 5 of ai.onnx.ml: leaves are numbered apart from branches."""
    splits, weights, modes = (_tensor(call, name) for name in ("nodes_splits", "leaf_weights", "nodes_modes"))
    if any(mode >= len(_MODES) for mode in modes.tolist()):
        raise call.unsupported("BRANCH_MEMBER", ", ".join(_MODES))
    count, targets = len(splits), call.attr_int("n_targets")
    leaf_targets = np.array(call.attr_ints("leaf_targetids", length=len(weights)), np.int64)
    children: list[Array] = []
    for side in ("true", "false"):
        numbers = np.array(call.attr_ints(f"nodes_{side}nodeids", length=count), np.int64)
        is_leaf = np.array(call.attr_ints(f"nodes_{side}leafs", length=count), np.bool_)
        limit = np.where(is_leaf, len(weights), count)
        if ((numbers < 0) | (numbers >= limit)).any():
            raise call.fail(f"attribute nodes_{side}nodeids names a node or leaf that is not there")
        children.append(np.concatenate([np.where(is_leaf, numbers + count, numbers), count + np.arange(len(weights))]))
    roots = np.array(call.attr_ints("tree_roots"), np.int64)
    if (
        not roots.size
        or ((roots < 0) | (roots >= count)).any()
        or not ((0 <= leaf_targets) & (leaf_targets < targets)).all()
    ):
        raise call.fail("tree_roots or leaf_targetids are outside of the nodes or targets")
    table = np.zeros((count + len(weights), targets), weights.dtype)
    table[count + np.arange(len(weights)), leaf_targets] = weights
    missing = np.array(call.attr_ints("nodes_missing_value_tracks_true", (0,) * count), np.bool_)
    features = np.array(call.attr_ints("nodes_featureids", length=count), np.int64)

    def with_leaves(of_branches: Array, of_leaves: int | bool) -> Array:
        return np.concatenate([of_branches, np.full(len(weights), of_leaves, of_branches.dtype)])

    forest = Forest(
        roots,
        _nodes(
            with_leaves(modes.astype(np.int64), len(_MODES)),
            with_leaves(features, 0),
            children,
            with_leaves(missing if len(missing) == count else np.zeros(count, np.bool_), False),
        ),
        with_leaves(splits, 0),
        table,
    )
    aggregate = {0: "AVERAGE", 1: "SUM", 2: "MIN", 3: "MAX"}.get(call.attr_int("aggregate_function", 1), "")
    post = {0: "NONE", 1: "SOFTMAX", 2: "LOGISTIC"}.get(call.attr_int("post_transform", 0), "other")
    return _post_transform(call, _sum_of_leaves(call, forest, aggregate), post)


def _tensor(call: OnnxCall, name: str) -> Array:
    value = call.attr_tensor(name)
    if value.ndim != 1:
        raise call.fail(f"its attribute {name} is not a list as a tensor")
    return value


HANDLERS: Mapping[str, Handler] = {
    "TreeEnsembleRegressor": regressor,
    "TreeEnsembleClassifier": classifier,
    "TreeEnsemble": tree_ensemble,
}
