"""Matrix products of any sizes, and what must hold of a library's, in every precision."""

import ctypes
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from tests.mavcg.model.blas.calls import COLUMN_MAJOR, ROW_MAJOR, Array, Product, cblas_gemm, fortran_gemm, given

# Around the ends of vectors, register tiles and blocks; 0 where nothing is to be done.
SIZES = st.sampled_from((0, 1, 2, 3, 4, 7, 8, 11, 13, 15, 16, 17, 26, 31, 32, 33, 48, 63, 65, 96, 130))
SCALARS = st.sampled_from((0.0, 1.0, -1.0, 0.7, -2.5))


def products(*letters: str) -> st.SearchStrategy[Product]:
    """Products of any sizes, scalars and leading dimensions by routines of these prefixes."""
    return st.builds(
        Product,
        st.sampled_from(letters),
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


def assert_all_calls_agree(blas: ctypes.CDLL, p: Product) -> None:
    """The product is right, and the same bits by each interface and order."""
    a, b, before = p.matrices()
    results = []
    for call in ("fortran", COLUMN_MAJOR, ROW_MAJOR):
        c = before.copy()
        fortran_gemm(blas, p, a, b, c) if call == "fortran" else cblas_gemm(blas, p, a, b, c, int(call))
        assert_product(p, before, a, b, c)
        results.append(c)
    assert all(np.array_equal(c, results[0]) for c in results)


def assert_names_compute(blas: ctypes.CDLL, letter: str, fortran: Iterable[str], cblas: Iterable[str]) -> None:
    """Routines of both interfaces by these names compute the same product rightly."""
    p = Product(letter, True, False, 19, 23, 29, 1.0, 1.0)
    a, b, before = p.matrices()
    for symbol in fortran:
        c = before.copy()
        fortran_gemm(blas, p, a, b, c, symbol)
        assert_product(p, before, a, b, c)
    for symbol in cblas:
        c = before.copy()
        cblas_gemm(blas, p, a, b, c, COLUMN_MAJOR, symbol)
        assert_product(p, before, a, b, c)


def assert_nan_follows_the_reference(blas: ctypes.CDLL, letter: str, size: int) -> None:
    """A scalar of 0 keeps its operand from being read, NaN or not; any other product of NaN and 0 is NaN."""
    p = Product(letter, False, False, size, size, size, 1.0, 0.0)
    a, b, c = p.matrices()
    nan, bad = np.full_like(c, np.nan), given(letter, np.full(a.shape, np.nan))

    over = nan.copy()
    fortran_gemm(blas, p, a, b, over)
    assert not np.isnan(over).any()  # beta = 0 overwrites

    same = c.copy()
    fortran_gemm(blas, replace(p, alpha=0.0, beta=1.0), bad, bad, same)
    assert np.array_equal(same, c)  # alpha = 0 reads neither A nor B

    zeroed = nan.copy()
    fortran_gemm(blas, replace(p, alpha=0.0), bad, bad, zeroed)
    assert not zeroed.any()

    a[2, 1], b[:] = bad[0, 0], 0
    fortran_gemm(blas, p, a, b, c)
    assert np.isnan(c[:, 1]).all() and np.isnan(c).sum() == size  # NaN times 0, in row 1 alone
