"""Branches and loops that a run decides, over any number of rows: `mavcg build m.onnx --shape x=1..4x3`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as package
from mavcg.graph import Array
from tests.mavcg.cli.in_process import build_in
from tests.mavcg.importers.tflite.conftest import Writer
from tests.mavcg.importers.tflite.control_flow_models import counting, while_

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

MOST = 4
OPTIONS = ("--board", "host", "-o", "libm.so", "--tune", "off")
BATCHES = (MOST, 1, 3, 2, MOST)
F32, I64, BOOL = 1, 7, 9
node, info, graph = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.helper.make_graph
RANDOM = np.random.default_rng(0)
WEIGHTS = onnx.numpy_helper.from_array(RANDOM.standard_normal((3, 3)).astype(np.float32), "W")
# One iteration: n = tanh(h W + x).
STEP = (node("MatMul", ["h", "W"], ["p"]), node("Add", ["p", "x"], ["q"]), node("Tanh", ["q"], ["n"]))


def rows(batch: int) -> Array:
    return RANDOM.standard_normal((batch, 3)).astype(np.float32)


def assert_agrees(folder: Path, runs: Sequence[Sequence[Array]], reference: Callable[..., Sequence[Array]]) -> None:
    with package.load(folder / "libm.so", threads=2) as library:
        for given in runs:
            for have, want in zip(library.run(*given), reference(*given), strict=True):
                assert have.shape == want.shape
                np.testing.assert_allclose(have, want, 1e-4, 1e-5)


def check_onnx(
    folder: Path,
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    *runs: Sequence[Array],
    known: Any = (),
    shape: str = f"1..{MOST}x3",
) -> None:
    """Build a model with input x of that shape and output y, and compare its runs with onnxruntime's."""
    made = graph(nodes, "g", inputs, [info("y", F32, None)], [WEIGHTS, *known])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(made, opset_imports=opset, ir_version=8), folder / "m.onnx")
    build_in(folder, "m.onnx", f"--shape=x={shape}", *OPTIONS)
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    names = [value.name for value in inputs]
    assert_agrees(folder, runs, lambda *given: session.run(None, dict(zip(names, given, strict=True))))


def test_a_branch_that_a_run_chooses(tmp_path: Path) -> None:
    branches = {
        "then_branch": graph([node("MatMul", ["x", "W"], ["t"])], "then", [], [info("t", F32, None)]),
        "else_branch": graph([node("Tanh", ["x"], ["e"])], "else", [], [info("e", F32, None)]),
    }
    inputs = [info("flag", BOOL, []), info("x", F32, ["batch", 3])]
    runs = [(np.array(flag), rows(batch)) for batch in BATCHES for flag in (True, False)]
    check_onnx(tmp_path, [node("If", ["flag"], ["y"], **branches)], inputs, *runs)


def loop_body(go_on: Sequence[Any]) -> Any:
    inputs = [info("i", I64, []), info("go", BOOL, []), info("h", F32, None)]
    return graph([*STEP, *go_on], "body", inputs, [info("on", BOOL, []), info("n", F32, None)])


def test_iterations_that_a_run_counts(tmp_path: Path) -> None:
    nodes = [node("Loop", ["count", "", "x"], ["y"], body=loop_body([node("Identity", ["go"], ["on"])]))]
    inputs = [info("count", I64, []), info("x", F32, ["batch", 3])]
    runs = [(np.array(count), rows(batch)) for count, batch in zip((5, 0, 1, 12, 3), BATCHES, strict=True)]
    check_onnx(tmp_path, nodes, inputs, *runs)


TIME = 9  # the longest sequence, [2, time, 3], whose length lies inside of that of the batch
TIMES = (TIME, 1, 4, 2, TIME)
# A layer that crosses the time: each element becomes a sum over its neighbours and a share of the whole sequence.
CROSSING = (
    node("Transpose", ["h"], ["columns"], perm=[0, 2, 1]),
    node("Conv", ["columns", "taps"], ["around"], pads=[1, 1]),
    node("Softmax", ["columns"], ["share"], axis=2),
    node("Add", ["around", "share"], ["both"]),
    node("Transpose", ["both"], ["back"], perm=[0, 2, 1]),
    node("ReduceMean", ["back"], ["mean"], axes=[1]),
    node("Sub", ["back", "mean"], ["made"]),
)
TAPS = onnx.numpy_helper.from_array(RANDOM.standard_normal((3, 3, 3)).astype(np.float32) * np.float32(0.3), "taps")


def sequences(time: int) -> Array:
    return RANDOM.standard_normal((2, time, 3)).astype(np.float32)


def test_a_branch_over_the_time_of_a_run(tmp_path: Path) -> None:
    crossing = [node("Identity", ["x"], ["h"]), *CROSSING]
    branches = {
        "then_branch": graph(crossing, "then", [], [info("made", F32, None)]),
        "else_branch": graph([node("Tanh", ["x"], ["e"])], "else", [], [info("e", F32, None)]),
    }
    inputs = [info("flag", BOOL, []), info("x", F32, [2, "time", 3])]
    runs = [(np.array(flag), sequences(time)) for time in TIMES for flag in (True, False)]
    nodes = [node("If", ["flag"], ["y"], **branches)]
    check_onnx(tmp_path, nodes, inputs, *runs, known=[TAPS], shape=f"2x1..{TIME}x3")


