"""Calls of a BLAS library's routines by ctypes, and what they should compute, in double."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
# Of C and the scalars, by the prefix of a routine's name; A and B of sb are bits of bfloat16, of sh and h float16.
DTYPES: dict[str, Any] = {"s": np.float32, "d": np.float64, "sb": np.float32, "sh": np.float32, "h": np.float16}
EPS = {"s": 2.0**-24, "d": 2.0**-53, "sb": 2.0**-24, "sh": 2.0**-24, "h": 2.0**-11}
F16_SUM_TERMS = 64  # of h, that are added in f16
COLUMN_MAJOR, ROW_MAJOR, PLAIN, TRANSPOSED = 102, 101, 111, 112


def given(letter: str, numbers: Array) -> Array:
    """Numbers as elements of A and B of a routine; bfloat16 is rounded towards 0."""
    if letter == "sb":
        return (np.ascontiguousarray(numbers, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return numbers.astype(np.float16 if letter == "sh" else DTYPES[letter])


def in_double(letter: str, elements: Array) -> Array:
    """Elements of A and B in double."""
    if letter == "sb":
        elements = (elements.astype(np.uint32) << 16).view(np.float32)  # the upper half of an f32
    with np.errstate(invalid="ignore"):  # signalling NaN
        return elements.astype(np.float64)


@dataclass(frozen=True)
class Product:
    """A matrix product with leading dimensions that are larger than they need be by `more`."""

    letter: str
    trans_a: bool
    trans_b: bool
    m: int
    n: int
    k: int
    alpha: float
    beta: float
    more: tuple[int, int, int] = (0, 0, 0)

    def matrices(self, seed: int = 0) -> tuple[Array, Array, Array]:
        """A, B, C as they are stored, column-major: the memory of [columns, leading dimension]."""
        random = np.random.default_rng(seed)
        shapes = (
            (self.m, self.k) if self.trans_a else (self.k, self.m),
            (self.k, self.n) if self.trans_b else (self.n, self.k),
            (self.n, self.m),
        )
        a, b, c = (
            random.uniform(-1, 1, (columns, max(1, rows + more)))
            for (columns, rows), more in zip(shapes, self.more, strict=True)
        )
        return given(self.letter, a), given(self.letter, b), c.astype(DTYPES[self.letter])

    def reference(self, a: Array, b: Array, c: Array) -> tuple[Array, Array]:
        """C in double, and how far each element may be off: one rounding a term and some for alpha and beta."""
        wide = [in_double(self.letter, a), in_double(self.letter, b), c.astype(np.float64)]
        left = wide[0][: self.m, : self.k] if self.trans_a else wide[0][: self.k, : self.m].T
        right = wide[1][: self.k, : self.n] if self.trans_b else wide[1][: self.n, : self.k].T
        before = wide[2][: self.n, : self.m].T
        alpha, beta = (float(DTYPES[self.letter](x)) for x in (self.alpha, self.beta))
        kept = np.zeros_like(before) if beta == 0 else beta * before
        total = np.zeros_like(before) if alpha == 0 or not self.k else alpha * (left @ right)
        size = abs(alpha) * (np.abs(left) @ np.abs(right)) + np.abs(kept)
        if self.letter == "h":  # subnormal products and results, too
            return total + kept, (min(self.k, F16_SUM_TERMS) + 4) * (EPS["h"] * size + (1 + abs(alpha)) * 2.0**-25)
        return total + kept, (self.k + 4) * EPS[self.letter] * size + 1e-300


def scalar_of(letter: str) -> Callable[[float], Any]:
    """The C type of a routine's scalars: of h the bits of an f16."""
    if letter == "h":
        return lambda value: ctypes.c_uint16(int(np.float16(value).view(np.uint16)))
    return ctypes.c_double if letter == "d" else ctypes.c_float


def fortran_gemm(library: ctypes.CDLL, p: Product, a: Array, b: Array, c: Array, symbol: str = "") -> None:
    """Call sgemm_ or dgemm_, or another symbol of the same interface; names with 64_ have wide integers."""
    symbol = symbol or f"{p.letter}gemm_"
    integer = ctypes.c_int64 if "64" in symbol else ctypes.c_int32
    real = scalar_of(p.letter)
    letters = [ctypes.c_char(b"T" if t else b"N") for t in (p.trans_a, p.trans_b)]
    sizes = [integer(x) for x in (p.m, p.n, p.k, a.shape[1], b.shape[1], c.shape[1])]
    alpha, beta = real(p.alpha), real(p.beta)
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]
    refs = [ctypes.byref(x) for x in (*letters, *sizes[:3], alpha)]
    getattr(library, symbol)(
        *refs,
        pointers[0],
        ctypes.byref(sizes[3]),
        pointers[1],
        ctypes.byref(sizes[4]),
        ctypes.byref(beta),
        pointers[2],
        ctypes.byref(sizes[5]),
        1,
        1,
    )


