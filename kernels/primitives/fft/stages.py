"""Emitters of the stages of fft convolutions (specs.py)."""

from dataclasses import dataclass, replace
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.activation import finish
from mavcg.kernels.builder.emit import (
    F32,
    address,
    const,
    finish_rows,
    kernel_function,
    operand,
    operands,
    repeat,
    scale_index,
    vector,
)
from mavcg.kernels.builder.lanes import f32_splat, load_vector, store_vector
from mavcg.kernels.builder.nest_loops import clamp, maximum
from mavcg.kernels.gemm.tile import Pointers, Sum
from mavcg.kernels.primitives.common import (
    MOST_BLOCK,
    PANEL,
    epilogue_operands,
    load_partial,
    store_partial,
    zero_other_lanes,
)
from mavcg.kernels.primitives.fft.lanes import ChannelLanes, forward, inverse
from mavcg.kernels.primitives.fft.specs import CoefficientProducts, ForwardRows, InverseRows
from mavcg.kernels.primitives.matrix_product import emit_product, packed_product
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES

Value: TypeAlias = ir.Value


def emit_forward_rows(module: ir.Module, spec: ForwardRows, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    function, b = kernel_function(module, spec, machine)
    x, inputs, scratch = operand(b, 0, "x"), operand(b, 1, "inputs"), function.args[3]
    t, s, image = spec.transforms, spec.transforms.scenario, spec.x
    lines = ChannelLanes(b, machine, image)
    typ = vector(F32, lines.lanes)
    half = t.in_channels * F32_BYTES  # bytes of one part of (re, im), (im, -re)

    def row(number: Value) -> None:
        y = b.sub(number, const(s.pad))
        inside = b.icmp_unsigned("<", y, const(s.h))

        def tile(index: Value) -> None:
            start = b.sub(scale_index(b, index, t.tile), const(s.pad))  # the first pixel
            low = clamp(b, b.sub(const(0), start), const(0), const(t.length))
            high = clamp(b, b.sub(const(s.w), start), const(0), const(t.length))
            high = maximum(b, high, low)

            def channels(group: Value, first: Value, used: int) -> None:
                if not used:
                    return
                tile_index = b.add(scale_index(b, group, t.tiles), index)
                row_offset = b.mul(b.add(b.mul(tile_index, const(t.in_rows)), number), const(t.in_row_bytes))
                to = address(b, inputs, b.add(row_offset, scale_index(b, first, F32_BYTES)))
                with b.if_else(inside) as (in_image, in_border):
                    with in_image:
                        channel = b.add(scale_index(b, group, t.in_channels), first)
                        at = b.add(image.channel_bytes(b, channel), scale_index(b, y, image.row_step * F32_BYTES))
                        line = lines.pixel(address(b, x, at), start)
                        transform(line, low, high, to, used)
                    with in_border:
                        zero = f32_splat(0.0, lines.lanes)
                        repeat(b, 0, t.coefficients, lambda f: store(f, to, zero, zero, used), "coefficient")

            lines.over_vectors(t.in_channels, s.groups, channels)

        repeat(b, 0, t.tiles, tile, "tile")

    def transform(line: Value, low: Value, high: Value, to: Value, used: int) -> None:
        clear = f32_splat(0.0, lines.lanes)
        repeat(b, 0, low, lambda i: store_vector(b, clear, lines.vector(scratch, i)), "before")
        lines.gather(line, scratch, low, high, used)
        repeat(b, high, t.length, lambda i: store_vector(b, clear, lines.vector(scratch, i)), "after")
        pixels = [load_vector(b, lines.vector(scratch, const(i)), typ, name=f"x_{i}") for i in range(t.length)]
        for f, (re, im) in enumerate(forward(b, pixels)):
            store(const(f), to, re, clear if im is None else im, used)

    def store(f: Value, to: Value, re: Value, im: Value, used: int) -> None:
        pointer = address(b, to, scale_index(b, f, t.in_bytes))
        for number, value in enumerate((re, im, im, b.fneg(re))):
            store_partial(b, machine, value, address(b, pointer, number * half), lines.lanes, used)

    return finish_rows(b, row)


def emit_products(module: ir.Module, spec: CoefficientProducts, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    _, b = kernel_function(module, spec, machine)
    inputs, weights, outputs = operands(b, "inputs", "weights", "outputs")
    t, s = spec.transforms, spec.transforms.scenario
    levels = Sum(((s.k, s.dilation * t.in_row_bytes), (2 * t.in_channels, F32_BYTES)))
    product = packed_product(2 * s.out_h, t.out_channels, levels, t.in_row_bytes // 2, t.out_row_bytes // 2)
    # Coefficients 0 and length / 2 are real: a quarter of the work. Their weights are the first of the panel's terms.
    levels = Sum(((s.k, s.dilation * t.in_row_bytes), (t.in_channels, F32_BYTES)))
    real = packed_product(s.out_h, t.out_channels, levels, t.in_row_bytes, t.out_row_bytes)
    real = replace(real, panel_step=product.panel_step)
    panels_bytes = -(-t.out_channels // PANEL) * product.panel_step

    def row(index: Value) -> None:
        """Emit a row of work; rows are ordered by coefficient, then group, as inputs, weights and outputs are."""

        def tile(number: Value) -> None:
            tile_index = b.add(scale_index(b, index, t.tiles), number)
            at = Pointers(
                address(b, inputs, b.mul(tile_index, const(t.in_rows * t.in_row_bytes))),
                address(b, weights, b.mul(index, const(panels_bytes))),
                address(b, outputs, b.mul(tile_index, const(s.out_h * t.out_row_bytes))),
            )
            first = b.icmp_unsigned("<", index, const(s.groups))
            last = b.icmp_unsigned(">=", index, const((t.coefficients - 1) * s.groups))
            with b.if_else(b.or_(first, last)) as (is_real, is_complex):
                with is_real:
                    emit_product(b, machine, real, at)
                with is_complex:
                    emit_product(b, machine, product, at)

        repeat(b, 0, t.tiles, tile, "tile")

    return finish_rows(b, row)


def emit_inverse_rows(module: ir.Module, spec: InverseRows, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    function, b = kernel_function(module, spec, machine)
    outputs, out, scratch = operand(b, 0, "outputs"), operand(b, 1, "out"), function.args[3]
    bias, residual = epilogue_operands(b, spec.epilogue, 2)
    gathered = address(b, scratch, spec.transforms.length * MOST_BLOCK * F32_BYTES)
    emitter = _InverseEmitter(b, machine, spec, outputs, out, bias, residual, scratch, gathered)
    return finish_rows(b, emitter.row)


@dataclass(frozen=True)
class _InverseEmitter:
    """Emits rows of outputs. scratch: a tile's outputs of one vector of channels. gathered: residuals of a line."""

    b: ir.IRBuilder
    machine: Machine
    spec: InverseRows
    outputs: Value
    out: Value
    bias: Value | None
    residual: Value | None
    scratch: Value
    gathered: Value

    @property
    def lines(self) -> ChannelLanes:
        return ChannelLanes(self.b, self.machine, self.spec.out)

    def row(self, y: Value) -> None:
        """Emit a row of outputs, tile by tile."""
        repeat(self.b, 0, self.spec.transforms.tiles, lambda index: self._tile(y, index), "tile")

    def _tile(self, y: Value, index: Value) -> None:
        """Emit a tile of a row, for all channels."""
        b, t, image = self.b, self.spec.transforms, self.spec.out
        start = scale_index(b, index, t.tile)
        count = clamp(b, b.sub(const(t.scenario.out_w), start), const(0), const(t.tile))

        def channels(group: Value, first: Value, used: int) -> None:
            channel = b.add(scale_index(b, group, t.out_channels), first)
            offset = b.add(image.channel_bytes(b, channel), scale_index(b, y, image.row_step * F32_BYTES))
            offset = b.add(offset, scale_index(b, start, image.column_step * F32_BYTES))
            if used:
                tile_index = b.add(scale_index(b, group, t.tiles), index)
                row_offset = b.mul(b.add(b.mul(tile_index, const(t.scenario.out_h)), y), const(t.out_row_bytes))
                self._transform(address(b, self.outputs, b.add(row_offset, scale_index(b, first, F32_BYTES))), used)
            self._epilogue(offset, channel, count, used)

        self.lines.over_vectors(t.out_channels, t.scenario.groups, channels)

    def _transform(self, coefficients: Value, used: int) -> None:
        """Emit the inverse transform of one vector of channels, into the scratch."""
        b, t, lines = self.b, self.spec.transforms, self.lines
        spectrum = []
        for f in range(t.coefficients):
            pointer = address(b, coefficients, f * t.out_bytes)
            re = load_partial(b, self.machine, pointer, lines.lanes, used, f"re_{f}")
            real = f in (0, t.coefficients - 1)
            imaginary = address(b, pointer, t.out_channels * F32_BYTES)
            im = None if real else load_partial(b, self.machine, imaginary, lines.lanes, used, f"im_{f}")
            spectrum.append((re, im))
        for i, value in enumerate(inverse(b, spectrum)[: t.tile]):
            store_vector(b, value, lines.vector(self.scratch, const(i)))

    def _epilogue(self, offset: Value, channel: Value, count: Value, used: int) -> None:
        """Emit the epilogue and the stores of the scratch's outputs. offset: of the first pixel, in bytes."""
        b, lines = self.b, self.lines
        to = address(b, self.out, offset)
        residuals = address(b, self.residual, offset) if self.residual is not None else None
        bias: Value = f32_splat(0.0, lines.lanes)
        if self.bias is not None and used:
            pointer = address(b, self.bias, scale_index(b, channel, F32_BYTES))
            bias = load_partial(b, self.machine, pointer, lines.lanes, used, "bias")
        if residuals is not None and not lines.dense:
            lines.gather(residuals, self.gathered, const(0), count, used)

        def pixel(i: Value) -> None:
            value = self._epilogue_of_pixel(i, bias, residuals, used) if used else f32_splat(0.0, lines.lanes)
            if lines.blocked:
                store_vector(b, zero_other_lanes(b, value, lines.lanes, used), lines.pixel(to, i))
            elif lines.dense:
                store_partial(b, self.machine, value, lines.pixel(to, i), lines.lanes, used)
            else:
                store_vector(b, value, lines.vector(self.scratch, i))

        repeat(b, 0, count, pixel, "pixel")
        if not lines.dense:
            lines.by_lane(
                to,
                self.scratch,
                const(0),
                count,
                used,
                lambda channel_line, scratch_lane, i: store_vector(
                    b, load_vector(b, lines.vector(scratch_lane, i), F32, name="y"), lines.pixel(channel_line, i)
                ),
            )

    def _epilogue_of_pixel(self, i: Value, bias: Value, residuals: Value | None, used: int) -> Value:
        """Return pixel i of the scratch after bias, residual and activation. residuals: line of the residual."""
        b, lines = self.b, self.lines
        value = load_vector(b, lines.vector(self.scratch, i), vector(F32, lines.lanes), name="y")
        value = b.fadd(value, bias) if self.bias is not None else value
        addend = None
        if residuals is not None and lines.dense:
            addend = load_partial(b, self.machine, lines.pixel(residuals, i), lines.lanes, used, "residual")
        elif residuals is not None:
            addend = load_vector(b, lines.vector(self.gathered, i), vector(F32, lines.lanes), name="residual")
        return finish(b, self.spec.epilogue, value, addend)
