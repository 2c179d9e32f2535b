"""Block sizes of a BLAS library's matrix products, which all versions of its kernels share."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Blocking:
    """Register tile and cache blocks of a product of an m x k by a k x n matrix, in elements.

    mr, nr: rows and columns of a register tile. mc, nc: rows and columns of a block of the result. kc: terms of a
    block. Source: Van Zee and van de Geijn, "BLIS", 2015.
    """

    mr: int
    nr: int
    mc: int
    kc: int
    nc: int


ITEM_BYTES = {"f32": 4, "f64": 8}


@dataclass(frozen=True)
class ProductType:
    """The elements of a matrix product C = alpha * op(A) * op(B) + beta * C.

    prefix: of its routine's name, as in sgemm. sums: type of the sums, "f32" or "f64", and of C and the scalars, which
    of ALL_F16 are f16. given_bytes: size of an element of A and B, which are of the type of the sums or, in half
    precision, converted to it exactly.
    """

    prefix: str
    sums: str
    given_bytes: int

    @property
    def is_half(self) -> bool:
        """True if A and B are in half precision; they are always packed then."""
        return self.given_bytes < ITEM_BYTES[self.sums]


ALL_F16 = "all_f16"  # A, B, C and the scalars are f16
# In the order of enum blas_type of csrc/blas.h. Source of the prefixes in half precision: OpenBLAS, cblas.h; of h:
# Intel's mkl_cblas.h.
PRODUCT_TYPES = {
    "f32": ProductType("s", "f32", 4),
    "f64": ProductType("d", "f64", 8),
    "bf16": ProductType("sb", "f32", 2),
    "f16": ProductType("sh", "f32", 2),
    ALL_F16: ProductType("h", "f32", 2),
}
TALL_COLUMNS = 6  # maximum columns of a tall register tile
MATRIX_TERMS = 4  # terms of the matrices of bf16 that one instruction multiplies
F16_SUM_TERMS = 64  # terms that are added in f16, before their sum is added in f32
SHORTEST_VECTOR = 16  # bytes; half of such a vector is not a vector


@dataclass(frozen=True)
class BlasBlocks:
    """Register tile and cache blocks of products of one element type. C is m x n with k terms; matrices are
    column-major.

    dtype: a type of PRODUCT_TYPES. lanes: rows that packed A is rounded up to, a multiple of every version's vector
    length.
    units, columns: size of the register tile, units * lanes rows by `columns` columns. kc: terms of a block, on which
    the bits of the result depend. mc, nc: rows and columns of a block of C. dot_columns: maximum columns of C for which
    a product of a transposed A with many terms is computed as dot products without packing. tall_units: size, in lanes,
    of the rows of the tall register tile, for at most TALL_COLUMNS columns and an unpacked A; 0: there is none.
    wide_columns: maximum columns of the wide register tiles, of at most `lanes` rows and an unpacked B; 0: there are
    none. step_terms: terms that one packed element holds: 2 if bf16 is multiplied in pairs, MATRIX_TERMS in matrices,
    else 1. in_f16: True if packed elements are f16, and F16_SUM_TERMS neighbouring terms at a time are added in f16.
    """

    dtype: str
    lanes: int
    units: int
    columns: int
    kc: int
    mc: int
    nc: int
    dot_columns: int
    tall_units: int = 0
    wide_columns: int = 0
    step_terms: int = 1
    in_f16: bool = False

    @property
    def item_bytes(self) -> int:
        """Size of an element of the sums, and of C but for ALL_F16, in bytes."""
        return ITEM_BYTES[PRODUCT_TYPES[self.dtype].sums]

    @property
    def packed_bytes(self) -> int:
        """Size of a packed element of A and B, in bytes."""
        if self.step_terms == 1 and not self.in_f16:
            return self.item_bytes
        return PRODUCT_TYPES[self.dtype].given_bytes * self.step_terms

    @property
    def rows(self) -> int:
        """Number of rows of the register tile."""
        return self.lanes * self.units

    @property
    def blocking(self) -> Blocking:
        """The sizes as BLIS names them."""
        return Blocking(self.rows, self.columns, self.mc, self.kc, self.nc)

    @property
    def tall_rows(self) -> int:
        """Number of rows of the tall register tile; 0: there is none."""
        return self.lanes * self.tall_units

    @property
    def narrow_rows(self) -> int:
        """Number of rows of the narrow register tile, for products or tails of few rows; 0: there is none."""
        return self.lanes // 2 if self.lanes * self.item_bytes > SHORTEST_VECTOR and not self.in_f16 else 0
