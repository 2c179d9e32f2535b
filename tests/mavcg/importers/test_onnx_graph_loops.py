"""Loop, Scan and If as loops of the graph, by kernels and by the reference, against onnxruntime and unrolled."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.graph import Graph
from mavcg.graph.ops.loops import loop_members
from mavcg.graph.reference import run
from mavcg.importers.limits import NeedsConstant, UnsupportedOp
from mavcg.importers.onnx_file import import_onnx
from mavcg.passes.graph.pipeline import optimise
from tests.conftest import examples
from tests.mavcg.model.lowered_runs import PACKING, computed

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import helper  # noqa: E402

from tests.mavcg.importers.loop_models import (  # noqa: E402
    BOOL,
    F32,
    I64,
    graph,
    growing_body,
    info,
    node,
    number,
    scan_model,
)


def agrees(path: Path, *arrays: np.ndarray) -> Graph:
    """Check a file's graph with loops against onnxruntime, by the reference and by kernels; return the graph."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)}
    kept = import_onnx(path, loops=True)
    for results in (run(kept, *arrays), computed(kept, given)):
        for have, want in zip(results, session.run(None, given), strict=True):
            assert have.dtype == want.dtype and have.shape == want.shape
            np.testing.assert_allclose(have, want, 1e-5, 1e-6)
    return kept


def save(path: Path, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[str], known: Sequence[Any]) -> Path:
    made = graph(nodes, "g", inputs, [info(name, F32, None) for name in outputs], known)
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def loops_of(made: Graph) -> int:
    return len({n.attr("loop") for n in made.nodes if n.op == "loop_state"})


@pytest.mark.parametrize(("axis", "back", "out_axis", "out_back"), [(0, False, 0, True), (1, True, -1, False)])
def test_a_scan_is_a_loop(tmp_path: Path, axis: int, back: bool, out_axis: int, out_back: bool) -> None:
    shape = [2, 3]
    shape.insert(axis, 11)
    random = np.random.default_rng(3)
    weights = random.standard_normal((3, 3)).astype(np.float32) * np.float32(0.3)
    path = scan_model(tmp_path / "m.onnx", shape, axis, back, out_axis, out_back, weights)
    kept = agrees(path, *(random.standard_normal(s).astype(np.float32) for s in ((2, 3), shape)))
    assert loops_of(kept) == 1 and len(kept.nodes) < 20


def counting_body(condition: str, stacked: bool = False) -> Any:
    """v doubles, minus the number of the iteration; `condition` of: data, number, passed."""
    nodes = [
        node("Cast", ["i"], ["f"], to=F32),
        node("Add", ["v", "v"], ["twice"]),
        node("Sub", ["twice", "f"], ["w"]),
        node("ReduceSum", ["w"], ["s"], keepdims=0),
        {
            "data": node("Less", ["s", "most"], ["on"]),
            "number": node("Less", ["i", "stop"], ["on"]),
            "passed": node("Identity", ["go"], ["on"]),
        }[condition],
    ]
    known = [helper.make_tensor("most", F32, [], [1000.0]), number("stop", 10)]
    outputs = [info("on", BOOL, []), info("w", F32, None), *([info("s", F32, None)] if stacked else [])]
    return graph(nodes, "body", [info("i", I64, []), info("go", BOOL, []), info("v", F32, None)], outputs, known)


X = np.array([1.5, 2.5], np.float32)


@pytest.mark.parametrize("condition", ["data", "number", "passed"])
@pytest.mark.parametrize("trips", [12, None])
def test_a_loop_of_known_trips_or_a_condition(tmp_path: Path, condition: str, trips: int | None) -> None:
    if (condition, trips) == ("passed", None):
        pytest.skip("without end")
    loop = node("Loop", ["trips" if trips else "", "", "x"], ["y"], "loop", body=counting_body(condition))
    known = [number("trips", trips)] if trips else []
    path = save(tmp_path / "m.onnx", [loop], [info("x", F32, [2])], ["y"], known)
    kept = agrees(path, X)
    assert loops_of(kept) == 1
    assert sum(n.op == "loop_state" and n.attr("condition") for n in kept.nodes) == (condition != "passed")
    agrees(path, X * 300)  # the condition is read after the first iteration


