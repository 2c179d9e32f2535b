"""Det beside NumPy's in double precision: sizes, batches, exchanges of rows, and matrices without full rank."""

from pathlib import Path

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx
from tests.mavcg.importers.one_node import assert_agrees, save


def det(path: Path, x: Array) -> Array:
    (made,) = run(import_onnx(save(path / "m.onnx", "Det", {"x": x}, [("y", str(x.dtype))], 22)), x)
    return made


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("lead", [(), (4,), (2, 3)])
def test_determinants_of_random_matrices(size: int, lead: tuple[int, ...], tmp_path: Path) -> None:
    x = np.random.default_rng(size).standard_normal((*lead, size, size))
    made = det(tmp_path, x)
    assert made.shape == lead and made.dtype == np.float64
    np.testing.assert_allclose(made, np.linalg.det(x), 1e-11)


def test_small_numbers_and_zeros_in_the_diagonal_are_no_pivots(tmp_path: Path) -> None:
    x = np.array(
        [
            [[0, 1, 2], [1, 0, 3], [4, -3, 8]],
            [[1e-8, 1, 0], [1, 1, 0], [0, 0, 2]],
            [[0, 0, 1], [0, 1, 0], [1, 0, 0]],
            [[0, 1, 2], [0, 3, 4], [0, 5, 6]],
            [[1, 2, 3], [2, 4, 6], [1, 0, 1]],
            [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
        ],
        np.float32,
    )
    computed = assert_agrees(save(tmp_path / "m.onnx", "Det", {"x": x}, [("y", "float32")], 22), x)
    np.testing.assert_allclose(computed[0], np.linalg.det(x.astype(np.float64)), 1e-6, 1e-6)


def test_a_nan_stays_and_no_rows_have_the_determinant_1(tmp_path: Path) -> None:
    x = np.eye(4, dtype=np.float32)[None].repeat(2, 0)
    x[0, 2, 1] = np.nan
    made = det(tmp_path, x)
    assert np.isnan(made[0]) and made[1] == 1
    np.testing.assert_array_equal(det(tmp_path, np.zeros((3, 0, 0), np.float32)), np.ones(3, np.float32))


@pytest.mark.parametrize(("shape", "words"), [((2, 3), "square matrices are needed"), ((65, 65), "at most 64")])
def test_other_matrices_are_refused_by_name(shape: tuple[int, int], words: str, tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match=rf"node 'the_node' \(Det\): .*{words}"):
        det(tmp_path, np.zeros(shape, np.float32))
