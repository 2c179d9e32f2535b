"""Decisions on a convolution's loops before they are emitted: register tiles and prefetches."""

from math import gcd

from mavcg.kernels.builder.prefetch import LINE_BYTES
from mavcg.kernels.conv.spec import Conv2d, conv_sum
from mavcg.kernels.gemm.register_tile import BlockRegisters, RegisterTiling, choose, lanes_f32, tiling_of
from mavcg.kernels.gemm.tile import F32_BYTES
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.tile_plan import MacroTile

# Of the inputs of a row of pixels: fewer stay in level 1 while all chunks of channels pass over them.
ROW_NEAR_BYTES = 1 << 15
FEW_CHUNKS = 2
LEAST_SHARING = 4  # register tiles that share a prefetch of the next weights
# Tiles that go on in the next row must be so much faster to be worth addresses made at run time.
CROSSING_GAIN = 0.95


def plain_macro(spec: Conv2d) -> MacroTile:
    """Return a macro-tile for any cache: blocks of rows that all channels pass, or all rows where channels are cut."""
    return MacroTile(spec.products.plain_rows, panel_channels=spec.panel_channels or None)


# Level 1 of x86 cores is indexed by the place in a page: a way of it has that size. A tile's pixels, each a line of
# input at a time, may fill six of the eight ways or more that there are; weights and outputs need the others.
L1_WAY_BYTES, INPUT_WAYS = 4096, 6


def uncrowded_pixels(spec: Conv2d, machine: Machine) -> int | None:
    """Return the most pixels of a tile whose inputs do not displace one another in level 1; None: any number.

    With 1024 channels all pixels of an image are in the same sets: tiles of 13 pixels took 1.13 times as long as those
    of 6 on a Zen 4, tiles of 26 four times as long.
    """
    if machine.arch != "x86_64":
        return None
    pitch = spec.x.strides[2] * spec.stride[1] * F32_BYTES
    return L1_WAY_BYTES // gcd(L1_WAY_BYTES, max(pitch, LINE_BYTES)) * INPUT_WAYS


def register_tiling(spec: Conv2d, machine: Machine, macro: MacroTile, channels: int) -> tuple[RegisterTiling, bool]:
    """Return the register tiles of a run of so many output channels, and whether they cross from a row of pixels to the
    next.

    They cross only where one block is all rows of the images.
    """
    terms = conv_sum(spec).length
    terms = min(terms, macro.kc or terms)
    lanes, most = lanes_f32(machine), uncrowded_pixels(spec, machine)

    def tiling(pixels: int) -> RegisterTiling:
        if not spec.packed:
            return choose(machine, pixels, 1, terms, most=most)
        vectors, panel = -(-channels // lanes), max(1, spec.lanes // lanes)
        if macro.nr is not None:
            whole = max(1, macro.nr // (panel * lanes)) * panel
            return tiling_of(machine, pixels, vectors, min(vectors, whole), terms, most)
        return choose(machine, pixels, vectors, terms, panel, most)

    by_row = tiling(spec.out.shape[2])
    whole = macro.parts == 1 and (macro.mc is None or macro.mc >= spec.pixel_rows)
    if spec.by_channels and spec.pixel_rows > 1 and whole:
        crossing = tiling(spec.pixel_rows * spec.out.shape[2])
        if crossing.cycles < CROSSING_GAIN * by_row.cycles * spec.pixel_rows:
            return crossing, True
    return by_row, False


def conv2d_registers(spec: KernelSpec, machine: Machine, macro: MacroTile, channels: int) -> BlockRegisters:
    """Return the register tiles of a block of so many output channels."""
    assert isinstance(spec, Conv2d)
    lanes = lanes_f32(machine)
    tiling, crossing = register_tiling(spec, machine, macro, channels)
    pixels = spec.out.shape[2] * (spec.pixel_rows if crossing else 1)
    # Without what the register model adds where weights do not stay in level 1: the planner counts that in bytes.
    most = uncrowded_pixels(spec, machine)
    cycles = tiling_of(machine, pixels, -(-channels // lanes), tiling.vectors, 0, most).cycles
    shared = tiling.shared * (1 if crossing else spec.pixel_rows)
    return BlockRegisters(tiling.widths, tiling.vectors * lanes, tiling.vectors, cycles, crossing, shared)


def prefetches_inputs(spec: Conv2d, machine: Machine, chunk: int) -> bool:
    """True if tiles of a row prefetch the next one's inputs: these come from afar for most chunks of channels.

    Windows that overlap bring most of the next tile's inputs along. Measured on a Zen 3 (docs/design/engine-tiles.md);
    in-order cores would lose an issue slot each time.
    """
    if machine.arch != "x86_64" or spec.by_channels or spec.kernel[1] > spec.stride[1]:
        return False
    row_bytes = spec.out.shape[2] * spec.stride[1] * spec.kernel[0] * spec.x.shape[3] * F32_BYTES
    return row_bytes > ROW_NEAR_BYTES or spec.out_channels <= FEW_CHUNKS * chunk


def share_bytes(spec: KernelSpec, macro: MacroTile, chunk_bytes: int, tiles: int) -> int:
    """Return the bytes of the next chunk's weights that each of `tiles` register tiles prefetches for each term of a
    sum.

    chunk_bytes: of a chunk's weights of one term. 0: no prefetch is planned, or too few tiles share a chunk: these
    prefetch their own weights, `macro.prefetch_distance_bytes` ahead.
    """
    if not spec.panel_channels or not macro.prefetch_distance_bytes or tiles < LEAST_SHARING:
        return 0
    return -(-chunk_bytes // tiles)