@pytest.mark.parametrize("first", [None, True, False])
@pytest.mark.parametrize("trips", [-3, 0, 1, 5])
def test_the_run_decides_how_often(tmp_path: Path, trips: int, first: bool | None) -> None:
    loop = node("Loop", ["trips", "" if first is None else "first", "x"], ["y"], "loop", body=counting_body("data"))
    inputs = [info("trips", I64, []), *([] if first is None else [info("first", BOOL, [])]), info("x", F32, [2])]
    path = save(tmp_path / "m.onnx", [loop], inputs, ["y"], [])
    given = [] if first is None else [np.array(first)]
    agrees(path, np.array(trips), *given, X)
    with pytest.raises(NeedsConstant, match=r"\(Loop\): its (input M|condition)"):
        import_onnx(path)


def test_what_each_iteration_makes(tmp_path: Path) -> None:
    """Outputs of each iteration need a known number of iterations: if a run decides it, they would have no size."""
    loop = node("Loop", ["trips", "", "x"], ["y", "sums"], "loop", body=counting_body("passed", True))
    path = save(tmp_path / "m.onnx", [loop], [info("x", F32, [2])], ["y", "sums"], [number("trips", 9)])
    assert loops_of(agrees(path, X)) == 1
    path = save(tmp_path / "m.onnx", [loop], [info("trips", I64, []), info("x", F32, [2])], ["y", "sums"], [])
    with pytest.raises(NeedsConstant, match=r"\(Loop\): its input M"):
        import_onnx(path, loops=True)


def test_a_state_that_grows_is_unrolled(tmp_path: Path) -> None:
    known = [helper.make_tensor("scale", F32, [1], [0.25]), number("trips", 9)]
    loop = node("Loop", ["trips", "", "x"], ["y", "means"], "loop", body=growing_body(20))
    path = save(tmp_path / "m.onnx", [loop], [info("x", F32, [2, 3])], ["y", "means"], known)
    assert loops_of(agrees(path, np.ones((2, 3), np.float32))) == 0


def if_model(path: Path, then: Sequence[Any], other: Sequence[Any], results: Sequence[str] = ("r",)) -> Path:
    outputs = [info(name, F32, None) for name in results]
    known = [helper.make_tensor("c", F32, [3], [1, -2, 3]), helper.make_tensor("w", F32, [3, 3], [0.5] * 9)]
    branches = {"then_branch": graph(then, "t", [], outputs), "else_branch": graph(other, "e", [], outputs)}
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("If", ["go"], [f"{name}_" for name in results], "if", **branches),
        *(node("Mul", [f"{name}_", "e"], [f"y{i}"]) for i, name in enumerate(results)),
    ]
    inputs = [info("go", BOOL, []), info("x", F32, [2, 3])]
    return save(path, nodes, inputs, [f"y{i}" for i in range(len(results))], known)


PRODUCT = [node("MatMul", ["e", "w"], ["m"]), node("Tanh", ["m"], ["r"])]
PASSED = [node("Identity", ["x"], ["r"])]
ADDED = [node("Add", ["x", "c"], ["a"]), node("Mul", ["a", "e"], ["r"])]
TWO = [node("Add", ["x", "c"], ["r"]), node("Mul", ["r", "e"], ["s"])]
TURNED = [node("Neg", ["e"], ["s"]), node("Sub", ["x", "e"], ["r"])]


