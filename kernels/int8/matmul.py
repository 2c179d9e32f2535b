"""8-bit matrix products: a constant right side becomes a 1x1 convolution; a computed one is read in place, unpacked."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph import Graph, Node
from mavcg.kernels.builder.emit import (
    F32,
    I8,
    I32,
    address,
    const,
    finish_rows,
    kernel_function,
    operands,
    repeat,
    scale_index,
    vector,
)
from mavcg.kernels.builder.lanes import load_lanes, splat, store_lanes
from mavcg.kernels.builder.nest_loops import decode
from mavcg.kernels.builder.product_loop import single_products
from mavcg.kernels.builder.quantize import Int8Epilogue, epilogue_of, requantize_value, subtract_zero
from mavcg.kernels.conv.matmul import as_image, product_sizes
from mavcg.kernels.conv.unpacked_matmul import UnpackedProducts
from mavcg.kernels.int8.conv2d import qconv_step
from mavcg.kernels.int8.micro_kernel import F32_BYTES
from mavcg.kernels.int8.packed_weights import WeightForm
from mavcg.specs.kernel import Machine, Operand, Packing, Step, View
from mavcg.specs.serialize import spec_format

Value: TypeAlias = ir.Value


@spec_format("q_matmul")
@dataclass(frozen=True)
class QMatMul(UnpackedProducts):
    """A requantized product of 8-bit matrices, neither of which is packed.

    batch: the leading dimensions. m, k, n: sizes of one product, [m, k] x [k, n]. Strides are in elements: one for each
    batch dimension, 0 to broadcast, then two of the matrix. A row of work is a row of one product. Operands: a, b, out,
    bias i32[n], multiplier f32[n], shift f32[n] if there is one.
    """

    batch: tuple[int, ...]
    m: int
    k: int
    n: int
    a_strides: tuple[int, ...]
    b_strides: tuple[int, ...]
    out_strides: tuple[int, ...]
    dtype: str
    x_zero: int
    epilogue: Int8Epilogue
    shift: bool = False

    @property
    def family(self) -> str:
        return f"qmatmul_{self.dtype}"

    @property
    def rows(self) -> int:
        return prod(self.batch) * self.m if self.n else 0

    @property
    def work(self) -> int:
        return self.macs


def lower_qmatmul(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a qmatmul: with packed weights if the right side is constant and rows are evenly spaced."""
    a, right, out = (views[name] for name in (node.inputs[0], node.inputs[1], node.output))
    constants = [graph.constants.get(name) for name in node.inputs[1:] if name]
    x, y = as_image(a), as_image(out)
    weights = constants[0]
    if weights is not None and weights.ndim == 2 and all(c is not None for c in constants) and x and y and weights.size:
        form = WeightForm.MATRIX if node.attr("transpose_b") else WeightForm.TRANSPOSED
        return qconv_step(node, graph, x, y, form, packing)
    spec = QMatMul(
        *product_sizes(a, right, out, bool(node.attr("transpose_b"))),
        a.dtype,
        node.attr("x_zero"),
        epilogue_of(node),
        bool(node.inputs[4]),
    )
    names = (node.inputs[0], node.inputs[1], node.output, *(name for name in node.inputs[2:] if name))
    return (Step(spec, tuple(Operand(name, written=name == node.output) for name in names), node.origin),)


def emit_qmatmul(module: ir.Module, spec: QMatMul, machine: Machine) -> ir.Function:
    """Emit the product: vectors of columns if these are contiguous, else one column after the other."""
    _, b = kernel_function(module, spec, machine)
    names = ("a", "b", "out", "bias", "multiplier", *(("shift",) if spec.shift else ()))
    bases = operands(b, *names)
    beside = spec.n == 1 or (spec.b_strides[-1] == 1 and spec.out_strides[-1] == 1)
    lanes = machine.vector_bytes // 4 if beside and spec.n > 1 else 1
    a_step, b_step = spec.a_strides[-1], spec.b_strides[-2]

    def columns(addresses: list[Value], first: Value, used: int) -> None:
        """Emit a vector of outputs of one row, from column `first` on."""
        weights = address(b, addresses[1], scale_index(b, first, spec.b_strides[-1]))
        bias, multiplier, *shift = (address(b, p, scale_index(b, first, F32_BYTES)) for p in bases[3:])

        def left(k: Value) -> Value:
            return b.load(address(b, addresses[0], scale_index(b, k, a_step)), name="x", align=1, typ=I8)

        def right(k: Value) -> Value:
            return load_lanes(b, address(b, weights, scale_index(b, k, b_step)), I8, lanes, used, "w")

        def multiply_add(total: Value, x: Value, w: Value) -> Value:
            wide = splat(b, subtract_zero(b, x, spec.dtype, spec.x_zero), lanes)
            return b.add(total, b.mul(wide, b.sext(w, wide.type)))

        start = load_lanes(b, bias, I32, lanes, used, "bias")
        products = single_products(b, left, right, multiply_add)
        (total,) = products.loop(const(0), const(spec.k), 1, lambda k, _: [k], (start,))
        factor = load_lanes(b, multiplier, F32, lanes, used, "multiplier")
        value = b.fmul(b.sitofp(total, vector(F32, lanes)), factor)
        for added in shift:
            value = b.fadd(value, load_lanes(b, added, F32, lanes, used, "shift"))
        result = requantize_value(b, value, spec.epilogue.zero, spec.epilogue.lo, spec.epilogue.hi)
        store_lanes(b, result, address(b, addresses[2], scale_index(b, first, spec.out_strides[-1])), lanes, used)

    def row(index: Value) -> None:
        addresses = list(bases[:3])
        *outer, number = decode(b, index, (*spec.batch, spec.m))
        for i, strides in enumerate((spec.a_strides, spec.b_strides, spec.out_strides)):
            for at, stride in zip(outer, strides[:-2], strict=True):
                addresses[i] = address(b, addresses[i], scale_index(b, at, stride))
        for i, strides in ((0, spec.a_strides), (2, spec.out_strides)):
            addresses[i] = address(b, addresses[i], scale_index(b, number, strides[-2]))
        whole = spec.n // lanes * lanes
        if whole:
            repeat(b, 0, whole, lambda first: columns(addresses, first, lanes), "column", lanes)
        if spec.n % lanes:
            columns(addresses, const(whole), spec.n % lanes)

    return finish_rows(b, row)


LOWER = {"qmatmul": lower_qmatmul}
EMIT = {QMatMul: emit_qmatmul}
