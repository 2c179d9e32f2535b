"""Kernel of local response normalisation over channels (LRN)."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from mavcg.graph import DTYPES, Graph, Node
from mavcg.kernels.builder.arithmetic import round_to
from mavcg.kernels.builder.double_math import power
from mavcg.kernels.builder.emit import (
    F32,
    Values,
    address,
    const,
    finish_rows,
    fma,
    for_range,
    intrinsic,
    kernel_function,
    number,
    repeat,
    scale_index,
    vector,
)
from mavcg.kernels.builder.lanes import load_vector, store_lanes, store_vector
from mavcg.kernels.builder.nest import Nest, nest_numbers
from mavcg.kernels.builder.nest_loops import decode
from mavcg.kernels.builder.run_numbers import load_numbers, times
from mavcg.kernels.tensor.layer_norm import PARTS, along_vectors, load_of_line, refuse_other_types
from mavcg.specs.kernel import F32_BYTES, KernelSpec, Machine, Operand, Packing, Step, View, Words
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format


@spec_format("lrn")
@dataclass(frozen=True)
class LrnSpec(KernelSpec):
    """A local response normalisation, x / (bias + alpha / size * sum of squares of `size` neighbouring channels) ^
    beta.

    A row of work is a pixel. outer: loops over pixels with strides of x and out. channels: (number of channels, stride
    in x, stride in out). words: lengths and strides of outer that a run sets. The scratch holds a pixel's squares with
    zeros before and after them, in f32. Operands: x, out, words.
    """

    outer: Nest
    channels: tuple[int, int, int]
    size: int
    alpha: float
    beta: float
    bias: float
    dtype: str = "f32"
    words: Words = ()

    @property
    def family(self) -> str:
        return f"lrn_{self.dtype}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.outer.shape, self.channels[0]), f"k{self.size}")

    @property
    def rows(self) -> int:
        return prod(self.outer.shape)

    @property
    def scratch_bytes(self) -> int:
        return F32_BYTES * (self.channels[0] + self.size + 2 * PARTS)

    @property
    def work(self) -> int:
        return self.rows * self.channels[0] * (self.size + 10)


def _lower_lrn(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the node's step, a single kernel. Raises: MavcgError for a type without a kernel."""
    x, out = views[node.inputs[0]], views[node.output]
    refuse_other_types(node, x)
    if out.elements == 0:
        return ()
    spec = LrnSpec(
        Nest(x.shape[:-1] or (1,), (x.strides[:-1] or (0,), out.strides[:-1] or (0,))),
        (x.shape[-1], x.strides[-1], out.strides[-1]),
        node.attr("size"),
        node.attr("alpha"),
        node.attr("beta"),
        node.attr("bias"),
        x.dtype,
    )
    return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)


def _divide(b: ir.IRBuilder, x: ir.Value, base: ir.Value, beta: float) -> ir.Value:
    """Return x / base^beta, by square roots for the exponents that networks use; base is above 0 in sensible
    networks."""
    if beta == 1.0:
        return b.fdiv(x, base)
    root = intrinsic(b, "sqrt", [base])
    if beta == 0.5:
        return b.fdiv(x, root)
    if beta == 0.75:
        return b.fdiv(x, b.fmul(root, intrinsic(b, "sqrt", [root])))
    return b.fdiv(x, power(b, "f32", base, number(base, beta)))


def emit_lrn(module: ir.Module, spec: LrnSpec, machine: Machine) -> ir.Function:
    """Emit the loops over pixels: squares are stored to scratch once; each sum then loads `size` neighbours."""
    function, b = kernel_function(module, spec, machine)
    numbers = load_numbers(b, spec.words, 2)
    x, out, scratch = numbers.operand(0, "x"), numbers.operand(1, "out"), function.args[3]
    outer = nest_numbers(numbers, spec.outer, "outer")
    length, x_step, out_step = spec.channels
    lanes = PARTS if x_step == out_step == 1 else 1
    before, size = (spec.size - 1) // 2, DTYPES[spec.dtype].itemsize
    squares = address(b, scratch, before * F32_BYTES, "squares")

    def clear(i: ir.Value) -> None:
        store_vector(b, ir.Constant(F32, 0.0), address(b, scratch, scale_index(b, i, F32_BYTES)))

    repeat(b, 0, before, clear, "zero_before")
    repeat(b, before + length, before + length + spec.size // 2 + lanes, clear, "zero_after")

    def row(index: ir.Value) -> None:
        from_, to = x, out
        for i, x_stride, out_stride in zip(decode(b, index, outer.shape), *outer.strides, strict=True):
            from_ = address(b, from_, times(b, i, x_stride, size))
            to = address(b, to, times(b, i, out_stride, size))

        def square(i: ir.Value, used: int, _: Values) -> Values:
            value = load_of_line(b, from_, i, x_step, lanes, used, spec.dtype)
            store_lanes(b, b.fmul(value, value), address(b, squares, scale_index(b, i, F32_BYTES)), lanes, used)
            return ()

        def result(i: ir.Value, used: int, _: Values) -> Values:
            first = address(b, scratch, scale_index(b, i, F32_BYTES))
            typ = vector(F32, lanes)

            def tap(k: ir.Value, acc: Values) -> Values:
                return (b.fadd(acc[0], load_vector(b, address(b, first, scale_index(b, k, F32_BYTES)), typ)),)

            (around,) = for_range(b, const(1), const(spec.size), 1, (load_vector(b, first, typ),), tap, "tap")
            base = fma(b, around, number(around, spec.alpha / spec.size), number(around, spec.bias))
            value = _divide(b, load_of_line(b, from_, i, x_step, lanes, used, spec.dtype), base, spec.beta)
            at = address(b, to, scale_index(b, i, out_step * size))
            store_lanes(b, round_to(b, value, spec.dtype), at, lanes, used)
            return ()

        along_vectors(b, length, lanes, (), square)
        along_vectors(b, length, lanes, (), result)

    return finish_rows(b, row)


LOWER = {"lrn": _lower_lrn}
EMIT = {LrnSpec: emit_lrn}
HALF = dict.fromkeys(LOWER, ())
