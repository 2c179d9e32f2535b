"""What all families of primitives share: where images lie, borders of zeros, epilogues, the order of packed weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from mavcg.kernel import Array, KernelSpec, Machine
from mavcg.kernels.activation import activate
from mavcg.kernels.emit import (
    F32,
    I32,
    address,
    const,
    f32_splat,
    kernel_function,
    load_vector,
    operand,
    repeat,
    scaled,
    store_vector,
    vector,
)
from mavcg.kernels.nest import load_lanes, shuffle, store_lanes
from mavcg.kernels.tiling import lanes_f32
from mavcg.primitive import F32_BYTES, Epilogue, Layout, Place, Scenario, Stage

Value: TypeAlias = ir.Value
# No library has longer blocks of CHWc: where a primitive asks that blocks do not straddle groups, it asks it of this.
MOST_BLOCK = 16
WORKSPACE_ALIGN = 64


@dataclass(frozen=True)
class Image:
    """An image in memory, dense in its layout; steps are in elements.

    block: channels of a block where the layout is CHWc, a power of two of at most MOST_BLOCK; else 1, and without
    meaning. phases: columns with equal remainder by it lie together, [phases, ceil(width / phases)] in place of width:
    what vectors along the columns of a strided convolution want; layouts CHW and HCW only.
    """

    channels: int
    height: int
    width: int
    layout: Layout
    block: int = 1
    phases: int = 1

    @property
    def row_width(self) -> int:
        """Columns of a row in memory, with those that only fill up phases."""
        return -(-self.width // self.phases) * self.phases

    @property
    def blocks(self) -> int:
        """Blocks of channels; 1 in layouts without."""
        return -(-self.channels // self.block) if self.layout is Layout.CHWC else 1

    @property
    def channel_step(self) -> int:
        """From a channel to the next (of the same block)."""
        return {Layout.CHW: self.height * self.row_width, Layout.HCW: self.row_width}.get(self.layout, 1)

    @property
    def block_step(self) -> int:
        """From a block of channels to the next; 0 in layouts without."""
        return self.height * self.row_width * self.block if self.layout is Layout.CHWC else 0

    @property
    def row_step(self) -> int:
        """From a row to the next."""
        per_column = {Layout.CHW: 1, Layout.CHWC: self.block}.get(self.layout, self.channels)
        return self.row_width * per_column

    @property
    def column_step(self) -> int:
        """From a column to the next (of the same phase)."""
        return {Layout.HWC: self.channels, Layout.CHWC: self.block}.get(self.layout, 1)

    @property
    def elements(self) -> int:
        """That it takes in memory, with those that fill up blocks and phases."""
        per_pixel = self.blocks * self.block if self.layout is Layout.CHWC else self.channels
        return per_pixel * self.height * self.row_width

    def column(self, x: int) -> int:
        """Where column x lies in a row."""
        return (x % self.phases * (self.row_width // self.phases) + x // self.phases) * self.column_step

    def channel(self, c: int) -> int:
        """Where channel c lies in a pixel."""
        if self.layout is Layout.CHWC:
            return c // self.block * self.block_step + c % self.block
        return c * self.channel_step

    def channel_bytes(self, b: ir.IRBuilder, c: Value) -> Value:
        """Where channel c, known at run time, lies in a pixel; in bytes."""
        if self.layout is not Layout.CHWC:
            return scaled(b, c, self.channel_step * F32_BYTES)
        outer = scaled(b, b.udiv(c, const(self.block)), self.block_step * F32_BYTES)
        return b.add(outer, scaled(b, b.urem(c, const(self.block)), F32_BYTES), name="channel_at")


def image_of(layout: Layout, channels: int, height: int, width: int, block: int) -> Image:
    """An image of a tensor; block: of CHWc layouts."""
    return Image(channels, height, width, layout, block if layout is Layout.CHWC else 1)


def padded(image: Image, pad: int, phases: int = 1) -> Image:
    """The image with a border of `pad` rows and columns, its columns in phases."""
    return replace(image, height=image.height + 2 * pad, width=image.width + 2 * pad, phases=phases)


@dataclass(frozen=True)
class Padded(KernelSpec):
    """An image copied into a larger one with a border of zeros, and with its columns in phases where that is asked for.

    Operands: image, larger image, which is all written. A row of work is a row of the larger image.
    """

    image: Image
    pad: int
    phases: int = 1

    @property
    def family(self) -> str:
        return "padded_f32"

    @property
    def out(self) -> Image:
        """The larger image."""
        return padded(self.image, self.pad, self.phases)

    @property
    def rows(self) -> int:
        return self.out.height

    @property
    def work(self) -> int:
        return self.out.elements


def emit_padded(module: ir.Module, spec: Padded, machine: Machine) -> ir.Function:
    """The function of a spec for a machine."""
    function, b = kernel_function(module, spec, machine)
    x, y = operand(b, 0, "image"), operand(b, 1, "larger")
    image, out = spec.image, spec.out
    # Runs of neighbouring elements of a row: one a channel, one a block, or a single one.
    runs, step_in, step_out = {
        Layout.CHW: (image.channels, image.channel_step, out.channel_step),
        Layout.HCW: (image.channels, image.channel_step, out.channel_step),
        Layout.HWC: (1, 0, 0),
        Layout.CHWC: (image.blocks, image.block_step, out.block_step),
    }[image.layout]
    unit = image.column_step
    lanes = lanes_f32(machine)

    def run(source: Value, target: Value) -> None:
        if spec.phases > 1:
            _in_phases(b, spec, source, target)
            return
        fill_zeros(b, target, spec.pad * unit, lanes)
        copy_run(b, source, address(b, target, spec.pad * unit * F32_BYTES), image.width * unit, lanes)
        fill_zeros(b, address(b, target, (spec.pad + image.width) * unit * F32_BYTES), spec.pad * unit, lanes)

    def row(y_out: Value) -> None:
        y_in = b.sub(y_out, const(spec.pad), name="y_in")
        inside = b.and_(b.icmp_signed(">=", y_in, const(0)), b.icmp_signed("<", y_in, const(image.height)))
        source = address(b, x, scaled(b, y_in, image.row_step * F32_BYTES))
        target = address(b, y, scaled(b, y_out, out.row_step * F32_BYTES))

        def at(base: Value, index: Value, step: int) -> Value:
            return address(b, base, scaled(b, index, step * F32_BYTES)) if step else base

        with b.if_else(inside) as (copied, empty):
            with copied:
                repeat(b, 0, runs, lambda i: run(at(source, i, step_in), at(target, i, step_out)), "run")
            with empty:
                length = out.row_width * unit
                repeat(b, 0, runs, lambda i: fill_zeros(b, at(target, i, step_out), length, lanes), "run")

    repeat(b, function.args[1], function.args[2], row, "row")
    b.ret_void()
    return function


def _in_phases(b: ir.IRBuilder, spec: Padded, source: Value, target: Value) -> None:
    """One row of one channel, element by element: there are far fewer than the convolution has multiply-adds."""
    image, out, phases = spec.image, spec.out, spec.phases
    for phase in range(phases):
        line = address(b, target, out.column(phase) * F32_BYTES)
        first = max(0, -(-(spec.pad - phase) // phases))  # the first place of the phase that is inside the image
        last = max(first, min(-(-(spec.pad + image.width - phase) // phases), out.row_width // phases))
        fill_zeros(b, line, first, 1)

        def one(i: Value, line: Value = line, phase: int = phase) -> None:
            column = b.add(scaled(b, i, phases), const(phase - spec.pad))
            value = b.load(address(b, source, scaled(b, column, F32_BYTES)), name="pixel", align=4, typ=F32)
            b.store(value, address(b, line, scaled(b, i, F32_BYTES)), align=4)

        repeat(b, first, last, one, "column")
        fill_zeros(b, address(b, line, last * F32_BYTES), out.row_width // phases - last, 1)


def fill_zeros(b: ir.IRBuilder, place: Value, count: int, lanes: int) -> None:
    """Store `count` zeros."""
    along(b, count, lanes, lambda i, n: store_vector(b, f32_splat(0.0, n), _element(b, place, i)))


def copy_run(b: ir.IRBuilder, source: Value, target: Value, count: int, lanes: int) -> None:
    """Copy `count` neighbouring elements."""

    def piece(i: Value, n: int) -> None:
        store_vector(b, load_vector(b, _element(b, source, i), vector(F32, n), name="run"), _element(b, target, i))

    along(b, count, lanes, piece)


def _element(b: ir.IRBuilder, base: Value, index: Value) -> Value:
    return address(b, base, scaled(b, index, F32_BYTES))


def along(b: ir.IRBuilder, count: int, lanes: int, body: Callable[[Value, int], None]) -> None:
    """body(index, lanes) over `count` elements: whole vectors, then shorter ones of powers of two."""
    whole = count // lanes * lanes
    if whole:
        repeat(b, 0, whole, lambda i: body(i, lanes), "vector", lanes)
    at = whole
    while at < count:
        size = 1 << ((count - at).bit_length() - 1)
        body(const(at), size)
        at += size


def lanes_of(machine: Machine, panel: int) -> int:
    """Lanes of the vectors in which a panel, or a block, of so many channels is computed."""
    return min(lanes_f32(machine), panel)


def load_some(b: ir.IRBuilder, machine: Machine, place: Value, lanes: int, used: int, name: str = "") -> Value:
    """A vector of which the first `used` lanes are read; what the others hold is not said."""
    if used == lanes or machine.arch == "x86_64":
        return load_vector(b, place, vector(F32, lanes), used, name)
    return load_lanes(b, place, F32, lanes, used, name)


def store_some(b: ir.IRBuilder, machine: Machine, value: Value, place: Value, lanes: int, used: int) -> None:
    """Store the first `used` lanes."""
    if used == lanes or machine.arch == "x86_64":
        store_vector(b, value, place, used)
    else:
        store_lanes(b, value, place, lanes, used)


def only_first(b: ir.IRBuilder, value: Value, lanes: int, used: int) -> Value:
    """The first `used` lanes, zeros in the others: what fills up the last block of a CHWc image."""
    if used == lanes:
        return value
    if used == 0:
        return f32_splat(0.0, lanes)
    return shuffle(b, value, f32_splat(0.0, lanes), [i if i < used else lanes for i in range(lanes)])


def finish(b: ir.IRBuilder, epilogue: Epilogue, value: Value, residual: Value | None) -> Value:
    """value + residual, activated; the bias is in the value already. residual: None where the epilogue has none."""
    if residual is not None:
        value = b.fadd(value, residual, name="with_residual")
    return activate(b, "" if epilogue.act == "none" else epilogue.act, epilogue.act_args, value)


def epilogue_places(epilogue: Epilogue) -> tuple[Place, ...]:
    """The operands that come last in every kernel with an epilogue: bias and residual, as far as there are any."""
    return (Place("bias"),) * epilogue.bias + (Place("residual"),) * epilogue.residual


def epilogue_operands(b: ir.IRBuilder, epilogue: Epilogue, first: int) -> tuple[Value | None, Value | None]:
    """Pointers of bias and residual, the kernel's operands from number `first` on; None where there is none."""
    bias = operand(b, first, "bias") if epilogue.bias else None
    residual = operand(b, first + epilogue.bias, "residual") if epilogue.residual else None
    return bias, residual


