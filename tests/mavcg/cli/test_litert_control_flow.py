"""TFLite files with control flow, built whole, and by --partial: parts of its graphs, and the rest is LiteRT's."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg

pytest.importorskip("ai_edge_litert.interpreter")

from mavcg.importers.tflite_support import graph_supports  # noqa: E402
from tests.mavcg.cli.in_process import build_in  # noqa: E402
from tests.mavcg.cli.litert_models import CONVOLUTION, FOREIGN, X, delegated, foreign, invoke, near, weights  # noqa: E402
from tests.mavcg.importers.tflite.conftest import Writer, litert  # noqa: E402

SHAPE = (1, 8, 8, 6)


def convolution(writer: Writer, x: int, seed: int) -> int:
    return writer.op(
        "CONV_2D", [x, writer.constant(weights(seed)), writer.constant(np.ones(6, np.float32))], **CONVOLUTION
    )


def looped(writer: Writer) -> list[int]:
    """A convolution, a loop that doubles its result three times, and a convolution."""

    def goes_on(w: Writer) -> list[int]:
        count, _ = w.input((1,), "i32"), w.input(SHAPE)
        return [w.op("LESS", [count, w.constant([3])], "bool", shape=(1,))]

    def step(w: Writer) -> list[int]:
        count, x = w.input((1,), "i32"), w.input(SHAPE)
        return [
            w.op("ADD", [count, w.constant([1])], "i32", "AddOptions", shape=(1,)),
            w.op("ADD", [x, x], options="AddOptions", shape=SHAPE),
        ]

    a = convolution(writer, writer.input(SHAPE, name="x"), 0)
    bodies: dict[str, Any] = {"condSubgraphIndex": writer.body(goes_on), "bodySubgraphIndex": writer.body(step)}
    start = writer.constant([0])
    count, b = writer.ops("WHILE", [start, a], ["i32", "f32"], "WhileOptions", **bodies)
    writer.graph.tensors[count].shape, writer.graph.tensors[b].shape = [1], list(SHAPE)
    return [convolution(writer, b, 1)]


def branched(writer: Writer) -> list[int]:
    """A convolution, one of two branches by an input, and a convolution."""

    def doubled(w: Writer) -> list[int]:
        x = w.input(SHAPE)
        return [w.op("ADD", [x, x], options="AddOptions", shape=SHAPE)]

    def negated(w: Writer) -> list[int]:
        return [w.op("NEG", [w.input(SHAPE)], shape=SHAPE)]

    a = convolution(writer, writer.input(SHAPE, name="x"), 0)
    bodies: dict[str, Any] = {"thenSubgraphIndex": writer.body(doubled), "elseSubgraphIndex": writer.body(negated)}
    b = writer.op("IF", [writer.input((1,), "bool", name="flag"), a], options="IfOptions", shape=SHAPE, **bodies)
    return [convolution(writer, b, 1)]


def called_once(writer: Writer) -> list[int]:
    """Two convolutions, and between them an operator without results that runs an empty subgraph once."""
    a = convolution(writer, writer.input(SHAPE, name="x"), 0)
    writer.ops("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=writer.body(lambda w: []))
    return [convolution(writer, a, 1)]


@pytest.mark.parametrize(
    ("make", "op", "subgraphs", "inputs"),
    [
        (looped, "WHILE", 2, [X]),
        pytest.param(branched, "IF", 2, [X, np.array([True])], marks=pytest.mark.long),
        pytest.param(branched, "IF", 2, [X, np.array([False])], marks=pytest.mark.long),
        pytest.param(called_once, "CALL_ONCE", 1, [X], marks=pytest.mark.long),
    ],
    ids=["WHILE", "IF taken", "IF not taken", "CALL_ONCE"],
)
def test_the_main_subgraph_is_built_and_the_rest_is_the_runtimes(
    make: Any, op: str, subgraphs: int, inputs: Any, here: Path, cores: tuple[str, str], capfd: Any
) -> None:
    writer = Writer()
    data = writer.bytes(*make(writer))
    (here / "m.tflite").write_bytes(data)
    report = json.loads(build_in(here, "m.tflite", "--partial", "--cores", cores[1], "-o", "libm.so", "--json"))

    assert op in [left["op"] for left in report["left"]] and len(report["subgraphs"]) == subgraphs
    capfd.readouterr()
    (have,), _ = delegated(here / "m.tflite", *inputs)
    # The delegate has taken both convolutions, not LiteRT, whose results would be right too.
    took = f"mavcg: libm.so: {subgraphs} of {subgraphs} subgraphs with 2 of 3 nodes"
    assert capfd.readouterr().err.count(took) == 1
    (want,) = litert(data, inputs)
    assert near(have, want)


def worked_loop(writer: Writer) -> list[int]:
    """A convolution, and a loop of three iterations over convolutions around an operator that mavcg has not."""

    def goes_on(w: Writer) -> list[int]:
        count, _ = w.input((1,), "i32"), w.input(SHAPE)
        return [w.op("LESS", [count, w.constant([3])], "bool", shape=(1,))]

    def step(w: Writer) -> list[int]:
        count, x = w.input((1,), "i32"), w.input(SHAPE)
        more = w.op("ADD", [count, w.constant([1])], "i32", "AddOptions", shape=(1,))
        turned = foreign(w, convolution(w, x, 2), SHAPE)
        return [more, convolution(w, turned, 3)]

    a = convolution(writer, writer.input(SHAPE, name="x"), 0)
    bodies: dict[str, Any] = {"condSubgraphIndex": writer.body(goes_on), "bodySubgraphIndex": writer.body(step)}
    count, b = writer.ops("WHILE", [writer.constant([0]), a], ["i32", "f32"], "WhileOptions", **bodies)
    writer.graph.tensors[count].shape, writer.graph.tensors[b].shape = [1], list(SHAPE)
    return [b]


def worked_branches(writer: Writer) -> list[int]:
    """A convolution, and two branches of as many operators, each a convolution of its own after a foreign operator."""

    a = convolution(writer, writer.input(SHAPE, name="x"), 0)
    return [chosen(writer, writer.input((1,), "bool", name="flag"), a)]


def chosen(writer: Writer, flag: int, x: int) -> int:
    """One of two branches, each a convolution of its own after an operator that mavcg has not."""

    def branch(seed: int) -> Any:
        def made(w: Writer) -> list[int]:
            return [convolution(w, foreign(w, w.input(SHAPE), SHAPE), seed)]

        return made

    bodies: dict[str, Any] = {"thenSubgraphIndex": writer.body(branch(5)), "elseSubgraphIndex": writer.body(branch(6))}
    return writer.op("IF", [flag, x], options="IfOptions", shape=SHAPE, **bodies)


def branches_in_a_loop(writer: Writer) -> list[int]:
    """A convolution, and a loop over a convolution and one of two branches: the first in two of three iterations."""

    def goes_on(w: Writer) -> list[int]:
        count, _ = w.input((1,), "i32"), w.input(SHAPE)
        return [w.op("LESS", [count, w.constant([3])], "bool", shape=(1,))]

    def step(w: Writer) -> list[int]:
        count, x = w.input((1,), "i32"), w.input(SHAPE)
        more = w.op("ADD", [count, w.constant([1])], "i32", "AddOptions", shape=(1,))
        early = w.op("LESS", [count, w.constant([2])], "bool", shape=(1,))
        return [more, chosen(w, early, convolution(w, x, 7))]

    a = convolution(writer, writer.input(SHAPE, name="x"), 0)
    bodies: dict[str, Any] = {"condSubgraphIndex": writer.body(goes_on), "bodySubgraphIndex": writer.body(step)}
    count, b = writer.ops("WHILE", [writer.constant([0]), a], ["i32", "f32"], "WhileOptions", **bodies)
    writer.graph.tensors[count].shape, writer.graph.tensors[b].shape = [1], list(SHAPE)
    return [b]


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "inputs", "of_bodies"),
    [
        (worked_loop, [X], {2: "2 of 2 subgraphs with 3 of 4 nodes"}),
        (worked_branches, [X, np.array([True])], dict.fromkeys((1, 2), "1 of 1 subgraphs with 1 of 2 nodes")),
        (worked_branches, [X, np.array([False])], dict.fromkeys((1, 2), "1 of 1 subgraphs with 1 of 2 nodes")),
        (
            branches_in_a_loop,
            [X],
            dict.fromkeys((2, 3), "1 of 1 subgraphs with 1 of 2 nodes") | {4: "1 of 1 subgraphs with 3 of 4 nodes"},
        ),
    ],
    ids=["WHILE", "IF taken", "IF not taken", "IF in WHILE"],
)
def test_parts_of_bodies_are_built(
    make: Any, inputs: Any, of_bodies: dict[int, str], here: Path, cores: tuple[str, str], capfd: Any
) -> None:
    """The foreign operator stays between them in the body, and control flow around them."""
    writer = Writer()
    data = writer.bytes(*make(writer))
    (here / "m.tflite").write_bytes(data)
    words = ["m.tflite", "--partial", "--cores", cores[1], "-o", "libm.so", "--json"]
    report = json.loads(build_in(here, *words))
    count = 1 + sum(int(taken.split()[0]) for taken in of_bodies.values())
    assert len(report["subgraphs"]) == count and report["macs_share"] == 1.0
    assert report["nodes_with_unknown_macs"] == 0
    assert (FOREIGN, "this operator is not supported") in [(left["op"], left["why"]) for left in report["left"]]
    (whole,) = litert(data, inputs)
    capfd.readouterr()
    (have,), interpreter = delegated(here / "m.tflite", *inputs)
    said = capfd.readouterr().err
    assert "mavcg: libm.so: 1 of 1 subgraphs with 1 of 2 nodes\n" in said
    for number, taken in of_bodies.items():
        assert f"mavcg: libm.so: {taken} of the file's graph {number}\n" in said
    assert "another file" not in said and near(have, whole)
    again = invoke(interpreter, *inputs)[0]
    assert again.tobytes() == have.tobytes()


def bounded_loop(writer: Writer) -> list[int]:
    """A convolution, a loop over a convolution, one of two branches and a convolution, and one behind the loop."""

    def goes_on(w: Writer) -> list[int]:
        count, _ = w.input((1,), "i32"), w.input(SHAPE)
        return [w.op("LESS", [count, w.constant([3])], "bool", shape=(1,))]

    def branch(seed: int) -> Any:
        return lambda w: [convolution(w, w.input(SHAPE), seed)]

    def step(w: Writer) -> list[int]:
        count, x = w.input((1,), "i32"), w.input(SHAPE)
        more = w.op("ADD", [count, w.constant([1])], "i32", "AddOptions", shape=(1,))
        early = w.op("LESS", [count, w.constant([2])], "bool", shape=(1,))
        branches: dict[str, Any] = {"thenSubgraphIndex": w.body(branch(5)), "elseSubgraphIndex": w.body(branch(6))}
        made = w.op("IF", [early, convolution(w, x, 7)], options="IfOptions", shape=SHAPE, **branches)
        return [more, convolution(w, made, 3)]

    a = convolution(writer, writer.input(SHAPE, name="x"), 0)
    bodies: dict[str, Any] = {"condSubgraphIndex": writer.body(goes_on), "bodySubgraphIndex": writer.body(step)}
    count, b = writer.ops("WHILE", [writer.constant([0]), a], ["i32", "f32"], "WhileOptions", **bodies)
    writer.graph.tensors[count].shape, writer.graph.tensors[b].shape = [1], list(SHAPE)
    return [convolution(writer, b, 1)]


def test_bodies_have_the_shapes_that_operators_give_them(tmp_path: Path) -> None:
    """So have results of loops and branches; without a shape all have those of the file."""
    writer = Writer()
    path = tmp_path / "m.tflite"
    path.write_bytes(writer.bytes(*bounded_loop(writer)))
    for batch in (1, 3):
        supports = graph_supports(path, {} if batch == 1 else {"x": (batch, *SHAPE[1:])})
        assert sorted(support.number for support in supports) == [0, 1, 2, 3, 4]
        for support in supports:
            left = [entry.operator.op for entry in support.operators if entry.why]
            assert left == {0: ["WHILE"], 4: ["IF"]}.get(support.number, [])
            shapes = [support.model.tensors[i].shape for i in (*support.model.inputs, *support.model.outputs)]
            assert {shape for shape in shapes if len(shape) == 4} == {(batch, *SHAPE[1:])}


def test_a_body_that_runs_in_two_shapes_is_the_runtimes(tmp_path: Path) -> None:
    """A body that two loops share has the file's shapes if no others are given; a state that grows has no shape."""
    writer = Writer()
    path = tmp_path / "m.tflite"
    x = writer.input(SHAPE, name="x")
    bodies: dict[str, Any] = {
        "condSubgraphIndex": writer.body(lambda w: [w.op("GREATER", [w.input(SHAPE), w.constant([0.5])], "bool")]),
        "bodySubgraphIndex": writer.body(lambda w: [convolution(w, w.input(SHAPE), 1)]),
    }
    a = writer.op("WHILE", [x], options="WhileOptions", shape=SHAPE, **bodies)
    half = writer.op("SLICE", [x, writer.constant([0] * 4), writer.constant([1, 8, 8, 6])], shape=SHAPE)
    b = writer.op("WHILE", [half], options="WhileOptions", shape=SHAPE, **bodies)
    path.write_bytes(writer.bytes(a, b))
    assert len(graph_supports(path)) > 1
    assert [support.number for support in graph_supports(path, {"x": (3, *SHAPE[1:])})] == [0]


