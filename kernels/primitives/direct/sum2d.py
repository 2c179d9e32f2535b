"""Primitives that sum 2-D convolutions of single channels: the baseline of Anderson and Gregg (CGO 2018).

The loops are M x C x H x W x K x K: each input channel's convolution is added to the output plane in memory.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from mavcg.kernels.builder.activation import finish
from mavcg.kernels.builder.emit import (
    F32,
    Values,
    address,
    const,
    finish_rows,
    fma,
    kernel_function,
    operands,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.lanes import splat
from mavcg.kernels.builder.product_loop import ProductLoop, TermPointers, nested_loops, single_products
from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.kernels.primitives.border import input_with_border
from mavcg.kernels.primitives.common import (
    Image,
    epilogue_operand_places,
    epilogue_operands,
    image_of,
    load_partial,
    store_partial,
)
from mavcg.kernels.primitives.direct.spec import GroupedImageKernel
from mavcg.specs.kernel import Array, Machine
from mavcg.specs.packed_constant import WeightParts
from mavcg.specs.primitive import (
    F32_BYTES,
    AxisWindow,
    Epilogue,
    Layout,
    Lowering,
    Primitive,
    Scenario,
    Stage,
    StageOperand,
)
from mavcg.specs.serialize import spec_format
from mavcg.specs.work_counts import OperandBytes, VectorWork, WorkCounts, WorkUnit

Value: TypeAlias = ir.Value


@spec_format("sum2d")
@dataclass(frozen=True)
class SumOfChannels(GroupedImageKernel):
    """act(bias + convolution + residual), an input channel at a time; operands: x, weights, out, bias?, residual?.

    x: with its border, and in phases by the stride, or without phases. weights: [M, C / groups, KH, KW]. columns: True
    for vectors along the columns, False for one output at a time. across: the window along a row; None: as given by
    kernel, stride and dilation. A row of work is an output channel.
    """

    x: Image
    out: Image
    kernel: int
    stride: int
    dilation: int
    groups: int
    epilogue: Epilogue
    columns: bool
    across: AxisWindow | None = None

    @property
    def family(self) -> str:
        return "sum2d_columns_f32" if self.columns else "sum2d_f32"

    @property
    def rows(self) -> int:
        return self.out.channels

    @property
    def weight_parts(self) -> WeightParts:
        return WeightParts(self.out.channels, self.out.channels, self.out.channels // self.groups)

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        out, taps = self.out, self.window.taps
        if not self.columns:
            sums = VectorWork("product_scalar", out.values * self.in_channels * taps, WorkUnit.CHAINED)
            return WorkCounts(vectors=(sums,))
        vectors = out.channels * out.height * self.in_channels * -(-out.width // lanes_f32(machine))
        return WorkCounts(
            vectors=(
                VectorWork("product_sum2d", vectors * taps, WorkUnit.VECTORS),
                VectorWork("product_sum2d_sofar", vectors, WorkUnit.VECTORS),
            ),
            within=OperandBytes(out.values * self.in_channels * F32_BYTES, out.height * out.width * F32_BYTES),
        )


def emit_sum2d(module: ir.Module, spec: SumOfChannels, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    _, b = kernel_function(module, spec, machine)
    return finish_rows(b, _Sum2dEmitter(b, spec, machine).channel, "channel")


class _Sum2dEmitter:
    """Emitter of the loops of one function."""

    def __init__(self, b: ir.IRBuilder, spec: SumOfChannels, machine: Machine) -> None:
        self.b, self.spec, self.machine = b, spec, machine
        self.x, self.w, self.out = operands(b, "x", "weights", "out")
        self.bias, self.residual = epilogue_operands(b, spec.epilogue, 3)
        self.lanes = lanes_f32(machine) if spec.columns else 1

    def channel(self, m: Value) -> None:
        """Emit one output plane: the bias stored, the terms added, the epilogue applied."""
        b, spec = self.b, self.spec
        in_channels, taps = spec.x.channels // spec.groups, spec.kernel * spec.window_across.k
        offset = scale_index(b, m, spec.out.channel_step * F32_BYTES, "plane")
        out = address(b, self.out, offset)
        bias: Value = ir.Constant(F32, 0.0)
        if self.bias is not None:
            bias = b.load(address(b, self.bias, scale_index(b, m, F32_BYTES)), name="bias", align=4, typ=F32)
        self.outputs(lambda y, x, lanes, used: self.store(splat(b, bias, lanes), self.at(out, y, x), lanes, used))
        group = b.udiv(m, const(spec.out.channels // spec.groups), name="group")
        first = b.mul(group, const(in_channels * spec.x.channel_step * F32_BYTES))
        source = address(b, self.x, first)
        weights = address(b, self.w, b.mul(m, const(in_channels * taps * F32_BYTES)))

        def add_channel(c: Value) -> None:
            x = address(b, source, scale_index(b, c, spec.x.channel_step * F32_BYTES), "channel")
            w = address(b, weights, scale_index(b, c, taps * F32_BYTES), "taps")
            self.outputs(lambda y, column, lanes, used: self.add(x, w, out, y, column, lanes, used))

        repeat(b, 0, in_channels, add_channel, "c")
        if spec.epilogue.residual or spec.epilogue.act != "none":
            residual = address(b, self.residual, offset) if self.residual is not None else None
            self.outputs(lambda y, x, lanes, used: self.end(out, residual, y, x, lanes, used))

    def outputs(self, body: Callable[[Value, Value, int, int], None]) -> None:
        """Emit body(row, column, lanes, used lanes) over an output plane."""
        b, width = self.b, self.spec.out.width
        whole = width // self.lanes * self.lanes

        def row(y: Value) -> None:
            if whole:
                repeat(b, 0, whole, lambda x: body(y, x, self.lanes, self.lanes), "x", self.lanes)
            if width > whole:
                body(y, const(whole), self.lanes, width - whole)

        repeat(b, 0, self.spec.out.height, row, "y")

    def at(self, plane: Value, y: Value, x: Value) -> Value:
        """Emit the address of an output."""
        b, out = self.b, self.spec.out
        return address(b, address(b, plane, scale_index(b, y, out.row_step * F32_BYTES)), scale_index(b, x, F32_BYTES))

    def store(self, value: Value, pointer: Value, lanes: int, used: int) -> None:
        store_partial(self.b, self.machine, value, pointer, lanes, used)

    def add(self, x: Value, w: Value, out: Value, y: Value, column: Value, lanes: int, used: int) -> None:
        """Add one channel's KH x KW terms to a vector of outputs of a row."""
        b, spec, image, along = self.b, self.spec, self.spec.x, self.spec.window_across
        pointer = self.at(out, y, column)
        row = address(b, x, scale_index(b, y, spec.stride * image.row_step * F32_BYTES))
        across = image.column(along.stride)  # 1 with phases: the pixel a stride further is the phase's next
        corner = address(b, row, scale_index(b, column, across * F32_BYTES), "corner")

        def line(at: TermPointers, level: int, ky: Value) -> TermPointers:
            source = address(b, at.left, scale_index(b, ky, spec.dilation * image.row_step * F32_BYTES))
            return TermPointers(source, address(b, at.right, scale_index(b, ky, along.k * F32_BYTES)))

        def taps(at: TermPointers) -> Iterator[TermPointers]:
            """Emit a row of taps: a weight, and the address of its inputs."""
            for kx in range(along.k):
                tap = b.load(address(b, at.right, kx * F32_BYTES), name="w", align=4, typ=F32)
                yield TermPointers(address(b, at.left, image.column(kx * along.dilation) * F32_BYTES), tap)

        products: ProductLoop[TermPointers] = single_products(
            b,
            lambda tap: load_partial(b, self.machine, tap.left, lanes, used, "x"),
            lambda tap: splat(b, tap.right, lanes),
            lambda total, value, tap: fma(b, value, tap, total, "acc"),
        )
        start = load_partial(b, self.machine, pointer, lanes, used, "sofar")

        def row_of_taps(at: TermPointers, sums: Values) -> Values:
            return products.terms(taps(at), sums)

        at = TermPointers(corner, w)
        (total,) = nested_loops(b, (spec.kernel,), at, line, row_of_taps, (start,), "ky")
        self.store(total, pointer, lanes, used)

    def end(self, out: Value, residual: Value | None, y: Value, x: Value, lanes: int, used: int) -> None:
        """Apply residual and activation to a vector of outputs."""
        b, pointer = self.b, self.at(out, y, x)
        value = load_partial(b, self.machine, pointer, lanes, used, "sum")
        residual_value = (
            load_partial(b, self.machine, self.at(residual, y, x), lanes, used, "residual") if residual else None
        )
        self.store(finish(b, self.spec.epilogue, value, residual_value), pointer, lanes, used)


