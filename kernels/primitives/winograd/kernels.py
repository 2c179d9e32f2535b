"""Emitters of Winograd convolutions: a single kernel, block by block of tiles, or a kernel for each of three stages."""

from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import (
    address,
    const,
    finish_rows,
    kernel_function,
    operand,
    operands,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.nest_loops import maximum, minimum
from mavcg.kernels.primitives.winograd.input_transform import InputTransform
from mavcg.kernels.primitives.winograd.output_stores import WinogradEpilogue
from mavcg.kernels.primitives.winograd.output_transform import OutputTransform
from mavcg.kernels.primitives.winograd.product import WinogradProduct
from mavcg.kernels.primitives.winograd.spec import Winograd, WinogradInput, WinogradOutput, WinogradProducts
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value
Images = tuple[Value | None, Value | None, Value | None]  # pointers to x, out, residual of one image of a batch


def _epilogue(b: ir.IRBuilder, spec: Winograd | WinogradOutput, first: int) -> tuple[WinogradEpilogue, Value | None]:
    """Return (epilogue, pointer to the residual or None). first: number of the epilogue's first operand."""
    bias = operand(b, first, "bias") if spec.bias else None
    residual = operand(b, first + spec.bias, "residual") if spec.residual is not None else None
    return WinogradEpilogue(bias, spec.residual, spec.act, spec.act_args), residual


def emit_winograd(module: ir.Module, spec: Winograd, machine: Machine) -> ir.Function:
    """Emit the single kernel that transforms, multiplies and transforms back."""
    function, b = kernel_function(module, spec, machine)
    tiles, patch = spec.tiles, function.args[3]
    x, weights, out = operands(b, "x", "weights", "out")
    epilogue, residual = _epilogue(b, spec, 3)
    inputs, sums = spec.inputs, spec.sums
    transform = InputTransform(b, machine, tiles, spec.x, patch, ahead=True)
    back = OutputTransform(b, machine, tiles, spec.out, epilogue, patch, ahead=True)
    product = WinogradProduct(b, machine, tiles, inputs, sums, min(spec.block, tiles.count))
    below = (tiles.taps - 1) * tiles.across
    transformed = address(b, patch, tiles.patch_bytes, "transformed")
    summed = address(b, transformed, inputs.bytes, "sums")

    def block(images: Images, first: Value, count: Value) -> None:
        transform.emit(images[0], inputs, transformed, first, b.add(count, const(below)))

        def plane(number: Value) -> None:
            v = address(b, transformed, scale_index(b, number, inputs.plane))
            w = address(b, weights, scale_index(b, number, tiles.panels * tiles.panel_bytes))
            product.emit(v, w, address(b, summed, scale_index(b, number, sums.plane)), count, tiles.out_ch)

        repeat(b, 0, tiles.planes, plane, "plane")
        back.emit(sums, summed, images[1], images[2], first, count)

    # Blocks are of even size, and whole rows of tiles if transforms are along rows only.
    unit = tiles.unit
    most = max(1, spec.block // unit)

    def image(number: Value) -> None:
        before = scale_index(b, number, tiles.count // unit)
        low = maximum(b, b.sub(function.args[1], before), const(0))
        high = minimum(b, b.sub(function.args[2], before), const(tiles.count // unit))
        length = b.sub(high, low)
        blocks = b.sdiv(b.add(length, const(most - 1)), const(most))
        size = b.sdiv(b.add(length, b.sub(blocks, const(1))), maximum(b, blocks, const(1)))
        views = (x, spec.x), (out, spec.out), (residual, spec.residual)
        x_here, out_here, residual_here = (
            address(b, base, scale_index(b, number, image.view.strides[0] * tiles.item_bytes))
            if base is not None and image
            else None
            for base, image in views
        )

        def emit_block(index: Value) -> None:
            first = b.add(low, b.mul(index, size))
            last = minimum(b, b.add(first, size), high)
            images = x_here, out_here, residual_here
            block(images, scale_index(b, first, unit), scale_index(b, b.sub(last, first), unit))

        repeat(b, const(0), blocks, emit_block, "block")

    if spec.out.view.shape[0] == 1:
        image(const(0))
    else:
        repeat(b, 0, spec.out.view.shape[0], image, "image")
    b.ret_void()
    return function


def emit_input(module: ir.Module, spec: WinogradInput, machine: Machine) -> ir.Function:
    """Emit the first of three kernels, the input transform."""
    function, b = kernel_function(module, spec, machine)
    _, begin, end, patch = function.args
    x, target = operand(b, 0, "x"), operand(b, 1, "inputs")
    transform = InputTransform(b, machine, spec.tiles, spec.x, patch)
    unit = spec.tiles.unit
    first, count = scale_index(b, begin, unit), scale_index(b, b.sub(end, begin), unit)
    transform.emit(x, spec.inputs, address(b, target, scale_index(b, first, spec.inputs.pitch)), first, count)
    b.ret_void()
    return function


def emit_products(module: ir.Module, spec: WinogradProducts, machine: Machine) -> ir.Function:
    """Emit the second of three kernels, the products."""
    _, b = kernel_function(module, spec, machine)
    tiles, inputs, sums = spec.tiles, spec.inputs, spec.sums
    v, weights, target = operands(b, "inputs", "weights", "sums")
    product = WinogradProduct(b, machine, tiles, inputs, sums, tiles.count)
    per_plane = -(-tiles.out_ch // spec.chunk)
    rest = tiles.out_ch % spec.chunk

    def row(number: Value) -> None:
        plane, part = b.udiv(number, const(per_plane)), b.urem(number, const(per_plane))
        source = address(b, v, scale_index(b, plane, inputs.plane))
        panels = b.add(scale_index(b, plane, tiles.panels), scale_index(b, part, spec.chunk // tiles.lanes))
        w = address(b, weights, scale_index(b, panels, tiles.panel_bytes))
        offset = b.add(scale_index(b, plane, sums.plane), scale_index(b, part, spec.chunk * tiles.item_bytes))
        pointer = address(b, target, offset)

        def multiply(channels: int) -> None:
            product.emit(source, w, pointer, tiles.count, channels)

        if not rest:
            multiply(spec.chunk)
        elif per_plane == 1:
            multiply(rest)
        else:
            with b.if_else(b.icmp_signed("<", part, const(per_plane - 1))) as (whole, last):
                with whole:
                    multiply(spec.chunk)
                with last:
                    multiply(rest)

    return finish_rows(b, row)


def emit_output(module: ir.Module, spec: WinogradOutput, machine: Machine) -> ir.Function:
    """Emit the last of three kernels, the output transform."""
    function, b = kernel_function(module, spec, machine)
    _, begin, end, patch = function.args
    sums, out = operand(b, 0, "sums"), operand(b, 1, "out")
    epilogue, residual = _epilogue(b, spec, 2)
    back = OutputTransform(b, machine, spec.tiles, spec.out, epilogue, patch)
    unit = spec.tiles.unit
    first, count = scale_index(b, begin, unit), scale_index(b, b.sub(end, begin), unit)
    source = address(b, sums, scale_index(b, first, spec.sums.pitch))
    back.emit(spec.sums, source, out, residual, first, count)
    b.ret_void()
    return function


EMIT = {
    Winograd: emit_winograd,
    WinogradInput: emit_input,
    WinogradProducts: emit_products,
    WinogradOutput: emit_output,
}
