"""Recurrent layers and loops over any number of sequences: `mavcg build lstm.onnx --shape X=9x1..5x3`."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as package
from bench.differential.memory import Guarded
from mavcg.graph import Array
from tests.mavcg.cli.in_process import build_in
from tests.mavcg.importers.loop_models import scan_model
from tests.mavcg.importers.recurrent_models import GATES, model, with_lengths

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

STEPS, BATCH = 9, 5
OPTIONS = ("--board", "host", "-o", "libm.so", "--tune", "off")


def of_any_batch(path: Path, op: str, **form: Any) -> dict[str, Array]:
    """Save a layer over any number of sequences; return the inputs of the largest batch."""
    arrays: dict[str, Array] = model(path, op, STEPS, batch=BATCH, **form)
    made = onnx.load(path)
    for tensor in made.graph.input:
        dims = tensor.type.tensor_type.shape.dim
        batch_axis = 1 - form.get("layout", 0)
        dims[batch_axis].dim_param = "batch"
        if tensor.name == "X":
            dims[1 - batch_axis].dim_param = "time"
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    onnx.save(made, path)
    return arrays


def part(arrays: Mapping[str, Array], batch: int, steps: int = STEPS) -> dict[str, Array]:
    """Inputs of fewer sequences, and of fewer time steps."""
    return {name: a[:steps, :batch] if name == "X" else a[:, :batch] for name, a in arrays.items()}


def assert_agrees(folder: Path, runs: list[dict[str, Array]], threads: int = 2) -> None:
    """Compare a library with onnxruntime, one run after the other; its arrays end at inaccessible pages."""
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    with package.load(folder / "libm.so", threads=threads) as library:
        for number, given in enumerate(runs):
            wanted = session.run(None, given)
            inputs = [Guarded(a.shape, a.dtype, number % 3 != 1) for a in given.values()]
            outputs = [Guarded(a.shape, a.dtype, number % 3 != 1) for a in wanted]
            for memory, array in zip(inputs, given.values(), strict=True):
                memory.array[...] = array
            library.run(*(memory.array for memory in inputs), out=[memory.array for memory in outputs])
            for have, want in zip(outputs, wanted, strict=True):
                np.testing.assert_allclose(have.array, want, 1e-4, 1e-5)


def shapes_of(arrays: Mapping[str, Array], steps: int | str = STEPS) -> list[str]:
    batch = f"1..{BATCH}"
    x = f"--shape=X={steps}x{batch}x{arrays['X'].shape[2]}"
    return [x, *(f"--shape={name}={len(a)}x{batch}x{a.shape[2]}" for name, a in arrays.items() if name != "X")]


def test_a_recurrent_layer_over_any_number_of_sequences(tmp_path: Path) -> None:
    """The rows of a time step lie as far apart as there are sequences, also those that go backwards."""
    arrays = of_any_batch(tmp_path / "m.onnx", "GRU", states=True, direction="bidirectional")
    build_in(tmp_path, "m.onnx", *shapes_of(arrays), *OPTIONS)
    assert_agrees(tmp_path, [part(arrays, batch) for batch in (*range(1, BATCH + 1), 2)])


@pytest.mark.long
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_every_recurrent_operator(tmp_path: Path, op: str, direction: str) -> None:
    """Sequences and time steps are both bounded."""
    arrays = of_any_batch(tmp_path / "m.onnx", op, states=True, direction=direction)
    build_in(tmp_path, "m.onnx", *shapes_of(arrays, f"1..{STEPS}"), *OPTIONS)
    assert_agrees(tmp_path, [part(arrays, *at) for at in product(range(1, BATCH + 1), (1, 2, 5, STEPS))], threads=1)


@pytest.mark.long
@pytest.mark.parametrize("layout", [0, 1])
def test_the_same_bits_as_of_one_batch(tmp_path: Path, layout: int) -> None:
    """Also with sequences as the first axis, and with peepholes."""
    form = {"direction": "bidirectional", "peepholes": True, "layout": layout}
    x = of_any_batch(tmp_path / "m.onnx", "LSTM", **form)

    def shape_of(batch: int | str) -> str:
        return "--shape=X=" + (f"{batch}x{STEPS}x3" if layout else f"{STEPS}x{batch}x3")

    build_in(tmp_path, "m.onnx", shape_of(f"1..{BATCH}"), *OPTIONS)
    for batch in (2, 3, BATCH):
        one = ("-o", "libone.so", "--strategy", "engine", "--max-error", "0")
        build_in(tmp_path, "m.onnx", shape_of(batch), *OPTIONS, *one)
        given = x["X"][:batch] if layout else x["X"][:, :batch]
        with package.load(tmp_path / "libm.so") as any_batch, package.load(tmp_path / "libone.so") as fixed:
            assert [a.tobytes() for a in any_batch.run(given)] == [a.tobytes() for a in fixed.run(given)]


@pytest.mark.long
def test_sequences_of_different_lengths(tmp_path: Path) -> None:
    arrays = of_any_batch(tmp_path / "m.onnx", "LSTM", direction="bidirectional")
    with_lengths(tmp_path / "m.onnx", None)
    made = onnx.load(tmp_path / "m.onnx")
    made.graph.input[-1].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(made, tmp_path / "m.onnx")
    build_in(tmp_path, "m.onnx", *shapes_of(arrays), *OPTIONS)
    lengths = np.array([4, 9, 1, 5, 8], np.int32)
    runs = [part(arrays, batch) | {"lengths": lengths[:batch]} for batch in (3, 1, BATCH, 2)]
    assert_agrees(tmp_path, runs)


@pytest.mark.parametrize(("back", "out_back"), [(False, True), pytest.param(True, False, marks=pytest.mark.long)])
def test_a_scan_of_any_number_of_sequences(tmp_path: Path, back: bool, out_back: bool) -> None:
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((3, 3)).astype(np.float32) * np.float32(0.3)
    scan_model(tmp_path / "m.onnx", (STEPS, BATCH, 3), 0, back, 0, out_back, weights)
    made = onnx.load(tmp_path / "m.onnx")
    for tensor in made.graph.input:
        dims = tensor.type.tensor_type.shape.dim
        dims[len(dims) - 2].dim_param = "batch"
    onnx.save(made, tmp_path / "m.onnx")
    shapes = [f"--shape=x={STEPS}x1..{BATCH}x3", f"--shape=start=1..{BATCH}x3"]
    build_in(tmp_path, "m.onnx", *shapes, *OPTIONS)
    start, x = (rng.standard_normal(shape).astype(np.float32) for shape in ((BATCH, 3), (STEPS, BATCH, 3)))
    assert_agrees(tmp_path, [{"start": start[:n], "x": x[:, :n]} for n in (1, 3, 2, BATCH, 4)])


@pytest.mark.long
@pytest.mark.parametrize("back", [0, 1])
def test_a_loop_of_any_length_in_a_loop(tmp_path: Path, back: int) -> None:
    """The outer loop's rows lie as far apart as the inner loop is long; numbers of both are bounded."""
    node, info, f32 = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    inner = onnx.helper.make_graph(
        [node("Add", ["h", "e"], ["sum"]), node("Tanh", ["sum"], ["n"]), node("Neg", ["n"], ["o"])],
        "inner",
        [info("h", f32, [3]), info("e", f32, [3])],
        [info("n", f32, [3]), info("o", f32, [3])],
    )
    ways = [{f"scan_{side}put_directions": [way] for side, way in (("in", back ^ n), ("out", back))} for n in (0, 1)]
    scan = node("Scan", ["g", "line"], ["last", "lines"], "inner", body=inner, num_scan_inputs=1, **ways[1])
    outer = onnx.helper.make_graph(
        [scan],
        "outer",
        [info("g", f32, [3]), info("line", f32, ["columns", 3])],
        [info("last", f32, [3]), info("lines", f32, ["columns", 3])],
    )
    nodes = [node("Scan", ["h0", "x"], ["y", "z"], "outer", body=outer, num_scan_inputs=1, **ways[0])]
    inputs = [info("h0", f32, [3]), info("x", f32, ["rows", "columns", 3])]
    made = onnx.helper.make_graph(nodes, "g", inputs, [info(name, f32, None) for name in "yz"])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(made, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    build_in(tmp_path, "m.onnx", f"--shape=x=1..{BATCH}x1..{STEPS}x3", *OPTIONS)
    h0, x = (np.random.default_rng(5).standard_normal(s).astype(np.float32) for s in ((3,), (BATCH, STEPS, 3)))
    assert_agrees(tmp_path, [{"h0": h0, "x": x[:n, :m]} for n, m in product((1, BATCH, 2), (STEPS, 1, 4))])