@dataclass(frozen=True)
class Sum2d(Primitive):
    """The sum of single channels as a primitive; columns: vectors along the columns, else scalars."""

    columns: bool = False

    @property
    def family(self) -> str:
        return "sum2d"

    @property
    def stem(self) -> str:
        variant = "columns" if self.columns else "scalar"
        return f"sum2d_{variant}"

    def computes(self, scenario: Scenario) -> bool:
        return True

    def workspace_bytes(self, scenario: Scenario) -> int:
        return input_with_border(scenario.image, self.layout_in, 1, self.phases(scenario)).workspace_bytes

    def phases(self, scenario: Scenario) -> int:
        """Return the phases of the columns of the input's copy."""
        return scenario.along.stride if self.columns else 1

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        x = input_with_border(scenario, self.layout_in, block, self.phases(scenario))
        out = image_of(self.layout_out, scenario.m, scenario.out_h, scenario.out_w, block)
        spec = SumOfChannels(
            x.image,
            out,
            scenario.k,
            scenario.stride,
            scenario.dilation,
            scenario.groups,
            epilogue,
            self.columns,
            scenario.across_bordered,
        )
        operands = (x.operand, StageOperand("weights"), StageOperand("out"), *epilogue_operand_places(epilogue))
        packed = partial(np.ascontiguousarray, weights, np.float32)
        return Lowering((*x.stages, Stage(spec, operands)), packed, weights.shape, x.workspace_bytes)


PRIMITIVES: tuple[Primitive, ...] = (
    Sum2d(Layout.CHW, Layout.CHW),
    Sum2d(Layout.CHW, Layout.CHW, columns=True),
    Sum2d(Layout.HCW, Layout.HCW, columns=True),
)
EMIT = {SumOfChannels: emit_sum2d}
