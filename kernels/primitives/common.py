"""Code shared by all families of primitives: images in memory, partial vectors, epilogues, panels of weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from mavcg.kernels.builder.emit import F32, I32, address, const, lanes_and_element, operand, repeat, scale_index, vector
from mavcg.kernels.builder.lanes import f32_splat, load_lanes, load_vector, shuffle, store_lanes, store_vector
from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.specs.kernel import Array, Machine
from mavcg.specs.kernel_symbol import sizes_text
from mavcg.specs.primitive import F32_BYTES, Epilogue, Layout, StageOperand
from mavcg.specs.serialize import spec_format
from mavcg.specs.work_counts import OperandBytes, VectorWork, vector_work

Value: TypeAlias = ir.Value
# Channels of the longest CHWc block of any library. A primitive whose blocks must not span two groups requires that for
# blocks of this length.
MOST_BLOCK = 16
PANEL = 16  # columns of a panel of packed weights: the lanes of the longest vectors of any machine
WORKSPACE_ALIGN = 64


@spec_format("image")
@dataclass(frozen=True)
class Image:
    """A dense image in memory; steps are in elements.

    block: channels of a CHWc block, a power of two of at most MOST_BLOCK; 1, without meaning, in other layouts. phases:
    columns with equal remainder modulo `phases` are contiguous, that is a row is [phases, ceil(width / phases)], so
    that vectors along the columns of a strided convolution are contiguous; layouts CHW and HCW only.
    """

    channels: int
    height: int
    width: int
    layout: Layout
    block: int = 1
    phases: int = 1

    @property
    def layout_text(self) -> str:
        """Name of the layout in kernel symbols, such as chwc8."""
        return self.layout.lower() + (str(self.block) if self.layout is Layout.CHWC else "")

    @property
    def sizes_text(self) -> str:
        """Channels, height and width in kernel symbols, in the order of the layout."""
        lengths = {"C": self.channels, "H": self.height, "W": self.width}
        return sizes_text(*(lengths[letter] for letter in self.layout[:3]))

    @property
    def row_width(self) -> int:
        """Columns of a row in memory, including the padding of phases."""
        return -(-self.width // self.phases) * self.phases

    @property
    def blocks(self) -> int:
        """Number of blocks of channels; 1 in layouts without blocks."""
        return -(-self.channels // self.block) if self.layout is Layout.CHWC else 1

    @property
    def channel_step(self) -> int:
        """Distance from a channel to the next one of the same block, in elements."""
        return {Layout.CHW: self.height * self.row_width, Layout.HCW: self.row_width}.get(self.layout, 1)

    @property
    def block_step(self) -> int:
        """Distance from a block of channels to the next, in elements; 0 in layouts without blocks."""
        return self.height * self.row_width * self.block if self.layout is Layout.CHWC else 0

    @property
    def row_step(self) -> int:
        """Distance from a row to the next, in elements."""
        per_column = {Layout.CHW: 1, Layout.CHWC: self.block}.get(self.layout, self.channels)
        return self.row_width * per_column

    @property
    def column_step(self) -> int:
        """Distance from a column to the next one of the same phase, in elements."""
        return {Layout.HWC: self.channels, Layout.CHWC: self.block}.get(self.layout, 1)

    @property
    def elements(self) -> int:
        """Number of elements in memory, including the padding of blocks and phases."""
        per_pixel = self.blocks * self.block if self.layout is Layout.CHWC else self.channels
        return per_pixel * self.height * self.row_width

    @property
    def values(self) -> int:
        """Number of elements without padding."""
        return self.channels * self.height * self.width

    @property
    def operand_bytes(self) -> OperandBytes:
        """The bytes of all values, as an operand that a kernel reads or writes."""
        return OperandBytes(self.values * F32_BYTES)

    def column(self, x: int) -> int:
        """Return the offset of column x within a row, in elements."""
        return (x % self.phases * (self.row_width // self.phases) + x // self.phases) * self.column_step

    def channel(self, c: int) -> int:
        """Return the offset of channel c within a pixel, in elements."""
        if self.layout is Layout.CHWC:
            return c // self.block * self.block_step + c % self.block
        return c * self.channel_step

    def channel_bytes(self, b: ir.IRBuilder, c: Value) -> Value:
        """Emit the offset, in bytes, of a channel number known at run time within a pixel."""
        if self.layout is not Layout.CHWC:
            return scale_index(b, c, self.channel_step * F32_BYTES)
        outer = scale_index(b, b.udiv(c, const(self.block)), self.block_step * F32_BYTES)
        return b.add(outer, scale_index(b, b.urem(c, const(self.block)), F32_BYTES), name="channel_at")


def image_of(layout: Layout, channels: int, height: int, width: int, block: int) -> Image:
    """Return the image of a tensor; block: channels of a block, for CHWc layouts."""
    return Image(channels, height, width, layout, block if layout is Layout.CHWC else 1)


def padded_image(image: Image, pads: tuple[int, int], phases: int = 1) -> Image:
    """Return the image with a border of pads[0] rows above and below and of pads[1] columns on either side.

    phases: of its columns.
    """
    return replace(image, height=image.height + 2 * pads[0], width=image.width + 2 * pads[1], phases=phases)


def transpose_work(image: Image, along_pixels: bool) -> tuple[VectorWork, ...]:
    """Return the work of transposing an image whose neighbours in memory are not neighbours in vectors.

    along_pixels: True if vectors run along the pixels of the image, False if they run along its channels.
    """
    return vector_work(("turn", image.values)) if image.layout.planar is not along_pixels else ()


def lanes_of(machine: Machine, panel: int) -> int:
    """Return the lanes of the vectors that compute a panel, or a block, of `panel` channels."""
    return min(lanes_f32(machine), panel)


def load_partial(
    b: ir.IRBuilder, machine: Machine, pointer: Value, lanes: int, used: int, name: str = "", typ: ir.Type = F32
) -> Value:
    """Emit the load of the first `used` lanes of a vector of f32, or of `typ`; the other lanes are undefined."""
    if used == lanes or machine.arch == "x86_64":
        return load_vector(b, pointer, vector(typ, lanes), used, name)
    return load_lanes(b, pointer, typ, lanes, used, name)


def store_partial(b: ir.IRBuilder, machine: Machine, value: Value, pointer: Value, lanes: int, used: int) -> None:
    """Emit the store of the first `used` lanes of a vector."""
    if used == lanes or machine.arch == "x86_64":
        store_vector(b, value, pointer, used)
    else:
        store_lanes(b, value, pointer, lanes, used)


def zero_other_lanes(b: ir.IRBuilder, value: Value, lanes: int, used: int) -> Value:
    """Return a vector with zeros in all but the first `used` lanes, as in the last block of a CHWc image."""
    if used == lanes:
        return value
    if used == 0:
        return f32_splat(0.0, lanes)
    return shuffle(b, value, f32_splat(0.0, lanes), [i if i < used else lanes for i in range(lanes)])


def epilogue_operand_places(epilogue: Epilogue) -> tuple[StageOperand, ...]:
    """Return the operands that the epilogue adds to a kernel: bias and residual, as far as it has them."""
    return (StageOperand("bias"),) * epilogue.bias + (StageOperand("residual"),) * epilogue.residual


def epilogue_operands(b: ir.IRBuilder, epilogue: Epilogue, first: int) -> tuple[Value | None, Value | None]:
    """Return (pointer to the bias, pointer to the residual), None for an absent one. first: number of their operand."""
    bias = operand(b, first, "bias") if epilogue.bias else None
    residual = operand(b, first + epilogue.bias, "residual") if epilogue.residual else None
    return bias, residual


def align_workspace(count_bytes: int) -> int:
    """Round a size in bytes up to the alignment of the parts of a workspace, WORKSPACE_ALIGN."""
    return -(-count_bytes // WORKSPACE_ALIGN) * WORKSPACE_ALIGN


def panels_shape(m: int, terms: int, groups: int, panel: int) -> tuple[int, int, int, int]:
    """Return the shape of the result of pack_panels for weights [m, terms]."""
    return groups, -(-(m // groups) // panel), terms, panel


def pack_panels(weights: Array, groups: int, panel: int) -> Array:
    """Pack weights into panels of output channels; terms stay in the order in which a kernel sums them.

    Args:
        weights: [M, terms].
        groups: groups of output channels; divides M.
        panel: output channels of a panel.
    Returns:
        [groups, panels, terms, panel], f32; the last panel of a group is padded with zeros.
    """
    per_group, terms = weights.shape[0] // groups, weights.shape[1]
    panels = -(-per_group // panel)
    filled = np.zeros((groups, panels * panel, terms), np.float32)
    filled[:, :per_group] = weights.reshape(groups, per_group, terms)
    return np.ascontiguousarray(filled.reshape(groups, panels, panel, terms).transpose(0, 1, 3, 2))


def transpose_vectors(b: ir.IRBuilder, rows: Sequence[Value]) -> list[Value]:
    """Transpose n vectors of L lanes, n a power of two of at most L, into L vectors of n lanes."""
    lanes, count = lanes_and_element(rows[0].type)[0], len(rows)
    if lanes == 1:
        return list(rows)
    if count == 1:
        return [b.extract_element(rows[0], const(i, I32)) for i in range(lanes)]
    mixed = list(rows)
    half = lanes // 2
    low = [i // 2 + i % 2 * lanes for i in range(lanes)]
    high = [i + half for i in low]
    for _ in range(count.bit_length() - 1):  # one perfect shuffle of all elements for each bit of n
        pairs = [(mixed[i], mixed[i + count // 2]) for i in range(count // 2)]
        mixed = [shuffle(b, x, y, order) for x, y in pairs for order in (low, high)]
    per_row = lanes // count
    columns = []
    for i in range(lanes):
        source, start = mixed[i // per_row], i % per_row * count
        columns.append(source if per_row == 1 else shuffle(b, source, source, range(start, start + count)))
    return columns


def fill_last_block(b: ir.IRBuilder, pointer: Value, out: Image, channels: int, pixels: int) -> None:
    """Emit stores of the zeros that pad the last block of a CHWc image, where these channels end.

    pointer: first pixel of the first channel.
    """
    whole, rest = divmod(channels, out.block)
    if not rest:
        return
    last = address(b, pointer, whole * out.block_step * F32_BYTES + rest * F32_BYTES)

    def pixel(index: Value) -> None:
        to = address(b, last, scale_index(b, index, out.block * F32_BYTES))
        for i in range(out.block - rest):
            b.store(f32_splat(0.0, 1), address(b, to, i * F32_BYTES), align=F32_BYTES)

    repeat(b, 0, pixels, pixel, "pixel")
