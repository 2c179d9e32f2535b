"""`mavcg build --strategy family:sparse` of a network whose weights are mostly zeros."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg import load


def test_a_library_with_sparse_weights(mavcg: Callable[..., Any], here: Path) -> None:
    onnx = pytest.importorskip("onnx")
    source = np.random.default_rng(0)
    weights = [
        (source.standard_normal(s) * (source.random(s) < 0.05)).astype(np.float32)
        for s in ((24, 16, 1, 1), (20, 24, 3, 3))
    ]
    h, f32 = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        h.make_node("Conv", ["x", "a"], ["t"]),
        h.make_node("Relu", ["t"], ["r"]),
        h.make_node("Conv", ["r", "b"], ["y"], pads=[1, 1, 1, 1]),
    ]
    graph = h.make_graph(
        nodes,
        "g",
        [h.make_tensor_value_info("x", f32, [1, 16, 13, 13])],
        [h.make_tensor_value_info("y", f32, None)],
        [onnx.numpy_helper.from_array(w, n) for w, n in zip(weights, "ab", strict=True)],
    )
    model = here / "net.onnx"
    model.write_bytes(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8).SerializeToString())
    ended = mavcg("build", model, "--board", "host", "--strategy", "family:sparse", "-o", "libn.so", "--json")
    assert ended.status == 0, ended.stderr
    assert {each["primitive"].split("_")[0] for each in json.loads(ended.stdout)["selection"]["nodes"]} == {"sparse"}

    x = source.standard_normal((1, 16, 13, 13)).astype(np.float32)
    hidden = np.maximum(np.tensordot(weights[0][:, :, 0, 0], x[0], 1), 0)
    padded, expected = np.pad(hidden, ((0, 0), (1, 1), (1, 1))), np.zeros((20, 13, 13))
    for i in range(3):
        for j in range(3):
            expected += np.tensordot(weights[1][:, :, i, j], padded[:, i : i + 13, j : j + 13], 1)
    np.testing.assert_allclose(load(here / "libn.so").run(x)[0][0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_sparse_primitives_are_taken_where_they_win_by_the_model_and_measured(
    mavcg: Callable[..., Any], here: Path
) -> None:
    """As docs/primitive-families.md has it: by the model, then by costs that were measured; never of dense weights."""
    onnx = pytest.importorskip("onnx")
    source, h, f32 = np.random.default_rng(0), onnx.helper, onnx.TensorProto.FLOAT
    shape = (256, 256, 1, 1)
    weights = (source.standard_normal(shape) * (source.random(shape) < 0.02)).astype(np.float32)
    dense = source.standard_normal(shape).astype(np.float32)
    graph = h.make_graph(
        [h.make_node("Conv", ["x", "w"], ["y"])],
        "g",
        [h.make_tensor_value_info("x", f32, [1, 256, 28, 28])],
        [h.make_tensor_value_info("y", f32, None)],
    )
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    for name, array in (("dense", dense), ("net", weights)):
        del model.graph.initializer[:]
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, "w"))
        (here / f"{name}.onnx").write_bytes(model.SerializeToString())

    def primitives(file: str, *options: str) -> set[str]:
        ended = mavcg("build", file, "--board", "host", "-o", "libn.so", "--json", *options)
        assert ended.status == 0, ended.stderr
        return {node["primitive"].partition("_")[0] for node in json.loads(ended.stdout)["selection"]["nodes"]}

    assert primitives("net.onnx") == {"sparse"} and primitives("dense.onnx") != {"sparse"}
    assert mavcg("tune", "net.onnx", "--board", "host", "--db", "costs.db").status == 0
    assert primitives("net.onnx", "--db", "costs.db") == {"sparse"}

    x = source.standard_normal((1, 256, 28, 28)).astype(np.float32)
    expected = np.tensordot(weights[:, :, 0, 0].astype(np.float64), x[0], 1)
    np.testing.assert_allclose(load(here / "libn.so").run(x)[0][0], expected, rtol=1e-4, atol=1e-4)
