"""Inverse trigonometric and hyperbolic functions against NumPy's in double precision, at poles and near zero."""

from pathlib import Path

import numpy as np
import pytest

from mavcg.graph import Array
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx
from tests.mavcg.importers.one_node import save

FUNCTIONS = {
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "Cosh": np.cosh,
    "Sinh": np.sinh,
}
EDGES = [0.0, 1.0, -1.0, 1 - 2.0**-24, 1 + 2.0**-23, 0.5, -0.41421357, 2.0, -2.0, np.inf, -np.inf, np.nan, 1e-30, 1e30]


def numbers() -> Array:
    rng = np.random.default_rng(0)
    wide = rng.choice([-1, 1], 3000) * 10 ** rng.uniform(-12, 12, 3000)
    near = np.concatenate([rng.uniform(-1, 1, 3000), 1 + 10 ** rng.uniform(-7, 1, 1000), rng.uniform(-92, 92, 1000)])
    return np.concatenate([wide, near, EDGES]).astype(np.float32)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_within_a_few_units_in_the_last_place(op: str, tmp_path: Path) -> None:
    x = numbers()
    path = save(tmp_path / "m.onnx", op, {"x": x}, [("y", "float32")], 22)
    (made,) = run(import_onnx(path), x)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[op](x.astype(np.float64))
        want = exact.astype(np.float32)

    np.testing.assert_array_equal(np.isnan(made), np.isnan(want))
    far = np.isfinite(want)
    np.testing.assert_array_equal(made[~far & ~np.isnan(want)], want[~far & ~np.isnan(want)])
    units = np.abs(made[far] - exact[far]) / np.spacing(np.abs(want[far]))
    assert units.max() <= 8
