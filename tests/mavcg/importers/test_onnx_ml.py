"""Operators of ai.onnx.ml: trees on random data, and what prepares their features, against onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.importers.onnx_file import import_onnx
from tests.conftest import examples
from tests.mavcg.importers.one_node import assert_agrees, both, save

pytest.importorskip("onnxruntime")
F, ML = "float32", "ai.onnx.ml"
SEEDS = st.integers(0, 1 << 20)
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def random_trees(
    random: np.random.Generator, count: int, features: int, modes: tuple[str, ...], missing: bool
) -> tuple[dict[str, list[Any]], list[tuple[int, int]]]:
    """The attributes of random trees' nodes, and (tree, node) of their leaves. Thresholds are whole: ties occur."""
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    columns: dict[str, list[Any]] = {f"nodes_{name}": [] for name in (*names, "missing_value_tracks_true")}
    leaves = []
    for tree in range(count):
        waiting, made = [(0, 0)], 1
        while waiting:
            node, depth = waiting.pop(0)
            is_leaf = depth == 4 or (depth > 0 and random.random() < 0.3)
            if is_leaf:
                leaves.append((tree, node))
            row = (
                tree,
                node,
                int(random.integers(features)),
                float(random.integers(-2, 3)),
                "LEAF" if is_leaf else str(random.choice(modes)),
                0 if is_leaf else made,
                0 if is_leaf else made + 1,
                int(missing and random.random() < 0.5),
            )
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
            if not is_leaf:
                waiting += [(made, depth + 1), (made + 1, depth + 1)]
                made += 2
    return columns, leaves


def weighted(random: np.random.Generator, leaves: list[tuple[int, int]], prefix: str, ids: list[int]) -> dict[str, Any]:
    """Weights of each leaf for these targets. (Without one onnxruntime leaves a target's base value out.)"""
    entries = [(tree, node, target) for tree, node in leaves for target in ids]
    return {
        f"{prefix}_treeids": [tree for tree, _, _ in entries],
        f"{prefix}_nodeids": [node for _, node, _ in entries],
        f"{prefix}_ids": [target for _, _, target in entries],
        f"{prefix}_weights": [float(v) for v in random.uniform(-1, 1, len(entries)).astype(F)],
    }


def data(random: np.random.Generator, missing: bool) -> np.ndarray:
    x = np.round(random.uniform(-3, 3, (17, 5)) * 2).astype(F) / 2
    return np.where(random.random(x.shape) < 0.2, np.nan, x).astype(F) if missing else x