@pytest.mark.parametrize("go", [True, False])
@pytest.mark.parametrize(
    ("then", "other", "results"),
    [(PRODUCT, PASSED, ("r",)), (PASSED, ADDED, ("r",)), (ADDED, PRODUCT, ("r",)), (TWO, TURNED, ("r", "s"))],
)
def test_the_run_decides_the_branch(
    tmp_path: Path, then: Sequence[Any], other: Sequence[Any], results: Sequence[str], go: bool
) -> None:
    path = if_model(tmp_path / "m.onnx", then, other, results)
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    kept = agrees(path, np.array(go), x)
    assert loops_of(kept) == 2
    inside = loop_members(kept.nodes)
    assert all(n.output in inside for n in kept.nodes if n.op in ("matmul", "tanh", "add", "neg", "sub"))
    with pytest.raises(NeedsConstant, match=r"\(If\): its condition is known only when the model runs"):
        import_onnx(path)


def test_a_branch_that_is_not_taken_does_not_run(tmp_path: Path) -> None:
    """An index that does not exist is no fault where its branch is not taken."""
    taken = [node("Gather", ["x", "i"], ["r"], axis=0)]
    nodes = [
        node("Cast", ["f"], ["i"], to=I64),
        node(
            "If",
            ["go"],
            ["y"],
            "if",
            then_branch=graph(taken, "t", [], [info("r", F32, None)]),
            else_branch=graph([node("Slice", ["x", "at", "to"], ["r"])], "e", [], [info("r", F32, None)]),
        ),
    ]
    known = [helper.make_tensor("at", I64, [1], [0]), helper.make_tensor("to", I64, [1], [1])]
    inputs = [info("go", BOOL, []), info("f", F32, [1]), info("x", F32, [2, 3])]
    path = save(tmp_path / "m.onnx", nodes, inputs, ["y"], known)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for go, index in ((True, 1.0), (False, 9.0)):
        agrees(path, np.array(go), np.array([index], np.float32), x)


def test_branches_of_different_types_are_refused(tmp_path: Path) -> None:
    path = if_model(tmp_path / "m.onnx", PRODUCT, [node("ReduceSum", ["x"], ["r"], keepdims=0)])
    with pytest.raises(UnsupportedOp, match=r"\(If\): branches with the results f32\[2,3\] and f32\[\]; supported: re"):
        import_onnx(path, loops=True)


@pytest.mark.parametrize(("rows", "first", "step"), [(11, 0, 1), (14, 2, 1), (11, 10, -1), (14, 12, -1), (30, 0, 2)])
def test_rows_by_the_number_of_the_iteration(tmp_path: Path, rows: int, first: int, step: int) -> None:
    """They are rows of the loop, forwards or backwards, unless the index makes larger steps."""
    body = [
        node("Mul", ["i0", "step"], ["along"]),
        node("Add", ["along", "first"], ["at"]),
        node("Gather", ["x", "at"], ["row"]),
        node("Add", ["v0_0", "row"], ["sum"]),
        node("Tanh", ["sum"], ["n0"]),
        node("Unsqueeze", ["i0", "axis"], ["place"]),
        node("Unsqueeze", ["place", "axis"], ["places"]),
        node("Unsqueeze", ["n0", "axis"], ["update"]),
        node("ScatterND", ["v0_1", "places", "update"], ["n1"]),
    ]
    known = [
        number("trips", 11),
        number("first", first),
        number("step", step),
        helper.make_tensor("axis", I64, [1], [0]),
    ]
    path = save(
        tmp_path / "m.onnx",
        [loop_of(0, "trips", ["h0", "empty"], body, ["n0", "n1"])],
        [info("x", F32, [rows, 3]), info("h0", F32, [3]), info("empty", F32, [11, 3])],
        ["l0_0", "l0_1"],
        known,
    )
    rng = np.random.default_rng(rows)
    kept = agrees(path, *(rng.standard_normal(shape).astype(np.float32) for shape in ((rows, 3), (3,), (11, 3))))
    ops = [n.op for n in kept.nodes]
    assert ops.count("loop_stack") == 1 and "scatter" not in ops
    assert ops.count("gather") == (step == 2) and ops.count("loop_state") == (2 if step == 2 else 1)


