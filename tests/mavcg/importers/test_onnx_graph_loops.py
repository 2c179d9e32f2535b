"""Loop, Scan and If as loops of the graph, by kernels and by the reference, against onnxruntime and unrolled."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.importers.emitter import NeedsConstant
from mavcg.importers.limits import UnsupportedOp
from mavcg.importers.onnx_file import import_onnx
from mavcg.ops.loops import loop_members
from mavcg.reference import run
from tests.mavcg.importers.test_onnx_loops import BOOL, F32, I64, graph, growing_body, info, node, number, scan_model
from tests.mavcg.model.test_loops import computed

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import helper  # noqa: E402


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


def test_branches_in_branches_are_named(tmp_path: Path) -> None:
    inner = node(
        "If",
        ["go"],
        ["r"],
        "inner",
        then_branch=graph(PASSED, "t", [], [info("r", F32, None)]),
        else_branch=graph(PASSED, "e", [], [info("r", F32, None)]),
    )
    path = if_model(tmp_path / "m.onnx", [inner], PASSED)
    with pytest.raises(MavcgError, match=r"node 'inner' \(If\): its condition is known only when the model runs"):
        import_onnx(path, loops=True)
