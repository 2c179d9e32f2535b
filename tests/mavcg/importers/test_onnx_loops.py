"""Loop and Scan, unrolled, against onnxruntime, which runs them as loops."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph.reference import run
from mavcg.importers.limits import MOST_UNROLLED, NeedsConstant, UnsupportedOp
from mavcg.importers.onnx_file import import_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import helper  # noqa: E402

from tests.conftest import examples  # noqa: E402
from tests.mavcg.importers.loop_models import BOOL, F32, I64, graph, growing_body, info, node, number, save, scan_model  # noqa: E402


def agrees(path: Path, *arrays: np.ndarray) -> list[np.ndarray]:
    """Return the outputs, after a comparison with onnxruntime's."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)})
    computed = run(import_onnx(path), *arrays)
    for have, want in zip(computed, expected, strict=True):
        assert have.dtype == want.dtype and have.shape == want.shape
        np.testing.assert_allclose(have, want, 1e-5, 1e-6)
    return list(computed)


def loop_model(path: Path, stop: int, trips: int | None, first: bool | None) -> Path:
    known = [helper.make_tensor("scale", F32, [1], [0.25])]
    known += [] if trips is None else [number("trips", trips)]
    known += [] if first is None else [number("first", first)]
    inputs = ["" if trips is None else "trips", "" if first is None else "first", "x"]
    nodes = [node("Loop", inputs, ["y", "means"], "loop", body=growing_body(stop))]
    return save(path, nodes, {"x": (2, 3)}, ["y", "means"], known)


@pytest.mark.parametrize(("stop", "trips", "first"), [(99, 4, None), (2, 9, True), (3, None, True), (0, 5, None)])
def test_a_loop_ends_by_count_and_by_condition(
    tmp_path: Path, stop: int, trips: int | None, first: bool | None
) -> None:
    path = loop_model(tmp_path / "m.onnx", stop, trips, first)
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)

    y, means = agrees(path, x)

    assert y.shape == (2, 3 + min(stop + 1, 99 if trips is None else trips)) and means.shape == (y.shape[1] - 3,)


@pytest.mark.parametrize(("trips", "first"), [(0, True), (-3, None), (4, False)])
def test_a_loop_of_no_iteration_is_the_identity(tmp_path: Path, trips: int, first: bool | None) -> None:
    path = loop_model(tmp_path / "m.onnx", 9, trips, first)
    model = onnx.load(path)
    del model.graph.output[1]
    onnx.save(model, path)
    x = np.ones((2, 3), np.float32)

    np.testing.assert_array_equal(run(import_onnx(path), x)[0], x)


def test_what_no_iteration_makes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedOp, match=r"node 'loop' \(Loop\): an output of an iteration is read where there is none"
    ):
        import_onnx(loop_model(tmp_path / "m.onnx", 9, 0, None))


def test_a_condition_of_the_data_is_refused(tmp_path: Path) -> None:
    nodes = [
        node("ReduceSum", ["v"], ["s"], keepdims=0),
        node("Less", ["s", "most"], ["on"]),
        node("Add", ["v", "v"], ["w"]),
    ]
    inputs = [info("i", I64, []), info("go", BOOL, []), info("v", F32, None)]
    most = helper.make_tensor("most", F32, [], [10.0])
    body = graph(nodes, "body", inputs, [info("on", BOOL, []), info("w", F32, None)], [most])
    loop = node("Loop", ["trips", "", "x"], ["y"], "loop", body=body)
    path = save(tmp_path / "m.onnx", [loop], {"x": (2,)}, ["y"], [number("trips", 5)])

    with pytest.raises(
        UnsupportedOp, match=r"\(Loop\): its condition after iteration 1 is known only when the model runs"
    ):
        import_onnx(path)
    # The last iteration's condition is read by nobody.
    agrees(save(path, [loop], {"x": (2,)}, ["y"], [number("trips", 1)]), np.ones(2, np.float32))


def test_a_number_of_the_data_is_named(tmp_path: Path) -> None:
    nodes = [
        node("Cast", ["x"], ["trips"], to=I64),
        node("Loop", ["trips", "", "x"], ["y", ""], "l", body=growing_body(3)),
    ]
    known = [helper.make_tensor("scale", F32, [1], [0.25])]
    path = save(tmp_path / "m.onnx", nodes, {"x": (1, 1)}, ["y"], known)

    with pytest.raises(
        NeedsConstant, match=r"node 'l' \(Loop\): its input M \(%trips\) is known only when the model runs"
    ):
        import_onnx(path)


