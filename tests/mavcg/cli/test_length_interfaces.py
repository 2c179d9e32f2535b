"""The interfaces of lengths and states that scripts rely on, in a fresh folder (issue 43)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as package
from mavcg.errors import MavcgError
from mavcg.runtime.declared import ffi

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

WIDTH, MOST, HIDDEN = 384, 512, 8
SIZE = ffi.integer_const("MAVCG_ERROR_SIZE")


def write(path: Path) -> None:
    """A layer over tokens, and the sum of its means over all runs, which it adds."""
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    weights = np.random.default_rng(0).standard_normal((WIDTH, HIDDEN)).astype(np.float32) / WIDTH
    nodes = [
        node("MatMul", ["x", "w"], ["z"]),
        node("ReduceMean", ["z"], ["mean"], axes=[1], keepdims=1),
        node("Add", ["past_key", "mean"], ["present_key"]),
        node("Add", ["z", "past_key"], ["y"]),
    ]
    inputs = [info("x", 1, [1, "tokens", WIDTH]), info("past_key", 1, [1, 1, HIDDEN])]
    outputs = [info("y", 1, [1, "tokens", HIDDEN]), info("present_key", 1, [1, 1, HIDDEN])]
    graph = onnx.helper.make_graph(nodes, "m", inputs, outputs, [onnx.numpy_helper.from_array(weights, "w")])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), path)


@pytest.mark.parametrize("pattern", ["past_key=present_key", "past_*=present_*"])
def test_one_library_of_any_length_with_a_state(here: Path, mavcg: Any, pattern: str) -> None:
    write(here / "m.onnx")
    shape = f"x=1x1..{MOST}x{WIDTH}"
    ended = mavcg("build", "m.onnx", "--shape", shape, "--state", pattern, "-o", "libm.so", "--json")
    assert ended.status == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert document["dimensions"] == {"tokens": [1, MOST]} and document["state_bytes"] >= 4 * HIDDEN
    header = (here / "m.h").read_text()
    assert "_set_shape(m_context *context, const int64_t *const *dims);" in header
    assert "_reset(m_context *context);" in header

    session = onnxruntime.InferenceSession(str(here / "m.onnx"))
    rng, past = np.random.default_rng(1), np.zeros((1, 1, HIDDEN), np.float32)
    with package.load(here / "libm.so") as model:
        for tokens in (1, MOST, 7, 1, 100):
            x = rng.standard_normal((1, tokens, WIDTH)).astype(np.float32)
            want, past = session.run(None, {"x": x, "past_key": past})
            np.testing.assert_allclose(model.run(x)[0], want, 1e-4, 1e-6)
        saved = model.save_state()
        for wrong in ((1, 0, WIDTH), (1, MOST + 1, WIDTH), (2, 1, WIDTH), (1, 1, WIDTH - 1)):
            with pytest.raises(MavcgError):
                model.run(np.zeros(wrong, np.float32))
        for tokens in (0, -1, MOST + 1, 1 << 31, (1 << 32) + 1, (1 << 63) - 1, -(1 << 63)):
            dims = ffi.new("int64_t[]", [1, tokens, WIDTH])
            assert model._table.set_shape(model._context, ffi.new("int64_t *[]", [dims])) == SIZE
        assert model.save_state() == saved
        model.reset()
        (want, _) = session.run(None, {"x": x, "past_key": np.zeros_like(past)})
        np.testing.assert_allclose(model.run(x)[0], want, 1e-4, 1e-6)
