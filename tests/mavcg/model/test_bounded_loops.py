"""Recurrent layers and loops of as many iterations as a run has: `mavcg build lstm.onnx --shape X=1..40x2x3`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as package
from mavcg.errors import MavcgError
from mavcg.graph import Array
from tests.mavcg.cli.in_process import build_in
from tests.mavcg.importers.recurrent_models import GATES, model, with_lengths

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

MOST = 40
LENGTHS = (MOST, 1, 2, 7, 8, 9, MOST - 1, MOST, 3)
OPTIONS = ("--board", "host", "-o", "libm.so", "--tune", "off", "--json")


def recurrent(path: Path, op: str, **form: Any) -> dict[str, Array]:
    """Save a layer of any number of time steps; return inputs of the longest."""
    arrays: dict[str, Array] = model(path, op, MOST, **form)
    made = onnx.load(path)
    made.graph.input[0].type.tensor_type.shape.dim[form.get("layout", 0)].dim_param = "time"
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    onnx.save(made, path)
    return arrays


def agrees(folder: Path, arrays: Mapping[str, Array], cut: Sequence[str], *options: str, threads: int = 2) -> None:
    """Build a library of any length and compare it with onnxruntime. cut: inputs with an element for each time step."""
    x = arrays[cut[0]].shape
    shapes = [f"--shape={name}=1..{MOST}" + "".join(f"x{n}" for n in arrays[name].shape[1:]) for name in cut]
    report = json.loads(build_in(folder, "m.onnx", *shapes, *OPTIONS, *options))
    assert list(report["dimensions"].values()) == [[1, MOST]] and x[0] == MOST
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    with package.load(folder / "libm.so", threads=threads) as library:
        for length in LENGTHS:
            given = {name: a[:length] if name in cut else a for name, a in arrays.items()}
            have = library.run(*(given[tensor.name] for tensor in library.inputs))
            for mine, theirs in zip(have, session.run(None, given), strict=True):
                assert mine.shape == theirs.shape
                np.testing.assert_allclose(mine, theirs, 1e-4, 1e-5)
        for length in (0, MOST + 1):
            wrong = {name: np.zeros((length, *a.shape[1:]), a.dtype) if name in cut else a for name, a in given.items()}
            with pytest.raises(MavcgError):
                library.run(*(wrong[tensor.name] for tensor in library.inputs))


def test_a_recurrent_layer_of_any_length(tmp_path: Path) -> None:
    """The backward direction begins at the last row of a run."""
    agrees(tmp_path, recurrent(tmp_path / "m.onnx", "GRU", states=True, direction="bidirectional"), ["X"])


@pytest.mark.long
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_every_recurrent_operator(tmp_path: Path, op: str, direction: str) -> None:
    agrees(tmp_path, recurrent(tmp_path / "m.onnx", op, states=True, direction=direction), ["X"], threads=1)


@pytest.mark.long
def test_the_same_bits_as_of_one_length(tmp_path: Path) -> None:
    arrays = recurrent(tmp_path / "m.onnx", "LSTM", direction="bidirectional", peepholes=True)
    build_in(tmp_path, "m.onnx", f"--shape=X=1..{MOST}x2x3", *OPTIONS)
    for length in (5, 8, MOST):
        build_in(
            tmp_path,
            "m.onnx",
            f"--shape=X={length}x2x3",
            *OPTIONS,
            "-o",
            "libone.so",
            "--strategy",
            "engine",
            "--max-error",
            "0",
        )
        with package.load(tmp_path / "libm.so") as any_length, package.load(tmp_path / "libone.so") as one:
            x = arrays["X"][:length]
            assert [a.tobytes() for a in any_length.run(x)] == [a.tobytes() for a in one.run(x)]


@pytest.mark.long
def test_a_stack_of_layers_with_states(tmp_path: Path) -> None:
    """A network of two layers and a product, whose states stay in the context: calls of any length are one sequence."""
    rng = np.random.default_rng(5)
    helper, f32 = onnx.helper, onnx.TensorProto.FLOAT
    width, hidden = 6, 8
    known, nodes, value = dict[str, tuple[int, ...]](), list[Any](), "x"
    for i, own in enumerate((width, hidden)):
        known |= {f"w{i}": (1, 4 * hidden, own), f"r{i}": (1, 4 * hidden, hidden), f"b{i}": (1, 8 * hidden)}
        ends = [f"y{i}", f"h{i}:next", f"c{i}:next"]
        names = [value, f"w{i}", f"r{i}", f"b{i}", "", f"h{i}", f"c{i}"]
        nodes += [
            helper.make_node("LSTM", names, ends, hidden_size=hidden),
            helper.make_node("Squeeze", [f"y{i}", "axis"], [f"z{i}"]),
        ]
        value = f"z{i}"
    known["p"] = (hidden, 3)
    nodes.append(helper.make_node("MatMul", [value, "p"], ["y"]))
    states = [f"{name}{i}" for i in (0, 1) for name in ("h", "c")]
    info = helper.make_tensor_value_info
    arrays = [
        onnx.numpy_helper.from_array((rng.standard_normal(s) * 0.4).astype(np.float32), n) for n, s in known.items()
    ]
    arrays.append(onnx.numpy_helper.from_array(np.array([1]), "axis"))
    graph = helper.make_graph(
        nodes,
        "stack",
        [info("x", f32, ["time", 1, width]), *(info(s, f32, [1, 1, hidden]) for s in states)],
        [info("y", f32, None), *(info(f"{s}:next", f32, None) for s in states)],
        arrays,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    pairs = [f"--state={s}={s}:next" for s in states]
    build_in(tmp_path, "m.onnx", f"--shape=x=1..{MOST}x1x{width}", *pairs, *OPTIONS)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    x = rng.standard_normal((100, 1, width)).astype(np.float32)
    zeros = {s: np.zeros((1, 1, hidden), np.float32) for s in states}
    (want,) = session.run(["y"], {"x": x, **zeros})
    with package.load(tmp_path / "libm.so") as library:
        parts, at = list[Array](), 0
        for length in (40, 1, 17, 2, 40):
            parts += library.run(x[at : at + length])
            at += length
    np.testing.assert_allclose(np.concatenate(parts), want, 1e-4, 1e-5)


@pytest.mark.long
def test_sequences_of_different_lengths(tmp_path: Path) -> None:
    arrays = recurrent(tmp_path / "m.onnx", "LSTM", direction="bidirectional")
    with_lengths(tmp_path / "m.onnx", None)
    build_in(tmp_path, "m.onnx", f"--shape=X=1..{MOST}x2x3", *OPTIONS)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    with package.load(tmp_path / "libm.so") as library:
        for length in LENGTHS[:-1]:
            given = {"X": arrays["X"][:length], "lengths": np.array([max(1, length // 2), length], np.int32)}
            have = library.run(*(given[tensor.name] for tensor in library.inputs))
            for mine, theirs in zip(have, session.run(None, given), strict=True):
                np.testing.assert_allclose(mine, theirs, 1e-4, 1e-5)


@pytest.mark.long
def test_a_loop_over_the_rows_of_an_input(tmp_path: Path) -> None:
    """Its number of iterations is read from a shape, and each iteration gathers a row by its number."""
    helper, f32, i64, boolean = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
    info, node = helper.make_tensor_value_info, helper.make_node
    body = helper.make_graph(
        [
            node("Gather", ["x", "i"], ["row"]),
            node("Add", ["h", "row"], ["sum"]),
            node("Tanh", ["sum"], ["n"]),
            node("Identity", ["go"], ["on"]),
            node("Neg", ["n"], ["o"]),
        ],
        "body",
        [info("i", i64, []), info("go", boolean, []), info("h", f32, [3])],
        [info("on", boolean, []), info("n", f32, [3]), info("o", f32, [3])],
    )
    nodes = [
        node("Shape", ["x"], ["shape"], start=0, end=1),
        node("Squeeze", ["shape"], ["rows"]),
        node("Loop", ["rows", "", "h0"], ["last", "all"], "loop", body=body),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", f32, ["rows", 3]), info("h0", f32, [3])],
        [info("last", f32, [3]), info("all", f32, None)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    rng = np.random.default_rng(2)
    agrees(tmp_path, {n: rng.standard_normal(s).astype(np.float32) for n, s in (("x", (MOST, 3)), ("h0", (3,)))}, ["x"])
