"""Sums of bf16 products in f32, two terms at a time.

All versions for x86-64 give the same bits: those of VDPBF16PS, which adds the second product, then the first, each as a
fused multiply-add that rounds to nearest even and treats subnormal inputs and results as 0. Where the instruction is
missing, two f32 multiply-adds compute the same, with MXCSR.DAZ and MXCSR.FTZ set by the caller (csrc/blas_half.c): a
bf16 is the upper half of an f32. Source: Intel SDM volume 2, VDPBF16PS.
"""

from llvmlite import ir

from mavcg.kernels.builder.arithmetic import half_of_pairs
from mavcg.kernels.builder.bf16_matrices import BFLOAT
from mavcg.kernels.builder.emit import fma, lanes_of, vector
from mavcg.specs.kernel import Machine


def add_pair_products(b: ir.IRBuilder, machine: Machine, total: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return total + x[1] * y[1] + x[0] * y[0]. total: vector of f32; x, y: pairs of bf16, as vectors of f32's bits."""
    lanes = lanes_of(total)
    if machine.bf16_dot:
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        pairs = vector(BFLOAT, 2 * lanes)
        kind = ir.FunctionType(total.type, [total.type, pairs, pairs])
        function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
        return b.call(function, [total, b.bitcast(x, pairs), b.bitcast(y, pairs)])
    (x_first, x_second), (y_first, y_second) = ([half_of_pairs(b, pairs, n) for n in (0, 1)] for pairs in (x, y))
    return fma(b, x_first, y_first, fma(b, x_second, y_second, total))
