"""An ONNX model of which a partial build takes a part, its inputs, and the comparison of its results."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from tests.mavcg.cli.in_process import build_in


def make_model(path: Path, seed: int = 0, batch: int | str = "N", between: bool = False) -> None:
    """Two convolutions around a pool of regions, which mavcg has not, and pixels that are not 0, whose number only a
    run tells. between: a sequence, which mavcg has not, between the convolutions."""
    rng = np.random.default_rng(seed)
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        node("Conv", ["x", "w1"], ["a"], name="first", pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("NonZero", ["b"], ["nonzero"]),
        node("Shape", ["nonzero"], ["count"]),
        node("Shape", ["b"], ["b_shape"]),
        node("Erf", ["b"], ["e"]),
        node("MaxRoiPool", ["m", "rois"], ["d"], name="region", pooled_shape=[1, 1]),
        node("Conv", ["e", "w2"], ["c"], name="second", pads=[1, 1, 1, 1]),
        node("Add", ["c", "d"], ["y"]),
    ]
    if between:
        nodes[7].input[0] = "sums"
        first = onnx.helper.make_tensor("first", 7, [], [0])
        nodes[7:7] = [
            node("SequenceConstruct", ["e"], ["sequence"]),
            node("Constant", [], ["first"], value=first),
            node("SequenceAt", ["sequence", "first"], ["sums"]),
        ]
    weights = {"w1": (8, 3, 3, 3), "w2": (4, 8, 3, 3)}
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [value("x", 1, [batch, 3, 16, 16]), value("m", 1, [1, 1, 3, 3])],
        [value("y", 1, [batch, 4, 16, 16]), value("count", 7, [2]), value("b_shape", 7, [4])],
        [
            *(onnx.numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in weights.items()),
            onnx.numpy_helper.from_array(np.array([[0, 0, 0, 2, 2]], np.float32), "rois"),
        ],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


ARRAYS = {
    "x": np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32),
    "m": np.random.default_rng(2).standard_normal((1, 1, 3, 3)).astype(np.float32),
}


def check_results(have: list[Any], model: Path, arrays: dict[str, Any]) -> None:
    """Compare with ONNX Runtime on the user's model: whole numbers equal, others to 1e-5 of the largest."""
    want = onnxruntime.InferenceSession(str(model)).run(None, arrays)
    assert len(have) == len(want)
    for mine, theirs in zip(have, want, strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        if mine.dtype.kind == "f":
            assert np.abs(mine - theirs).max() <= 1e-5 * np.abs(theirs).max()
        else:
            assert (mine == theirs).all()


def build(folder: Path, core: str, *options: str) -> None:
    build_in(folder, "net.onnx", "--partial", "--cores", core, "-o", "libnet.so", *options)
