"""Counts of n-grams and updates by gradients, beside NumPy, onnxruntime and ONNX's reference."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

from mavcg.graph import Array
from mavcg.graph.reference import run
from mavcg.importers.limits import UnsupportedOp
from mavcg.importers.onnx_file import import_model
from tests.conftest import examples
from tests.mavcg.importers.counted_models import agrees, node
from tests.mavcg.importers.one_operator import floats, ours


@given(
    st.sampled_from(["TF", "IDF", "TFIDF"]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 4),
    st.booleans(),
    st.integers(0, 99),
)
@settings(max_examples=examples(200, 20))
def test_n_grams(mode: str, least: int, more: int, skip: int, batch: bool, seed: int) -> None:
    draw = np.random.default_rng(seed)
    most = min(3, least + more - 1)
    grams = [draw.choice(4**n, int(draw.integers(1, 4)), replace=False) for n in range(1, most + 1)]
    pool, starts = list[int](), list[int]()
    for length, numbers in enumerate(grams, 1):
        starts.append(len(pool))
        pool += [int(number) // 4**place % 4 for number in numbers for place in range(length)]
    count = sum(map(len, grams))
    attrs: dict[str, Any] = {
        "mode": mode,
        "min_gram_length": least,
        "max_gram_length": most,
        "max_skip_count": skip,
        "pool_int64s": pool,
        "ngram_counts": starts,
        "ngram_indexes": draw.permutation(count).tolist(),
        "weights": draw.integers(1, 5, count).astype(float).tolist(),
    }
    x = draw.integers(0, 4, (2, 9) if batch else (9,))
    agrees([node("TfIdfVectorizer", "x", "y", **attrs)], {"x": x}, ["y"])


def test_n_grams_of_strings_are_refused() -> None:
    attrs: dict[str, Any] = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0}
    attrs |= {"pool_strings": ["a"], "ngram_counts": [0], "ngram_indexes": [0]}
    with pytest.raises(UnsupportedOp, match="n-grams of strings"):
        ours("TfIdfVectorizer", [np.zeros(3, np.int64)], **attrs)


UPDATES: dict[str, tuple[int, dict[str, Any]]] = {
    "Adagrad": (1, {"decay_factor": 0.1, "norm_coefficient": 0.01}),
    "Adam": (2, {"alpha": 0.8, "beta": 0.9, "norm_coefficient": 0.01, "norm_coefficient_post": 0.02}),
    "Momentum": (1, {"alpha": 0.9, "beta": 0.2, "mode": "nesterov", "norm_coefficient": 0.01}),
}


@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize("op", list(UPDATES))
def test_updates_by_gradients(tmp_path: Any, op: str, steps: int) -> None:
    states, attrs = UPDATES[op]
    shapes = [(3,), (2, 2)]
    names = [f"{kind}{i}" for kind in ("x", "g", *("v", "h")[-states:]) for i in range(2)]
    arrays: dict[str, Array] = {"r": np.array(0.1, np.float32), "t": np.array(steps)}
    for number, name in enumerate(names):
        values = floats(*shapes[int(name[1])], seed=number)
        arrays[name] = np.square(values) if name[0] == "h" else values
    outputs = [f"new_{name}" for name in names if name[0] != "g"]
    kinds = {name: 7 if name == "t" else 1 for name in arrays}
    graph = helper.make_graph(
        [helper.make_node(op, list(arrays), outputs, domain="ai.onnx.preview.training", **attrs)],
        "g",
        [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in arrays.items()],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.preview.training", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    want = ReferenceEvaluator(model).run(None, dict(arrays))
    for have, expected in zip(run(import_model(model, tmp_path / "m.onnx"), *arrays.values()), want, strict=True):
        np.testing.assert_allclose(have, expected, 1e-5, 1e-6)
