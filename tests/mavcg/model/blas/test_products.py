"""Matrix products of a built BLAS against NumPy in double: sizes, strides, scalars, NaN, bad arguments."""

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from tests.conftest import examples
from tests.mavcg.model.blas.calls import COLUMN_MAJOR, ROW_MAJOR, Product, cblas_gemm, fortran_gemm
from tests.mavcg.model.blas.products import (
    assert_all_calls_agree,
    assert_names_compute,
    assert_nan_follows_the_reference,
    assert_right,
    products,
)


@settings(max_examples=examples(long=2000, fast=30))
@given(p=products("s", "d"))
def test_products_agree_with_numpy(p: Product, blas: ctypes.CDLL) -> None:
    assert_all_calls_agree(blas, p)


@pytest.mark.sample(3)
@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("size", [(70, 90, 1100), (1300, 40, 70), (30, 4200, 65), (257, 263, 600)])
def test_products_of_several_blocks(letter: str, size: tuple[int, int, int], blas: ctypes.CDLL) -> None:
    for trans_a, trans_b in ((False, False), (True, False), (False, True), (True, True)):
        assert_right(blas, Product(letter, trans_a, trans_b, *size, 1.5, -0.5, (1, 2, 3)))


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
    assert_nan_follows_the_reference(blas, letter, size)


@pytest.mark.parametrize("letter", ["s", "d"])
def test_every_name_computes(letter: str, blas: ctypes.CDLL) -> None:
    fortran = [f"{prefix}{letter}gemm{suffix}" for prefix in ("", "scipy_") for suffix in ("_", "_64_")]
    suffixes = {"": ("", "64_", "_64"), "scipy_": ("", "64_")}
    cblas = [f"{prefix}cblas_{letter}gemm{suffix}" for prefix, all_of in suffixes.items() for suffix in all_of]
    assert_names_compute(blas, letter, fortran, cblas)


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