def aligned(count_bytes: int) -> int:
    """Rounded up to what pieces of a workspace are aligned to."""
    return -(-count_bytes // WORKSPACE_ALIGN) * WORKSPACE_ALIGN


@dataclass(frozen=True)
class Input:
    """The input of a convolution without borders: where it lies after `stages`."""

    image: Image
    place: Place
    stages: tuple[Stage, ...] = ()
    workspace_bytes: int = 0


def bordered(scenario: Scenario, layout: Layout, block: int, phases: int = 1, offset: int = 0) -> Input:
    """The input with its border: x itself where none is wanted, else a copy in the workspace from `offset` bytes on."""
    image = image_of(layout, scenario.c, scenario.h, scenario.w, block)
    if scenario.pad == 0 and phases == 1:
        return Input(image, Place("x"))
    spec = Padded(image, scenario.pad, phases)
    place = Place("workspace", offset)
    return Input(spec.out, place, (Stage(spec, (Place("x"), place)),), aligned(spec.out.elements * F32_BYTES))


def pack_panels(weights: Array, groups: int, panel: int) -> Array:
    """[M, terms] -> [groups, panels, terms, panel], f32: the terms in the order in which a kernel sums them.

    The last panel of a group is filled up with zeros.
    """
    per_group, terms = weights.shape[0] // groups, weights.shape[1]
    panels = -(-per_group // panel)
    filled = np.zeros((groups, panels * panel, terms), np.float32)
    filled[:, :per_group] = weights.reshape(groups, per_group, terms)
    return np.ascontiguousarray(filled.reshape(groups, panels, panel, terms).transpose(0, 1, 3, 2))


def transposed_pieces(b: ir.IRBuilder, rows: Sequence[Value]) -> list[Value]:
    """n vectors of L lanes, n a power of two of at most L, as L vectors of n lanes."""
    lanes, count = rows[0].type.count if isinstance(rows[0].type, ir.VectorType) else 1, len(rows)
    if lanes == 1:
        return list(rows)
    if count == 1:
        return [b.extract_element(rows[0], const(i, I32)) for i in range(lanes)]
    mixed = list(rows)
    half = lanes // 2
    low = [i // 2 + i % 2 * lanes for i in range(lanes)]
    high = [i + half for i in low]
    for _ in range(count.bit_length() - 1):  # a perfect shuffle of all elements, once for each bit of n
        pairs = [(mixed[i], mixed[i + count // 2]) for i in range(count // 2)]
        mixed = [shuffle(b, x, y, order) for x, y in pairs for order in (low, high)]
    per_row = lanes // count
    found = []
    for i in range(lanes):
        source, start = mixed[i // per_row], i % per_row * count
        found.append(source if per_row == 1 else shuffle(b, source, source, range(start, start + count)))
    return found


EMIT = {Padded: emit_padded}
