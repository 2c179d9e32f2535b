"""Kernels of means of 8-bit numbers: exact sums in 32 bits, requantized by one f32 product."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from llvmlite import ir

from mavcg.graph import Graph, Node
from mavcg.kernels.builder.emit import (
    F32,
    F64,
    I8,
    I32,
    Values,
    address,
    const,
    kernel_function,
    operand,
    repeat,
    row_count,
    scale_index,
    vector,
)
from mavcg.kernels.builder.lanes import load_lanes, splat, store_lanes
from mavcg.kernels.builder.nest import Nest, NestNumbers, collapse
from mavcg.kernels.builder.nest_loops import Line, along_line, nest_rows
from mavcg.kernels.builder.quantize import requantize_value, widen
from mavcg.kernels.tensor.terms import walk
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format


@spec_format("requantize")
@dataclass(frozen=True)
class Requantize:
    """The requantization of an exact sum: clamp(round(sum * multiplier / count) + out_zero, lo, hi).

    dtype, zero: type and zero point of the summed numbers.
    """

    dtype: str
    zero: int
    multiplier: float
    out_zero: int
    lo: int
    hi: int


def requantize_of(node: Node, x: View) -> Requantize:
    names = ("x_zero", "multiplier", "out_zero", "lo", "hi")
    zero, multiplier, out_zero, lo, hi = (node.attr(name) for name in names)
    return Requantize(x.dtype, zero, float(np.float32(multiplier)), out_zero, lo, hi)


def emit_quantized_mean(
    b: ir.IRBuilder, to: Requantize, total: ir.Value, inside: ir.Value, factor: ir.Value, lanes: int
) -> ir.Value:
    """Return the 8-bit mean. total: sums, i32 lanes. inside: number of terms, i32. factor: multiplier / count, f32."""
    shift = splat(b, b.mul(inside, const(to.zero, I32)), lanes) if to.zero else None
    exact = b.sub(total, shift) if shift is not None else total
    real = b.fmul(b.sitofp(exact, vector(F32, lanes)), splat(b, factor, lanes))
    return requantize_value(b, real, to.out_zero, to.lo, to.hi)


@spec_format("q_mean")
@dataclass(frozen=True)
class QMeanSpec(KernelSpec):
    """A mean over axes. kept: loops over the outputs, with strides of x and out. reduced: loops over the terms.

    per_index: terms of the outermost loop for each index of a bounded dimension, whose length an operand gives; 0:
    their number is fixed. Operands: x, out, length?.
    """

    to: Requantize
    kept: Nest
    reduced: Nest
    per_index: int = 0

    @property
    def family(self) -> str:
        return f"qmean_{self.to.dtype}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.kept.shape), f"k{self.reduced.elements}")

    @property
    def rows(self) -> int:
        return self.kept.rows

    @property
    def work(self) -> int:
        return self.kept.elements * self.reduced.elements


def _lower_mean(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    x, out = views[node.inputs[0]], views[node.output]
    if out.elements == 0:
        return ()
    axes = node.attr("axes")
    kept = [i for i in range(len(x.shape)) if i not in axes]
    positions = kept if node.attr("keepdims") else range(len(kept))
    shape = [x.shape[i] for i in kept]
    spec = QMeanSpec(
        requantize_of(node, x),
        collapse(shape, ([x.strides[i] for i in kept], [out.strides[i] for i in positions])),
        collapse([x.shape[i] for i in axes], ([x.strides[i] for i in axes],)),
    )
    return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)


def emit_mean(module: ir.Module, spec: QMeanSpec, machine: Machine) -> ir.Function:
    """Emit the loops: vectors along the outputs if these are contiguous, a sum per lane; else one output at a time."""
    function, b = kernel_function(module, spec, machine)
    x_step, out_step = (strides[-1] for strides in spec.kept.strides)
    lanes = machine.vector_bytes // 4
    count: ir.Value = const(spec.reduced.elements)
    loops: NestNumbers | None = None
    factor: ir.Value = ir.Constant(F32, float(np.float32(spec.to.multiplier / spec.reduced.elements)))
    if spec.per_index:
        outermost = scale_index(b, row_count(b, 2), spec.per_index, "outermost_terms")
        count = scale_index(b, outermost, prod(spec.reduced.shape[1:]))
        loops = NestNumbers((outermost, *spec.reduced.shape[1:]), spec.reduced.strides)
        # The quotient of f64 rounded to f32, as of a constant number of terms.
        factor = b.fptrunc(b.fdiv(ir.Constant(F64, spec.to.multiplier), b.sitofp(count, F64)), F32)
    inside = b.trunc(count, I32)

    def mean(addresses: list[ir.Value], vectors: int, wide: int, used: int) -> None:
        """Emit the means of `vectors` vectors of outputs. addresses: of the first input and output."""

        def term(at: ir.Value, acc: Values) -> Values:
            loaded = [load_lanes(b, address(b, at, i * wide), I8, wide, used, "x") for i in range(vectors)]
            return tuple(b.add(a, widen(b, value, spec.to.dtype)) for a, value in zip(acc, loaded, strict=True))

        zero = zero_sums(wide)
        totals = walk(b, spec.reduced, 1, addresses[0], (zero,) * vectors, term, loops)
        for i, total in enumerate(totals):
            result = emit_quantized_mean(b, spec.to, total, inside, factor, wide)
            store_lanes(b, result, address(b, addresses[1], i * wide), wide, used)

    def line(addresses: list[ir.Value], run: Line) -> None:
        if x_step == out_step == 1:

            def emit_vectors(i: ir.Value, vectors: int, used: int) -> None:
                mean([address(b, pointer, i) for pointer in addresses], vectors, lanes, used)

            along_line(b, run, lanes, 4, emit_vectors)
            return

        def emit_element(i: ir.Value) -> None:
            steps = (x_step, out_step)
            mean([address(b, p, scale_index(b, i, step)) for p, step in zip(addresses, steps, strict=True)], 1, 1, 1)

        repeat(b, run.begin, run.end(b), emit_element, "output")

    nest_rows(b, spec.kept, (operand(b, 0, "x"), operand(b, 1, "out")), (1, 1), line)
    b.ret_void()
    return function


def zero_sums(lanes: int) -> ir.Constant:
    """Return a vector of i32 zeros."""
    return ir.Constant(I32, 0) if lanes == 1 else ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)


LOWER = {"qmean": _lower_mean}
EMIT = {QMeanSpec: emit_mean}
