"""Kernel of f32 layer normalisation, over the last axes of a tensor, and the loops over lines of normalised tensors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.builder.emit import (
    F32,
    I32,
    Values,
    address,
    const,
    f32_splat,
    finish_rows,
    for_range,
    intrinsic,
    kernel_function,
    load_vector,
    operand,
    scale_index,
    splat,
)
from mavcg.kernels.builder.nest import (
    Nest,
    advance,
    broadcast_strides,
    collapse,
    decode,
    load_lanes,
    shuffle,
    store_lanes,
)
from mavcg.specs.kernel import F32_BYTES, KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format

PARTS = 16  # partial sums of a line, in one vector; part of the spec, so that sums have the same order on every core


def refuse_other_types(node: Node, view: View) -> None:
    """Raise MavcgError unless a node's tensor has elements of f32."""
    if view.dtype != "f32":
        raise MavcgError(f"node '{node.origin}' ({node.op}): no kernel for {view.dtype}; cast to f32 before it")


def over_lines(
    b: ir.IRBuilder, nest: Nest, pointers: list[ir.Value], acc: Values, line: Callable[[list[ir.Value], Values], Values]
) -> Values:
    """Emit acc = line(addresses, acc) for each run along the nest's innermost dimension; return the final acc."""

    def level(dim: int, addresses: list[ir.Value], acc: Values) -> Values:
        if dim == len(nest.shape) - 1:
            return line(addresses, acc)
        steps = [strides[dim] for strides in nest.strides]

        def iteration(i: ir.Value, carried: Values) -> Values:
            return level(dim + 1, advance(b, addresses, steps, i, (F32_BYTES,) * len(steps)), carried)

        return for_range(b, const(0), const(nest.shape[dim]), 1, acc, iteration, f"i{dim}")

    return level(0, pointers, acc)


def along_vectors(
    b: ir.IRBuilder, length: int, lanes: int, acc: Values, body: Callable[[ir.Value, int, Values], Values]
) -> Values:
    """Emit acc = body(index, used lanes, acc) for each vector of a line; the last may be partial. Return the final
    acc."""
    whole = length // lanes * lanes
    acc = for_range(b, const(0), const(whole), lanes, acc, lambda i, carried: body(i, lanes, carried), "part")
    return body(const(whole), length - whole, acc) if length > whole else acc


def sum_of_lanes(b: ir.IRBuilder, parts: ir.Value) -> ir.Value:
    """Return the sum of all lanes, by halves."""
    if not isinstance(parts.type, ir.VectorType):
        return parts
    width = int(parts.type.count)
    while width > 1:
        width //= 2
        low, high = (shuffle(b, parts, parts, range(first, first + width)) for first in (0, width))
        parts = b.fadd(low, high)
    return b.extract_element(parts, const(0, I32), name="total")


def load_of_line(b: ir.IRBuilder, pointer: ir.Value, i: ir.Value, step: int, lanes: int, used: int) -> ir.Value:
    """Return a vector of a line's elements from number i on. step: 1 (contiguous) or 0 (broadcast)."""
    at = address(b, pointer, scale_index(b, i, step * F32_BYTES))
    return splat(b, load_vector(b, at, F32), lanes) if step == 0 else load_lanes(b, at, F32, lanes, used)


@spec_format("layer_norm")
@dataclass(frozen=True)
class LayerNormSpec(KernelSpec):
    """A layer normalisation, (x - mean) / sqrt(variance + epsilon) * scale + bias.

    A row of work is the elements of one mean. outer: loops over rows with strides of x and out. inner: loops inside a
    row with strides of x, scale, bias?, out.
    """

    outer: Nest
    inner: Nest
    bias: bool
    epsilon: float

    @property
    def family(self) -> str:
        return "layer_norm_f32"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.outer.shape), f"k{self.inner.elements}")

    @property
    def rows(self) -> int:
        return self.outer.elements

    @property
    def work(self) -> int:
        return 6 * self.rows * self.inner.elements


