"""The register tile of a matrix product, C = alpha * A * B + beta * C for a few rows and columns of C.

void tile(i64 terms, ptr a, ptr b, ptr c, ptr steps, i64 last_rows): see csrc/blas.h, blas_tile. Matrices are
column-major. Each element of C is one sum, a fused multiply-add per term in order, whatever the tile, so that all
versions give the same bits. Method: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from llvmlite import ir

from mavcg.hardware.issue_rates import throughput_cycles
from mavcg.kernels.builder.emit import F16, F32, F64
from mavcg.kernels.gemm.loop_shape import by_lane
from mavcg.kernels.gemm.register_tile import tile_rates
from mavcg.specs.blas_blocks import ALL_F16, ITEM_BYTES, PRODUCT_TYPES
from mavcg.specs.kernel import Machine


def begin_function(
    module: ir.Module, kind: ir.FunctionType, name: str, arguments: Sequence[str], written: str
) -> ir.IRBuilder:
    """Return a builder in the first block of a new function. written: the argument through which it alone writes."""
    function = ir.Function(module, kind, name)
    for argument, argument_name in zip(function.args, arguments, strict=True):
        argument.name = argument_name
    function.args[list(arguments).index(written)].add_attribute("noalias")
    return ir.IRBuilder(function.append_basic_block("entry"))


@dataclass(frozen=True)
class VectorEmitter:
    """Base of emitters over whole vectors of a core. dtype: "f32" or "f64"."""

    b: ir.IRBuilder
    machine: Machine
    dtype: str

    @property
    def item(self) -> int:
        """Size of an element, in bytes."""
        return ITEM_BYTES[self.dtype]

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.machine.vector_bytes // self.item


TYPES: dict[str, ir.Type] = {"f16": F16, "f32": F32, "f64": F64}


PACKED, TERMS, COLUMNS = "packed", "terms", "columns"
FORMS = (PACKED, TERMS, COLUMNS)  # in the order of enum blas_form of csrc/blas.h


@dataclass(frozen=True)
class ProductTile:
    """A register tile of `units` x `lanes` rows and `columns` columns.

    form: "packed" if A and B are panels of exactly these rows and columns, term after term. Otherwise A and B are read
    in place, and rows of A beyond last_rows are not read: "terms" if the terms of a column of B are contiguous,
    "columns" if the columns of a term are; the other distances are in `steps`. narrow: the last unit has half of its
    rows only, and vectors are at most this long; a half vector takes half the time on a core that computes a whole one
    in two passes. prefetched_terms: prefetch distance of A, in terms; 0: no prefetches. step_terms: terms that one
    step multiplies. 2: a pair of bf16, the first in the low half of 32 bits; 4: matrices of bf16 (matrix_sums.py).
    Tiles of such steps are packed, and their number of terms is that of the steps. Tiles of ALL_F16 are packed, too
    (half_tile.py).
    """

    dtype: str
    lanes: int
    units: int
    columns: int
    form: str
    narrow: bool = False
    prefetched_terms: int = 0
    step_terms: int = 1

    @property
    def symbol(self) -> str:
        """The function's name, without a version."""
        form = f"{self.form}_prefetched" if self.prefetched_terms else self.form
        return f"mavcg_product_{self.dtype}_{self.rows}x{self.columns}_{form}"

    @property
    def sums(self) -> str:
        """Type of the sums in registers, and of C and the scalars, which are f32 where the sums are f16."""
        return "f16" if self.dtype == ALL_F16 else PRODUCT_TYPES[self.dtype].sums

    @property
    def item(self) -> int:
        """Size of a sum in registers and of a term of a row or column, in bytes."""
        return PRODUCT_TYPES[self.dtype].given_bytes if self.dtype == ALL_F16 else ITEM_BYTES[self.sums]

    @property
    def unit_rows(self) -> int:
        """Number of rows of the last unit, of which C may have fewer (last_rows)."""
        return self.lanes // 2 if self.narrow else self.lanes

    @property
    def rows(self) -> int:
        """Number of rows of the tile."""
        return (self.units - 1) * self.lanes + self.unit_rows


def pass_shape(machine: Machine, vectors: int, columns: int) -> tuple[int, int]:
    """Return (vectors, columns) of a pass: the fewest cycles per term whose sums and operands fit the registers.

    A tile that was chosen for cores with more registers is computed in several passes over the terms.
    """
    shapes = []
    for high in range(1, vectors + 1):
        wide = min(columns, (machine.vector_registers - high - 1) // high)
        if wide < 1:
            break
        passes = -(-vectors // high) * -(-columns // wide)
        even = -(-columns // -(-columns // wide))
        shapes.append((passes * pass_cycles(machine, high, even), -high, high, even))
    return min(shapes)[2:]


IN_ORDER_WIDTH = 2.0  # instructions a cycle of in-order cores; a Cortex-A510 issues three


def pass_cycles(machine: Machine, vectors: int, columns: int) -> float:
    """Return the modelled cycles per term of a pass.

    An in-order core's loads share its issue slots with multiply-adds, and delay none otherwise: its loops are
    rescheduled (2 x 12 vectors by columns then do 7.8 of 8 FLOP a cycle by the model of a Cortex-A55).
    """
    loads = vectors + (columns / 4 if by_lane(machine) else columns)
    rates = tile_rates(machine)
    if machine.in_order:
        rates = replace(rates, load_fma_cycles=0.0, width=IN_ORDER_WIDTH)
    return throughput_cycles(rates, vectors * columns, loads, chain=1)
