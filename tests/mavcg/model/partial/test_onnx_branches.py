"""Subgraphs in the bodies of control flow: what is built, and what the written model computes."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.graph import Array
from tests.mavcg.cli.in_process import build_in

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info


def weights(name: str, *shape: int) -> Any:
    rng = np.random.default_rng(len(name))
    return onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)


def branch(name: str, width: int, inner: Sequence[Any] = ()) -> Any:
    """A convolution of %y, which the graph around makes, by own weights, times the outer %scale."""
    nodes = [
        node("Conv", ["y", f"{name}_w"], [f"{name}_c"], name=f"{name}_conv"),
        *inner,
        node("Mul", [f"{name}_c" if not inner else "d", "scale"], [f"{name}_out"]),
    ]
    out = value(f"{name}_out", 1, ["N", 4, None])
    return onnx.helper.make_graph(nodes, name, [], [out], [weights(f"{name}_w", 4, 4, width)])


def model(path: Path, inner: Sequence[Any] = (), opset: int = 17) -> None:
    """x -> a convolution -> one of two convolutions, as the number `rate` says; the caller chooses it in each run."""
    nodes = [
        node("Conv", ["x", "w"], ["y"], name="first", pads=[1, 1]),
        node("Equal", ["rate", "sixteen"], ["is_16"]),
        node("If", ["is_16"], ["z"], "choice", then_branch=branch("long", 3), else_branch=branch("short", 1, inner)),
        node("Relu", ["z"], ["out"]),
    ]
    constants = [
        weights("w", 4, 3, 3),
        onnx.numpy_helper.from_array(np.array(0.5, np.float32), "scale"),
        onnx.numpy_helper.from_array(np.array(16000), "sixteen"),
    ]
    inputs = [value("x", 1, ["N", 3, "T"]), value("rate", 7, [])]
    graph = onnx.helper.make_graph(nodes, "g", inputs, [value("out", 1, ["N", 4, None])], constants)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8), path)


def runs(folder: Path) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """Return (the written model with the library, the user's model)."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(str(folder / "libm.so"))
    sessions = (
        onnxruntime.InferenceSession(folder / "m.mavcg.onnx", options),
        onnxruntime.InferenceSession(folder / "m.onnx"),
    )

    def of(session: Any) -> Callable[..., Array]:
        return lambda x, rate: session.run(None, {"x": x, "rate": np.array(rate)})[0]

    return of(sessions[0]), of(sessions[1])


def operators(folder: Path) -> dict[str, list[str]]:
    """Return the operators of the written model's graphs: of the main one ("") and of each branch."""
    main = onnx.load(folder / "m.mavcg.onnx").graph
    found = {"": [n.op_type for n in main.node]}
    for attribute in (a for n in main.node for a in n.attribute if a.HasField("g")):
        found[attribute.name] = [f"{n.domain}.{n.op_type}" for n in attribute.g.node]
    return found


def test_both_branches_of_an_if_are_built_and_the_run_chooses(tmp_path: Path, cores: tuple[str, str]) -> None:
    model(tmp_path / "m.onnx")
    options = ("--partial", "--shape", "x=1x3x20", "--cores", cores[1], "-o", "libm.so")
    report = json.loads(build_in(tmp_path, "m.onnx", *options, "--json"))

    assert report["macs_share"] == 1 and report["nodes_with_unknown_macs"] == 0
    assert report["macs"] == 20 * 4 * (9 + 4) + 18 * 4 * 12
    assert [left["op"] for left in report["left"]] == ["Equal", "If", "Relu"]
    made = operators(tmp_path)
    assert made["then_branch"] == ["mavcg.m_6"] and made["else_branch"] == ["mavcg.m_4"] and "m_0" in made[""]
    ours, theirs = runs(tmp_path)
    x = np.random.default_rng(0).standard_normal((1, 3, 20)).astype(np.float32)
    for rate in (16000, 8000, 16000):
        want = theirs(x, rate)
        assert want.shape == (1, 4, 18 if rate == 16000 else 20)
        np.testing.assert_allclose(ours(x, rate), want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


@pytest.mark.long
def test_of_a_branch_with_an_operator_that_is_not_supported_the_rest_is_built(
    tmp_path: Path, cores: tuple[str, str]
) -> None:
    # A sequence of one tensor, which is taken out again.
    inner = [
        node("SequenceConstruct", ["short_c"], ["s"]),
        node("Constant", [], ["zero"], value_int=0),
        node("SequenceAt", ["s", "zero"], ["d"]),
    ]
    model(tmp_path / "m.onnx", inner)
    options = ("--partial", "--shape", "x=1x3x20", "--cores", cores[1], "-o", "libm.so", "--json")
    report = json.loads(build_in(tmp_path, "m.onnx", *options))

    assert report["macs_share"] == 1
    left = {entry["op"]: entry["why"] for entry in report["left"]}
    assert left["SequenceConstruct"] == "its result is a sequence or an optional, which whole models support"
    made = operators(tmp_path)
    assert any(name.startswith("mavcg.") for name in made["else_branch"]) and ".Mul" in made["else_branch"]
    ours, theirs = runs(tmp_path)
    x = np.random.default_rng(0).standard_normal((1, 3, 20)).astype(np.float32)
    for rate in (16000, 8000):
        np.testing.assert_allclose(ours(x, rate), theirs(x, rate), rtol=1e-5, atol=1e-5)


@pytest.mark.long
def test_a_loop_whose_end_only_a_run_tells(tmp_path: Path, cores: tuple[str, str]) -> None:
    # state = tanh(state @ m), `trips` times.
    body = onnx.helper.make_graph(
        [
            node("MatMul", ["state", "m"], ["p"]),
            node("Tanh", ["p"], ["next"]),
            node("Identity", ["go"], ["go_on"]),
        ],
        "body",
        [value("i", 7, []), value("go", 9, []), value("state", 1, [4, 8])],
        [value("go_on", 9, []), value("next", 1, [4, 8])],
    )
    graph = onnx.helper.make_graph(
        [node("Loop", ["trips", "", "x"], ["y"], body=body)],
        "g",
        [value("trips", 7, []), value("x", 1, [4, 8])],
        [value("y", 1, [4, 8])],
        [weights("m", 8, 8)],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    options = ("--partial", "--min-share", "0", "--cores", cores[1], "-o", "libm.so", "--json")
    report = json.loads(build_in(tmp_path, "m.onnx", *options))

    assert [subgraph["operators"] for subgraph in report["subgraphs"]][0] == {"MatMul": 1, "Tanh": 1}
    session_options = onnxruntime.SessionOptions()
    session_options.register_custom_ops_library(str(tmp_path / "libm.so"))
    ours = onnxruntime.InferenceSession(tmp_path / "m.mavcg.onnx", session_options)
    theirs = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    for trips in (0, 1, 5):
        given = {"trips": np.array(trips), "x": x}
        np.testing.assert_allclose(ours.run(None, given)[0], theirs.run(None, given)[0], rtol=1e-4, atol=1e-5)
