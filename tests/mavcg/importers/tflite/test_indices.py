"""Gather and scatter of TFLite files by indices that a run brings, against LiteRT."""

import math
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
X = np.random.default_rng(3).standard_normal((2, 5, 4, 3)).astype(np.float32)
I32 = np.int32


def compare(folder: Path, name: str, arrays: list[Array], known: list[Array], options: str = "", **fields: Any) -> None:
    """A model of one operator, whose inputs come from a run but for the last, which are known."""
    writer = Writer()
    inputs = [writer.input(a.shape, {"f": "f32", "i": f"i{8 * a.itemsize}"}[a.dtype.kind]) for a in arrays]
    y = writer.op(name, [*inputs, *map(writer.constant, known)], "f32", options, **fields)
    data = writer.bytes(y)
    (folder / "m.tflite").write_bytes(data)
    (have,), (want,) = run(import_tflite(folder / "m.tflite"), *arrays), litert(data, arrays)
    assert have.shape == want.shape and np.abs(have - want).max() <= 1e-6


@pytest.mark.parametrize(
    ("indices", "axis", "batch"),
    [
        (np.array([4, 0, 4], I32), 1, 0),
        (np.array([[2, 0], [1, 1]], np.int64), 3, 0),
        (np.array([[4, 0, 4], [1, 2, 3]], I32), 1, 1),
        (np.array([[3, 0], [1, 2]], I32), 2, 1),
        (np.array([1, 0], I32), 2, 1),
    ],
)
def test_gather(tmp_path: Path, indices: Array, axis: int, batch: int) -> None:
    compare(tmp_path, "GATHER", [X, indices], [], "GatherOptions", axis=axis, batchDims=batch)


def test_gather_nd(tmp_path: Path) -> None:
    compare(tmp_path, "GATHER_ND", [X, np.array([[1, 4], [0, 0], [1, 2]], I32)], [])
    compare(tmp_path, "GATHER_ND", [X[0, :, :, 0], np.array([[[4, 3]], [[0, 1]]], I32)], [])


@pytest.mark.parametrize("start", [(0, 0, 0), (1, 2, 1), (-9, 1, 0), (7, 9, 9)])
@pytest.mark.parametrize("shape", [(1, 4, 3), (2, 4, 3), (2, 2, 1), (5, 4, 3), (0, 4, 3)])
def test_dynamic_update_slice(tmp_path: Path, shape: tuple[int, ...], start: tuple[int, ...]) -> None:
    """A box beyond an end is moved into the tensor."""
    update = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    compare(tmp_path, "DYNAMIC_UPDATE_SLICE", [X[0], update, np.array(start, I32)], [])


def test_scatter_nd_adds_up(tmp_path: Path) -> None:
    indices = np.array([[2], [0], [2], [2]], I32)
    compare(tmp_path, "SCATTER_ND", [indices, X[0, :4, :, 0]], [np.array([5, 4], I32)])


def test_lookup(tmp_path: Path) -> None:
    compare(tmp_path, "EMBEDDING_LOOKUP", [np.array([4, 1, 4], I32), X[0]], [])


def test_negative_indices_do_not_exist_here(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="indices from -1 to 0 of a dimension with 5 elements"):
        compare(tmp_path, "GATHER", [X], [np.array([0, -1], I32)], "GatherOptions", axis=1)
    with pytest.raises(MavcgError, match="indices from -1 to 0 of a dimension with 5 elements"):
        compare(tmp_path, "GATHER", [X, np.array([0, -1], I32)], [], "GatherOptions", axis=1)
    with pytest.raises(MavcgError, match="2 batch dimensions of f32"):
        compare(tmp_path, "GATHER", [X, np.zeros((2, 4), I32)], [], "GatherOptions", axis=2, batchDims=2)
