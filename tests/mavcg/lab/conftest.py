"""A model that runners and fleets tune."""

from pathlib import Path

import pytest


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """One convolution of 4 channels, 6 x 6."""
    import onnx
    from onnx import TensorProto, helper

    weights = helper.make_tensor("w", TensorProto.FLOAT, (4, 4, 3, 3), [0.5] * 144)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4, 6, 6)) for name in "xy"]
    graph = helper.make_graph([node], "small", ends[:1], ends[1:], [weights])
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path
