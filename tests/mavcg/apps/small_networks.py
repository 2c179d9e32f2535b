"""Small networks as ONNX files, and app.toml of them, for tests that build libraries."""

from pathlib import Path
from typing import Any

import numpy as np


def write_network(path: Path, channels: int, side: int, seed: int) -> Path:
    """Write two convolutions and a mean; 3 x side x side in, channels out."""
    import onnx
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(seed)
    weights = {
        "w0": rng.standard_normal((channels, 3, 3, 3)).astype(np.float32) * np.float32(0.2),
        "w1": rng.standard_normal((channels, channels, 3, 3)).astype(np.float32) * np.float32(0.1),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c"], ["y"]),
    ]
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", float32, [1, 3, side, side])],
        [helper.make_tensor_value_info("y", float32, [1, channels, 1, 1])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


NETWORKS = {"detector": (16, 64), "recogniser": (32, 32), "tracker": (8, 48)}


def write_application(folder: Path, head: str = "", **keys: str) -> Path:
    """Write the three networks and app.toml. head: lines before the networks; keys: lines of a network, by its name."""
    tables = []
    for seed, (name, (channels, side)) in enumerate(NETWORKS.items()):
        write_network(folder / f"{name}.onnx", channels, side, seed)
        tables.append(f'[[network]]\nname = "{name}"\nfile = "{name}.onnx"\n{keys.get(name, "")}\n')
    path = folder / "app.toml"
    path.write_text(head + "\n" + "".join(tables))
    return path


def image(name: str, seed: int = 0) -> Any:
    """An input of one of the networks."""
    side = NETWORKS[name][1]
    return np.random.default_rng(seed).standard_normal((1, 3, side, side)).astype(np.float32)