@settings(max_examples=examples(20, 5))
@given(st.sampled_from([MODES[:1], MODES]), st.booleans(), st.sampled_from([1, 3]), SEEDS)
def test_regressions(tmp_path_factory: Any, modes: tuple[str, ...], missing: bool, targets: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    columns, leaves = random_trees(random, 6, 5, modes, missing)
    columns |= weighted(random, leaves, "target", list(range(targets)))
    aggregate = str(random.choice(["SUM", "AVERAGE", "MIN", "MAX"])) if targets == 1 else "SUM"
    if random.random() < 0.5:
        columns["base_values"] = [float(v) for v in range(1, targets + 1)]
    x = data(random, missing)
    path = tmp_path_factory.mktemp("trees") / "m.onnx"
    attributes = {"n_targets": targets, "aggregate_function": aggregate, **columns}
    save(path, "TreeEnsembleRegressor", {"x": x}, [("y", F)], 17, None, ML, **attributes)

    assert_agrees(path, x)


@settings(max_examples=examples(20, 5))
@given(
    st.sampled_from([[0, 1, 2], [0], [1], [0, 1]]),
    st.booleans(),
    st.sampled_from(["NONE", "LOGISTIC", "SOFTMAX"]),
    SEEDS,
)
def test_classifications(tmp_path_factory: Any, ids: list[int], positive: bool, post: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    columns, leaves = random_trees(random, 5, 5, MODES[:1], False)
    columns |= weighted(random, leaves, "class", ids)
    if positive:
        columns["class_weights"] = [abs(w) / 5 for w in columns["class_weights"]]
    labels = [7, -2, 30][: max(len(ids), 2)]
    x = data(random, False)
    path = tmp_path_factory.mktemp("trees") / "m.onnx"
    post = "NONE" if ids == [0] and post == "SOFTMAX" else post
    outputs = [("label", "int64"), ("scores", F)]
    attributes = {"classlabels_int64s": labels, "post_transform": post, **columns}
    save(path, "TreeEnsembleClassifier", {"x": x}, outputs, 17, None, ML, **attributes)

    if ids == [0, 1]:  # of these onnxruntime says 1 where the second score is above 0, whatever the labels are
        (label, scores), (_, expected) = both(path, x)
        np.testing.assert_allclose(scores, expected, 2e-5, 2e-5)
        assert label.tolist() == [labels[n] for n in scores.argmax(1)]
        return
    assert_agrees(path, x)


X = np.array([[1.5, -2, 0], [0, 0, 0], [3, 4, -12]], F)
NUMBERS = np.array([[3, 5, 3], [9, -1, 4]])
FORMS: list[tuple[str, list[np.ndarray], str, dict[str, Any]]] = [
    ("Scaler", [X], F, {"offset": [1.0], "scale": [0.5]}),
    ("Scaler", [X.astype(np.int64)], F, {"offset": [1.0, 2.0, 3.0], "scale": [0.5, 2.0, 1.0]}),
    ("Normalizer", [X], F, {"norm": "MAX"}),
    ("Normalizer", [X], F, {"norm": "L1"}),
    ("Normalizer", [X], F, {"norm": "L2"}),
    ("Binarizer", [X], F, {"threshold": 0.5}),
    ("ArrayFeatureExtractor", [X, np.array([[2, 0]])], F, {}),
    ("LabelEncoder", [NUMBERS], F, {"keys_int64s": [3, 4, 3], "values_floats": [0.5, 1.5, 2.5], "default_float": -7.0}),
    ("LabelEncoder", [X], "int64", {"keys_floats": [0.0, 3.0], "values_int64s": [5, 6]}),
    (
        "LinearRegressor",
        [X],
        F,
        {"coefficients": [1.0, 2.0, 3.0, -1.0, 0.5, 0.0], "intercepts": [1.0, 9.0], "targets": 2},
    ),
]


@pytest.mark.parametrize("form", FORMS, ids=[f"{form[0]}-{i}" for i, form in enumerate(FORMS)])
def test_features(tmp_path: Path, form: tuple[str, list[np.ndarray], str, dict[str, Any]]) -> None:
    op, arrays, result, attributes = form
    inputs = {f"i{i}": a for i, a in enumerate(arrays)}
    save(tmp_path / "m.onnx", op, inputs, [("y", result)], 17, None, ML, **attributes)

    assert_agrees(tmp_path / "m.onnx", *arrays)


STUMP: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [1.0, 2.0],
}
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("TreeEnsembleRegressor", STUMP | {"nodes_truenodeids": [0, 0, 0]}, "more than 256 levels, or without leaves"),
    ("TreeEnsembleRegressor", STUMP | {"nodes_falsenodeids": [9, 0, 0]}, "nodes_falsenodeids names a node that is not"),
    ("TreeEnsembleRegressor", STUMP | {"nodes_featureids": [3, 0, 0]}, "feature 3 of 3"),
    ("TreeEnsembleRegressor", STUMP | {"nodes_values": [0.5]}, "nodes_values has 1 entries where 3 are needed"),
    ("TreeEnsembleRegressor", STUMP | {"nodes_nodeids": [0, 1, 1]}, "a node of a tree is given twice"),
    ("TreeEnsembleRegressor", STUMP | {"target_ids": [0, 1]}, "target_ids, of 1 targets"),
    ("TreeEnsembleRegressor", STUMP | {"aggregate_function": "MEDIAN"}, "aggregate_function"),
    ("TreeEnsembleRegressor", STUMP | {"post_transform": "PROBIT"}, "post_transform PROBIT"),
    ("Scaler", {"offset": [1.0, 2.0], "scale": [1.0]}, "2 numbers in offset"),
    ("Normalizer", {"norm": "L7"}, "norm 'L7'"),
    ("LabelEncoder", {"keys_strings": ["a"], "values_int64s": [1]}, "keys_strings; supported: keys_int64s"),
    ("LabelEncoder", {"keys_floats": [1.0], "values_int64s": [1, 2]}, "1 keys for 2 values"),
    ("LinearRegressor", {"coefficients": [1.0]}, "1 coefficients and 0 intercepts of 1 targets"),
]


@pytest.mark.parametrize(("op", "attributes", "problem"), BAD)
def test_bad_nodes_are_refused_with_a_reason(tmp_path: Path, op: str, attributes: dict[str, Any], problem: str) -> None:
    save(tmp_path / "m.onnx", op, {"x": X}, [("y", F)], 17, None, ML, **attributes)
    with pytest.raises(MavcgError, match=rf"node 'the_node' \(ai.onnx.ml.{op}\): .*{problem}"):
        import_onnx(tmp_path / "m.onnx")
