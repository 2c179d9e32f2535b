"""A small network in f32 as an ONNX file, with calibration inputs."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mavcg.graph import Graph
from mavcg.model.quantise.quantise import PredictedTimes

WEIGHTED = ("first", "depthwise", "wide", "product")


def write_network(folder: Path, batch: int | str = 1, opset: int = 17) -> Path:
    """Convolutions with relu, one depthwise, a residual, a batch norm, a product and a softmax; nodes without names."""
    rng = np.random.default_rng(0)
    tensors, nodes = list[Any](), list[Any]()

    def constant(name: str, *shape: int, scale: float = 0.3) -> str:
        tensors.append(numpy_helper.from_array((scale * rng.standard_normal(shape)).astype(np.float32), name))
        return name

    def add(op: str, inputs: list[str], output: str, name: str = "", **attributes: Any) -> None:
        nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))

    add("Conv", ["x", constant("w1", 16, 3, 3, 3), constant("b1", 16)], "c1", "first", pads=[1, 1, 1, 1])
    add("Relu", ["c1"], "r1")
    add("Conv", ["r1", constant("w2", 16, 1, 3, 3)], "c2", "depthwise", group=16, pads=[1, 1, 1, 1])
    for name, values in (("s", np.ones(16)), ("m", np.zeros(16)), ("v", np.ones(16))):
        tensors.append(numpy_helper.from_array(values.astype(np.float32), name))
    add("BatchNormalization", ["c2", "s", constant("o", 16), "m", "v"], "n2")
    add("Relu", ["n2"], "r2")
    add("Conv", ["r2", constant("w3", 16, 16, 1, 1)], "c3", "wide")
    add("Add", ["c3", "r1"], "sum")
    add("GlobalAveragePool", ["sum"], "pooled")
    add("Flatten", ["pooled"], "flat")
    add("Gemm", ["flat", constant("w4", 16, 10), constant("b4", 10)], "logits", "product")
    add("Softmax", ["logits"], "y", axis=1)
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (batch, 3, 12, 12))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (batch, 10))],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path = folder / "network.onnx"
    onnx.save(model, path)
    return path


def write_samples(folder: Path, count: int = 4) -> Path:
    """Inputs from a seed, a file for each."""
    inputs = folder / "samples"
    inputs.mkdir()
    for number in range(count):
        rng = np.random.default_rng(number)
        np.save(inputs / f"{number}.npy", rng.standard_normal((1, 3, 12, 12)).astype(np.float32))
    return inputs


# ms of a layer in f32, and in 8 bits: the depthwise convolution is slower in 8 bits.
F32_MS, INT8_MS = dict.fromkeys(WEIGHTED, 4.0), {"first": 1.0, "depthwise": 5.0, "wide": 2.0, "product": 3.0}


def predict(graph: Graph) -> PredictedTimes:
    """Times by the table: a layer is in 8 bits where its node is."""
    ms = {n.origin: (INT8_MS if n.op.startswith("q") else F32_MS)[n.origin] for n in graph.nodes if n.origin in F32_MS}
    return PredictedTimes(sum(ms.values()), ms)
