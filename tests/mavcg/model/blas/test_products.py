"""Matrix products of a built BLAS against NumPy in double: sizes, strides, scalars, NaN, bad arguments."""

import ctypes
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import examples
from tests.mavcg.model.blas.calls import COLUMN_MAJOR, ROW_MAJOR, Array, Product, cblas_gemm, fortran_gemm

# Around the ends of vectors, register tiles and blocks; 0 where nothing is to be done.
SIZES = st.sampled_from((0, 1, 2, 3, 4, 7, 8, 11, 13, 15, 16, 17, 26, 31, 32, 33, 48, 63, 65, 96, 130))
SCALARS = st.sampled_from((0.0, 1.0, -1.0, 0.7, -2.5))
PRODUCTS = st.builds(
    Product,
    st.sampled_from(("s", "d")),
    st.booleans(),
    st.booleans(),
    SIZES,
    SIZES,
    SIZES,
    SCALARS,
    SCALARS,
    st.tuples(*[st.sampled_from((0, 1, 5))] * 3),
)


def assert_right(blas: ctypes.CDLL, p: Product) -> None:
    """The product is right, what lies beside C stays, and C is not read where beta is 0."""
    a, b, before = p.matrices()
    c = np.full_like(before, np.nan) if p.beta == 0 else before.copy()
    c[:, p.m :] = before[:, p.m :]
    fortran_gemm(blas, p, a, b, c)
    assert_product(p, before, a, b, c)


def assert_product(p: Product, before: Array, a: Array, b: Array, c: Array) -> None:
    want, bound = p.reference(a, b, before)
    assert (np.abs(c[: p.n, : p.m].T - want) <= bound).all(), p
    assert np.array_equal(c[:, p.m :], before[:, p.m :]), p


@settings(max_examples=examples(long=2000, fast=30))
@given(p=PRODUCTS)
def test_products_agree_with_numpy(p: Product, blas: ctypes.CDLL) -> None:
    a, b, before = p.matrices()
    results = []
    for call in ("fortran", COLUMN_MAJOR, ROW_MAJOR):
        c = before.copy()
        fortran_gemm(blas, p, a, b, c) if call == "fortran" else cblas_gemm(blas, p, a, b, c, int(call))
        assert_product(p, before, a, b, c)
        results.append(c)
    assert all(np.array_equal(c, results[0]) for c in results)


@pytest.mark.sample(3)
@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("size", [(70, 90, 1100), (1300, 40, 70), (30, 4200, 65), (257, 263, 600)])
def test_products_of_several_blocks(letter: str, size: tuple[int, int, int], blas: ctypes.CDLL) -> None:
    for trans_a, trans_b in ((False, False), (True, False), (False, True), (True, True)):
        p = Product(letter, trans_a, trans_b, *size, 1.5, -0.5, (1, 2, 3))
        a, b, before = p.matrices()
        c = before.copy()
        fortran_gemm(blas, p, a, b, c)
        assert_product(p, before, a, b, c)


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize(
    "size",
    [(8, 1, 64), (9, 12, 1023), (64, 5, 1024), (65, 3, 513), (130, 11, 2100), (7, 4, 80), (70, 16, 515), (33, 96, 389)],
)
def test_products_of_dots(letter: str, size: tuple[int, int, int], blas: ctypes.CDLL) -> None:
    """A transposed, few columns of B: sums over columns as they lie in memory, in blocks of 2 KiB; terms are left."""
    for alpha, beta in ((1.0, 0.0), (1.5, -0.5)):
        p = Product(letter, True, False, *size, alpha, beta, (1, 2, 3))
        assert_right(blas, p)


