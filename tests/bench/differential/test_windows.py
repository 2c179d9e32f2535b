"""Definitions of pools in NumPy against onnxruntime: uneven pads, SAME, dilations, ceil_mode."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from bench.differential.part import Array  # noqa: E402
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


def by_onnxruntime(op: str, given: Mapping[str, Array], attributes: Mapping[str, Any]) -> Array:
    node = onnx.helper.make_node(op, list(given), ["y"], **attributes)
    inputs = [onnx.helper.make_tensor_value_info(name, 1, x.shape) for name, x in given.items()]
    graph = onnx.helper.make_graph([node], "one", inputs, [onnx.helper.make_empty_tensor_value_info("y")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return np.asarray(session.run(None, dict(given))[0])


@given(pools(), st.integers(0, 9))
def test_definitions_agree_with_onnxruntime(pool: tuple[str, tuple[int, ...], dict[str, Any]], seed: int) -> None:
    op, shape, attributes = pool
    x = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    expected = by_onnxruntime(op, {"x": x}, attributes)

    given_attributes = {k: v.encode() if isinstance(v, str) else v for k, v in attributes.items()}
    made = DEFINITIONS[op](x.astype(np.float64), **given_attributes)

    result = made[0] if isinstance(made, tuple) else made
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@given(st.integers(1, 3), st.integers(1, 2), st.booleans(), st.integers(0, 99))
def test_convolutions_agree_with_onnxruntime(space: int, group: int, biased: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, dilations = (rng.integers(1, 4, space).tolist() for _ in range(2))
    attributes: dict[str, Any] = {"group": group, "dilations": dilations, "strides": rng.integers(1, 4, space).tolist()}
    attributes["pads"] = rng.integers(0, 3, 2 * space).tolist()
    lengths = [(k - 1) * d + 1 + int(rng.integers(4)) for k, d in zip(kernel, dilations, strict=True)]
    inputs = {"x": (2, 2 * group, *lengths), "w": (3 * group, 2, *kernel)} | ({"b": (3 * group,)} if biased else {})
    given_arrays = {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in inputs.items()}
    result = DEFINITIONS["Conv"](*(x.astype(np.float64) for x in given_arrays.values()), **attributes)
    expected = by_onnxruntime("Conv", given_arrays, attributes)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_a_dilated_window_has_no_elements_between_its_taps() -> None:
    """Both taps lie in the padding beside a column of NaN: ONNX's reference has NaN, by a kernel filled with zeros."""
    x, w = np.full((1, 1, 3, 1), np.nan), np.ones((1, 1, 1, 2))
    result = DEFINITIONS["Conv"](x, w, dilations=[1, 2], auto_pad=b"SAME_UPPER")
    np.testing.assert_array_equal(result, np.zeros((1, 1, 3, 1)))