def test_rows_that_are_not_all_written_or_are_read(tmp_path: Path) -> None:
    """A state stays one where its first values are read: 11 of 13 rows are written, or an earlier row is read."""
    for rows, reader in ((13, "h0"), (11, "v0_1")):
        body = [
            node("Unsqueeze", ["i0", "axis"], ["place"]),
            node("Unsqueeze", ["place", "axis"], ["places"]),
            node("ReduceSum", [reader, "axis"] if reader == "v0_1" else ["wide", "axis"], ["total"], keepdims=0),
            node("Tanh", ["total"], ["n"]),
            node("Unsqueeze", ["n", "axis"], ["update"]),
            node("ScatterND", ["v0_1", "places", "update"], ["n1"]),
            node("Add", ["v0_0", "n"], ["n0"]),
        ]
        known = [number("trips", 11), helper.make_tensor("axis", I64, [1], [0])]
        inputs = [info("wide", F32, [2, 3]), info("h0", F32, [3]), info("empty", F32, [rows, 3])]
        loop = loop_of(0, "trips", ["h0", "empty"], body, ["n0", "n1"])
        path = save(tmp_path / "m.onnx", [loop], inputs, ["l0_0", "l0_1"], known)
        rng = np.random.default_rng(rows)
        kept = agrees(path, *(rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (3,), (rows, 3))))
        assert any(n.op == "scatter" for n in kept.nodes)


# Loops and branches in each other


def plain(value: str, out: str) -> Any:
    return graph([node("Identity", [value], [out])], "plain", [], [info(out, F32, None)])


def choice(number: int, flag: str, then: Any, other: Any) -> Any:
    return node("If", [flag], [f"chosen{number}"], f"if{number}", then_branch=then, else_branch=other)


@pytest.mark.parametrize(("a", "b"), [(True, True), (True, False), (False, True), (False, False)])
def test_branches_in_branches(tmp_path: Path, a: bool, b: bool) -> None:
    """The inner one reads a value of the graph, one of the outer branch, and a constant."""
    inner = choice(
        1,
        "also",
        graph([node("Add", ["t", "e"], ["r1"])], "t1", [], [info("r1", F32, None)]),
        graph([node("Mul", ["t", "c"], ["r2"])], "e1", [], [info("r2", F32, None)]),
    )
    outer = choice(
        0,
        "go",
        graph([node("Tanh", ["x"], ["t"]), inner], "t0", [], [info("chosen1", F32, None)]),
        plain("e", "r3"),
    )
    nodes = [node("Exp", ["x"], ["e"]), outer, node("Neg", ["chosen0"], ["y"])]
    known = [helper.make_tensor("c", F32, [3], [1, -2, 3])]
    inputs = [info("go", BOOL, []), info("also", BOOL, []), info("x", F32, [2, 3])]
    path = save(tmp_path / "m.onnx", nodes, inputs, ["y"], known)
    kept = agrees(path, np.array(a), np.array(b), np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))
    assert loops_of(kept) == 4


def loop_of(number: int, trips: str, states: Sequence[str], nodes: Sequence[Any], results: Sequence[str]) -> Any:
    """A Loop of states v<number>_0.. whose body's nodes make `results`, the first of which are the next states."""
    own = [info(f"v{number}_{i}", F32, None) for i in range(len(states))]
    inputs = [info(f"i{number}", I64, []), info(f"go{number}", BOOL, []), *own]
    on = node("Identity", [f"go{number}"], [f"on{number}"])
    outputs = [info(f"on{number}", BOOL, []), *(info(name, F32, None) for name in results)]
    made = [f"l{number}_{i}" for i in range(len(results))]
    return node("Loop", [trips, "", *states], made, f"loop{number}", body=graph([*nodes, on], "b", inputs, outputs))