@pytest.mark.sample(3)
@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("size", [(2100, 1, 700), (1501, 5, 389), (1100, 6, 300), (1030, 7, 300), (1037, 22, 131)])
def test_products_of_few_columns(letter: str, size: tuple[int, int, int], blas: ctypes.CDLL) -> None:
    """A is not packed and B is: register tiles of many rows, and usual ones for the rows that are left."""
    for trans_b, alpha, beta in ((False, 1.0, 0.0), (True, 1.5, -0.5)):
        p = Product(letter, False, trans_b, *size, alpha, beta, (1, 2, 3))
        assert_right(blas, p)


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("size", [(4, 4, 4), (12, 17, 19), (24, 33, 8), (9, 18, 100), (68, 20, 33), (3, 100, 130)])
def test_small_products_read_no_more_than_there_is(letter: str, size: tuple[int, int, int], blas: ctypes.CDLL) -> None:
    """Memory around A, B and C holds NaN: none of it reaches C, and none of it is overwritten."""
    for trans_a, trans_b, beta in ((False, False, 0.0), (False, True, 1.0), (True, False, 0.0), (True, True, -0.5)):
        p = Product(letter, trans_a, trans_b, *size, 1.5, beta, (3, 2, 5))
        a, b, before = p.matrices()
        for matrix, rows in ((a, p.k if trans_a else p.m), (b, p.n if trans_b else p.k), (before, p.m)):
            matrix[:, rows:] = np.nan
        for call in ("fortran", COLUMN_MAJOR, ROW_MAJOR):
            c = before.copy()
            fortran_gemm(blas, p, a, b, c) if call == "fortran" else cblas_gemm(blas, p, a, b, c, int(call))
            want, bound = p.reference(a, b, before)
            assert (np.abs(c[: p.n, : p.m].T - want) <= bound).all(), p
            assert np.isnan(c[:, p.m :]).all(), p


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("size", [5, 150])
def test_nan_follows_the_reference(letter: str, size: int, blas: ctypes.CDLL) -> None:
    p = Product(letter, False, False, size, size, size, 1.0, 0.0)
    a, b, c = p.matrices()
    nan = np.full_like(c, np.nan)

    over = nan.copy()
    fortran_gemm(blas, p, a, b, over)
    assert not np.isnan(over).any()  # beta = 0 overwrites

    same = c.copy()
    fortran_gemm(blas, replace(p, alpha=0.0, beta=1.0), nan, nan, same)
    assert np.array_equal(same, c)  # alpha = 0 reads neither A nor B

    zeroed = nan.copy()
    fortran_gemm(blas, replace(p, alpha=0.0), nan, nan, zeroed)
    assert not zeroed.any()

    a[2, 1], b[:] = np.nan, 0.0
    fortran_gemm(blas, p, a, b, c)
    assert np.isnan(c[:, 1]).all() and np.isnan(c).sum() == size  # NaN times 0, in row 1 alone


@pytest.mark.parametrize("letter", ["s", "d"])
def test_every_name_computes(letter: str, blas: ctypes.CDLL) -> None:
    p = Product(letter, True, False, 19, 23, 29, 1.0, 1.0)
    a, b, before = p.matrices()
    stems = (f"{letter}gemm_", f"scipy_{letter}gemm_", f"{letter}gemm_64_", f"scipy_{letter}gemm_64_")
    for symbol in stems:
        c = before.copy()
        fortran_gemm(blas, p, a, b, c, symbol)
        assert_product(p, before, a, b, c)
    for prefix in ("", "scipy_"):
        for suffix in ("", "64_", *(["_64"] if not prefix else [])):
            c = before.copy()
            cblas_gemm(blas, p, a, b, c, COLUMN_MAJOR, f"{prefix}cblas_{letter}gemm{suffix}")
            assert_product(p, before, a, b, c)


BAD_FORTRAN = (
    ({"m": -1}, 3),
    ({"n": -1}, 4),
    ({"k": -1}, 5),
    ({"lda": 0}, 8),
    ({"ldb": 2}, 10),
    ({"ldc": 3}, 13),
    ({"transa": b"X"}, 1),
    ({"transb": b"-"}, 2),
)


@pytest.mark.parametrize(("bad", "number"), BAD_FORTRAN)
def test_bad_arguments_end_as_in_the_reference(bad: dict[str, object], number: int, blas_path: Path) -> None:
    """Without an xerbla in the program: the reference's message, and the program ends."""
    values = {"transa": b"N", "transb": b"N", "m": 4, "n": 4, "k": 4, "lda": 4, "ldb": 4, "ldc": 4} | bad
    code = f"""
import ctypes
v = {values!r}
f, d = lambda x: ctypes.byref(ctypes.c_int32(x)), ctypes.byref(ctypes.c_double(1))
x = (ctypes.c_double * 16)()
ctypes.CDLL({str(blas_path)!r}).dgemm_(v["transa"], v["transb"], f(v["m"]), f(v["n"]), f(v["k"]), d, x, f(v["lda"]), x,
    f(v["ldb"]), d, x, f(v["ldc"]))
print("went on")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    message = f" ** On entry to DGEMM  parameter number {number:2d} had an illegal value\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)