@pytest.mark.long
def test_parts_of_bodies_take_every_length(here: Path, cores: tuple[str, str], capfd: Any) -> None:
    """The delegate's kernels give their results new sizes where the runtime prepares a body anew."""
    writer = Writer()
    data = writer.bytes(*bounded_loop(writer))
    (here / "m.tflite").write_bytes(data)
    words = ["m.tflite", "--partial", "--shape", "x=1..4x8x8x6", "--cores", cores[1], "-o", "libm.so", "--json"]
    report = json.loads(build_in(here, *words))
    assert [part["dimensions"] for part in report["subgraphs"]] == [{"x.0": [1, 4]}] * 6
    assert report["macs_share"] == 1.0
    capfd.readouterr()
    (first,), interpreter = delegated(here / "m.tflite", X)
    said = capfd.readouterr().err
    assert "2 of 2 subgraphs with 2 of 3 nodes\n" in said and "2 of 2 subgraphs with 4 of 5 nodes of the file's" in said
    assert near(first, litert(data, [X])[0])
    index = interpreter.get_input_details()[0]["index"]
    for batch in (3, 1, 4, 2):
        interpreter.resize_tensor_input(index, (batch, *SHAPE[1:]))
        interpreter.allocate_tensors()
        x = np.concatenate([X * (i + 1) for i in range(batch)])
        assert near(invoke(interpreter, x)[0], litert(data, [x])[0])
        assert "mavcg: libm.so: 2 of 2 subgraphs with 2 of 3 nodes" in capfd.readouterr().err
    interpreter.resize_tensor_input(index, (5, *SHAPE[1:]))
    with pytest.raises(RuntimeError, match="a tensor has not the shape that the library was built for"):
        interpreter.allocate_tensors()


