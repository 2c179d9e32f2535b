"""Convolution and pooling in three dimensions against onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.importers.onnx_file import import_onnx
from tests.conftest import examples
from tests.mavcg.importers.one_node import assert_agrees, save

pytest.importorskip("onnxruntime")
Y = [("y", "float32")]


def drawn(random: np.random.Generator, low: int, high: int, count: int = 3) -> list[int]:
    return [int(n) for n in random.integers(low, high, count)]


def floats(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


@settings(max_examples=examples(25, 6))
@given(
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["NOTSET", "SAME_UPPER", "VALID"]),
    st.booleans(),
    st.integers(0, 1 << 20),
)
def test_convolutions(tmp_path_factory: Any, groups: int, auto_pad: str, with_bias: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    inputs = {
        "x": floats(random, 2, 4, *drawn(random, 5, 8)),
        "w": floats(random, 8, 4 // groups, *drawn(random, 1, 4)),
    }
    inputs |= {"b": floats(random, 8)} if with_bias else {}
    attributes: dict[str, Any] = {"strides": drawn(random, 1, 3), "dilations": drawn(random, 1, 3)}
    if auto_pad == "NOTSET":
        attributes["pads"] = drawn(random, 0, 3, 6)
    elif auto_pad == "SAME_UPPER":
        attributes["dilations"] = [1, 1, 1]  # onnxruntime refuses others
    path = tmp_path_factory.mktemp("conv") / "m.onnx"
    save(path, "Conv", inputs, Y, 13, group=groups, auto_pad=auto_pad, **attributes)

    assert_agrees(path, *inputs.values(), tolerance=1e-4)


@settings(max_examples=examples(25, 6))
@given(st.sampled_from(["MaxPool", "AveragePool"]), st.booleans(), st.booleans(), st.integers(0, 1 << 20))
def test_pools(tmp_path_factory: Any, op: str, ceil: bool, counted: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    kernel = drawn(random, 1, 4)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": drawn(random, 1, 4), "ceil_mode": int(ceil)}
    attributes["pads"] = [int(random.integers(0, kernel[i % 3])) for i in range(6)]
    if op == "AveragePool":
        attributes["count_include_pad"] = int(counted)
    else:
        attributes["dilations"] = drawn(random, 1, 3)
    x = floats(random, 2, 3, *drawn(random, 5, 9))
    path = save(tmp_path_factory.mktemp("pool") / "m.onnx", op, {"x": x}, Y, 19, **attributes)

    assert_agrees(path, x)


X, W = np.zeros((1, 4, 5, 5, 5), np.float32), np.zeros((8, 2, 3, 3, 3), np.float32)
BAD: list[tuple[str, tuple[np.ndarray, ...], dict[str, Any], str]] = [
    ("Conv", (X, W), {}, r"a filter f32\[8,2,3,3,3\] in 1 groups for a volume"),
    ("Conv", (X, W), {"group": 0}, "in 0 groups"),
    ("Conv", (X, W[:, :, 0]), {"group": 2}, "as many dimensions are needed"),
    ("Conv", (X[:, :, :2], W), {"group": 2}, "a window of 3 does not fit into 2"),
    ("MaxPool", (X,), {"kernel_shape": [6, 1, 1]}, "a window of 6 does not fit into 5"),
    ("MaxPool", (X,), {"kernel_shape": [2, 2]}, "kernel_shape has 2 entries where 3 are needed"),
    ("AveragePool", (X[None],), {"kernel_shape": [1, 1, 1, 1]}, "4 spatial dimensions"),
]


@pytest.mark.parametrize(("op", "arrays", "attributes", "problem"), BAD)
def test_bad_nodes_are_refused_with_a_reason(
    tmp_path: Path, op: str, arrays: tuple[np.ndarray, ...], attributes: dict[str, Any], problem: str
) -> None:
    save(tmp_path / "m.onnx", op, {f"i{i}": a for i, a in enumerate(arrays)}, Y, 20, **attributes)
    with pytest.raises(MavcgError, match=rf"node 'the_node' \({op}\): .*{problem}"):
        import_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 1, 3], "pads": [1, 0, 2, 0, 1, 1], "output_padding": [1, 0, 2]},
        {"group": 2, "dilations": [1, 2, 2], "strides": [2, 2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2, 2]},
    ],
)
def test_transposed_convolution(attributes: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 4, 3, 4, 2)).astype(np.float32)
    w = rng.standard_normal((4, 3, 3, 2, 3)).astype(np.float32)
    bias = rng.standard_normal(3 * attributes.get("group", 1)).astype(np.float32)
    known = {"w": w, "b": bias}
    path = save(tmp_path / "m.onnx", "ConvTranspose", {"x": x}, [("y", "float32")], 22, known, **attributes)
    assert_agrees(path, x)