def test_a_loop_over_the_time_of_a_run(tmp_path: Path) -> None:
    """A run decides the number of iterations, each of which crosses the time."""
    outputs = [info("on", BOOL, []), info("made", F32, None)]
    inside = [info("i", I64, []), info("go", BOOL, []), info("h", F32, None)]
    body = graph([*CROSSING, node("Identity", ["go"], ["on"])], "body", inside, outputs)
    inputs = [info("count", I64, []), info("x", F32, [2, "time", 3])]
    runs = [(np.array(count), sequences(time)) for count, time in zip((3, 0, 1, 5, 2), TIMES, strict=True)]
    nodes = [node("Loop", ["count", "", "x"], ["y"], body=body)]
    check_onnx(tmp_path, nodes, inputs, *runs, known=[TAPS], shape=f"2x1..{TIME}x3")


@pytest.mark.long
def test_iterations_until_the_rows_of_a_run_say_so(tmp_path: Path) -> None:
    """The condition is an extreme of the run's rows: rows behind them do not count."""
    until = [node("ReduceMax", ["n"], ["most"], keepdims=0), node("Less", ["most", "limit"], ["on"])]
    known = [
        onnx.numpy_helper.from_array(np.array(20), "most_runs"),
        onnx.numpy_helper.from_array(np.float32(0.8), "limit"),
    ]
    nodes = [node("Loop", ["most_runs", "", "x"], ["y"], body=loop_body(until))]
    runs = [(rows(batch),) for batch in BATCHES * 3]
    check_onnx(tmp_path, nodes, [info("x", F32, ["batch", 3])], *runs, known=known)


def check_tflite(folder: Path, writer: Writer, result: int, shape: str, *runs: Array) -> None:
    """Build a file with input x of that shape, and compare its runs with LiteRT's."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter
    data = writer.bytes(result)
    (folder / "m.tflite").write_bytes(data)
    build_in(folder, "m.tflite", f"--shape=x={shape}", *OPTIONS)

    def reference(x: Array) -> list[Array]:
        runtime = interpreter(model_content=data, num_threads=1)
        index = runtime.get_input_details()[0]["index"]
        runtime.resize_tensor_input(index, x.shape)
        runtime.allocate_tensors()
        runtime.set_tensor(index, x)
        runtime.invoke()
        return [runtime.get_tensor(runtime.get_output_details()[0]["index"])]

    assert_agrees(folder, [(x,) for x in runs], reference)


def looped(writer: Writer, shape: Sequence[int], step: Callable[[Writer, int], int]) -> int:
    """A WHILE of nine steps on input x, and what follows."""
    condition, body = counting(9, lambda w, states: [step(w, states[1])])
    states = [writer.constant(np.int32(0)), writer.input(shape, name="x")]
    _, last = while_(writer, states, [((), "i32"), (shape, "f32")], condition, body)
    return writer.op("NEG", [last], "f32", shape=shape)


def test_a_while_of_a_tflite_file(tmp_path: Path) -> None:
    writer, shape = Writer(), (1, 3)

    def step(w: Writer, state: int) -> int:
        more = w.constant(np.array([0.5, -0.2, 0.1], np.float32))
        return w.op("TANH", [w.op("ADD", [state, more], "f32", "AddOptions", shape=shape)], "f32", shape=shape)

    check_tflite(tmp_path, writer, looped(writer, shape, step), f"1..{MOST}x3", *map(rows, BATCHES))


def test_a_while_over_the_time_of_a_run(tmp_path: Path) -> None:
    """Each iteration takes the mean of the time from all elements."""
    writer, shape = Writer(), (2, 1, 3)

    def step(w: Writer, state: int) -> int:
        axis = w.constant(np.array([1], np.int32))
        mean = w.op("MEAN", [state, axis], "f32", "ReducerOptions", shape=(2, 1, 3), keepDims=True)
        apart = w.op("SUB", [w.op("EXP", [state], "f32", shape=shape), mean], "f32", "SubOptions", shape=shape)
        return w.op("TANH", [apart], "f32", shape=shape)

    check_tflite(tmp_path, writer, looped(writer, shape, step), f"2x1..{TIME}x3", *map(sequences, TIMES))


def test_a_variable_of_another_batch_is_refused(tmp_path: Path) -> None:
    """LiteRT refuses to assign it, too: a variable has the file's shape."""
    writer, shape = Writer(), (1, 3)
    x = writer.input(shape, name="x")
    handle = writer.op("VAR_HANDLE", [], "resource", "VarHandleOptions", sharedName="sum", container="")
    old = writer.op("READ_VARIABLE", [handle], "f32", "ReadVariableOptions", shape=shape)
    total = writer.op("ADD", [old, x], options="AddOptions", shape=shape)
    writer.ops("ASSIGN_VARIABLE", [handle, total], [], "AssignVariableOptions")
    (tmp_path / "m.tflite").write_bytes(writer.bytes(total))
    with pytest.raises(AssertionError, match=r"assigns f32\[4,3\] to a variable of f32\[1,3\]"):
        build_in(tmp_path, "m.tflite", f"--shape=x=1..{MOST}x3", *OPTIONS)