@pytest.mark.parametrize(("trips", "problem"), [(MOST_UNROLLED + 1, "1025 iterations or more"), (None, "or more")])
def test_a_loop_without_end_is_refused(tmp_path: Path, trips: int | None, problem: str) -> None:
    passed = [node("Identity", ["go"], ["on"]), node("Neg", ["v"], ["w"])]
    inputs = [info("i", I64, []), info("go", BOOL, []), info("v", F32, None)]
    body = graph(passed, "body", inputs, [info("on", BOOL, []), info("w", F32, None)])
    known = [] if trips is None else [number("trips", trips)]
    loop = node("Loop", ["" if trips is None else "trips", "", "x"], ["y"], "loop", body=body)
    path = save(tmp_path / "m.onnx", [loop], {"x": (2,)}, ["y"], known)

    with pytest.raises(UnsupportedOp, match=f"{problem}; supported: at most 1024"):
        import_onnx(path)


@settings(max_examples=examples(12, 5))
@given(st.integers(1, 4), st.integers(-3, 2), st.booleans(), st.integers(-3, 2), st.booleans(), st.integers(0, 1 << 20))
def test_scans_agree_with_onnxruntime(
    tmp_path_factory: Any, length: int, axis: int, back: bool, out_axis: int, out_back: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    shape = [2, 3]
    shape.insert(axis % 3, length)
    path = tmp_path_factory.mktemp("scan") / "m.onnx"
    scan_model(path, shape, axis, back, out_axis, out_back, random.standard_normal((3, 3)).astype(np.float32))

    agrees(path, *(random.standard_normal(s).astype(np.float32) for s in ((2, 3), shape)))


def test_weights_of_a_body_are_in_the_graph_once(tmp_path: Path) -> None:
    path = scan_model(tmp_path / "m.onnx", (4, 2, 3), 0, False, 0, False, np.eye(3, dtype=np.float32))
    assert len(import_onnx(path).constants) == 1


def test_a_loop_in_a_loop_sees_the_names_around_it(tmp_path: Path) -> None:
    inner = graph(
        [node("Add", ["w", "x"], ["w2"]), node("Identity", ["c2"], ["on2"])],  # x: of the graph around both
        "inner",
        [info("i2", I64, []), info("c2", BOOL, []), info("w", F32, None)],
        [info("on2", BOOL, []), info("w2", F32, None)],
    )
    outer = graph(
        [node("Loop", ["i", "", "v"], ["grown"], body=inner), node("Identity", ["c"], ["on"])],  # i iterations
        "outer",
        [info("i", I64, []), info("c", BOOL, []), info("v", F32, None)],
        [info("on", BOOL, []), info("grown", F32, None)],
    )
    nodes = [node("Loop", ["trips", "", "x"], ["y"], body=outer)]
    path = save(tmp_path / "m.onnx", nodes, {"x": (2,)}, ["y"], [number("trips", 4)])

    (y,) = agrees(path, np.array([1, 2], np.float32))
    np.testing.assert_array_equal(y, [7, 14])  # 1 + 0 + 1 + 2 + 3 times


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"num_scan_inputs": 0}, "num_scan_inputs 0 of 2 inputs"),
        ({"num_scan_inputs": 3}, "num_scan_inputs 3 of 2 inputs"),
        ({"scan_input_axes": [4]}, "axis 4 where a tensor of 3 dimensions has -3 to 2"),
        ({"scan_input_axes": [0, 1]}, "attribute scan_input_axes has 2 entries where 1 are needed"),
        ({"scan_output_axes": [9]}, "axis 9 where a tensor of 3 dimensions has -3 to 2"),
        ({"body": None}, "its attribute body is missing"),
    ],
)
def test_bad_scans_are_refused_with_a_reason(tmp_path: Path, attributes: dict[str, Any], problem: str) -> None:
    path = scan_model(tmp_path / "m.onnx", (4, 2, 3), 0, False, 0, False, np.eye(3, dtype=np.float32))
    model = onnx.load(path)
    (scan,) = model.graph.node
    kept = [a for a in scan.attribute if a.name not in attributes]
    del scan.attribute[:]
    scan.attribute.extend([*kept, *(helper.make_attribute(n, v) for n, v in attributes.items() if v is not None)])
    onnx.save(model, path)

    with pytest.raises(MavcgError, match=f"node 'scan' \\(Scan\\): {problem}"):
        import_onnx(path)
