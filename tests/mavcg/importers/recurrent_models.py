"""ONNX models of a recurrent operator."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, WIDTH, HIDDEN = 5, 2, 3, 4


def model(path: Path, op: str, steps: int = STEPS, states: bool = False, bias: bool = True, **attributes: Any) -> Any:
    """A model of one operator with seeded weights. Returns its inputs. states: initial values are inputs.

    attributes: of the operator; also batch: number of sequences, and peepholes.
    """
    rng, batch = np.random.default_rng(7), attributes.pop("batch", BATCH)
    number = 2 if attributes.get("direction") == "bidirectional" else 1
    gates = GATES[op] * HIDDEN
    batch_first = attributes.get("layout", 0)
    arrays = {"X": rng.standard_normal((batch, steps, WIDTH) if batch_first else (steps, batch, WIDTH))}
    weights = {"W": rng.standard_normal((number, gates, WIDTH)), "R": rng.standard_normal((number, gates, HIDDEN))}
    names = ["X", "W", "R"]
    if bias:
        weights["B"] = rng.standard_normal((number, 2 * gates))
    names += ["B" if bias else "", ""]
    if states:
        shape = (batch, number, HIDDEN) if batch_first else (number, batch, HIDDEN)
        arrays["h"] = rng.standard_normal(shape)
        names += ["h"]
        if op == "LSTM":
            arrays["c"] = rng.standard_normal(shape)
            names += ["c"]
    if attributes.pop("peepholes", False):
        names += [""] * (7 - len(names)) + ["P"]
        weights["P"] = rng.standard_normal((number, 3 * HIDDEN))
    outputs = ["Y", "Y_h", "Y_c"][: 3 if op == "LSTM" else 2]
    value, tensor = onnx.helper.make_tensor_value_info, onnx.numpy_helper.from_array
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, names, outputs, name="r", hidden_size=HIDDEN, **attributes)],
        "g",
        [value(name, 1, array.shape) for name, array in arrays.items()],
        [value(name, 1, None) for name in outputs],
        [tensor(array.astype(np.float32), name) for name, array in weights.items()],
    )
    opset = onnx.helper.make_opsetid("", 14)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def with_lengths(path: Path, known: list[int] | None) -> None:
    """Give the operator of a model the lengths of its sequences, known or as an input of the model."""
    made = onnx.load(path)
    made.graph.node[0].input[4] = "lengths"
    if known is None:
        made.graph.input.append(onnx.helper.make_tensor_value_info("lengths", 6, [BATCH]))
    else:
        made.graph.initializer.append(onnx.helper.make_tensor("lengths", 6, [BATCH], known))
    onnx.save(made, path)
