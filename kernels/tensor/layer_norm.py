"""Kernel of layer normalisation over the last axes of a tensor, and the loops over lines of normalised tensors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Graph, Node
from mavcg.kernels.builder.arithmetic import round_to, widen_half
from mavcg.kernels.builder.emit import (
    F32,
    HALVES,
    I32,
    TYPES,
    Values,
    address,
    const,
    element_bytes,
    finish_rows,
    for_range,
    intrinsic,
    kernel_function,
    scale_index,
)
from mavcg.kernels.builder.lanes import f32_splat, load_lanes, load_vector, shuffle, splat, store_lanes
from mavcg.kernels.builder.nest import Nest, broadcast_strides, collapse, nest_numbers
from mavcg.kernels.builder.nest_loops import advance, decode
from mavcg.kernels.builder.run_numbers import Number, load_numbers, times
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View, Words
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format

PARTS = 16  # partial sums of a line, in one vector; part of the spec, so that sums have the same order on every core


def refuse_other_types(node: Node, view: View, dtypes: Sequence[str] = ("f32", *sorted(HALVES))) -> None:
    """Raise MavcgError unless a node's tensor has elements of one of these types."""
    if view.dtype not in dtypes:
        raise MavcgError(f"node '{node.origin}' ({node.op}): no kernel for {view.dtype}; cast to f32 before it")


def over_lines(
    b: ir.IRBuilder,
    nest: Nest,
    pointers: list[ir.Value],
    item_bytes: Sequence[int],
    acc: Values,
    line: Callable[[list[ir.Value], Values], Values],
) -> Values:
    """Emit acc = line(addresses, acc) for each run along the nest's innermost dimension; return the final acc.

    item_bytes: element size of each operand.
    """

    def level(dim: int, addresses: list[ir.Value], acc: Values) -> Values:
        if dim == len(nest.shape) - 1:
            return line(addresses, acc)
        steps = [strides[dim] for strides in nest.strides]

        def iteration(i: ir.Value, carried: Values) -> Values:
            return level(dim + 1, advance(b, addresses, steps, i, item_bytes), carried)

        return for_range(b, const(0), const(nest.shape[dim]), 1, acc, iteration, f"i{dim}")

    return level(0, pointers, acc)


def along_vectors(
    b: ir.IRBuilder, length: Number, lanes: int, acc: Values, body: Callable[[ir.Value, int, Values], Values]
) -> Values:
    """Emit acc = body(index, used lanes, acc) for each vector of a line; the last may be partial, and where a run sets
    the length, the rest are single elements. Return the final acc."""
    if not isinstance(length, int):
        end = b.sub(length, b.urem(length, const(lanes)), name="whole")
        acc = for_range(b, const(0), end, lanes, acc, lambda i, carried: body(i, lanes, carried), "part")
        return for_range(b, end, length, 1, acc, lambda i, carried: body(i, 1, carried), "rest") if lanes > 1 else acc
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


def load_of_line(
    b: ir.IRBuilder, pointer: ir.Value, i: ir.Value, step: int, lanes: int, used: int, dtype: str = "f32"
) -> ir.Value:
    """Return a vector of a line's elements from number i on, as f32. step: 1 (contiguous) or 0 (broadcast)."""
    typ = TYPES[dtype]
    at = address(b, pointer, scale_index(b, i, step * element_bytes(typ)))
    return widen_half(b, splat(b, load_vector(b, at, typ), lanes) if step == 0 else load_lanes(b, at, typ, lanes, used))


@spec_format("layer_norm")
@dataclass(frozen=True)
class LayerNormSpec(KernelSpec):
    """A layer normalisation, (x - mean) / sqrt(variance + epsilon) * scale + bias; one that is not centred takes 0 for
    the mean, so that it divides by the root of the mean square.

    A row of work is the elements of one mean. outer: loops over rows with strides of x and out. inner: loops inside a
    row with strides of x, scale, bias?, out. dtype: of x and out; sums, scale and bias are f32. words: numbers of
    outer, and the length of a single inner loop, that a run sets. Operands: x, scale, bias?, out, words.
    """

    outer: Nest
    inner: Nest
    bias: bool
    epsilon: float
    dtype: str = "f32"
    centred: bool = True
    words: Words = ()

    @property
    def family(self) -> str:
        return f"{'layer' if self.centred else 'rms'}_norm_{self.dtype}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.outer.shape), f"k{self.inner.elements}")

    @property
    def rows(self) -> int:
        return self.outer.elements

    @property
    def work(self) -> int:
        return (6 if self.centred else 4) * self.rows * self.inner.elements