@pytest.mark.long
def test_bodies_with_the_same_constants_stay_with_the_runtime(here: Path, cores: tuple[str, str], capfd: Any) -> None:
    """Two branches that differ in an activation alone: the delegate could not tell them apart."""
    writer = Writer()
    outputs = worked_branches(writer)
    _, one, other = writer.model.subgraphs
    for tensor, same in zip(other.tensors, one.tensors, strict=True):
        tensor.buffer = same.buffer
    other.operators[1].builtinOptions.fusedActivationFunction = 1  # RELU
    data = writer.bytes(*outputs)
    (here / "m.tflite").write_bytes(data)
    report = json.loads(build_in(here, "m.tflite", "--partial", "--cores", cores[1], "-o", "libm.so", "--json"))
    assert len(report["subgraphs"]) == 1
    why = "its graph has no constant of its own by which the delegate could recognise it"
    assert {"op": "CONV_2D", "count": 2, "why": why} in report["left"]
    for flag in (True, False):
        inputs = [X, np.array([flag])]
        (have,), _ = delegated(here / "m.tflite", *inputs)
        assert near(have, litert(data, inputs)[0])
    said = capfd.readouterr().err
    assert "1 of 1 subgraphs with 1 of 2 nodes\n" in said and "another file" not in said
    assert "the runtime keeps a graph that has no constant of its own" in said


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "inputs"),
    [(looped, [X]), (branched, [X, np.array([True])]), (branched, [X, np.array([False])])],
    ids=["WHILE", "IF taken", "IF not taken"],
)
def test_a_whole_build_needs_no_runtime(make: Any, inputs: Any, here: Path) -> None:
    """mavcg build, and a run of the library from Python, as a user would."""
    writer = Writer()
    data = writer.bytes(*make(writer))
    (here / "m.tflite").write_bytes(data)
    build_in(here, "m.tflite", "--board", "host", "-o", "libm.so")
    with mavcg.load(here / "libm.so") as model:
        (have,) = model.run(*inputs)
    (want,) = litert(data, inputs)
    assert near(have, want)
