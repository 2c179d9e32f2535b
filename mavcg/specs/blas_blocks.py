"""Blocks of a BLAS library's matrix products: what all versions of the library's kernels agree on."""

from dataclasses import dataclass

ITEM_BYTES = {"f32": 4, "f64": 8}
ROUTINE_PREFIX = {"f32": "s", "f64": "d"}
TALL_COLUMNS = 6  # most columns of a tall register tile
SHORTEST_VECTOR = 16  # bytes: half of one is not a vector


@dataclass(frozen=True)
class BlasBlocks:
    """Register tile and cache blocks of one type. C is m x n, the sum has k terms; matrices are column-major.

    dtype: "f32" or "f64". lanes: rows that packed A is rounded up to, a multiple of every version's vector length.
    units: lanes in the register tile's rows; columns: of the register tile. kc: terms of a block of the sum, which the
    result's bits depend on. mc, nc: rows and columns of a block of C. dot_columns: columns of C up to which a product
    of a transposed A with many terms is computed as dot products, of nothing packed. tall_units: lanes in the rows of
    the tile for up to TALL_COLUMNS columns beside an A that is not packed; 0: there is none.
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

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return ITEM_BYTES[self.dtype]

    @property
    def rows(self) -> int:
        """Rows of the register tile."""
        return self.lanes * self.units

    @property
    def tall_rows(self) -> int:
        """Rows of the tall register tile; 0: there is none."""
        return self.lanes * self.tall_units

    @property
    def narrow_rows(self) -> int:
        """Rows of the narrow register tile, for products and ends of so few; 0: there is none."""
        return self.lanes // 2 if self.lanes * self.item_bytes > SHORTEST_VECTOR else 0
