"""Kernels of element-wise operators, with NumPy's broadcasting, on strided views of every type."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.graph.ops.elementwise import ACTIVATIONS, ARITHMETIC, COMPARISONS, PRODUCT_PAIRS
from mavcg.kernels.builder import quantize
from mavcg.kernels.builder.activation import supported_unary, unary
from mavcg.kernels.builder.arithmetic import BINARY, convert, flags, is_float, remainder, round_to, widen_half
from mavcg.kernels.builder.double_math import EXACT_EXPONENTS, fixed_power
from mavcg.kernels.builder.emit import (
    HALVES,
    TYPES,
    address,
    element_bytes,
    kernel_function,
    number,
    repeat,
    scale_index,
    with_element,
)
from mavcg.kernels.builder.lanes import load_lanes, load_vector, splat, store_lanes, store_vector
from mavcg.kernels.builder.nest import Nest, NestKernel, broadcast_strides, collapse, nest_numbers
from mavcg.kernels.builder.nest_loops import Line, along_line, nest_rows
from mavcg.kernels.builder.run_numbers import load_numbers, times
from mavcg.specs.kernel import Machine, Operand, Packing, Step, View, Words
from mavcg.specs.serialize import spec_format

_CHEAP = (
    "relu",
    "neg",
    "abs",
    "sqrt",
    "floor",
    "ceil",
    "round",
    "clip",
    "leaky_relu",
    "add",
    "sub",
    "mul",
    "max",
    "min",
    "and",
    "or",
    "xor",
    "not",
    "where",
    "cast",
    "bitcast",
    "prelu",
    *PRODUCT_PAIRS,
    *COMPARISONS,
)


@spec_format("elementwise")
@dataclass(frozen=True)
class ElementwiseSpec(NestKernel):
    """An element-wise operator, output = op(inputs).

    args: the operator's parameters, as COMPUTE takes them. dtypes: types of the inputs, then of the output. nest: loops
    with the strides of the inputs, 0 where they are broadcast, then of the output. words: numbers of the nest that a
    run sets. Operands: inputs, output, words.
    """

    op: str
    args: tuple[float, ...]
    dtypes: tuple[str, ...]
    nest: Nest
    words: Words = ()

    @property
    def family(self) -> str:
        return f"{self.op}_{self.dtypes[0]}"

    @property
    def cheap(self) -> bool:
        """True if the time is that of memory, not of arithmetic."""
        return self.op in _CHEAP

    @property
    def work(self) -> int:
        if self.op in PRODUCT_PAIRS:  # three operations, of twice the operands of one
            return self.nest.elements * 4
        return self.nest.elements * (1 if self.cheap else 8)


Values = Sequence[ir.Value]
Compute = Callable[[ir.IRBuilder, Sequence[float], Sequence[str], Values], ir.Value]


def _prelu(b: ir.IRBuilder, args: Sequence[float], dtypes: Sequence[str], values: Values) -> ir.Value:
    x, slope = values
    return b.select(b.fcmp_ordered("<", x, number(x, 0.0)), b.fmul(slope, x), x)


def _product_pair(op: str) -> Compute:
    """Return the computation of two products and their sum or difference, each of which is rounded."""

    def emit(b: ir.IRBuilder, args: Sequence[float], dtypes: Sequence[str], values: Values) -> ir.Value:
        first, second = b.fmul(*values[:2]), b.fmul(*values[2:])
        return b.fadd(first, second) if op == "add_products" else b.fsub(first, second)

    return emit


def _compute_unary(op: str) -> Compute:
    return lambda b, args, dtypes, values: unary(b, op, args, dtypes[0], values[0])


def _compute_binary(op: str) -> Compute:
    return lambda b, args, dtypes, values: BINARY[op](b, dtypes[0], values[0], values[1])


def _through_f32(compute: Compute) -> Compute:
    """Return the computation in f32 of values of f16 or bf16, with one rounding at the end; of other values
    unchanged."""

    def emit(b: ir.IRBuilder, args: Sequence[float], dtypes: Sequence[str], values: Values) -> ir.Value:
        wide = ["f32" if dtype in HALVES else dtype for dtype in dtypes]
        return round_to(b, compute(b, args, wide, [widen_half(b, value) for value in values]), dtypes[-1])

    return emit


def _mod(b: ir.IRBuilder, args: Sequence[float], dtypes: Sequence[str], values: Values) -> ir.Value:
    return remainder(b, dtypes[0], values[0], values[1], bool(args[0]))


def _fixed_pow(b: ir.IRBuilder, args: Sequence[float], dtypes: Sequence[str], values: Values) -> ir.Value:
    return fixed_power(b, values[0], args[0])


COMPUTE: Mapping[str, Compute] = {
    **{op: _compute_unary(op) for op in ACTIVATIONS},
    **{op: _compute_binary(op) for op in BINARY},
    **{op: _product_pair(op) for op in PRODUCT_PAIRS},
    "not": lambda b, args, dtypes, values: b.xor(values[0], number(values[0], 1)),
    "mod": _through_f32(_mod),
    "pow": _through_f32(_compute_binary("pow")),
    "fixed_pow": _through_f32(_fixed_pow),
    "prelu": _prelu,
    "where": lambda b, args, dtypes, values: b.select(flags(b, values[0]), values[1], values[2]),
    "bitcast": lambda b, args, dtypes, values: b.bitcast(values[0], with_element(values[0], TYPES[dtypes[1]])),
    "cast": lambda b, args, dtypes, values: convert(b, values[0], dtypes[0], dtypes[1]),
    "quantize": lambda b, args, dtypes, values: quantize.quantize_value(b, dtypes[-1], *values),
    "dequantize": lambda b, args, dtypes, values: quantize.dequantize_value(b, dtypes[0], *values),
    "qadd": quantize.add_quantized,
    "qmul": quantize.multiply_quantized,
}


def _compute_of(spec: ElementwiseSpec) -> Compute:
    """Return the computation of a spec; no core computes in bf16."""
    compute = COMPUTE[spec.op]
    return _through_f32(compute) if "bf16" in spec.dtypes and spec.op not in ("cast", "bitcast", "where") else compute


def _is_scalar_only(spec: ElementwiseSpec) -> bool:
    """Return True for operators without a vector form: integer divisions, and operators with a loop per element."""
    whole = not is_float(spec.dtypes[0])
    return (spec.op in ("div", "pow", "mod") and whole) or spec.op == "mod"


def emit_elementwise(module: ir.Module, spec: ElementwiseSpec, machine: Machine) -> ir.Function:
    """Emit the loops: vectors along the innermost dimension if each input is contiguous or broadcast there, else
    scalars."""
    function, b = kernel_function(module, spec, machine)
    types = [TYPES[dtype] for dtype in spec.dtypes]
    sizes = [element_bytes(typ) for typ in types]
    numbers = load_numbers(b, spec.words, len(types))
    pointers = [numbers.operand(i) for i in range(len(types))]
    nest = nest_numbers(numbers, spec.nest)
    steps = [strides[-1] for strides in nest.strides]
    lanes = machine.vector_bytes // max(sizes)
    compute = partial(_compute_of(spec), b, spec.args, spec.dtypes)

    def vectors(addresses: list[ir.Value], line: Line) -> None:
        fixed = [
            splat(b, load_vector(b, pointer, typ), lanes) if step == 0 else None
            for pointer, typ, step in zip(addresses[:-1], types, steps, strict=False)
        ]

        def emit_vectors(index: ir.Value, count: int, used: int) -> None:
            at = [
                address(b, pointer, scale_index(b, index, size)) for pointer, size in zip(addresses, sizes, strict=True)
            ]
            results = []
            for i in range(count):
                values = [
                    broadcast
                    if broadcast is not None
                    else load_lanes(b, address(b, pointer, i * lanes * size), typ, lanes, used, f"x{n}")
                    for n, (broadcast, pointer, typ, size) in enumerate(zip(fixed, at, types, sizes, strict=False))
                ]
                results.append(compute(values))
            for i, result in enumerate(results):
                store_lanes(b, result, address(b, at[-1], i * lanes * sizes[-1]), lanes, used)

        along_line(b, line, lanes, 2 if spec.cheap else 1, emit_vectors)

    def singly(addresses: list[ir.Value], line: Line) -> None:
        def emit_element(index: ir.Value) -> None:
            at = [
                address(b, pointer, times(b, index, step, size))
                for pointer, step, size in zip(addresses, steps, sizes, strict=True)
            ]
            values = [load_vector(b, pointer, typ) for pointer, typ in zip(at[:-1], types, strict=False)]
            store_vector(b, compute(values), at[-1])

        repeat(b, line.begin, line.end(b), emit_element, "element")

    in_vectors = steps[-1] == 1 and all(step in (0, 1) for step in steps) and not _is_scalar_only(spec)
    nest_rows(b, spec.nest, pointers, sizes, vectors if in_vectors else singly, nest)
    b.ret_void()
    return function


def _is_supported(op: str, dtype: str) -> bool:
    if op in ACTIVATIONS:
        return supported_unary(op, dtype)
    if op in ("quantize", "dequantize"):
        return dtype not in HALVES
    return not (dtype == "f64" and op == "pow")


def elementwise_step(
    node: Node, views: Mapping[str, View], op: str, args: tuple[float, ...], inputs: Sequence[str]
) -> tuple[Step, ...]:
    """Return the step of a node whose inputs broadcast to its output; no step for an empty output.

    Raises: MavcgError for a type without a kernel.
    """
    out = views[node.output]
    if out.elements == 0:
        return ()
    read = [views[name] for name in inputs]
    dtypes = tuple(view.dtype for view in (*read, out))
    if op not in ("cast", "where") and not _is_supported(op, dtypes[0]):
        raise MavcgError(f"node '{node.origin}' ({node.op}): no kernel for {dtypes[0]}; cast to f32 before it")
    nest = collapse(out.shape, [*(broadcast_strides(view, out.shape) for view in read), out.strides])
    spec = ElementwiseSpec(op, args, dtypes, nest)
    operands = (*(Operand(name) for name in inputs), Operand(node.output, written=True))
    return (Step(spec, operands, node.origin),)


def _lower_unary(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    args = tuple(float(node.attr(name)) for name in ACTIVATIONS.get(node.op, ()))
    return elementwise_step(node, views, node.op, args, node.inputs)


def _lower_plain(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    args = (float(node.attr("fmod")),) if node.op == "mod" else ()
    return elementwise_step(node, views, node.op, args, node.inputs)


def _lower_pow(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a pow node; a constant exponent of EXACT_EXPONENTS takes a few products or a root."""
    base, exponent = node.inputs
    known = graph.constants.get(exponent)
    simple = known is not None and known.size > 0 and bool(np.all(known == known.flat[0]))
    has_fixed = views[base].dtype == "f32" or views[base].dtype in HALVES
    if known is not None and simple and has_fixed and float(known.flat[0]) in EXACT_EXPONENTS:
        return elementwise_step(node, views, "fixed_pow", (float(known.flat[0]),), (base,))
    return elementwise_step(node, views, "pow", (), node.inputs)