def test_a_loop_in_a_loop(tmp_path: Path) -> None:
    """The inner one begins anew in each iteration of the outer one, and stacks a tensor that the outer one stacks."""
    inner_body = [
        node("Add", ["v1_0", "x"], ["sum1"]),
        node("Tanh", ["sum1"], ["n1"]),
        node("Mul", ["n1", "v0_0"], ["row"]),
    ]
    inner = loop_of(1, "trips1", ["v0_0"], inner_body, ["n1", "row"])
    outer = loop_of(0, "trips0", ["x"], [inner, node("Sub", ["l1_0", "x"], ["n0"])], ["n0", "l1_1"])
    known = [number("trips0", 9), number("trips1", 11)]
    path = save(tmp_path / "m.onnx", [outer], [info("x", F32, [2])], ["l0_0", "l0_1"], known)
    kept = agrees(path, X)
    assert loops_of(kept) == 2 and kept.shape("l0_1") == (9, 11, 2)


@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_a_branch_in_a_loop_and_a_loop_in_a_branch(tmp_path: Path, scale: float) -> None:
    """A loop whose body takes another branch as its state changes its sign, in which there is a loop."""
    inner = loop_of(1, "trips1", ["v0_0"], [node("Add", ["v1_0", "x"], ["n1"])], ["n1"])
    body = [
        node("ReduceSum", ["v0_0"], ["s"], keepdims=0),
        node("Less", ["s", "zero"], ["negative"]),
        choice(
            0,
            "negative",
            graph([inner], "t", [], [info("l1_0", F32, None)]),
            graph([node("Sub", ["v0_0", "big"], ["r"])], "e", [], [info("r", F32, None)]),
        ),
        node("Identity", ["chosen0"], ["n0"]),
    ]
    known = [number("trips0", 12), number("trips1", 8)]
    known += [helper.make_tensor("zero", F32, [], [0.0]), helper.make_tensor("big", F32, [2], [3.0, 4.5])]
    outer = loop_of(0, "trips0", ["x"], body, ["n0", "s"])
    path = save(tmp_path / "m.onnx", [outer], [info("x", F32, [2])], ["l0_0", "l0_1"], known)
    assert loops_of(agrees(path, X * np.float32(scale))) == 4


def test_a_recurrent_layer_in_a_loop(tmp_path: Path) -> None:
    """Each iteration of the outer loop runs a layer of 9 time steps from its own state on."""
    rng = np.random.default_rng(1)
    weights = {"w": (1, 16, 4), "r": (1, 16, 4), "b": (1, 32)}
    known = [
        onnx.numpy_helper.from_array((rng.standard_normal(shape) * 0.5).astype(np.float32), name)
        for name, shape in weights.items()
    ]
    body = [
        node("LSTM", ["x", "w", "r", "b", "", "v0_0"], ["rows", "h", ""], "lstm", hidden_size=4),
        node("ReduceMax", ["rows"], ["m"], axes=[0, 1], keepdims=0),
    ]
    outer = loop_of(0, "trips", ["h0"], body, ["h", "m"])
    inputs = [info("x", F32, [9, 2, 4]), info("h0", F32, [1, 2, 4])]
    path = save(tmp_path / "m.onnx", [outer], inputs, ["l0_0", "l0_1"], [*known, number("trips", 8)])
    kept = agrees(path, *(rng.standard_normal(shape).astype(np.float32) for shape in ((9, 2, 4), (1, 2, 4))))
    assert loops_of(kept) == 2


