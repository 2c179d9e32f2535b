"""ONNX models with Loop and Scan, and names for what they are made of."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

F32, I64, BOOL = 1, 7, 9
node, graph, info = helper.make_node, helper.make_graph, helper.make_tensor_value_info


def number(name: str, value: int | bool) -> Any:
    return helper.make_tensor(name, BOOL if isinstance(value, bool) else I64, [], [value])


def save(
    path: Path, nodes: Sequence[Any], inputs: Mapping[str, Sequence[int]], outputs: Sequence[str], known: Sequence[Any]
) -> Path:
    given = [info(name, F32, list(shape)) for name, shape in inputs.items()]
    made = graph(nodes, "g", given, [info(name, F32, None) for name in outputs], known)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def growing_body(stop: int) -> Any:
    """The state grows by a column of its sums, until the iteration's number is `stop`; each state's mean is kept."""
    nodes = [
        node("ReduceSum", ["v", "last"], ["sum"], keepdims=1),
        node("Mul", ["sum", "scale"], ["column"]),  # scale: of the graph around
        node("Concat", ["v", "column"], ["grown"], axis=1),
        node("ReduceMean", ["grown"], ["mean"], keepdims=0),
        node("Less", ["i", "stop"], ["on"]),
    ]
    last = helper.make_tensor("last", I64, [1], [1])
    inputs = [info("i", I64, []), info("go", BOOL, []), info("v", F32, None)]
    outputs = [info("on", BOOL, []), info("grown", F32, None), info("mean", F32, None)]
    return graph(nodes, "body", inputs, outputs, [last, number("stop", stop)])


def scan_model(
    path: Path, shape: Sequence[int], axis: int, back: bool, out_axis: int, out_back: bool, weights: np.ndarray
) -> Path:
    """A state s = tanh(s W + element), whose values are stacked."""
    inner = [
        node("MatMul", ["s", "W"], ["p"]),
        node("Add", ["p", "e"], ["q"]),
        node("Tanh", ["q"], ["t"]),
        node("Identity", ["t"], ["seen"]),
    ]
    tensor = onnx.numpy_helper.from_array(weights, "W")
    body = graph(
        inner,
        "body",
        [info("s", F32, None), info("e", F32, None)],
        [info("t", F32, None), info("seen", F32, None)],
        [tensor],
    )
    scan = node(
        "Scan",
        ["start", "x"],
        ["last", "all"],
        "scan",
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=[int(back)],
        scan_output_axes=[out_axis],
        scan_output_directions=[int(out_back)],
    )
    start = [n for i, n in enumerate(shape) if i != axis % len(shape)]
    return save(path, [scan], {"start": start, "x": shape}, ["last", "all"], [])