def cblas_gemm(
    library: ctypes.CDLL, p: Product, a: Array, b: Array, c: Array, order: int = COLUMN_MAJOR, symbol: str = ""
) -> None:
    """Call cblas_sgemm or cblas_dgemm, or another symbol of the same interface.

    order: with ROW_MAJOR the arrays are the transposed product's: B and A of Product are A and B of the call.
    """
    symbol = symbol or f"cblas_{p.letter}gemm"
    integer = ctypes.c_int64 if "64" in symbol else ctypes.c_int32
    real = scalar_of(p.letter)
    flags = [TRANSPOSED if t else PLAIN for t in (p.trans_a, p.trans_b)]
    m, n, first, second = p.m, p.n, a, b
    if order == ROW_MAJOR:
        m, n, first, second, flags = n, m, b, a, flags[::-1]
    getattr(library, symbol)(
        order,
        *flags,
        integer(m),
        integer(n),
        integer(p.k),
        real(p.alpha),
        ctypes.c_void_p(first.ctypes.data),
        integer(first.shape[1]),
        ctypes.c_void_p(second.ctypes.data),
        integer(second.shape[1]),
        real(p.beta),
        ctypes.c_void_p(c.ctypes.data),
        integer(c.shape[1]),
    )


@dataclass(frozen=True)
class VectorCall:
    """A product of a matrix and a vector; strides of the vectors may be negative."""

    letter: str
    trans: bool
    m: int
    n: int
    alpha: float
    beta: float
    more: int = 0
    incx: int = 1
    incy: int = 1

    def operands(self, seed: int = 0) -> tuple[Array, Array, Array]:
        """A as it is stored, column-major: [n, leading dimension]; x and y with what lies between their elements."""
        random = np.random.default_rng(seed)
        x_count, y_count = (self.m, self.n) if self.trans else (self.n, self.m)
        shapes = ((self.n, max(1, self.m + self.more)), (x_count * abs(self.incx),), (y_count * abs(self.incy),))
        return tuple(random.uniform(-1, 1, s).astype(DTYPES[self.letter]) for s in shapes)  # type: ignore[return-value]

    def elements(self, vector: Array, stride: int) -> Array:
        """The elements of x or y, in the order of the product."""
        elements = vector[:: abs(stride)]
        return elements if stride > 0 else elements[::-1]

    def reference(self, a: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """The elements of y in double, and how far each may be off."""
        matrix = a[:, : self.m].T.astype(np.float64)
        matrix = matrix.T if self.trans else matrix
        values, before = self.elements(x, self.incx).astype(np.float64), self.elements(y, self.incy).astype(np.float64)
        alpha, beta = (float(DTYPES[self.letter](v)) for v in (self.alpha, self.beta))
        if not self.m or not self.n:
            return before, np.zeros_like(before)
        kept = np.zeros_like(before) if beta == 0 else beta * before
        total = np.zeros_like(before) if alpha == 0 else alpha * (matrix @ values)
        size = abs(alpha) * (np.abs(matrix) @ np.abs(values)) + np.abs(kept)
        return total + kept, (len(values) + 5) * EPS[self.letter] * size + 1e-300


def fortran_gemv(library: ctypes.CDLL, p: VectorCall, a: Array, x: Array, y: Array, symbol: str = "") -> None:
    """Call sgemv_ or dgemv_, or another symbol of the same interface."""
    symbol = symbol or f"{p.letter}gemv_"
    integer = ctypes.c_int64 if "64" in symbol else ctypes.c_int32
    real = ctypes.c_float if p.letter == "s" else ctypes.c_double
    m, n, lda, incx, incy = (ctypes.byref(integer(v)) for v in (p.m, p.n, a.shape[1], p.incx, p.incy))
    alpha, beta = (ctypes.byref(real(v)) for v in (p.alpha, p.beta))
    pa, px, py = (ctypes.c_void_p(v.ctypes.data) for v in (a, x, y))
    letter = ctypes.byref(ctypes.c_char(b"t" if p.trans else b"n"))
    getattr(library, symbol)(letter, m, n, alpha, pa, lda, px, incx, beta, py, incy, 1)


def cblas_gemv(
    library: ctypes.CDLL, p: VectorCall, a: Array, x: Array, y: Array, order: int = COLUMN_MAJOR, symbol: str = ""
) -> None:
    """Call cblas_sgemv or cblas_dgemv; with ROW_MAJOR the stored matrix is the transposed one of the call."""
    symbol = symbol or f"cblas_{p.letter}gemv"
    integer = ctypes.c_int64 if "64" in symbol else ctypes.c_int32
    real = ctypes.c_float if p.letter == "s" else ctypes.c_double
    row_major = order == ROW_MAJOR
    m, n = (p.n, p.m) if row_major else (p.m, p.n)
    getattr(library, symbol)(
        order,
        TRANSPOSED if p.trans != row_major else PLAIN,
        integer(m),
        integer(n),
        real(p.alpha),
        ctypes.c_void_p(a.ctypes.data),
        integer(a.shape[1]),
        ctypes.c_void_p(x.ctypes.data),
        integer(p.incx),
        real(p.beta),
        ctypes.c_void_p(y.ctypes.data),
        integer(p.incy),
    )
