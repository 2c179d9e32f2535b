"""Kernels of reductions over axes: sums, means, products and extremes.

The order of the terms is part of the spec, so that results are bit-identical on every core: sequential for each output
if vectors run along the outputs, in partial results (`Reduction`) if the last axis is reduced. Sums of f32 have the
order of onnxruntime's on x86, because a single rounding before a dynamic quantization can change a whole network.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, prod
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from mavcg.graph import DTYPES, Graph, Node
from mavcg.kernels.builder.arithmetic import is_float, is_signed, larger, round_to, smaller, widen_half
from mavcg.kernels.builder.emit import (
    F16,
    F32,
    F64,
    HALVES,
    I64,
    TYPES,
    Values,
    address,
    const,
    finish_rows,
    kernel_function,
    lanes_and_element,
    number,
    repeat,
    vector,
    with_element,
)
from mavcg.kernels.builder.lanes import load_vector, splat, store_vector
from mavcg.kernels.builder.nest import Nest, collapse, nest_numbers
from mavcg.kernels.builder.nest_loops import decode
from mavcg.kernels.builder.run_numbers import fixed_number, load_numbers, times
from mavcg.kernels.tensor.terms import PARTS, Combine, Reduction, number_of_terms, total_of, walk, walk_in_parts
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View, Words
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format

Value: TypeAlias = ir.Value
F32_SUM_PARTS = 8  # of a sum or mean of f32: onnxruntime's two vectors of 4, added to one at the end
TOGETHER = 4  # vectors of outputs that are computed at a time


@spec_format("reduce")
@dataclass(frozen=True)
class Reduce(KernelSpec):
    """A reduction over axes; kind: sum, mean, max, min or prod.

    kept: loops over the outputs with strides of x and out. reduced: loops over the terms with x's strides, row-major.
    along: True if the innermost kept loop is contiguous in x and out, so that vectors run along it. reserved: 0. words:
    numbers of the loops that a run sets, but not the stride of contiguous terms. A row of work is one output, or, where
    along, a line of outputs. Operands: x, out, words.
    """

    kind: str
    dtype: str
    kept: Nest
    reduced: Nest
    along: bool
    reserved: int = 0
    words: Words = ()

    @property
    def family(self) -> str:
        return f"reduce_{self.kind}_{self.dtype}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.kept.shape), f"k{self.reduced.elements}")

    @property
    def rows(self) -> int:
        return prod(self.kept.shape[:-1]) if self.along else self.kept.elements

    @property
    def work(self) -> int:
        return self.kept.elements * self.reduced.elements


def lower_reduce(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a reduction: reduce_sum, reduce_max and the others."""
    x, out = views[node.inputs[0]], views[node.output]
    kind, rank = node.op.removeprefix("reduce_"), len(x.shape)
    axes = {a % rank for a in node.attr("axes")}
    kept = kept_loops(x, out, axes, node.attr("keepdims"))
    gone = sorted(axes)
    reduced = collapse([x.shape[a] for a in gone], [[x.strides[a] for a in gone]])
    along = kept.strides[0][-1] == kept.strides[1][-1] == 1 and kept.shape[-1] > 1
    spec = Reduce(kind, x.dtype, kept, reduced, along)
    return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)


def kept_loops(x: View, out: View, axes: set[int], keepdims: bool) -> Nest:
    """Return the loops over the outputs, with strides of x and of out."""
    kept = [a for a in range(len(x.shape)) if a not in axes]
    of_out = [out.strides[a] for a in kept] if keepdims else list(out.strides)
    return collapse([x.shape[a] for a in kept], [[x.strides[a] for a in kept], of_out])


def combiner(kind: str, dtype: str) -> Combine:
    """Return the function that emits the combination of two partial results."""
    if is_float(dtype):
        floats: dict[str, Combine] = {
            "sum": lambda b, x, y: b.fadd(x, y),
            "mean": lambda b, x, y: b.fadd(x, y),
            "prod": lambda b, x, y: b.fmul(x, y),
            "max": lambda b, x, y: larger(b, dtype, y, x),
            "min": lambda b, x, y: smaller(b, dtype, y, x),
        }
        return floats[kind]
    if kind == "mean":  # the sum is wider than its terms

        def add(b: ir.IRBuilder, x: Value, y: Value) -> Value:
            extend = b.sext if is_signed(dtype) else b.zext
            return b.add(x, y if y.type == x.type else extend(y, x.type))

        return add

    def pick(b: ir.IRBuilder, x: Value, y: Value) -> Value:
        compare = b.icmp_unsigned if dtype[0] in "ub" else b.icmp_signed
        return b.select(compare(">" if kind == "max" else "<", y, x), y, x)

    whole: dict[str, Combine] = {"sum": lambda b, x, y: b.add(x, y), "prod": lambda b, x, y: b.mul(x, y)}
    return whole.get(kind, pick)


def partial_type(kind: str, dtype: str) -> ir.Type:
    """Return the type of partial results. Sums and products of f16, and all of bf16, are f32 until the end."""
    if dtype == "bf16" or (dtype == "f16" and kind in ("sum", "mean", "prod")):
        return F32
    return I64 if kind == "mean" and not is_float(dtype) else TYPES[dtype]


