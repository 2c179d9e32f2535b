"""Operators of transformers over a bounded number of tokens: onnxruntime's values, and the bits of each length."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.graph.counts import Dimension

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_run import assert_same  # noqa: E402

MICROSOFT = "com.microsoft"
WIDTH, MOST, LENGTHS = 16, 9, (1, 2, 5, 9)
ANGLES = np.arange(2 * MOST)[:, None] / 10 ** np.linspace(0, 2, 4)
TABLES = {"cos": np.cos(ANGLES).astype(np.float32), "sin": np.sin(ANGLES).astype(np.float32)}
node = onnx.helper.make_node


def assert_right(
    path: Path,
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[Sequence[int | None], Any]],
    constants: Mapping[str, Any] = TABLES,
    opset: int = 23,
) -> None:
    """Compare a model at some lengths. inputs: (shape, dtype); whole numbers are 0, 1, .. along the tokens."""
    helper, rng = onnx.helper, np.random.default_rng(0)
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["n" if d is None else d for d in shape]
        )
        for name, (shape, dtype) in inputs.items()
    ]
    known = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", given, [helper.make_empty_tensor_value_info("y")], known)
    imports = [helper.make_opsetid(name, version) for name, version in (("", opset), (MICROSOFT, 1), ("ai.onnx.ml", 5))]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    arrays: dict[int, dict[str, Any]] = {n: {} for n in LENGTHS}
    for n in LENGTHS:
        for name, (shape, dtype) in inputs.items():
            own = [n if d is None else d for d in shape]
            whole = np.dtype(dtype).kind == "i"
            values = np.broadcast_to(np.arange(own[-1]), own) if whole else rng.standard_normal(own)
            arrays[n][name] = np.ascontiguousarray(values).astype(dtype)
    shapes = {name: shape for name, (shape, _) in inputs.items() if None in shape}
    assert_same(path, shapes, Dimension("n", 1, MOST), arrays, (2, 5))


X = {"x": ((1, None, WIDTH), np.float32)}
POSITIONS = {"pos": ((1, None), np.int64)}


@pytest.mark.parametrize("causal", [0, 1])
def test_attention(tmp_path: Path, causal: int) -> None:
    made = node("Attention", ["x", "x", "x"], ["y"], q_num_heads=2, kv_num_heads=2, is_causal=causal)
    assert_right(tmp_path / "m.onnx", [made], X)


@pytest.mark.parametrize("softcap", [0.0, 2.0])
def test_attention_of_heads_that_share_keys(tmp_path: Path, softcap: float) -> None:
    more = {"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1, "softcap": softcap, "scale": 0.3}
    made = node("Attention", ["x", "k", "k"], ["y"], **more)
    assert_right(tmp_path / "m.onnx", [made], {**X, "k": ((1, None, WIDTH // 2), np.float32)})


def test_attention_to_a_fixed_number_of_keys(tmp_path: Path) -> None:
    made = node("Attention", ["x", "k", "k"], ["y"], q_num_heads=2, kv_num_heads=2)
    assert_right(tmp_path / "m.onnx", [made], {**X, "k": ((1, 4, WIDTH), np.float32)})


def test_attention_of_rotated_heads(tmp_path: Path) -> None:
    nodes = [
        node("RMSNormalization", ["x", "w"], ["r"]),
        node("Reshape", ["r", "shape"], ["a"]),
        node("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3]),
        node("RotaryEmbedding", ["b", "cos", "sin", "pos"], ["c"]),
        node("Attention", ["c", "c", "b"], ["d"], is_causal=1),
        node("Transpose", ["d"], ["y"], perm=[0, 2, 1, 3]),
    ]
    constants = {**TABLES, "shape": np.array([0, 0, 2, 8]), "w": np.linspace(0.5, 2, WIDTH).astype(np.float32)}
    assert_right(tmp_path / "m.onnx", nodes, {**X, **POSITIONS}, constants)


@pytest.mark.parametrize("positions", [POSITIONS, {"pos": ((1,), np.int64)}])
def test_rotation_of_com_microsoft(tmp_path: Path, positions: Mapping[str, Any]) -> None:
    made = node("RotaryEmbedding", ["x", "pos", "cos", "sin"], ["y"], domain=MICROSOFT, num_heads=2)
    assert_right(tmp_path / "m.onnx", [made], {**X, **positions})


def test_rows_written_into_a_cache(tmp_path: Path) -> None:
    made = node("TensorScatter", ["cache", "x", "place"], ["y"])
    cache = {"cache": ((1, 12, WIDTH), np.float32), "place": ((1,), np.int64)}
    assert_right(tmp_path / "m.onnx", [made], {**X, **cache}, {}, 24)


def test_decision_trees_of_any_number_of_samples(tmp_path: Path) -> None:
    """Two trees, of one level and of two."""
    tensor = onnx.numpy_helper.from_array
    splits, leaves = (np.array(values) for values in ([0.1, -0.4, 0.7], [1.5, -2.0, 0.25, 8.0, 3.0]))
    made = node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_modes=tensor(np.zeros(3, np.uint8)),
        nodes_featureids=[2, 7, 0],
        nodes_splits=tensor(splits),
        nodes_truenodeids=[0, 2, 2],
        nodes_trueleafs=[1, 0, 1],
        nodes_falsenodeids=[1, 3, 4],
        nodes_falseleafs=[1, 1, 1],
        tree_roots=[0, 1],
        leaf_targetids=[0] * 5,
        leaf_weights=tensor(leaves),
    )
    assert_right(tmp_path / "m.onnx", [made], {"x": ((None, WIDTH), np.float64)}, {})


def test_one_step_of_a_recurrence_over_any_number_of_sequences(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    constants = {name: rng.standard_normal((1, 12, size)).astype(np.float32) for name, size in (("w", WIDTH), ("r", 4))}
    made = node("GRU", ["x", "w", "r"], ["y"], hidden_size=4)
    assert_right(tmp_path / "m.onnx", [made], X, constants)


def test_factors_that_become_one(tmp_path: Path) -> None:
    """A difference, a product and a sum by constants of one element are one product and one sum."""
    numbers = {name: np.full(shape, 0.75, np.float32) for name, shape in (("a", (1, 1)), ("b", (1, 1)), ("c", ()))}
    made = [node("Floor", ["x"], ["f"]), node("Sub", ["a", "f"], ["d"]), node("Mul", ["d", "b"], ["e"])]
    made.append(node("Add", ["e", "c"], ["y"]))
    assert_right(tmp_path / "m.onnx", made, {"x": ((1, None), np.float32)}, numbers)