def _along_axis(node: Node, views: Mapping[str, View]) -> dict[str, View]:
    """Return the views, with scale and zero point reshaped so that they broadcast along the node's axis."""
    rank = len(views[node.inputs[0]].shape)
    broadcast_views = dict(views)
    for name in node.inputs[1:]:
        view = views[name]
        if view.shape:
            after = rank - 1 - node.attr("axis")
            broadcast_views[name] = View(view.dtype, view.shape + (1,) * after, view.strides + (0,) * after)
    return broadcast_views


def _lower_quantization(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    return elementwise_step(node, _along_axis(node, views), node.op, (), node.inputs)


_EIGHT_BIT_ARGS = {
    "qadd": ("a_scale", "a_zero", "b_scale", "b_zero", "out_zero", "lo", "hi"),
    "qmul": ("multiplier", "a_zero", "b_zero", "out_zero", "lo", "hi"),
}


def _lower_eight_bit(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    args = tuple(float(node.attr(name)) for name in _EIGHT_BIT_ARGS[node.op])
    return elementwise_step(node, views, node.op, args, node.inputs)


LOWER = {
    **dict.fromkeys(ACTIVATIONS, _lower_unary),
    **dict.fromkeys(("not", "mod", "prelu", "where", "cast", "bitcast", *PRODUCT_PAIRS, *BINARY), _lower_plain),
    "pow": _lower_pow,
    **dict.fromkeys(("quantize", "dequantize"), _lower_quantization),
    **dict.fromkeys(_EIGHT_BIT_ARGS, _lower_eight_bit),
}
EMIT = {ElementwiseSpec: emit_elementwise}
HALF = dict.fromkeys((*ACTIVATIONS, *ARITHMETIC, *COMPARISONS, *PRODUCT_PAIRS, "prelu", "where"), ())