def identity(kind: str, dtype: str) -> Any:
    """Return the identity element of a reduction's combination."""
    if kind in ("sum", "mean"):
        return 0.0 if is_float(dtype) else 0
    if kind == "prod":
        return 1.0 if is_float(dtype) else 1
    if is_float(dtype):
        return -inf if kind == "max" else inf
    if dtype == "bool":
        return 0 if kind == "max" else 1
    info = np.iinfo(DTYPES[dtype])
    return int(info.min if kind == "max" else info.max)


def emit_reduce(module: ir.Module, spec: Reduce, machine: Machine) -> ir.Function:
    """Emit the reduction in the order that the spec sets."""
    _, b = kernel_function(module, spec, machine)
    numbers = load_numbers(b, spec.words, 2)
    x, out = numbers.operand(0, "x"), numbers.operand(1, "out")
    typ, size = TYPES[spec.dtype], DTYPES[spec.dtype].itemsize
    combine, start = combiner(spec.kind, spec.dtype), identity(spec.kind, spec.dtype)
    partial = partial_type(spec.kind, spec.dtype)
    kept, reduced = (nest_numbers(numbers, getattr(spec, name), name) for name in ("kept", "reduced"))
    in_run = reduced if any(path.startswith("reduced.") for path, _ in spec.words) else None

    wide_sum = spec.dtype == "f32" or spec.dtype in HALVES
    parts = F32_SUM_PARTS if spec.kind in ("sum", "mean") and wide_sum else PARTS
    reduction = Reduction(combine, start, parts, partial=partial)

    def wide(value: Value) -> Value:
        return widen_half(b, value) if partial == F32 else value

    def finish(value: Value) -> Value:
        return round_to(b, quotient(value), spec.dtype)

    def quotient(value: Value) -> Value:
        if spec.kind != "mean":
            return value
        count = number(value, spec.reduced.elements)
        if in_run is not None:
            count = _in_lanes(b, number_of_terms(b, in_run), value)
        if is_float(spec.dtype):
            return b.fdiv(value, count)
        mean = b.udiv(value, count) if spec.dtype == "u64" else b.sdiv(value, count)
        return mean if partial == typ else b.trunc(mean, with_element(value, typ))

    outer = kept.shape[:-1] if spec.along else kept.shape

    def row(index: Value) -> None:
        from_, to = x, out
        for i, x_step, out_step in zip(decode(b, index, outer), *kept.strides, strict=False):
            from_ = address(b, from_, times(b, i, x_step, size))
            to = address(b, to, times(b, i, out_step, size))
        if spec.along:
            line(from_, to)
        else:
            total = total_of(b, spec.reduced, spec.dtype, from_, reduction, wide, in_run)
            b.store(finish(total), to, align=size)

    def line(from_: Value, to: Value) -> None:
        lanes, length = machine.vector_bytes // size, kept.shape[-1]
        of_vector = vector(typ, lanes)

        def group(first: Value, count: int, used: int) -> None:
            pointer = address(b, from_, b.mul(first, const(size)))

            def term(address_: Value, acc: Values) -> Values:
                loaded = [load_vector(b, address(b, address_, v * lanes * size), of_vector, used) for v in range(count)]
                return tuple(combine(b, a, wide(value)) for a, value in zip(acc, loaded, strict=True))

            starts = (ir.Constant(vector(partial, lanes), [start] * lanes),) * count
            in_parts = spec.kind == "mean" and wide_sum
            acc = (walk_in_parts if in_parts else walk)(b, spec.reduced, size, pointer, starts, term, in_run)
            for v, value in enumerate(acc):
                at = address(b, to, b.add(b.mul(first, const(size)), const(v * lanes * size)))
                store_vector(b, finish(value), at, used)

        together = (TOGETHER // 2 if spec.kind == "mean" else TOGETHER, 1)
        fixed = fixed_number(length)
        if fixed is None:
            begin: Value = const(0)
            for count in together:
                rest = b.urem(b.sub(length, begin), const(count * lanes))
                middle = b.sub(length, rest, name="groups_end")
                repeat(b, begin, middle, lambda i, count=count: group(i, count, lanes), "group", count * lanes)  # type: ignore[misc]
                begin = middle
            repeat(b, begin, length, lambda i: group(i, 1, 1), "element")
            return
        done = 0
        for count in together:
            step = count * lanes
            end = done + (fixed - done) // step * step
            repeat(b, done, end, lambda i, count=count: group(i, count, lanes), "group", step)  # type: ignore[misc]
            done = end
        if done < fixed:
            group(const(done), 1, fixed - done)

    return finish_rows(b, row)


def _in_lanes(b: ir.IRBuilder, terms: Value, like: Value) -> Value:
    """Return a number of terms in all lanes, of the type of `like`."""
    lanes, element = lanes_and_element(like.type)
    same = b.sitofp(terms, element) if element in (F32, F64, F16) else terms
    if same.type != element:
        same = b.trunc(same, element)
    return splat(b, same, lanes)


LOWER = {f"reduce_{kind}": lower_reduce for kind in ("sum", "mean", "max", "min", "prod")}
EMIT = {Reduce: emit_reduce}
HALF = dict.fromkeys(LOWER, ())
