"""Emits the register tile of products that are added in f16, F16_SUM_TERMS at a time; these sums are added in f32.

C is f32 here, and has whole vectors of rows: it is a block of sums, which the routine scales, adds to the f16 matrix
and rounds (csrc/blas_f16.c). Each element of it is, or with beta = 1 gains, the sum in f32 of what F16_SUM_TERMS
neighbouring terms each are in f16: one fused multiply-add a term, in order, from 0 on. Blocks of terms begin at
multiples of F16_SUM_TERMS, so that no size of a tile or block changes a bit.

A machine without the arithmetic computes the same in f32, where products of f16 are exact: the sum of a product and an
f16 is h + e exactly (Knuth's TwoSum); h is made odd where e is not 0, and then rounds to f16 as the exact sum does.
Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd",
IEEE Transactions on Computers 57, 2008.
"""

from dataclasses import dataclass

from llvmlite import ir

from mavcg.kernels.blas.product_tile import ProductTile
from mavcg.kernels.blas.tile_pass import BETA, C_COLUMN, UNROLL, UNROLL_IN_ORDER, TilePass, emit_passes
from mavcg.kernels.builder.arithmetic import widen_half
from mavcg.kernels.builder.emit import F32, I32, Values, address, const, number, repeat, vector, with_element
from mavcg.kernels.builder.product_loop import CHAINS, COLUMNS, ROWS, ProductLoop, SumTile
from mavcg.specs.blas_blocks import F16_SUM_TERMS, ITEM_BYTES
from mavcg.specs.kernel import Machine

SUM_BYTES = ITEM_BYTES["f32"]


def emit_half_tile(module: ir.Module, machine: Machine, tile: ProductTile) -> None:
    """Emit the tile's function for a core. tile: of ALL_F16, packed."""
    emit_passes(module, machine, tile, machine.vector_bytes // tile.item, _HalfPass)


@dataclass(frozen=True)
class _HalfPass(TilePass):
    """Emitter of one pass over the terms: the f16 sums of F16_SUM_TERMS of them are in registers."""

    def emit(self) -> None:
        """Emit the loop over the terms whose sums are added in f32."""
        b, terms = self.b, self.b.function.args[0]
        beta = b.load(address(b, b.function.args[4], BETA), align=SUM_BYTES, typ=F32)
        with b.if_then(b.fcmp_ordered("==", beta, ir.Constant(F32, 0.0), "overwrites")):
            for pointer in self.sum_pointers():
                b.store(ir.Constant(vector(F32, self.lanes), [0.0] * self.lanes), pointer, align=SUM_BYTES)
        repeat(b, const(0), terms, lambda first: self.add(self.half_sums(first)), "part", F16_SUM_TERMS)

    def half_sums(self, first: ir.Value) -> Values:
        """Return the sums of at most F16_SUM_TERMS terms, from number `first` on."""
        b = self.b
        left = b.sub(b.function.args[0], first, "left")
        most = const(F16_SUM_TERMS)
        count = b.select(b.icmp_signed("<", left, most), left, most, "count")
        unroll = 1 if not self.machine.half else UNROLL_IN_ORDER if self.machine.in_order else UNROLL
        whole, end = b.add(first, b.and_(count, const(-unroll)), "whole"), b.add(first, count, "end")
        tile = SumTile(len(self.vectors), len(self.columns), holds_left=True, order=(CHAINS, COLUMNS, ROWS))
        products = ProductLoop(b, tile, lambda term: self.rows({}, term), self.elements, self.multiply_add)
        zeros = [ir.Constant(self.type, [0.0] * self.lanes)] * (tile.rows * tile.columns)

        def steps(index: ir.Value | int, count: int):  # type: ignore[no-untyped-def]
            return self.terms((), index, count)

        sums = products.loop(first, whole, unroll, steps, zeros)
        return products.loop(whole, end, 1, steps, sums, "rest") if unroll > 1 else sums

    def multiply_add(self, total: ir.Value, x: ir.Value, element: ir.Value, row: int, column: int) -> ir.Value:
        """Return total + x * element, rounded once to f16."""
        if self.machine.half:
            return super().multiply_add(total, x, element, row, column)
        return self.b.call(_multiply_add_function(self.b.module, total.type), [total, x, element])

    def add(self, sums: Values) -> None:
        """Add f16 sums to those in memory."""
        b = self.b
        for pointer, total in zip(self.sum_pointers(), sums, strict=True):
            wide = widen_half(b, total)
            b.store(b.fadd(b.load(pointer, align=SUM_BYTES, typ=wide.type), wide), pointer, align=SUM_BYTES)

    def sum_pointers(self) -> list[ir.Value]:
        """Return the address of each vector of sums, column by column."""
        b, step = self.b, self.step(C_COLUMN)
        tops = [address(b, b.function.args[3], b.mul(step, const(column)), "c_column") for column in self.columns]
        return [address(b, top, n * self.lanes * SUM_BYTES) for top in tops for n in self.vectors]


def _multiply_add_function(module: ir.Module, sums: ir.Type) -> ir.Function:
    """Return the module's function (total, x, y) -> total + x * y of vectors of f16, rounded once, without f16
    arithmetic."""
    name = f"mavcg_add_product_{sums.count}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(sums, [sums] * 3), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    total, x, y = (widen_half(b, value) for value in function.args)
    product = b.fmul(x, y, "product")
    near = b.fadd(total, product, "near")
    of_product = b.fsub(near, total)
    error = b.fadd(b.fsub(total, b.fsub(near, of_product)), b.fsub(product, of_product), "error")
    bits, error_bits = (b.bitcast(value, with_element(value, I32)) for value in (near, error))
    inexact = b.fcmp_ordered("!=", error, number(error, 0.0))  # false for NaN, and so beside infinity
    even = b.icmp_unsigned("==", b.and_(bits, number(bits, 1)), number(bits, 0))
    # The odd neighbour in the direction of the error: the sum's magnitude grows if both have one sign.
    direction = b.or_(b.ashr(b.xor(bits, error_bits), number(bits, 31)), number(bits, 1))
    odd = b.bitcast(b.select(b.and_(inexact, even), b.add(bits, direction), bits), near.type)
    b.ret(b.fptrunc(odd, sums))
    return function
