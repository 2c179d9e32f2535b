"""Operators of whose results only a run decides the number, and those that read them, beside onnxruntime."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.graph.reference import run
from mavcg.importers.limits import UnsupportedOp
from mavcg.importers.onnx_file import import_model
from tests.conftest import examples
from tests.mavcg.importers.counted_models import Node, agrees, model_of, node


def sparse(seed: int, *shape: int, share: float = 0.5) -> Array:
    draw = np.random.default_rng(seed)
    return np.where(draw.random(shape) < share, draw.integers(-3, 4, shape), 0).astype(np.float32)


@given(st.lists(st.integers(1, 4), max_size=4), st.sampled_from([0.0, 0.4, 1.0]), st.integers(0, 99))
@settings(max_examples=examples(300, 20))
def test_places_of_what_is_not_zero(shape: list[int], share: float, seed: int) -> None:
    (made,) = agrees([node("NonZero", "x", "y")], {"x": sparse(seed, *shape, share=share)}, ["y"])
    assert made.shape[0] == max(1, len(shape))


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "uint8", "float32"])
def test_places_of_types(dtype: str) -> None:
    x = sparse(1, 3, 5).astype(dtype)
    agrees([node("NonZero", "x", "y")], {"x": x}, ["y"])


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.sampled_from([None, 0, 1, -1]), st.integers(0, 99))
@settings(max_examples=examples(300, 20))
def test_slices_where_a_condition_of_the_run_is_true(a: int, b: int, length: int, axis: int | None, seed: int) -> None:
    condition = np.random.default_rng(seed).random(length) < 0.6
    size = a * b if axis is None else (a, b)[axis]
    attrs = {} if axis is None else {"axis": axis}
    inputs = {"x": sparse(seed, a, b), "c": condition[:size]}
    agrees([node("Compress", "x c", "y", **attrs)], inputs, ["y"])


@given(
    st.integers(1, 12),
    st.integers(1, 3),
    st.sampled_from([None, 0, 1]),
    st.booleans(),
    st.integers(1, 4),
    st.integers(0, 99),
)
@settings(max_examples=examples(300, 25))
def test_unique_agrees_with_onnxruntime(a: int, b: int, axis: int | None, ordered: bool, kinds: int, seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, kinds, (a, b)).astype(np.float32)
    attrs = {"sorted": int(ordered)} | ({} if axis is None else {"axis": axis})
    agrees([node("Unique", "x", "y first number count", **attrs)], {"x": x}, ["y", "first", "number", "count"])


@pytest.mark.parametrize("dtype", ["int8", "int64", "float64"])
def test_different_elements_of_types(dtype: str) -> None:
    x = np.random.default_rng(1).integers(-3, 3, 40).astype(dtype)
    agrees([node("Unique", "x", "y first number count")], {"x": x}, ["y", "first", "number", "count"])


def boxes_of(seed: int, batch: int, classes: int, count: int) -> dict[str, Array]:
    """Boxes of whole corners, of which many overlap, and scores of which some are equal."""
    draw = np.random.default_rng(seed)
    corners = draw.integers(0, 9, (batch, count, 2, 2))
    boxes = np.concatenate([corners.min(2), corners.max(2) + 1], -1).astype(np.float32)
    return {"boxes": boxes, "scores": (draw.integers(0, 9, (batch, classes, count)) / 8).astype(np.float32)}


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 20)),
    st.integers(0, 25),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    st.sampled_from([None, 0.0, 0.5, 2.0]),
    st.booleans(),
    st.integers(0, 99),
)
@settings(max_examples=examples(400, 30))
def test_non_max_suppression_agrees_with_onnxruntime(
    sizes: tuple[int, int, int], most: int, overlap: float, least: float | None, centred: bool, seed: int
) -> None:
    known = {"most": np.array([most]), "overlap": np.array([overlap], np.float32)}
    known |= {} if least is None else {"least": np.array([least], np.float32)}
    names = " ".join(["boxes scores", *known])
    suppression = node("NonMaxSuppression", names, "y", center_point_box=int(centred))
    agrees([suppression], boxes_of(seed, *sizes), ["y"], known)


@given(st.integers(-1, 30), st.floats(0, 1, width=32), st.integers(0, 99))
@settings(max_examples=examples(200, 10))
def test_limits_of_the_run(most: int, overlap: float, seed: int) -> None:
    inputs = boxes_of(seed, 1, 2, 15) | {
        "most": np.array([most]),
        "overlap": np.array([overlap], np.float32),
        "least": np.array([0.25], np.float32),
    }
    agrees([node("NonMaxSuppression", " ".join(inputs), "y")], inputs, ["y"])


LIMITS = {"most": np.array([4]), "overlap": np.array([0.3], np.float32), "least": np.array([0.4], np.float32)}


@pytest.mark.parametrize("least", [0.1, 0.8, 5.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_detector_ends_as_exporters_write_it(least: float, seed: int) -> None:
    """Boxes, scores and classes of what remains, joined as rows: the first 3 of them, and their number."""
    nodes = [
        node("NonMaxSuppression", "boxes scores most overlap least", "kept"),
        node("Gather", "kept one", "class", axis=1),
        node("Gather", "kept two", "number", axis=1),
        node("Squeeze", "boxes axis", "all_boxes"),
        node("Gather", "all_boxes number", "its_boxes"),
        node("GatherND", "scores kept_scores", "its_scores"),
        node("Unsqueeze", "its_scores last", "score_column"),
        node("Cast", "class", "class_f", to=1),
        node("Reshape", "class_f column", "class_column"),
        node("Concat", "its_boxes score_column class_column", "rows", axis=1),
        node("Mul", "rows scale", "scaled"),
        node("ReduceMax", "scaled", "largest", axes=[1], keepdims=0),
        node("Transpose", "scaled", "turned"),
        node("Slice", "scaled zero three zero_axis", "first"),
        node("Shape", "rows", "shape"),
        node("Size", "rows", "size"),
    ]
    nodes[5].input[:] = ["scores", "kept"]
    known = LIMITS | {
        "least": np.array([least], np.float32),
        "one": np.array(1),
        "two": np.array(2),
        "axis": np.array([0]),
        "last": np.array([1]),
        "column": np.array([-1, 1]),
        "scale": np.array([1, 2, 3, 4, 5, 6], np.float32),
        "zero": np.array([0]),
        "three": np.array([3]),
        "zero_axis": np.array([0]),
    }
    outputs = ["rows", "largest", "turned", "first", "shape", "size"]
    made = agrees(nodes, boxes_of(seed, 1, 3, 20), outputs, known)
    assert made[0].shape[1] == 6 and made[2].shape[1] == made[0].shape[0] and len(made[3]) == min(3, len(made[0]))


def test_what_two_operators_find_is_joined() -> None:
    nodes = [
        node("Compress", "x c", "a", axis=0),
        node("Compress", "x d", "b", axis=0),
        node("Concat", "a x b", "y", axis=0),
        node("MatMul", "y w", "z"),
        node("Softmax", "z", "s", axis=1),
    ]
    for seed in range(4):
        draw = np.random.default_rng(seed)
        inputs = {"x": sparse(seed, 5, 3), "c": draw.random(5) < 0.5, "d": draw.random(5) < 0.5}
        agrees(nodes[:4], inputs, ["y", "z"], {"w": sparse(9, 3, 2)})


def test_boxes_of_which_a_run_decides_the_number() -> None:
    """Boxes with a good score alone are compared: a count goes into NonMaxSuppression."""
    nodes = [
        node("Compress", "boxes good", "b", axis=1),
        node("Compress", "scores good", "s", axis=2),
        node("NonMaxSuppression", "b s most overlap least", "y"),
    ]
    joined = [
        node("Compress", "flat good", "b1", axis=0),
        node("Unsqueeze", "b1 axis", "b"),
        node("Compress", "line good", "s1", axis=0),
        node("Unsqueeze", "s1 axes", "s"),
        node("NonMaxSuppression", "b s most overlap least", "y"),
    ]
    for seed in range(4):
        given = boxes_of(seed, 1, 1, 12)
        good = np.random.default_rng(seed).random(12) < 0.7
        agrees(nodes, given | {"good": good}, ["y"], LIMITS)
        inputs = {"flat": given["boxes"][0], "line": given["scores"][0, 0], "good": good}
        agrees(joined, inputs, ["y"], LIMITS | {"axis": np.array([0]), "axes": np.array([0, 1])})


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("ReduceSum", "a", "y")], "reduce_sum where only a run decides the length of axis 0"),
        ([node("Softmax", "a", "y", axis=0)], "softmax where only a run decides the length of axis 0"),
        ([node("Add", "a a2", "y")], "of which only a run decides that their lengths are equal"),
        ([node("Add", "a x", "y")], "of which only a run decides that their lengths are equal"),
        ([node("Reshape", "a fixed", "y")], "one with -1, or 0 for that axis"),
        ([node("Reshape", "a wide", "y")], "only a run decides the length of axis 0"),
        ([node("Slice", "a minus end", "y")], "positions from the beginning"),
        ([node("Split", "a", "y y2", axis=0)], "slice where only a run decides the length of axis 0"),
        ([node("GatherElements", "a pair", "y", axis=0)], "only a run decides the length of axis 0"),
        ([node("CumSum", "a zero", "y", reverse=1)], "cumulative_sum where only a run decides the length of axis 0"),
        ([node("Tile", "a twice", "y")], "only a run decides the length of axis 1"),
        ([node("Trilu", "a", "y")], "of which only a run decides that their lengths are equal"),
        ([node("EyeLike", "a", "y")], "a shape that only a run decides"),
        ([node("Unique", "a", "y")], "data of which only a run decides the length"),
    ],
)
def test_operators_that_need_the_length_are_refused_by_name(nodes: list[Node], words: str) -> None:
    known = {
        "fixed": np.array([6, 4]),
        "wide": np.array([2, -1]),
        "minus": np.array([-2]),
        "end": np.array([6]),
        "pair": np.array([[1, 1]]),
        "zero": np.array(0),
        "twice": np.array([2, 1]),
    }
    made = [node("Compress", "x c", "a", axis=0), node("Compress", "x d", "a2", axis=0)]
    x = sparse(0, 6, 4)
    inputs = {"x": x, "c": np.ones(6, np.bool_), "d": np.ones(6, np.bool_)}
    with pytest.raises((UnsupportedOp, MavcgError), match=words) as raised:
        import_model(model_of([*made, *nodes], inputs, ["y"], known), Path("m.onnx"))
    assert "node 'y'" in str(raised.value)


def test_elements_of_what_a_run_finds_are_read_by_index() -> None:
    """From the beginning and the end; by indices of which it finds the number, too."""
    nodes = [
        node("Compress", "x c", "a", axis=0),
        node("Gather", "a i", "y"),
        node("Compress", "i d", "some", axis=0),
        node("Gather", "a some", "z"),
    ]
    x = sparse(0, 6, 4)
    for flags, places in (([1, 0, 1, 1, 0, 0], [2, -3, 0]), ([0, 0, 0, 0, 1, 0], [0, -1, 0])):
        inputs = {"x": x, "c": np.array(flags, np.bool_), "i": np.array(places), "d": np.array([0, 1, 1], np.bool_)}
        agrees(nodes, inputs, ["y", "z"])
    graph = import_model(model_of(nodes, inputs, ["y", "z"], {}), Path("m.onnx"))
    for index in (1, -2, 6):
        with pytest.raises(MavcgError, match="of a dimension with"):
            run(graph, x, inputs["c"], np.array([0, index, 0]), inputs["d"])
    none = run(graph, x, inputs["c"], np.array([0, -1, 0]), np.zeros(3, np.bool_))
    assert graph.present(none)[1].shape == (0, 4)


@pytest.mark.parametrize("ratio", [0, 2])
def test_regions_that_remain_are_pooled_and_convolved(ratio: int) -> None:
    """A network with masks pools and convolves the regions of its boxes, whose number a run decides."""
    nodes = [
        node("NonMaxSuppression", "boxes scores most overlap least", "kept"),
        node("Gather", "kept two", "number", axis=1),
        node("Gather", "kept zero_index", "image", axis=1),
        node("Squeeze", "boxes axis", "all_boxes"),
        node("Gather", "all_boxes number", "regions"),
        node("RoiAlign", "x regions image", "pooled", output_height=3, output_width=3, sampling_ratio=ratio),
        node("Conv", "pooled w", "filtered", pads=[1, 1, 1, 1]),
        node("Relu", "filtered", "rectified"),
        node("ReduceMean", "rectified", "means", axes=[2, 3], keepdims=0),
        node("MatMul", "means to_classes", "y"),
    ]
    draw = np.random.default_rng(0)
    known = LIMITS | {"two": np.array(2), "zero_index": np.array(0), "axis": np.array([0])}
    known |= {"w": sparse(1, 5, 4, 3, 3), "to_classes": sparse(2, 5, 2)}
    for seed in (1, 2):
        inputs = boxes_of(seed, 1, 2, 12) | {"x": draw.standard_normal((1, 4, 10, 10)).astype(np.float32)}
        model = model_of(nodes, inputs, ["y"], known)
        graph = import_model(model, Path("m.onnx"))
        (have,) = graph.present(run(graph, *inputs.values()))
        (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, dict(inputs))
        assert have.shape == want.shape and len(have) > 1
        np.testing.assert_allclose(have, want, 1e-4, 1e-4)
