"""TFLite models that a library takes over in LiteRT, and runs of them with it."""

from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, load_delegate

from tests.mavcg.importers.tflite.conftest import Writer

CONVOLUTION: dict[str, Any] = {"options": "Conv2DOptions", "strideH": 1, "strideW": 1, "shape": (1, 8, 8, 6)}
X = np.random.default_rng(3).standard_normal((1, 8, 8, 6)).astype(np.float32)


def weights(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((6, 3, 3, 6)).astype(np.float32) * 0.2


FOREIGN = "REVERSE_SEQUENCE"  # an operator that mavcg has not


def foreign(writer: Writer, x: int, shape: tuple[int, ...]) -> int:
    """The first rows of a single image turned round, by FOREIGN."""
    return int(writer.op(FOREIGN, [x, writer.constant([3])], options="ReverseSequenceOptions", shape=shape, seqDim=1))


def chain(writer: Writer, between: bool = False) -> bytes:
    """Two convolutions; between: with FOREIGN between them."""
    x = writer.input((1, 8, 8, 6), name="x")
    a = writer.op("CONV_2D", [x, writer.constant(weights(0)), writer.constant(np.ones(6, np.float32))], **CONVOLUTION)
    if between:
        a = foreign(writer, a, (1, 8, 8, 6))
    y = writer.op("CONV_2D", [a, writer.constant(weights(1)), writer.constant(np.ones(6, np.float32))], **CONVOLUTION)
    return writer.bytes(y)


def delegated(model: Path, *arrays: Any, **options: str) -> tuple[list[Any], Any]:
    """Run a model with the delegate of libm.so beside it. Returns the outputs, and the interpreter."""
    delegate = load_delegate(str(model.parent / "libm.so"), options)
    interpreter = Interpreter(str(model), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    return invoke(interpreter, *arrays), interpreter


def invoke(interpreter: Any, *arrays: Any) -> list[Any]:
    for details, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(details["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(details["index"]) for details in interpreter.get_output_details()]


def near(have: Any, want: Any) -> bool:
    return bool(have.shape == want.shape and np.abs(have - want).max() <= 1e-5 * np.abs(want).max())
