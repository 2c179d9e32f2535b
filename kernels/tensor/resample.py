"""Kernel of resampling along one axis: each output is a weighted sum of a few inputs, given by tables."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.builder.emit import (
    F32,
    address,
    const,
    fma,
    for_range,
    kernel_function,
    load_vector,
    operand,
    repeat,
    scale_index,
    splat,
    store_vector,
)
from mavcg.kernels.builder.nest import Line, Nest, along_line, collapse, load_lanes, nest_rows, store_lanes
from mavcg.kernels.tensor.gather import index_at
from mavcg.specs.kernel import F32_BYTES, KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format

_FEW = 8  # maximum taps whose addresses and weights are kept in registers


@spec_format("resample")
@dataclass(frozen=True)
class ResampleSpec(KernelSpec):
    """out[.., o, ..] = sum over t of weight[o, t] * x[.., index[o, t], ..], by fused multiply-adds in the order of t.

    nest: loops with strides of x without the axis, of index and weight (both dense), of out. length, step: length and
    stride of x along the axis, in elements. plain: there is one tap, of weight 1. Operands: x, index, weight, out.
    """

    nest: Nest
    taps: int
    length: int
    step: int
    plain: bool

    @property
    def family(self) -> str:
        return "resample_f32"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.nest.shape), f"k{self.taps}")

    @property
    def rows(self) -> int:
        return self.nest.rows

    @property
    def work(self) -> int:
        return self.nest.elements * self.taps


def _lower(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a resample node. Raises: MavcgError for a type other than f32, and for tables that are not
    dense."""
    x, index, weight = (views[name] for name in node.inputs)
    out = views[node.output]
    if x.dtype != "f32":
        raise MavcgError(f"node '{node.origin}' (resample): no kernel for {x.dtype}; cast to f32 before it")
    if not index.dense or not weight.dense:
        raise MavcgError(f"node '{node.origin}' (resample): its tables are not contiguous; copy them before it")
    if out.elements == 0:
        return ()
    axis = node.attr("axis") % len(x.shape)
    taps = index.shape[1]
    table = tuple(taps if i == axis else 0 for i in range(len(x.shape)))
    along_x = tuple(0 if i == axis else stride for i, stride in enumerate(x.strides))
    weights = graph.constants.get(node.inputs[2])
    plain = taps == 1 and weights is not None and bool(np.all(weights == 1))
    spec = ResampleSpec(
        collapse(out.shape, (along_x, table, table, out.strides)), taps, x.shape[axis], x.strides[axis], plain
    )
    return (Step(spec, (*map(Operand, node.inputs), Operand(node.output, written=True)), node.origin),)


def emit_resample(module: ir.Module, spec: KernelSpec, machine: Machine) -> ir.Function:
    """Emit the loops: vectors along the dimensions inside of the axis; one output at a time if the axis is
    innermost."""
    assert isinstance(spec, ResampleSpec)
    function, b = kernel_function(module, spec, machine)
    lanes = machine.vector_bytes // F32_BYTES
    steps = [strides[-1] for strides in spec.nest.strides]

    def tap(addresses: list[ir.Value], t: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Return (address of the input of tap t, weight of tap t)."""
        offset = scale_index(b, t, F32_BYTES)
        index = index_at(b, address(b, addresses[1], offset), 4, spec.length)
        weight = load_vector(b, address(b, addresses[2], offset), F32, name="weight")
        return address(b, addresses[0], scale_index(b, index, spec.step * F32_BYTES), "tap"), weight

    def add_weighted(value: ir.Value, weight: ir.Value, total: ir.Value | None, wide: int) -> ir.Value:
        factor = splat(b, weight, wide)
        return b.fmul(value, factor) if total is None else fma(b, value, factor, total)

    def lines(addresses: list[ir.Value], line: Line) -> None:
        few = [tap(addresses, const(t)) for t in range(spec.taps)] if spec.taps <= _FEW else []

        def total_at(offset: ir.Value, used: int) -> ir.Value:
            def load(source: ir.Value) -> ir.Value:
                return load_lanes(b, address(b, source, offset), F32, lanes, used, "value")

            if spec.plain:
                return load(few[0][0])
            total: ir.Value | None = None
            for source, weight in few:
                total = add_weighted(load(source), weight, total, lanes)
            if total is not None:
                return total
            first, weight = tap(addresses, const(0))

            def add_tap(t: ir.Value, carried: tuple[ir.Value, ...]) -> tuple[ir.Value, ...]:
                source, factor = tap(addresses, t)
                return (add_weighted(load(source), factor, carried[0], lanes),)

            start = add_weighted(load(first), weight, None, lanes)
            return for_range(b, const(1), const(spec.taps), 1, (start,), add_tap, "tap")[0]

        def emit_vectors(at: ir.Value, count: int, used: int) -> None:
            offsets = [scale_index(b, b.add(at, const(i * lanes)), F32_BYTES) for i in range(count)]
            totals = [total_at(offset, used) for offset in offsets]
            for offset, total in zip(offsets, totals, strict=True):
                store_lanes(b, total, address(b, addresses[3], offset), lanes, used)

        along_line(b, line, lanes, 2 if few else 1, emit_vectors)

    def singly(addresses: list[ir.Value], line: Line) -> None:
        def emit_element(at: ir.Value) -> None:
            element_addresses = [
                address(b, p, scale_index(b, at, step * F32_BYTES)) for p, step in zip(addresses, steps, strict=True)
            ]

            def add_tap(t: ir.Value, carried: tuple[ir.Value, ...]) -> tuple[ir.Value, ...]:
                source, weight = tap(element_addresses, t)
                return (add_weighted(load_vector(b, source, F32), weight, carried[0], 1),)

            source, weight = tap(element_addresses, const(0))
            start = add_weighted(load_vector(b, source, F32), weight, None, 1)
            total = for_range(b, const(1), const(spec.taps), 1, (start,), add_tap, "tap")[0]
            store_vector(b, total, element_addresses[3])

        repeat(b, line.begin, line.end(b), emit_element, "element")

    pointers = [operand(b, i, name) for i, name in enumerate(("x", "index", "weight", "out"))]
    in_lines = steps == [1, 0, 0, 1] and spec.taps > 0
    nest_rows(b, spec.nest, pointers, (F32_BYTES,) * 4, lines if in_lines else singly)
    b.ret_void()
    return function


LOWER = {"resample": _lower}
EMIT = {ResampleSpec: emit_resample}