def _lower_layer_norm(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the node's step, a single kernel. Raises: MavcgError for a type without a kernel."""
    names = [name for name in node.inputs if name]
    x, out = views[names[0]], views[node.output]
    refuse_other_types(node, x)
    for name in names[1:]:
        refuse_other_types(node, views[name], ("f32",))
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
        x.dtype,
        node.attr("centred"),
    )
    return (Step(spec, (*map(Operand, names), Operand(node.output, written=True)), node.origin),)


def emit_layer_norm(module: ir.Module, spec: LayerNormSpec, machine: Machine) -> ir.Function:
    """Emit three loops over each row: the sum, the sum of squared differences from the mean, the results; without the
    first of a norm that is not centred."""
    _, b = kernel_function(module, spec, machine)
    numbers = load_numbers(b, spec.words, len(spec.inner.strides))
    pointers = [numbers.operand(i) for i in range(len(spec.inner.strides))]
    outer, run_length = nest_numbers(numbers, spec.outer, "outer"), numbers.at("inner.shape.0", spec.inner.shape[0])
    steps = [strides[-1] for strides in spec.inner.strides]
    dtypes = (spec.dtype, *["f32"] * (len(steps) - 2), spec.dtype)
    sizes = [DTYPES[dtype].itemsize for dtype in dtypes]
    lanes = PARTS if steps[0] == steps[-1] == 1 and all(step in (0, 1) for step in steps) else 1
    length: Number = spec.inner.shape[-1]
    count = ir.Constant(F32, float(spec.inner.elements))
    if not isinstance(run_length, int):
        length, count = run_length, b.uitofp(run_length, F32, name="count")
    zero = f32_splat(0.0, lanes)

    def sum_of(addresses: list[ir.Value], term: Callable[[ir.Value], ir.Value]) -> ir.Value:
        def line(at: list[ir.Value], acc: Values) -> Values:
            def vector(i: ir.Value, used: int, carried: Values) -> Values:
                value = term(load_of_line(b, at[0], i, steps[0], lanes, used, spec.dtype))
                if used < lanes and not isinstance(length, int):  # one of the rest: in the lane of its number
                    lane = b.trunc(b.urem(i, const(lanes)), I32)
                    value = b.insert_element(zero, b.extract_element(value, const(0, I32)), lane)
                elif used < lanes:
                    value = shuffle(b, value, zero, [j if j < used else lanes + j for j in range(lanes)])
                return (b.fadd(carried[0], value),)

            return along_vectors(b, length, lanes, acc, vector)

        if not isinstance(length, int):
            return sum_of_lanes(b, line(addresses, (zero,))[0])
        return sum_of_lanes(b, over_lines(b, spec.inner, addresses, sizes, (zero,), line)[0])

    def row(index: ir.Value) -> None:
        x, *parameters, out = pointers
        for i, x_step, out_step in zip(decode(b, index, outer.shape), *outer.strides, strict=True):
            x, out = address(b, x, times(b, i, x_step, sizes[0])), address(b, out, times(b, i, out_step, sizes[-1]))
        addresses = [x, *parameters, out]
        means = None
        if spec.centred:
            mean = b.fdiv(sum_of(addresses, lambda value: value), count, name="mean")
            means = splat(b, mean, lanes)

        def centre(value: ir.Value) -> ir.Value:
            return value if means is None else b.fsub(value, means)

        def square(value: ir.Value) -> ir.Value:
            rest = centre(value)
            return b.fmul(rest, rest)

        variance = b.fdiv(sum_of(addresses, square), count, name="variance")
        spread = intrinsic(b, "sqrt", [b.fadd(variance, ir.Constant(F32, spec.epsilon))])
        factor = splat(b, b.fdiv(ir.Constant(F32, 1.0), spread), lanes)

        def line(at: list[ir.Value], acc: Values) -> Values:
            def vector(i: ir.Value, used: int, carried: Values) -> Values:
                value, *others = (
                    load_of_line(b, pointer, i, step, lanes, used, dtype)
                    for pointer, step, dtype in zip(at[:-1], steps[:-1], dtypes[:-1], strict=True)
                )
                value = b.fmul(b.fmul(centre(value), factor), others[0])
                value = b.fadd(value, others[1]) if spec.bias else value
                to = address(b, at[-1], scale_index(b, i, steps[-1] * sizes[-1]))
                store_lanes(b, round_to(b, value, spec.dtype), to, lanes, used)
                return ()

            return along_vectors(b, length, lanes, acc, vector)

        if isinstance(length, int):
            over_lines(b, spec.inner, addresses, sizes, (), line)
        else:
            line(addresses, ())

    return finish_rows(b, row)


LOWER = {"layer_norm": _lower_layer_norm}
EMIT = {LayerNormSpec: emit_layer_norm}
HALF = {"layer_norm": (1, 2)}