def _lower_layer_norm(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the node's step, a single kernel. Raises: MavcgError for a type other than f32."""
    names = [name for name in node.inputs if name]
    x, out = views[names[0]], views[node.output]
    refuse_other_types(node, x)
    if out.elements == 0:
        return ()
    axis = node.attr("axis") % len(x.shape)
    inside = x.shape[axis:]
    parameters = [broadcast_strides(views[name], inside) for name in names[1:]]
    spec = LayerNormSpec(
        collapse(x.shape[:axis], (x.strides[:axis], out.strides[:axis])),
        collapse(inside, (x.strides[axis:], *parameters, out.strides[axis:])),
        len(names) == 3,
        node.attr("epsilon"),
    )
    return (Step(spec, (*map(Operand, names), Operand(node.output, written=True)), node.origin),)


def emit_layer_norm(module: ir.Module, spec: LayerNormSpec, machine: Machine) -> ir.Function:
    """Emit three loops over each row: the sum, the sum of squared differences from the mean, the results."""
    _, b = kernel_function(module, spec, machine)
    pointers = [operand(b, i) for i in range(len(spec.inner.strides))]
    steps = [strides[-1] for strides in spec.inner.strides]
    lanes = PARTS if steps[0] == steps[-1] == 1 and all(step in (0, 1) for step in steps) else 1
    length, count = spec.inner.shape[-1], float(spec.inner.elements)
    zero = f32_splat(0.0, lanes)

    def sum_of(addresses: list[ir.Value], term: Callable[[ir.Value], ir.Value]) -> ir.Value:
        def line(at: list[ir.Value], acc: Values) -> Values:
            def vector(i: ir.Value, used: int, carried: Values) -> Values:
                value = term(load_of_line(b, at[0], i, steps[0], lanes, used))
                if used < lanes:
                    value = shuffle(b, value, zero, [j if j < used else lanes + j for j in range(lanes)])
                return (b.fadd(carried[0], value),)

            return along_vectors(b, length, lanes, acc, vector)

        return sum_of_lanes(b, over_lines(b, spec.inner, addresses, (zero,), line)[0])

    def row(index: ir.Value) -> None:
        x, *parameters, out = pointers
        for i, x_step, out_step in zip(decode(b, index, spec.outer.shape), *spec.outer.strides, strict=True):
            x, out = advance(b, (x, out), (x_step, out_step), i, (F32_BYTES, F32_BYTES))
        addresses = [x, *parameters, out]
        mean = b.fdiv(sum_of(addresses, lambda value: value), ir.Constant(F32, count), name="mean")
        means = splat(b, mean, lanes)

        def square(value: ir.Value) -> ir.Value:
            rest = b.fsub(value, means)
            return b.fmul(rest, rest)

        variance = b.fdiv(sum_of(addresses, square), ir.Constant(F32, count), name="variance")
        spread = intrinsic(b, "sqrt", [b.fadd(variance, ir.Constant(F32, spec.epsilon))])
        factor = splat(b, b.fdiv(ir.Constant(F32, 1.0), spread), lanes)

        def line(at: list[ir.Value], acc: Values) -> Values:
            def vector(i: ir.Value, used: int, carried: Values) -> Values:
                value, *others = (
                    load_of_line(b, pointer, i, step, lanes, used)
                    for pointer, step in zip(at[:-1], steps[:-1], strict=True)
                )
                value = b.fmul(b.fmul(b.fsub(value, means), factor), others[0])
                value = b.fadd(value, others[1]) if spec.bias else value
                store_lanes(b, value, address(b, at[-1], scale_index(b, i, steps[-1] * F32_BYTES)), lanes, used)
                return ()

            return along_vectors(b, length, lanes, acc, vector)

        over_lines(b, spec.inner, addresses, (), line)

    return finish_rows(b, row)


LOWER = {"layer_norm": _lower_layer_norm}
EMIT = {LayerNormSpec: emit_layer_norm}
