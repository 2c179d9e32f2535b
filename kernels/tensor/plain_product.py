"""Kernels of convolutions and matrix products of rare types (f64 and integers), without vectors.

Both are out[i] = sum over j of a[i, j] * w[i, j], with strides for the dimensions of i and of j.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Graph, Node
from mavcg.kernels.builder.activation import supported_unary, unary
from mavcg.kernels.builder.arithmetic import is_float
from mavcg.kernels.builder.emit import (
    HALVES,
    TYPES,
    Values,
    address,
    finish_rows,
    fma,
    kernel_function,
    number,
    operand,
    operands,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.nest_loops import decode
from mavcg.kernels.builder.product_loop import ProductLoop, TermPointers, nested_loops, single_products
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Step, View, arithmetic_of
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format


@spec_format("product_dimension")
@dataclass(frozen=True)
class ProductDimension:
    """A dimension of the result. length: its length. Others: stride of each operand along it, in elements."""

    length: int
    a: int
    w: int
    out: int
    bias: int
    residual: int


@spec_format("plain_product")
@dataclass(frozen=True)
class PlainProduct(KernelSpec):
    """act(sum + bias + residual), where each multiply-add rounds (floats) or wraps around (integers).

    outer: the result's dimensions. inner: the summed dimensions, as (length, stride in a, stride in w). A row of work
    is a line along the last outer dimension. Operands: a, w, out, bias?, residual?.
    """

    dtype: str
    outer: tuple[ProductDimension, ...]
    inner: tuple[tuple[int, int, int], ...]
    bias: bool
    residual: bool
    act: str
    act_args: tuple[float, ...]

    @property
    def family(self) -> str:
        return f"plain_product_{self.dtype}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*(d.length for d in self.outer)), f"k{prod(n for n, _, _ in self.inner)}")

    @property
    def macs(self) -> int:
        return prod(d.length for d in self.outer) * prod(n for n, _, _ in self.inner)

    @property
    def arithmetic(self) -> str:
        return arithmetic_of(self.dtype)

    @property
    def rows(self) -> int:
        return prod(d.length for d in self.outer[:-1]) if self.outer[-1].length else 0

    @property
    def work(self) -> int:
        return 8 * prod(d.length for d in self.outer) * prod(n for n, _, _ in self.inner)


def plain_matmul(node: Node, views: Mapping[str, View]) -> tuple[Step, ...]:
    """Return the step of a matmul of any type but f16. Raises: MavcgError for an activation without a kernel."""
    a, w, out, residual = (_view_of(node, views, i) for i in (0, 1, -1, 3))
    assert a is not None and w is not None and out is not None
    k, n = w.strides[-2:] if not node.attr("transpose_b") else w.strides[:-3:-1]
    rank = len(out.shape)
    strides_a, strides_w = (_broadcast(view, out.shape) for view in (a, w))
    strides_r = residual.strides if residual else (0,) * rank
    outer = [
        ProductDimension(out.shape[i], strides_a[i], strides_w[i], out.strides[i], 0, strides_r[i])
        for i in range(rank - 2)
    ]
    outer.append(ProductDimension(out.shape[-2], a.strides[-2], 0, out.strides[-2], 0, strides_r[-2]))
    outer.append(ProductDimension(out.shape[-1], 0, n, out.strides[-1], 1, strides_r[-1]))
    return _step(node, out.dtype, outer, [(a.shape[-1], a.strides[-1], k)])


def plain_conv2d(node: Node, graph: Graph, views: Mapping[str, View]) -> tuple[Step, ...]:
    """Return the step of a conv2d of any type but f16, whose image is already padded. Raises: as plain_matmul."""
    x, w, out, residual = (_view_of(node, views, i) for i in (0, 1, -1, 3))
    assert x is not None and w is not None and out is not None
    groups, (down, right), (gap_h, gap_w) = (node.attr(n) for n in ("groups", "stride", "dilation"))
    channels, filters = w.shape[3], w.shape[0] // groups
    strides_r = residual.strides if residual else (0,) * 4
    outer = [
        ProductDimension(out.shape[0], x.strides[0], 0, out.strides[0], 0, strides_r[0]),
        ProductDimension(out.shape[1], x.strides[1] * down, 0, out.strides[1], 0, strides_r[1]),
        ProductDimension(out.shape[2], x.strides[2] * right, 0, out.strides[2], 0, strides_r[2]),
        ProductDimension(
            groups,
            x.strides[3] * channels,
            w.strides[0] * filters,
            out.strides[3] * filters,
            filters,
            strides_r[3] * filters,
        ),
        ProductDimension(filters, 0, w.strides[0], out.strides[3], 1, strides_r[3]),
    ]
    inner = [
        (w.shape[1], x.strides[1] * gap_h, w.strides[1]),
        (w.shape[2], x.strides[2] * gap_w, w.strides[2]),
        (channels, x.strides[3], w.strides[3]),
    ]
    return _step(node, out.dtype, outer, inner)


def _view_of(node: Node, views: Mapping[str, View], index: int) -> View | None:
    names = (*node.inputs, "", "")
    name = node.output if index < 0 else names[index]
    return views[name] if name else None


def _broadcast(view: View, shape: Sequence[int]) -> list[int]:
    """Return the stride of a view for each dimension of the result, 0 where the view is broadcast."""
    missing = len(shape) - len(view.shape)
    lengths = (1,) * missing + view.shape
    return [0 if n == 1 else s for n, s in zip(lengths, (0,) * missing + view.strides, strict=True)]


def _step(
    node: Node, dtype: str, outer: Sequence[ProductDimension], inner: Sequence[tuple[int, int, int]]
) -> tuple[Step, ...]:
    bias, residual = (*node.inputs[2:], "", "")[:2]
    act = node.attr("act")
    if dtype in HALVES or (act and not supported_unary(act, dtype)):
        raise MavcgError(f"node '{node.origin}' ({node.op}): no kernel for {dtype} {act}; cast to f32 before it")
    spec = PlainProduct(
        dtype, tuple(outer), tuple(inner), bool(bias), bool(residual), act, tuple(node.attr("act_args"))
    )
    operands = [Operand(node.inputs[0]), Operand(node.inputs[1]), Operand(node.output, written=True)]
    operands += [Operand(name) for name in (bias, residual) if name]
    return (Step(spec, tuple(operands), node.origin),)


def emit_plain_product(module: ir.Module, spec: PlainProduct, machine: Machine) -> ir.Function:
    """Emit the loops: one accumulator, one product per iteration, in the order of the inner dimensions."""
    _, b = kernel_function(module, spec, machine)
    typ, size = TYPES[spec.dtype], DTYPES[spec.dtype].itemsize
    pointers = [*operands(b, "a", "w", "out")]
    steps = [[getattr(d, name) for d in spec.outer] for name in ("a", "w", "out")]
    for present, name in ((spec.bias, "bias"), (spec.residual, "residual")):
        if present:
            pointers.append(operand(b, len(pointers), name))
            steps.append([getattr(d, name) for d in spec.outer])

    def advance(addresses: Sequence[ir.Value], indices: Sequence[ir.Value], dimensions: slice) -> list[ir.Value]:
        addresses_at = []
        for pointer, strides in zip(addresses, steps, strict=True):
            for index, stride in zip(indices, strides[dimensions], strict=True):
                pointer = address(b, pointer, scale_index(b, index, stride * size))
            addresses_at.append(pointer)
        return addresses_at

    def row(number_: ir.Value) -> None:
        indices = decode(b, number_, [d.length for d in spec.outer[:-1]])
        addresses = advance(pointers, indices, slice(0, -1))
        repeat(b, 0, spec.outer[-1].length, lambda i: element(advance(addresses, [i], slice(-1, None))), "last")

    def element(addresses: Sequence[ir.Value]) -> None:
        total = emit_sum(addresses[0], addresses[1], number(ir.Constant(typ, 0), 0))
        for pointer in addresses[3:]:
            more = b.load(pointer, align=size, typ=typ)
            total = b.fadd(total, more) if is_float(spec.dtype) else b.add(total, more)
        if spec.act:
            total = unary(b, spec.act, spec.act_args, spec.dtype, total)
        b.store(total, addresses[2], align=size)

    products = _plain_products(b, spec.dtype)

    def emit_sum(a: ir.Value, w: ir.Value, total: ir.Value) -> ir.Value:
        def move(at: TermPointers, level: int, i: ir.Value) -> TermPointers:
            _, a_step, w_step = spec.inner[level]
            left, right = (
                address(b, p, scale_index(b, i, s * size)) for p, s in ((at.left, a_step), (at.right, w_step))
            )
            return TermPointers(left, right)

        def term(at: TermPointers, sums: Values) -> Values:
            return products.terms([at], sums)

        counts = [length for length, _, _ in spec.inner]
        return nested_loops(b, counts, TermPointers(a, w), move, term, (total,), "k")[0]

    return finish_rows(b, row)


def _plain_products(b: ir.IRBuilder, dtype: str) -> ProductLoop[TermPointers]:
    """Return the emitter of single products of a type: rounded once (floats), or wrapping around (integers)."""
    typ, size = TYPES[dtype], DTYPES[dtype].itemsize

    def multiply_add(total: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        return fma(b, x, y, total) if is_float(dtype) else b.add(total, b.mul(x, y))

    def left(at: TermPointers) -> ir.Value:
        return b.load(at.left, align=size, typ=typ)

    def right(at: TermPointers) -> ir.Value:
        return b.load(at.right, align=size, typ=typ)

    return single_products(b, left, right, multiply_add)


EMIT = {PlainProduct: emit_plain_product}
LOWER: dict[str, object] = {}  # conv2d and matmul call plain_conv2d and plain_matmul for types without other kernels