@pytest.mark.parametrize("back", [0, 1])
def test_a_scan_in_a_scan(tmp_path: Path, back: int) -> None:
    """Rows of rows are read and written where they lie: addresses advance with both loops, and nothing is copied."""
    inner = graph(
        [node("Add", ["h", "e"], ["sum"]), node("Tanh", ["sum"], ["n"]), node("Neg", ["n"], ["o"])],
        "inner",
        [info("h", F32, [3]), info("e", F32, [3])],
        [info("n", F32, [3]), info("o", F32, [3])],
    )
    scan = node("Scan", ["g", "line"], ["last", "lines"], "inner", body=inner, num_scan_inputs=1)
    outer = graph(
        [scan],
        "outer",
        [info("g", F32, [3]), info("line", F32, [10, 3])],
        [info("last", F32, [3]), info("lines", F32, [10, 3])],
    )
    ways: dict[str, Any] = {"scan_input_directions": [back], "scan_output_directions": [1 - back]}
    nodes = [node("Scan", ["h0", "x"], ["y", "z"], "outer", body=outer, num_scan_inputs=1, **ways)]
    path = save(tmp_path / "m.onnx", nodes, [info("h0", F32, [3]), info("x", F32, [8, 10, 3])], ["y", "z"], [])
    rng = np.random.default_rng(back)
    kept = agrees(path, *(rng.standard_normal(shape).astype(np.float32) for shape in ((3,), (8, 10, 3))))
    assert loops_of(kept) == 2
    program = plan_lowered(lower_graph(optimise(kept), PACKING)).program
    assert sum(len(o.strides) == 2 for step in program.steps for o in step.operands) == 2  # a row read, one written


def test_a_scan_without_states(tmp_path: Path) -> None:
    body = graph([node("Tanh", ["e"], ["o"])], "b", [info("e", F32, [3])], [info("o", F32, [3])])
    nodes = [node("Scan", ["x"], ["z"], "scan", body=body, num_scan_inputs=1)]
    path = save(tmp_path / "m.onnx", nodes, [info("x", F32, [10, 3])], ["z"], [])
    kept = agrees(path, np.linspace(-1, 1, 30, dtype=np.float32).reshape(10, 3))
    assert any(n.op == "loop_slice" for n in kept.nodes)


def random_body(pick: Random, values: Sequence[str], depth: int, counter: list[int]) -> tuple[list[Any], str]:
    """Return nodes on tensors [2] that read some of these values, and the name of the last one's result."""
    nodes: list[Any] = []
    names = list(values)
    for _ in range(pick.randint(1, 4)):
        counter[0] += 1
        own, x, other = f"n{counter[0]}", pick.choice(names[-3:]), pick.choice(names)
        kind = pick.choice(["Tanh", "Neg", "Add", "Sub", "Max", *(["If", "Loop", "While"] if depth < 3 else [])])
        if kind == "If":
            branches = []
            for _ in range(2):
                made, result = random_body(pick, names, depth + 1, counter)
                counter[0] += 1
                made.append(node("Identity", [result], [f"n{counter[0]}"]))
                branches.append(graph(made, "b", [], [info(f"n{counter[0]}", F32, None)]))
            nodes += [
                node("ReduceSum", [x], [f"{own}s"], keepdims=0),
                node("Less", [f"{own}s", "low"], [f"{own}c"]),
                node("If", [f"{own}c"], [own], own, then_branch=branches[0], else_branch=branches[1]),
            ]
        elif kind in ("Loop", "While"):
            states = [x, *([other] if pick.random() < 0.5 else [])]
            inner = [f"{own}v{i}" for i in range(len(states))]
            made, result = random_body(pick, [*names, *inner], depth + 1, counter)
            going = node("Identity", [f"{own}go"], [f"{own}on"])
            if kind == "While":
                made.append(node("ReduceSum", [result], [f"{own}s"], keepdims=0))
                going = node("Less", [f"{own}s", "high"], [f"{own}on"])
            nexts = [f"{own}r{i}" for i in range(len(states))]
            made += [
                going,
                node("Identity", [result], [nexts[0]]),
                *(node("Identity", [pick.choice([inner[0], x])], [n]) for n in nexts[1:]),
            ]
            stacked = [(f"{own}o", info(f"{own}o", F32, None))] if kind == "Loop" and pick.random() < 0.4 else []
            made += [node("Neg", [pick.choice([result, x])], [name]) for name, _ in stacked]
            inputs = [info(f"{own}i", I64, []), info(f"{own}go", BOOL, []), *(info(n, F32, None) for n in inner)]
            outputs = [info(f"{own}on", BOOL, []), *(info(n, F32, None) for n in nexts), *(i for _, i in stacked)]
            finals = [own, *(f"{own}f{i}" for i in range(1, len(states)))]
            rows = [f"{own}rows"] if stacked else []
            trips = pick.choice(["three", "eight", "ten"])
            nodes.append(
                node("Loop", [trips, "", *states], [*finals, *rows], own, body=graph(made, "b", inputs, outputs))
            )
            names += finals[1:]
            if rows:
                counter[0] += 1
                nodes.append(node("ReduceMean", rows, [f"n{counter[0]}"], axes=[0], keepdims=0))
                names.append(f"n{counter[0]}")
        else:
            nodes.append(node(kind, [x] if kind in ("Tanh", "Neg") else [x, other], [own]))
        names.append(own)
    return nodes, names[-1]


