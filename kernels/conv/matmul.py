"""Products of matrices of floats: a constant right side becomes a 1x1 convolution; a computed one is read in place."""

from collections.abc import Mapping
from math import prod
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph import Graph, Node
from mavcg.kernels.conv.conv2d import PRODUCT_TYPES, check_bias, conv_step, packing_of_pixels, step_terms_of
from mavcg.kernels.conv.products_of_run import emit_products_of_run
from mavcg.kernels.conv.unpacked_matmul import PLAIN, MatMul, emit_matmul, matmul_registers
from mavcg.kernels.gemm.product_types import packed_terms
from mavcg.kernels.gemm.tile import packed_matrix
from mavcg.kernels.tensor.plain_product import plain_matmul
from mavcg.specs.kernel import Machine, Operand, Packing, Step, View
from mavcg.specs.sums_of_products import Window
from mavcg.specs.tile_plan import MacroTile

Shape: TypeAlias = tuple[int, ...]
ProductSizes: TypeAlias = tuple[Shape, int, int, int, Shape, Shape, Shape]


def lower_matmul(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a matmul node: with packed weights if the right side is constant and rows are evenly spaced.

    Raises: as check_bias.
    """
    a, right, out = views[node.inputs[0]], node.inputs[1], views[node.output]
    if out.dtype not in PRODUCT_TYPES:
        return plain_matmul(node, views)
    check_bias(node, views)
    names = [node.inputs[0], node.output, *(n for n in node.inputs[3:] if n)]
    images = {name: as_image(views[name]) for name in names}
    constant = graph.constants.get(right)
    if constant is not None and constant.ndim == 2 and all(view is not None for view in images.values()):
        rows, columns = constant.shape
        transposed, stored = bool(node.attr("transpose_b")), node.attr("weights")
        seen = {**views, **{name: view for name, view in images.items() if view is not None}}
        image = seen[node.output]
        packing = packing_of_pixels(packing, image)
        terms = step_terms_of(out.dtype, columns if transposed else rows, image, packing)
        packing_of = (transposed, packing.lanes, out.dtype, stored, packed_terms(terms))
        weights = packed_matrix(right, (rows, columns), *packing_of)
        return conv_step(node, seen[node.inputs[0]], image, Window(), seen, packing, weights, terms)
    return _lower_unpacked(node, a, views[right], out, views)


def _lower_unpacked(node: Node, a: View, right: View, out: View, views: Mapping[str, View]) -> tuple[Step, ...]:
    bias, residual = (*node.inputs[2:], "", "")[:2]
    spec = MatMul(
        *product_sizes(a, right, out, bool(node.attr("transpose_b"))),
        views[residual].strides if residual else None,
        bool(bias),
        node.attr("act"),
        tuple(node.attr("act_args")),
        out.dtype,
    )
    operands = [Operand(node.inputs[0]), Operand(node.inputs[1]), Operand(node.output, written=True)]
    operands += [Operand(name) for name in (bias, residual) if name]
    return (Step(spec, tuple(operands), node.origin),)


def product_sizes(a: View, right: View, out: View, transpose_right: bool) -> ProductSizes:
    """Return (batch, m, k, n, strides of a, of the right side, of out) of products of two views."""
    if transpose_right:
        shape, strides = right.shape, right.strides
        right = View(right.dtype, (*shape[:-2], *shape[:-3:-1]), (*strides[:-2], *strides[:-3:-1]))
    batch = out.shape[:-2]
    m, k, n = *a.shape[-2:], right.shape[-1]
    return batch, m, k, n, batch_strides(a, batch), batch_strides(right, batch), out.strides


def batch_strides(view: View, batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of the batch dimensions, 0 where the view is broadcast, then the two of the matrix."""
    lengths, strides = view.shape[:-2], view.strides[:-2]
    missing = len(batch) - len(lengths)
    outer = (0,) * missing + tuple(0 if n == 1 else s for n, s in zip(lengths, strides, strict=True))
    return (*outer, *view.strides[-2:])


def as_image(view: View) -> View | None:
    """Return a view [.., M, K] as an image of height prod(..), width M, K channels; None if rows are not evenly
    spaced."""
    shape, strides = (1, 1, *view.shape), (0, 0, *view.strides)
    outer = [(n, s) for n, s in zip(shape[:-2], strides[:-2], strict=True) if n != 1]
    for (_, stride), (length, inside) in zip(outer, outer[1:], strict=False):
        if stride != length * inside:
            return None
    if shape[-1] > 1 and strides[-1] != 1:
        return None
    height = prod(n for n, _ in outer)
    return View(view.dtype, (1, height, shape[-2], shape[-1]), (0, outer[-1][1] if outer else 0, strides[-2], 1))


def emit_unpacked(module: ir.Module, spec: MatMul, machine: Machine, macro: MacroTile = PLAIN) -> ir.Function:
    """Emit the function of a spec for a machine. macro: as of emit_matmul; numbers of a run are cut into no blocks."""
    return emit_products_of_run(module, spec, machine) if spec.words else emit_matmul(module, spec, machine, macro)


LOWER = {"matmul": lower_matmul}
EMIT = {MatMul: emit_unpacked}
EMIT_TILED = {MatMul: emit_unpacked}
HALF = {"matmul": (2,)}
REGISTERS = {MatMul: matmul_registers}
