"""Calls with 64-bit strides that do not fit once they are multiplied by an element's size; run in a process of its own.

The process has an xerbla and a cblas_xerbla that keep the number of the argument.
"""

import ctypes
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.mavcg.model.blas.calls import (
    COLUMN_MAJOR,
    ROW_MAJOR,
    Product,
    VectorCall,
    cblas_gemm,
    cblas_gemv,
    fortran_gemm,
    fortran_gemv,
)

ERRORS = """\
#include <stdint.h>
int last;
void xerbla_(const char *r, const void *n, long c) { last = *(const int *)n; }
void xerbla_64_(const char *r, const int64_t *n, long c) { last = (int)*n; }
void cblas_xerbla(int n, const char *r, const char *f, ...) { last = n; }
"""
BAD = (-(2**63) + 1, -(2**63), -(2**62) + 1, -(2**61), -(2**60), -1, 0, 2)
LEGAL = (2**60, 2**61, 2**62, 2**62 + 1, 2**63 - 1)
Call = Callable[..., None]


def wide_names(letter: str, routine: str) -> Iterator[tuple[str, Call]]:
    """Each 64-bit name of a routine, with what calls it: by Fortran, by C column-major and row-major."""
    fortran, cblas = (fortran_gemm, cblas_gemm) if routine == "gemm" else (fortran_gemv, cblas_gemv)
    for prefix in ("", "scipy_"):
        yield f"{prefix}{letter}{routine}_64_", fortran
        for suffix in ("64_", *(["_64"] if not prefix else [])):
            for order in (COLUMN_MAJOR, ROW_MAJOR):
                yield f"{prefix}cblas_{letter}{routine}{suffix}", partial(cblas, order=order)


def with_stride(array: Any, stride: int) -> Any:
    """An operand that is passed with another leading dimension than its memory has."""
    return SimpleNamespace(shape=(array.shape[0], stride), ctypes=array.ctypes)


def check_gemm(blas: ctypes.CDLL, last: Any, letter: str) -> int:
    """Pass each stride to each name, as leading dimension of A, B and C; return the number of calls."""
    calls = 0
    p = Product(letter, False, False, 3, 3, 3, 1.0, 1.0)
    small = (p, replace(p, m=1, n=1, k=1))
    single = [
        (replace(p, m=rows, n=1, k=1, trans_a=trans_a, trans_b=trans_b), place)
        for rows in (3, 300)
        for trans_a in (False, True)
        for trans_b in (False, True)
        for place in range(3)
        # Only one column is stored: any leading dimension is legal.
        if (place, trans_a) != (0, True) or rows == 1
    ]
    for name, call in wide_names(letter, "gemm"):
        for q, place, stride in [(q, place, stride) for q in small for place in range(3) for stride in BAD]:
            if stride < q.m:
                a, b, c = q.matrices()
                last.value, before = 0, c.copy()
                operands = [with_stride(x, stride) if i == place else x for i, x in enumerate((a, b, c))]
                call(blas, q, *operands, symbol=name)
                assert last.value in (8, 9, 10, 11, 13, 14), (name, place, stride, last.value)
                assert np.array_equal(c, before), (name, place, stride)
                calls += 1
        for q, place in single:
            a1, b1, c1 = q.matrices()
            right, tolerance = q.reference(a1, b1, c1)
            for stride in LEGAL:
                last.value, result = 0, c1.copy()
                operands = [with_stride(x, stride) if i == place else x for i, x in enumerate((a1, b1, result))]
                call(blas, q, *operands, symbol=name)
                assert last.value == 0, (name, q, place, stride, last.value)
                assert (np.abs(result[:, : q.m].T - right) <= tolerance).all(), (name, q, place, stride)
                calls += 1
    return calls


def check_gemv(blas: ctypes.CDLL, last: Any, letter: str) -> int:
    """The same for products with a vector: the leading dimension, and both increments where one element is used."""
    calls = 0
    p = VectorCall(letter, False, 3, 3, 1.0, 1.0)
    for name, call in wide_names(letter, "gemv"):
        a, x, y = p.operands()
        for stride in BAD:
            last.value, before = 0, y.copy()
            call(blas, p, with_stride(a, stride), x, y, symbol=name)
            assert last.value in (6, 7) and np.array_equal(y, before), (name, stride, last.value)
            calls += 1
        for trans in (False, True):
            for m, n in ((40, 1), (1, 1), (1, 40)):
                q = VectorCall(letter, trans, m, n, 1.0, 1.0)
                a1, x1, y1 = q.operands()
                right, tolerance = q.reference(a1, x1, y1)
                for stride in (*LEGAL, *(-s for s in LEGAL)):
                    for one, lda in ((q, stride), (replace(q, incx=stride), 0), (replace(q, incy=stride), 0)):
                        needed = (lda > 0 and n > 1, one.incx != 1 and len(x1) > 1, one.incy != 1 and len(y1) > 1)
                        if any(needed) or lda < 0:
                            continue  # the array cannot exist, or the leading dimension is not legal
                        last.value, result = 0, y1.copy()
                        call(blas, one, with_stride(a1, lda) if lda else a1, x1, result, symbol=name)
                        assert last.value == 0, (name, one, stride, last.value)
                        assert (np.abs(result - right) <= tolerance).all(), (name, one, stride)
                        calls += 1
    return calls


def main(errors: str, library: str) -> None:
    """Check all routines of a library, and print the number of calls."""
    kept = ctypes.CDLL(errors, ctypes.RTLD_GLOBAL)
    last, blas = ctypes.c_int.in_dll(kept, "last"), ctypes.CDLL(library)
    print(*(check(blas, last, letter) for check in (check_gemm, check_gemv) for letter in ("s", "d")))


if __name__ == "__main__":
    main(*sys.argv[1:])