def test_a_branch_by_what_cancels_to_nothing(tmp_path: Path) -> None:
    """v - tanh(v), eight times, is 0 in f32 and f64; onnxruntime's tanh(1e-9) is not 1e-9, so its sum is negative."""
    body_nodes = [
        node("Tanh", ["v"], ["t"]),
        node("Sub", ["v", "t"], ["w"]),
        node("Identity", ["w"], ["next"]),
        node("Identity", ["go"], ["on"]),
    ]
    inputs = [info("i", I64, []), info("go", BOOL, []), info("v", F32, None)]
    body = graph(body_nodes, "body", inputs, [info("on", BOOL, []), info("next", F32, None)], [])
    branches = [graph([node("Neg", [x], [f"-{x}"])], x, [], [info(f"-{x}", F32, None)]) for x in ("a", "b")]
    nodes = [
        node("Loop", ["eight", "", "a"], ["left"], "loop", body=body),
        node("ReduceSum", ["left"], ["sum"], keepdims=0),
        node("Less", ["sum", "zero"], ["negative"]),
        node("If", ["negative"], ["y"], "branch", then_branch=branches[0], else_branch=branches[1]),
    ]
    known = [number("eight", 8), helper.make_tensor("zero", F32, [], [0.0])]
    path = save(tmp_path / "m.onnx", nodes, [info("a", F32, [2]), info("b", F32, [2])], ["y"], known)
    a, b = np.array([-0.1635711, -0.0209519], np.float32), np.array([0.5, 0.25], np.float32)
    left = a.astype(np.float64)
    for _ in range(8):
        left = left - np.tanh(left)

    assert left.sum() == 0
    kept = import_onnx(path, loops=True)
    for results in (run(kept, a, b), computed(kept, {"a": a, "b": b})):
        assert np.array_equal(results[0], -b)


@settings(max_examples=examples(400, 6))
@given(st.integers(0, 10**9))
@example(47496920)
def test_random_loops_and_branches_in_each_other(seed: int) -> None:
    pick = Random(seed)
    nodes, last = random_body(pick, ["a", "b"], 0, [0])
    known = [number("three", 3), number("eight", 8), number("ten", 10)]
    # Not 0 and 1: sums of what cancels and of saturated tanh are these but for roundings, which differ by runtime.
    known += [helper.make_tensor("low", F32, [], [0.11]), helper.make_tensor("high", F32, [], [0.93])]
    nodes.append(node("Tanh", [last], ["y"]))
    with TemporaryDirectory() as folder:
        path = save(Path(folder) / "m.onnx", nodes, [info("a", F32, [2]), info("b", F32, [2])], ["y"], known)
        rng = np.random.default_rng(seed)
        agrees(path, *(rng.uniform(-1, 1, 2).astype(np.float32) for _ in range(2)))
