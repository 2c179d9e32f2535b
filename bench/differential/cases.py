"""Cases of bench.differential: random ONNX and TFLite graphs, the other runtime's outputs, the verdict on mavcg's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.differential.graphs import random_part
from bench.differential.part import Array, Part, model_of
from bench.differential.tflite_graphs import random_tflite_part
from bench.differential.tflite_part import tflite_model
from bench.differential.tflite_verdict import litert, tflite_verdict
from bench.differential.truth import bounded
from bench.differential.verdict import verdict


@dataclass
class Case:
    """A graph to compare, of either format.

    inputs: by name. run_other: runs the other runtime; raises that runtime's exceptions if it does not run the graph.
    model: returns the bytes of a file of several cases. judge: returns status and class of mavcg's outputs beside the
    other runtime's.
    """

    number: int
    suffix: str
    operators: tuple[str, ...]
    inputs: dict[str, Array]
    run_other: Callable[[], list[Array]]
    model: Callable[[Sequence["Case"]], bytes]
    judge: Callable[[Sequence[Array], Sequence[Array]], tuple[str, str]]
    part: Any = None
    theirs: list[Array] = field(default_factory=list)

    def verdict(self, ours: Sequence[Array]) -> tuple[str, str]:
        """Status and class of the difference between these outputs and the other runtime's."""
        return self.judge(ours, self.theirs)


def onnx_case(seed: int, number: int, opset: int) -> Case:
    """Return ONNX graph `number`, to be compared with onnxruntime."""
    part = random_part(seed, number, opset)

    def judge(ours: Sequence[Array], theirs: Sequence[Array]) -> tuple[str, str]:
        if all(
            np.array_equal(a, b, a.dtype.kind == "f") and a.dtype == b.dtype for a, b in zip(ours, theirs, strict=True)
        ):
            return "same", ""
        return verdict(part, ours, theirs, bounded(part), "onnxruntime")

    return Case(
        number,
        "onnx",
        tuple(part.operators),
        part.inputs,
        lambda: expected_outputs(part),
        lambda cases: model_of([case.part for case in cases]).SerializeToString(),
        judge,
        part,
    )


def expected_outputs(part: Part) -> list[Array]:
    """Return the outputs of a graph by onnxruntime. Raises: onnxruntime's exceptions if it does not run the graph."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(part.model().SerializeToString(), options, ["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(part.outputs, part.inputs)]


def tflite_case(seed: int, number: int) -> Case:
    """Return TFLite graph `number`, to be compared with LiteRT."""
    part = random_tflite_part(seed, number)
    return Case(
        number,
        "tflite",
        tuple(part.operators),
        part.inputs,
        lambda: litert(part),
        lambda cases: tflite_model([case.part for case in cases]),
        lambda ours, theirs: tflite_verdict(part, ours, theirs),
        part,
    )
