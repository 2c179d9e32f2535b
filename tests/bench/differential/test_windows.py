"""Definitions of pools in NumPy against onnxruntime: uneven pads, SAME, dilations, ceil_mode."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from bench.differential.windows import DEFINITIONS  # noqa: E402


@st.composite
def pools(draw: st.DrawFn) -> tuple[str, tuple[int, ...], dict[str, Any]]:
    """Return an operator, the shape of its argument and its attributes."""
    op = draw(st.sampled_from(("MaxPool", "AveragePool", "LpPool")))
    space = draw(st.integers(1, 3))
    lengths = [draw(st.integers(3, 7)) for _ in range(space)]
    kernel = [draw(st.integers(1, 3)) for _ in range(space)]
    made: dict[str, Any] = {"kernel_shape": kernel, "strides": [draw(st.integers(1, 3)) for _ in range(space)]}
    mode = draw(st.sampled_from(("pads", "SAME_UPPER", "SAME_LOWER", "VALID")))
    if mode == "pads":
        made["pads"] = [draw(st.integers(0, k - 1)) for k in kernel * 2]
        if op != "LpPool":
            made["ceil_mode"] = draw(st.integers(0, 1))
    else:
        made["auto_pad"] = mode
    if mode.startswith("SAME"):  # a wider stride would have negative pads, by which runtimes differ
        made["strides"] = [min(stride, k) for stride, k in zip(made["strides"], kernel, strict=True)]
    if op == "MaxPool" and mode == "pads" and draw(st.booleans()):
        made["dilations"] = [2 if (k - 1) * 2 < n else 1 for k, n in zip(kernel, lengths, strict=True)]
    if op == "AveragePool":
        made["count_include_pad"] = draw(st.integers(0, 1))
    return op, (1, 2, *lengths), made


@given(pools(), st.integers(0, 9))
def test_definitions_agree_with_onnxruntime(pool: tuple[str, tuple[int, ...], dict[str, Any]], seed: int) -> None:
    op, shape, attributes = pool
    x = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    node = onnx.helper.make_node(op, ["x"], ["y"], **attributes)
    info, out = onnx.helper.make_tensor_value_info("x", 1, shape), onnx.helper.make_empty_tensor_value_info("y")
    graph = onnx.helper.make_graph([node], "pool", [info], [out])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})

    given_attributes = {k: v.encode() if isinstance(v, str) else v for k, v in attributes.items()}
    made = DEFINITIONS[op](x.astype(np.float64), **given_attributes)

    result = made[0] if isinstance(made, tuple) else made
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
