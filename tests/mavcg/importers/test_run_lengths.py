"""Ranges, largest elements and pads whose numbers a run brings, beside onnxruntime and LiteRT."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.graph.reference import run
from mavcg.importers import counted
from mavcg.importers.emitter import Emitter
from mavcg.importers.limits import NeedsConstant
from mavcg.importers.onnx_file import import_model
from mavcg.importers.run_numbers import RunNumber, numbers_of
from mavcg.importers.tflite_file import import_tflite
from mavcg.importers.value import Value
from tests.conftest import examples
from tests.mavcg.importers.counted_models import Node, agrees, model_of, node
from tests.mavcg.importers.tflite.conftest import Writer, litert

X = np.random.default_rng(0).integers(-9, 9, (3, 5, 4)).astype(np.float32)
NUMBERS = {"zero": np.array(0), "one": np.array(1), "two": np.array([2]), "seven": np.array(7), "axis": np.array([0])}


def graph_of(nodes: list[Node], inputs: dict[str, Array], known: dict[str, Array], outputs: str = "y") -> Any:
    return import_model(model_of(nodes, inputs, outputs.split(), known), Path("m.onnx"))


@given(st.integers(-9, 30), st.integers(-4, 6), st.sampled_from([-3, -1, 1, 2]), st.sampled_from(["int32", "int64"]))
@settings(max_examples=examples(200, 8))
def test_ranges_of_bounded_numbers(limit: int, start: int, step: int, dtype: str) -> None:
    nodes = [
        node("Min", "n most", "limit"),
        node("Max", "limit least", "end"),
        node("Mod", "s six", "begin"),
        node("Range", "begin end step", "y"),
        node("Mul", "y step", "z"),
    ]
    known = {"most": 20, "least": -5, "six": 6, "step": step}
    constants = {name: np.array(number, dtype) for name, number in known.items()}
    agrees(nodes, {"n": np.array(limit, dtype), "s": np.array(start, dtype)}, ["y", "z"], constants)


def test_a_range_as_long_as_what_a_run_finds() -> None:
    nodes = [
        node("Compress", "x c", "a", axis=0),
        node("Shape", "a", "shape"),
        node("Gather", "shape zero", "n"),
        node("Range", "zero n one", "y"),
        node("Cast", "y", "f", to=1),
    ]
    for flags in ([1, 0, 1], [0, 0, 0], [1, 1, 1]):
        agrees(nodes, {"x": X, "c": np.array(flags, np.bool_)}, ["y", "f", "a"], NUMBERS)


@pytest.mark.parametrize("step", [1, 2, -1])
def test_a_range_of_a_known_length_has_no_count(step: int) -> None:
    nodes = [node("Add", "s seven", "e"), node("Range", "s e step", "y")]
    made = agrees(nodes, {"s": np.array(-2)}, ["y"], NUMBERS | {"step": np.array(step)})
    assert len(made[0]) == (0 if step < 0 else -(-7 // step))
    assert graph_of(nodes, {"s": np.array(-2)}, NUMBERS | {"step": np.array(step)}).counts == ()


@given(st.integers(0, 2), st.integers(0, 5), st.booleans(), st.sampled_from(["float32", "int64"]), st.booleans())
@settings(max_examples=examples(200, 8))
def test_as_many_elements_as_a_run_brings(axis: int, count: int, largest: bool, dtype: str, bounded: bool) -> None:
    count = min(count, X.shape[axis], *([2] if bounded else []))
    nodes = [
        node("Min", "k two", "few"),
        node("TopK", f"x {'few' if bounded else 'k'}", "y i", axis=axis, largest=int(largest)),
    ]
    made = agrees(nodes[not bounded :], {"x": X.astype(dtype), "k": np.array([count])}, ["y", "i"], NUMBERS)
    assert made[0].shape[axis] == count


def test_the_best_of_those_that_a_run_finds() -> None:
    """Scores above a limit, of which the best three, or all if there are fewer, remain with their boxes."""
    nodes = [
        node("Greater", "s limit", "good"),
        node("Compress", "s good", "scores", axis=0),
        node("Compress", "boxes good", "chosen", axis=0),
        node("Shape", "scores", "n"),
        node("Min", "n three", "k"),
        node("TopK", "scores k", "y i", axis=0),
        node("Gather", "chosen i", "z"),
    ]
    known = {"limit": np.array(0.5, np.float32), "three": np.array([3])}
    for seed, low in ((0, 0.0), (1, 0.3), (2, 0.6), (3, -1.0)):
        scores = np.random.default_rng(seed).random(8).astype(np.float32) * 0.9 + np.float32(low) - 0.3
        boxes = np.random.default_rng(seed).random((8, 4)).astype(np.float32)
        agrees(nodes, {"s": scores.astype(np.float32), "boxes": boxes}, ["y", "i", "z"], known)


@pytest.mark.parametrize("count", [-1, 6])
def test_more_elements_than_there_are_end_the_run(count: int) -> None:
    graph = graph_of([node("TopK", "x k", "y i", axis=1)], {"x": X, "k": np.array([1])}, {}, "y i")
    with pytest.raises(MavcgError, match="of a dimension with"):
        run(graph, X, np.array([count]))


@given(
    st.integers(0, 4), st.integers(0, 4), st.sampled_from(["constant", "edge", "reflect", "wrap"]), st.integers(0, 1)
)
@settings(max_examples=examples(200, 8))
def test_pads_of_bounded_numbers(before: int, after: int, mode: str, other: int) -> None:
    """Both of an axis that a run brings; those of another one are constants of the file."""
    nodes = [
        node("Min", "p most", "few"),
        node("Split", "few", "b a"),
        node("Concat", "other b zeros a", "pads", axis=0),
        node("Pad", f"x pads{' seven_f' if mode == 'constant' else ''}", "y", mode=mode),
    ]
    known = {"most": np.array([4, 4]), "other": np.array([other]), "zeros": np.array([0, 0])}
    known |= {"seven_f": np.array(7, np.float32)} if mode == "constant" else {}
    nodes[2].input[:] = ["other", "b", "last", "other", "a", "last"]
    known = {**known, "last": np.array([0])}
    del known["zeros"]
    agrees(nodes, {"x": X, "p": np.array([before, after])}, ["y"], known)


def test_negative_pads_remove_elements() -> None:
    nodes = [
        node("Clip", "p least most", "few"),
        node("Concat", "few other", "pads", axis=0),
        node("Pad", "x pads", "y"),
    ]
    known = {"least": np.array(-2), "most": np.array(3), "other": np.array([1])}
    for before in (-2, -1, 0, 3):
        agrees(nodes, {"x": X[0, :, 0], "p": np.array([before])}, ["y"], known)


def test_what_a_run_finds_is_padded_to_a_fixed_length() -> None:
    """Rows that remain are followed by zeros up to ten: a tensor of a fixed shape, as detectors end."""
    nodes = [
        node("Compress", "x c", "a", axis=0),
        node("Shape", "a", "shape"),
        node("Gather", "shape first", "n"),
        node("Sub", "ten n", "rest"),
        node("Concat", "none rest none", "pads", axis=0),
        node("Pad", "a pads", "y"),
        node("ReduceSum", "y axis", "sum"),
        node("Pad", "a fixed", "z"),
    ]
    nodes[4].input[:] = ["none", "none", "rest", "none"]
    known = {"first": np.array([0]), "ten": np.array([10]), "none": np.array([0]), "axis": np.array([0])}
    known["fixed"] = np.array([1, 1, 2, 0])
    x = X.reshape(12, 5)
    for share in (0.0, 0.4, 1.0):
        flags = np.random.default_rng(1).random(12) < share
        flags[10:] = False
        made = agrees(nodes, {"x": x, "c": flags}, ["y", "sum", "z"], known)
        assert made[0].shape == (10, 5) and made[2].shape == (flags.sum() + 3, 6)
    graph = graph_of(nodes, {"x": x, "c": flags}, known, "y sum z")
    assert [count.output for count in graph.counts] == ["z"]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("Range", "zero n one", "y")], r"its input limit \(%n\) is known only .* bound it, as by Min"),
        ([node("Range", "zero f_n one_f", "y")], "scalars of one type"),
        ([node("Range", "zero_f f_n one_f", "y")], "supported: a range of i32 or i64"),
        ([node("Pad", "x pads", "y")], r"its input pads \(%pads\) is known only .* bound it, as by Min"),
        ([node("Min", "pads few", "p"), node("Pad", "x p", "y")], "two axes of which only a run decides"),
        ([node("TopK", "long k", "y i")], r"its input K \(%k\) is known only .* 2 to 16384"),
    ],
)
def test_numbers_without_a_bound_are_refused_by_name(nodes: list[Node], words: str) -> None:
    inputs = {
        "n": np.array(3),
        "f_n": np.array(3, np.float32),
        "x": X,
        "pads": np.zeros(6, np.int64),
        "k": np.array([2]),
        "long": np.zeros(20000, np.float32),
    }
    known = NUMBERS | {"one_f": np.array(1, np.float32), "zero_f": np.array(0, np.float32), "few": np.full(6, 3)}
    with pytest.raises(MavcgError, match=words) as raised:
        graph_of(nodes, inputs, known)
    assert isinstance(raised.value, NeedsConstant) or "one type" in words


FOUND = [node("Compress", "x c", "a", axis=0), node("Shape", "a", "shape"), node("Gather", "shape zero_axis", "n")]
FLAGS = ([1, 0, 1], [0, 0, 0], [1, 1, 1])
SHAPES = {"zero_axis": np.array([0]), "four": np.array([4]), "ten": np.array([10]), "none": np.array([0])}


def test_shapes_with_the_length_of_what_a_run_finds() -> None:
    """Shapes that join the first entry of another one with constants, as exporters write them."""
    nodes = [
        *FOUND,
        node("Concat", "n twenty", "flat_shape", axis=0),
        node("Reshape", "a flat_shape", "flat"),
        node("Mul", "n five", "rows"),
        node("Concat", "rows four", "long_shape", axis=0),
        node("Reshape", "a long_shape", "long"),
        node("Concat", "n five four", "same_shape", axis=0),
        node("Expand", "a same_shape", "same"),
        node("Expand", "row flat_shape", "wide"),
        node("ConstantOfShape", "flat_shape", "zeros"),
        node("Concat", "n one_list", "times", axis=0),
        node("Tile", "pair times", "tiled"),
        node("Add", "flat wide", "sum"),
    ]
    known = SHAPES | {"five": np.array([5]), "twenty": np.array([20]), "one_list": np.array([1])}
    known |= {"row": np.arange(20, dtype=np.float32), "pair": np.arange(6, dtype=np.float32).reshape(2, 3)}
    outputs = ["flat", "long", "same", "wide", "zeros", "tiled", "sum"]
    for flags in FLAGS:
        agrees(nodes, {"x": X, "c": np.array(flags, np.bool_)}, outputs, known)


@pytest.mark.parametrize("number", [-1, 0, 1, 5, 9])
def test_repeats_and_lengths_of_bounded_numbers(number: int) -> None:
    nodes = [
        node("Clip", "n zero five", "few"),
        node("Concat", "one few one", "repeats", axis=0),
        node("Tile", "x repeats", "y"),
        node("Concat", "three few", "shape", axis=0),
        node("Expand", "column shape", "z"),
        node("ConstantOfShape", "shape", "o", value=onnx.numpy_helper.from_array(np.array([7]))),
    ]
    nodes[1].input[:] = ["one", "few", "one"]
    known = {"zero": np.array(0), "five": np.array(5), "one": np.array([1]), "three": np.array([3])}
    known["column"] = np.arange(3, dtype=np.float32).reshape(3, 1)
    agrees(nodes, {"x": X, "n": np.array([number])}, ["y", "z", "o"], known)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([*FOUND, node("Concat", "n n", "s", axis=0), node("Reshape", "a s", "y")], r"shape \(%s\) .* several lengths"),
        (
            [*FOUND, node("Concat", "n four", "s", axis=0), node("Reshape", "a s", "y")],
            "that of the tensor, where only",
        ),
        ([node("Concat", "k four", "s", axis=0), node("Expand", "four s", "y")], "of which nothing says how large"),
        ([node("Concat", "k four", "s", axis=0), node("ConstantOfShape", "s", "y")], "of which nothing says how large"),
        (
            [node("Min", "k ten", "m"), node("Concat", "m four", "s", axis=0), node("Expand", "two s", "y")],
            "of 1 there",
        ),
        ([node("Tile", "four k", "y")], r"repeats \(%k\) is known only .* of which nothing says how large"),
    ],
)
def test_other_shapes_of_a_run_are_refused_by_name(nodes: list[Node], words: str) -> None:
    inputs = {"x": X, "c": np.ones(3, np.bool_), "k": np.array([2])}
    with pytest.raises(NeedsConstant, match=words):
        graph_of(nodes, inputs, SHAPES | {"two": np.zeros((2, 1), np.int64)})


def bounded(writer: Writer, shape: tuple[int, ...], most: int) -> int:
    """An i32 input that a MINIMUM bounds."""
    return writer.op("MINIMUM", [writer.input(shape, "i32"), writer.constant(np.array(most, np.int32))], "i32")


def beside_litert(path: Path, writer: Writer, outputs: list[int], *arrays: Array) -> list[Array]:
    data = writer.bytes(*outputs)
    path.write_bytes(data)
    graph = import_tflite(path)
    have = graph.present(run(graph, *arrays))
    if not have[0].size:  # LiteRT's Python returns no array without elements
        with pytest.raises(ValueError, match="Invalid tensor size"):
            litert(data, list(arrays))
        return list(have)
    want = litert(data, list(arrays))
    for ours, theirs in zip(have, want, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and np.array_equal(ours, theirs)
    return list(have)


@pytest.mark.parametrize("limit", [1, 2, 5, 9, 40])
def test_ranges_and_largest_elements_of_tflite(limit: int, tmp_path: Path) -> None:
    writer = Writer()
    numbers = [writer.constant(np.array(n, np.int32)) for n in (1, 3)]
    range_of = writer.op("RANGE", [numbers[0], bounded(writer, (), 12), numbers[1]], "i32", "RangeOptions")
    beside_litert(tmp_path / "m.tflite", writer, [range_of], np.array(limit, np.int32))
    if 0 <= limit <= 5:
        writer = Writer()
        top = writer.ops("TOPK_V2", [writer.input((2, 5)), writer.input((), "i32")], ["f32", "i32"], "TopKV2Options")
        beside_litert(
            tmp_path / "m.tflite", writer, top, X[0, :4].T[:2].copy().repeat(2, 1)[:, :5], np.array(limit, np.int32)
        )


@pytest.mark.parametrize("pads", [(0, 0), (1, 0), (3, 2), (9, 1)])
@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_paddings_of_tflite(pads: tuple[int, int], dtype: str, tmp_path: Path) -> None:
    writer = Writer()
    x = writer.input((3, 5), dtype, 0.5 if dtype == "i8" else None, 3)
    rows = bounded(writer, (1, 2), 4)
    paddings = writer.op("CONCATENATION", [rows, writer.constant([[1, 0]])], "i32", "ConcatenationOptions")
    padded = writer.op("PAD", [x, paddings], dtype if dtype == "f32" else (dtype, 0.5, 3), "PadOptions")
    array = X[:, :, 0] if dtype == "f32" else X[:, :, 0].astype(np.int8)
    beside_litert(tmp_path / "m.tflite", writer, [padded], array, np.array([pads], np.int32))


@pytest.mark.parametrize(
    ("begin", "end", "masks"),
    [
        ((1, 0, 0), (0, 3, 0), {"beginMask": 6, "endMask": 5}),
        ((0, 2, 0), (0, 4, 0), {"beginMask": 5, "endMask": 5}),
        ((0, -4, 0), (3, -1, 4), {"beginMask": 1}),
        ((2, 1, 3), (0, 0, 0), {"endMask": 2, "shrinkAxisMask": 5}),
        ((0, 3, -1), (0, 1, 0), {"beginMask": 1, "endMask": 1, "shrinkAxisMask": 4}),
    ],
)
def test_strided_slices_of_tflite(
    begin: tuple[int, ...], end: tuple[int, ...], masks: dict[str, int], tmp_path: Path
) -> None:
    """Begin and end are joined from constants and one number of the run, that of axis 1."""
    writer = Writer()
    x, runs, lists = writer.input(X.shape), [], []
    for numbers in (begin, end):
        middle = writer.input((1,), "i32")
        parts = [writer.constant([numbers[0]]), middle, writer.constant([numbers[2]])]
        lists.append(writer.op("CONCATENATION", parts, "i32", "ConcatenationOptions"))
        runs.append(np.array([numbers[1]], np.int32))
    inputs = [x, *lists, writer.constant([1, 1, 1])]
    made = writer.op("STRIDED_SLICE", inputs, "f32", "StridedSliceOptions", **masks)
    beside_litert(tmp_path / "m.tflite", writer, [made], X, *runs)


def test_other_strided_slices_of_a_run_are_refused_by_name(tmp_path: Path) -> None:
    writer = Writer()
    inputs = [writer.input((4, 5)), writer.input((2,), "i32"), writer.constant([4, 5]), writer.constant([1, 2])]
    made = writer.op("STRIDED_SLICE", inputs, "f32", "StridedSliceOptions")
    (tmp_path / "m.tflite").write_bytes(writer.bytes(made))
    with pytest.raises(MavcgError, match="its input begin is known only when the model runs; supported: strides of 1"):
        import_tflite(tmp_path / "m.tflite")


@pytest.mark.parametrize("flags", FLAGS)
def test_shapes_of_what_a_run_finds_of_tflite(flags: list[int], tmp_path: Path) -> None:
    """The places of flags that are true; their shape, and tensors of it."""
    writer = Writer()
    places = writer.op("WHERE", [writer.input((3,), "bool")], "i64", "WhereOptions")
    shape = writer.op("SHAPE", [places], "i32", "ShapeOptions", outType=2)
    zero, one = writer.constant([0]), writer.constant([1])
    number = writer.op("SLICE", [shape, zero, one], "i32", "SliceOptions")
    pair = writer.op("CONCATENATION", [number, writer.constant([2])], "i32", "ConcatenationOptions")
    rows, columns = (writer.constant(np.array(numbers, np.float32)) for numbers in ([3, 4], [1, 2]))
    outputs = [
        shape,
        writer.op("FILL", [pair, writer.constant(np.array(7, np.float32))], "f32", "FillOptions"),
        writer.op("BROADCAST_TO", [rows, pair], "f32", "BroadcastToOptions"),
        writer.op("TILE", [columns, number], "f32", "TileOptions"),
        writer.op("RESHAPE", [places, number], "i64"),
    ]
    if any(flags):
        beside_litert(tmp_path / "m.tflite", writer, outputs, np.array(flags, np.bool_))


def test_many_counts_are_compared_by_what_they_are_computed_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number is compared with counts of the same elements, not with all."""
    nodes = [node("Compress", f"x c{i}", f"y{i}", axis=0) for i in range(40)]
    inputs = {"x": X} | {f"c{i}": np.ones(3, np.bool_) for i in range(40)}
    looked: list[Value] = []

    def numbers(emitter: Emitter, value: Value) -> list[RunNumber]:
        looked.append(value)
        return numbers_of(emitter, value)

    monkeypatch.setattr(counted, "numbers_of", numbers)
    graph = graph_of(nodes, inputs, {}, " ".join(f"y{i}" for i in range(40)))
    assert len(graph.counts) == 40 and len(looked) < 3 * 40
