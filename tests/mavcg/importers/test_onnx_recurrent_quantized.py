"""DynamicQuantizeLSTM against onnxruntime: directions, scales of a tensor and of a channel, states; refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

STEPS, WIDTH, HIDDEN = 4, 6, 5


def model(
    path: Path,
    dtype: Any = np.int8,
    direction: str = "forward",
    batch: int = 1,
    by_channel: bool = False,
    states: bool = False,
    peepholes: bool = False,
    **changes: Any,
) -> dict[str, Any]:
    """A model of one operator. Returns its inputs. Weights have 7 bits: onnxruntime's sums of 8 saturate on AVX2."""
    rng = np.random.default_rng(11)
    number = 2 if direction == "bidirectional" else 1
    low = 0 if dtype == np.uint8 else -63
    scales = (number, 4 * HIDDEN) if by_channel else (number,)

    def weights(rows: int) -> Any:
        return rng.integers(low, 64 if low else 127, (number, rows, 4 * HIDDEN)).astype(dtype)

    constants = {
        "W": weights(WIDTH),
        "R": weights(HIDDEN),
        "B": rng.standard_normal((number, 8 * HIDDEN)).astype(np.float32),
        "Ws": rng.uniform(0.005, 0.02, scales).astype(np.float32),
        "Wz": (np.full(scales, 64) if low == 0 else np.zeros(scales)).astype(dtype),
        "Rs": rng.uniform(0.005, 0.02, scales).astype(np.float32),
        "Rz": (np.full(scales, 60) if low == 0 else np.zeros(scales)).astype(dtype),
    }
    arrays = {"X": rng.standard_normal((STEPS, batch, WIDTH)).astype(np.float32)}
    names = ["X", "W", "R", "B", "", "", "", "", "Ws", "Wz", "Rs", "Rz"]
    if states:
        names[5:7] = ["h", "c"]
        arrays |= {n: rng.uniform(-1, 1, (number, batch, HIDDEN)).astype(np.float32) for n in ("h", "c")}
    if peepholes:
        names[7] = "P"
        constants["P"] = rng.standard_normal((number, 3 * HIDDEN)).astype(np.float32)
    constants |= changes
    value, tensor = onnx.helper.make_tensor_value_info, onnx.numpy_helper.from_array
    node = onnx.helper.make_node(
        "DynamicQuantizeLSTM",
        names,
        ["Y", "Y_h", "Y_c"],
        domain="com.microsoft",
        hidden_size=HIDDEN,
        direction=direction,
    )
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [value(n, 1, a.shape) for n, a in arrays.items()],
        [value(n, 1, None) for n in node.output],
        [tensor(a, n) for n, a in constants.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 14), onnx.helper.make_opsetid("com.microsoft", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return arrays


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"dtype": np.uint8},
        {"dtype": np.uint8, "batch": 3, "states": True},
        {"direction": "reverse", "by_channel": True},
        {"direction": "bidirectional", "states": True},
        {"peepholes": True, "states": True},
    ],
)
def test_results_are_onnxruntimes(tmp_path: Path, form: dict[str, Any]) -> None:
    arrays = model(tmp_path / "m.onnx", **form)
    graph = import_onnx(tmp_path / "m.onnx")
    have = run(graph, *(arrays[name] for name in graph.inputs))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    want = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), options).run(None, arrays)
    for mine, theirs in zip(have, want, strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, atol=2e-5, rtol=0)


def test_the_range_is_of_each_call(tmp_path: Path) -> None:
    """Input of zeros, and of ranges far from each other, through one graph."""
    arrays = model(tmp_path / "m.onnx")
    graph = import_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    for factor in (0.0, 0.01, 50.0):
        x = (arrays["X"] * factor).astype(np.float32)
        for mine, theirs in zip(run(graph, x), session.run(None, {"X": x}), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=2e-5, rtol=0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"Wz": np.zeros(1, np.uint8)}, "W int8[1, 6, 20], zero points uint8; 8 bits"),
        ({"Rs": np.ones(3, np.float32)}, "a scale or zero point [3] for R [1, 5, 20]"),
        ({"W": np.zeros((1, 7, 20), np.int8)}, "W [20, 7] and R [20, 5] of a direction where [20, 6] and [20, 5]"),
    ],
)
def test_weights_that_make_no_sense_are_refused(tmp_path: Path, changes: Any, words: str) -> None:
    model(tmp_path / "m.onnx", **changes)
    with pytest.raises(MavcgError) as refused:
        import_onnx(tmp_path / "m.onnx")
    assert words in str(refused.value)
