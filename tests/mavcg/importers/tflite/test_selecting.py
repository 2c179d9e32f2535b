"""Operators that choose elements and boxes, against LiteRT."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.graph.reference import run
from mavcg.importers.tflite_file import import_tflite
from tests.mavcg.importers.tflite.conftest import Writer, litert

Array = NDArray[Any]
I32 = np.int32


def results(folder: Path, writer: Writer, outputs: list[int], *arrays: Array) -> tuple[list[Array], list[Array]]:
    """Return the outputs of a model by the reference here, and by LiteRT."""
    data = writer.bytes(*outputs)
    (folder / "m.tflite").write_bytes(data)
    graph = import_tflite(folder / "m.tflite")
    return list(graph.present(run(graph, *arrays))), litert(data, list(arrays))


def assert_equal(have: list[Array], want: list[Array]) -> None:
    for ours, theirs in zip(have, want, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and np.array_equal(ours, theirs)


@pytest.mark.parametrize("share", [0.4, 1.0])
@pytest.mark.parametrize(("shape", "dtype"), [((7,), "bool"), ((3, 4), "f32"), ((2, 3, 2), "i32")])
def test_places_of_what_is_not_zero(tmp_path: Path, shape: tuple[int, ...], dtype: str, share: float) -> None:
    x = np.random.default_rng(1).random(shape) < share
    array = (
        x
        if dtype == "bool"
        else (x * np.random.default_rng(2).integers(1, 9, shape)).astype({"f32": np.float32, "i32": I32}[dtype])
    )
    writer = Writer()
    made = writer.op("WHERE", [writer.input(shape, dtype)], "i64", "WhereOptions")
    assert_equal(*results(tmp_path, writer, [made], array))


def test_places_where_all_is_zero(tmp_path: Path) -> None:
    """LiteRT's interpreter has no array without elements."""
    writer = Writer()
    made = writer.op("WHERE", [writer.input((3, 4))], "i64", "WhereOptions")
    (tmp_path / "m.tflite").write_bytes(writer.bytes(made))
    graph = import_tflite(tmp_path / "m.tflite")
    (places,) = graph.present(run(graph, np.zeros((3, 4), np.float32)))
    assert places.shape == (0, 2)


@pytest.mark.parametrize("length", [1, 2, 9, 40])
def test_unique_agrees_with_litert(tmp_path: Path, length: int) -> None:
    x = np.random.default_rng(length).integers(0, 6, length).astype(np.float32)
    writer = Writer()
    made = writer.ops("UNIQUE", [writer.input((length,))], ["f32", "i32"], "UniqueOptions", idxOutType=2)
    assert_equal(*results(tmp_path, writer, made, x))


def boxes_of(seed: int, count: int) -> tuple[Array, Array]:
    """Boxes of whole corners, of which many overlap, and different scores."""
    draw = np.random.default_rng(seed)
    corners = draw.integers(0, 9, (count, 2, 2))
    boxes = np.concatenate([corners.min(1), corners.max(1) + 1], -1).astype(np.float32)
    return boxes, (draw.permutation(count) / count).astype(np.float32)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(
    ("count", "most", "overlap", "least"),
    [
        (20, 5, 0.5, 0.0),
        (20, 30, 0.25, 0.3),
        (20, 20, 0.9, -1.0),
        (7, 3, 0.5, 2.0),
        (9, 0, 0.5, 0.0),
        (12, 12, 0.1, 0.1),
    ],
)
def test_boxes_that_remain(tmp_path: Path, version: int, count: int, most: int, overlap: float, least: float) -> None:
    boxes, scores = boxes_of(count + most, count)
    writer = Writer()
    inputs = [writer.input((count, 4)), writer.input((count,)), writer.constant(np.array(most, I32))]
    inputs += [writer.constant(np.array(v, np.float32)) for v in (overlap, least, *([0.0] if version == 5 else []))]
    outs = ["i32", "f32", "i32"] if version == 5 else ["i32", "i32"]
    made = writer.ops(f"NON_MAX_SUPPRESSION_V{version}", inputs, outs, f"NonMaxSuppressionV{version}Options")
    assert_equal(*results(tmp_path, writer, made, boxes, scores))


def test_soft_suppression_is_refused(tmp_path: Path) -> None:
    writer = Writer()
    inputs = [writer.input((5, 4)), writer.input((5,)), writer.constant(np.array(3, I32))]
    inputs += [writer.constant(np.array(v, np.float32)) for v in (0.5, 0.0, 0.7)]
    made = writer.ops("NON_MAX_SUPPRESSION_V5", inputs, ["i32", "f32", "i32"], "NonMaxSuppressionV5Options")
    (tmp_path / "m.tflite").write_bytes(writer.bytes(*made))
    with pytest.raises(MavcgError, match="soft_nms_sigma"):
        import_tflite(tmp_path / "m.tflite")


def test_places_are_read_by_other_operators(tmp_path: Path) -> None:
    """Elements at places whose number a run decides are gathered, doubled and returned."""
    for seed in range(3):
        x = (np.random.default_rng(seed).integers(0, 3, (4, 5))).astype(np.float32)
        writer = Writer()
        data = writer.input((4, 5))
        places = writer.op("WHERE", [data], "i64", "WhereOptions")
        found = writer.op("GATHER_ND", [data, places], "f32", "GatherNdOptions")
        made = writer.op("MUL", [found, writer.constant(np.float32(2))], "f32", "MulOptions")
        assert_equal(*results(tmp_path, writer, [made], x))
