"""Kernel of resampling along one axis: each output is a weighted sum of a few inputs, given by tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Graph, Node
from mavcg.kernels.builder.arithmetic import round_to, widen_half
from mavcg.kernels.builder.emit import (
    F32,
    TYPES,
    address,
    const,
    fma,
    for_range,
    kernel_function,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.lanes import load_lanes, load_vector, splat, store_lanes, store_vector
from mavcg.kernels.builder.nest import Nest, NestNumbers, collapse, nest_numbers
from mavcg.kernels.builder.nest_loops import Line, along_line, nest_rows
from mavcg.kernels.builder.run_numbers import RunNumbers, load_numbers, times
from mavcg.kernels.tensor.gather import index_at
from mavcg.kernels.tensor.layer_norm import refuse_other_types
from mavcg.specs.kernel import F32_BYTES, KernelSpec, Machine, Operand, Packing, Step, View, Words
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format

_FEW = 8  # maximum taps whose addresses and weights are kept in registers


@spec_format("resample")
@dataclass(frozen=True)
class ResampleSpec(KernelSpec):
    """out[.., o, ..] = sum over t of weight[o, t] * x[.., index[o, t], ..], by fused multiply-adds in the order of t.

    nest: loops with strides of x without the axis, of index and weight (both dense), of out. length, step: length and
    stride of x along the axis, in elements. plain: there is one tap, of weight 1. dtype: of x and out; weights and sums
    are f32. words: numbers of the nest, length and step that a run sets; with such a length the tables are those of a
    longer x, and an index behind the end of x is that of its last element. Operands: x, index, weight, out, words.
    """

    nest: Nest
    taps: int
    length: int
    step: int
    plain: bool
    dtype: str = "f32"
    words: Words = ()

    @property
    def family(self) -> str:
        return f"resample_{self.dtype}"

    @property
    def size(self) -> int:
        """Bytes of an element of x and out."""
        return DTYPES[self.dtype].itemsize

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
    """Return the step of a resample node. Raises: MavcgError for a type without a kernel, and for tables that are not
    dense."""
    x, index, weight = (views[name] for name in node.inputs)
    out = views[node.output]
    refuse_other_types(node, x)
    if not index.dense or not weight.dense:
        raise MavcgError(
            f"node '{node.origin}' (resample): its tables are not contiguous; copy them before this operator"
        )
    if out.elements == 0:
        return ()
    axis = node.attr("axis") % len(x.shape)
    taps = index.shape[1]
    table = tuple(taps if i == axis else 0 for i in range(len(x.shape)))
    along_x = tuple(0 if i == axis else stride for i, stride in enumerate(x.strides))
    weights = graph.constants.get(node.inputs[2])
    plain = taps == 1 and weights is not None and bool(np.all(weights == 1))
    spec = ResampleSpec(
        collapse(out.shape, (along_x, table, table, out.strides)),
        taps,
        x.shape[axis],
        x.strides[axis],
        plain,
        x.dtype,
    )
    return (Step(spec, (*map(Operand, node.inputs), Operand(node.output, written=True)), node.origin),)


def emit_resample(module: ir.Module, spec: ResampleSpec, machine: Machine) -> ir.Function:
    """Emit the loops: vectors along the dimensions inside of the axis; one output at a time if the axis is
    innermost."""
    function, b = kernel_function(module, spec, machine)
    numbers = load_numbers(b, spec.words, 4)
    nest = nest_numbers(numbers, spec.nest)
    emitter = _ResampleEmitter(b, spec, machine.vector_bytes // spec.size, numbers, nest)
    pointers = [numbers.operand(i, name) for i, name in enumerate(("x", "index", "weight", "out"))]
    by_vectors = [strides[-1] for strides in spec.nest.strides] == [1, 0, 0, 1] and spec.taps > 0
    sizes = (spec.size, F32_BYTES, F32_BYTES, spec.size)
    nest_rows(b, spec.nest, pointers, sizes, emitter.by_vectors if by_vectors else emitter.by_elements, nest)
    b.ret_void()
    return function


@dataclass(frozen=True)
class _ResampleEmitter:
    """Emits lines of outputs. Addresses are those of the line's first x, index, weight and output."""

    b: ir.IRBuilder
    spec: ResampleSpec
    lanes: int
    numbers: RunNumbers
    nest: NestNumbers

    def by_vectors(self, addresses: list[ir.Value], line: Line) -> None:
        """Emit a line whose outputs have the same taps: vector by vector."""
        b, spec, lanes = self.b, self.spec, self.lanes
        few = [self._tap(addresses, const(t)) for t in range(spec.taps)] if spec.taps <= _FEW else []

        def emit_vectors(first: ir.Value, count: int, used: int) -> None:
            offsets = [scale_index(b, b.add(first, const(i * lanes)), spec.size) for i in range(count)]
            totals = [self._vector(addresses, few, offset, used) for offset in offsets]
            for offset, total in zip(offsets, totals, strict=True):
                store_lanes(b, round_to(b, total, spec.dtype), address(b, addresses[3], offset), lanes, used)

        along_line(b, line, lanes, 2 if few else 1, emit_vectors)

    def _vector(
        self, addresses: list[ir.Value], few: list[tuple[ir.Value, ir.Value]], offset: ir.Value, used: int
    ) -> ir.Value:
        """Return a vector of outputs. few: all taps, if their addresses and weights are kept. offset: in bytes."""
        b, spec, lanes = self.b, self.spec, self.lanes

        def load(source: ir.Value) -> ir.Value:
            return widen_half(b, load_lanes(b, address(b, source, offset), TYPES[spec.dtype], lanes, used, "value"))

        if spec.plain:
            return load(few[0][0])
        total: ir.Value | None = None
        for source, weight in few:
            total = self._add_weighted(load(source), weight, total, lanes)
        return total if total is not None else self._loop_over_taps(addresses, load, lanes)

    def by_elements(self, addresses: list[ir.Value], line: Line) -> None:
        """Emit a line output by output."""
        b, spec = self.b, self.spec
        sizes = (spec.size, F32_BYTES, F32_BYTES, spec.size)
        steps = [strides[-1] for strides in self.nest.strides]

        def load(source: ir.Value) -> ir.Value:
            return widen_half(b, load_vector(b, source, TYPES[spec.dtype]))

        def emit_element(index: ir.Value) -> None:
            places = zip(addresses, steps, sizes, strict=True)
            at_index = [address(b, p, times(b, index, step, size)) for p, step, size in places]
            total = self._loop_over_taps(at_index, load, 1)
            store_vector(b, round_to(b, total, spec.dtype), at_index[3])

        repeat(b, line.begin, line.end(b), emit_element, "element")

    def _loop_over_taps(self, addresses: list[ir.Value], load: Callable[[ir.Value], ir.Value], lanes: int) -> ir.Value:
        """Return the weighted sum of all taps, by a loop. load: returns the value at a tap's address."""

        def add_tap(t: ir.Value, carried: tuple[ir.Value, ...]) -> tuple[ir.Value, ...]:
            source, weight = self._tap(addresses, t)
            return (self._add_weighted(load(source), weight, carried[0], lanes),)

        first, weight = self._tap(addresses, const(0))
        start = self._add_weighted(load(first), weight, None, lanes)
        return for_range(self.b, const(1), const(self.spec.taps), 1, (start,), add_tap, "tap")[0]

    def _tap(self, addresses: list[ir.Value], t: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Return (address of the input of tap t, weight of tap t)."""
        b, spec = self.b, self.spec
        offset = scale_index(b, t, F32_BYTES)
        index = index_at(b, address(b, addresses[1], offset), 4, self.numbers.at("length", spec.length))
        weight = load_vector(b, address(b, addresses[2], offset), F32, name="weight")
        step = self.numbers.at("step", spec.step)
        return address(b, addresses[0], times(b, index, step, spec.size), "tap"), weight

    def _add_weighted(self, value: ir.Value, weight: ir.Value, total: ir.Value | None, lanes: int) -> ir.Value:
        """Return total + value * weight, by a fused multiply-add; the product alone without a total."""
        factor = splat(self.b, weight, lanes)
        return self.b.fmul(value, factor) if total is None else fma(self.b, value, factor, total)


LOWER = {"resample": _lower}
EMIT = {ResampleSpec: emit_resample}
HALF = {"resample": (2,)}
