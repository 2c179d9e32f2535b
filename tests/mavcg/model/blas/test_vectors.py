"""Products of a matrix and a vector of a built BLAS against NumPy in double."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import examples
from tests.mavcg.model.blas.calls import COLUMN_MAJOR, ROW_MAJOR, VectorCall, cblas_gemv, fortran_gemv

SIZES = st.sampled_from((0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 70, 130, 1030))
SCALARS = st.sampled_from((0.0, 1.0, -1.0, 0.7, -2.5))
STRIDES = st.sampled_from((1, 1, 2, -1, -3))
CALLS = st.builds(
    VectorCall,
    st.sampled_from(("s", "d")),
    st.booleans(),
    SIZES,
    SIZES,
    SCALARS,
    SCALARS,
    st.sampled_from((0, 1, 5)),
    STRIDES,
    STRIDES,
)


@settings(max_examples=examples(long=1000, fast=25))
@given(p=CALLS)
def test_vectors_agree_with_numpy(p: VectorCall, blas: ctypes.CDLL) -> None:
    a, x, before = p.operands()
    want, bound = p.reference(a, x, before)
    results = []
    for call in ("fortran", COLUMN_MAJOR, ROW_MAJOR):
        y = before.copy()
        fortran_gemv(blas, p, a, x, y) if call == "fortran" else cblas_gemv(blas, p, a, x, y, int(call))
        assert (np.abs(p.elements(y, p.incy) - want) <= bound).all(), p
        between = np.arange(len(y)) % abs(p.incy) != 0
        assert np.array_equal(y[between], before[between]), p
        results.append(y)
    assert all(np.array_equal(y, results[0]) for y in results)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("letter", ["s", "d"])
def test_any_number_of_threads_gives_the_same_bits(letter: str, trans: bool, blas: ctypes.CDLL) -> None:
    p = VectorCall(letter, trans, 1100, 1300, 1.5, -0.5, 3)
    a, x, before = p.operands()
    want, bound = p.reference(a, x, before)
    results = []
    for threads in (1, 3, 8):
        blas.mavcg_blas_set_num_threads(threads)
        y = before.copy()
        fortran_gemv(blas, p, a, x, y)
        results.append(y)
    assert (np.abs(results[0] - want) <= bound).all()
    assert all(np.array_equal(y, results[0]) for y in results)


@pytest.mark.parametrize("trans", [False, True])
def test_nan_follows_the_reference(trans: bool, blas: ctypes.CDLL) -> None:
    p = VectorCall("d", trans, 40, 40, 1.0, 0.0)
    a, x, y = p.operands()
    nan = np.full_like(y, np.nan)

    over = nan.copy()
    fortran_gemv(blas, p, a, x, over)
    assert not np.isnan(over).any()

    same = y.copy()
    fortran_gemv(blas, replace(p, alpha=0.0, beta=1.0), np.full_like(a, np.nan), nan, same)
    assert np.array_equal(same, y)

    a[7, 3], x[:] = np.nan, 0.0  # column 7, row 3
    fortran_gemv(blas, p, a, x, y)
    assert np.flatnonzero(np.isnan(y)).tolist() == [7 if trans else 3]


@pytest.mark.parametrize("letter", ["s", "d"])
def test_every_name_computes(letter: str, blas: ctypes.CDLL) -> None:
    p = VectorCall(letter, True, 37, 21, 1.0, 1.0)
    a, x, before = p.operands()
    want, bound = p.reference(a, x, before)
    for prefix in ("", "scipy_"):
        names = [f"{prefix}{letter}gemv_", f"{prefix}{letter}gemv_64_"]
        names += [f"{prefix}cblas_{letter}gemv{suffix}" for suffix in ("", "64_", *(["_64"] if not prefix else []))]
        for name in names:
            y = before.copy()
            (cblas_gemv if "cblas" in name else fortran_gemv)(blas, p, a, x, y, symbol=name)
            assert (np.abs(y - want) <= bound).all(), name
