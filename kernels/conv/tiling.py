"""Register tiles and prefetches of a convolution of floats for a core, chosen before its loops are emitted."""

from collections.abc import Iterator
from math import gcd

from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.conv.spec import MANY_WEIGHTS, Conv2d, conv_sum
from mavcg.kernels.gemm.loop_shape import vector_lanes
from mavcg.kernels.gemm.product_types import in_blocks
from mavcg.kernels.gemm.register_tile import (
    BlockRegisters,
    RegisterTiling,
    choose,
    most_pixels,
    most_vectors,
    tiling_of,
)
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.tile_plan import MacroTile

# Bytes of the inputs of a row of pixels: smaller rows stay in level 1 while all chunks of channels are computed.
ROW_NEAR_BYTES = 1 << 15
FEW_CHUNKS, FEW_CHUNKS_ARM = 2, 4  # chunks of channels whose inputs are mostly read for the first time
LEAST_SHARING = 4  # minimum number of register tiles that share the prefetch of the next chunk's weights
# Register tiles that continue in the next row need addresses computed at run time: they are chosen only if they take
# less than this fraction of the cycles.
CROSSING_GAIN = 0.95


def plain_macro(spec: Conv2d) -> MacroTile:
    """Return a macro-tile that suits any cache: all channels for blocks of rows, or all rows where channels are cut."""
    return MacroTile(spec.tiling_rules.plain_rows, panel_channels=spec.panel_channels or None)


# x86 cores index level 1 by the offset in a page, so that a way has the size of a page. A tile's pixels, one line of
# input each at a time, may fill six of the eight or more ways; weights and outputs need the others.
L1_WAY_BYTES, INPUT_WAYS = 4096, 6

# Where a run sets how long rows are, each pixel of a tile has an address of its own, for which x86 has some ten
# registers; more are loaded from the stack with each input. On an Emerald Rapids tiles of 10 pixels and two vectors,
# with shared prefetches, take .65 to .75 of the time of tiles of 16 pixels and one.
POINTER_PIXELS = 10


def uncrowded_pixels(spec: Conv2d, machine: Machine, whole_rows: bool = False) -> int | None:
    """Return the maximum pixels of a tile whose inputs do not evict each other from level 1, and whose addresses are in
    registers; None: any number.

    With 1024 channels all pixels of an image map to the same sets: on a Zen 4 tiles of 13 pixels took 1.13 times as
    long as tiles of 6, and tiles of 26 four times as long. whole_rows: True for a tile of rows of a known length, of
    which each has an address, and not each pixel.
    """
    if machine.arch != "x86_64" or (machine.bf16_tiles and in_blocks(spec.product_type)):
        return None  # a line of a tile register's row is read as a whole
    if spec.short_rows and not whole_rows:
        return POINTER_PIXELS
    along = 0 if spec.single_pixels else 1
    pitch = spec.x.strides[1 + along] * spec.stride[along] * spec.item_bytes
    return L1_WAY_BYTES // gcd(L1_WAY_BYTES, max(pitch, LINE_BYTES)) * INPUT_WAYS


SHORT_PIXELS = 16  # among which tiles that continue in the next row are chosen, if rows are shorter
FEW_PIXELS = 2  # of a run, which register tiles of more channels compute


def terms_of_block(spec: Conv2d, macro: MacroTile) -> int:
    """Return the number of terms of a sum that a block adds up: at most `macro.kc` where sums are cut, else all."""
    terms = conv_sum(spec).length
    return min(terms, macro.kc or terms) if spec.tiling_rules.partial_sums else terms


def register_tiling(spec: Conv2d, machine: Machine, macro: MacroTile, channels: int) -> tuple[RegisterTiling, bool]:
    """Return (register tiles for a run of `channels` output channels, True if tiles continue in the next row of
    pixels).

    Tiles continue in the next row only where one block is all rows of the images.
    """
    terms, dtype = terms_of_block(spec, macro), spec.tile_type
    lanes, most = vector_lanes(machine, spec.product_type), uncrowded_pixels(spec, machine)
    tiled = machine.bf16_tiles and in_blocks(dtype)

    def tiling(pixels: int) -> RegisterTiling:
        if not spec.packed:
            return choose(machine, pixels, 1, terms, most=most, dtype=dtype)
        vectors, panel = -(-channels // lanes), max(1, spec.lanes // lanes)
        if macro.nr is not None:
            whole = max(1, macro.nr // (panel * lanes)) * panel
            whole = min(whole, most_vectors(machine, pixels, dtype)) if tiled else whole
            return tiling_of(machine, pixels, vectors, min(vectors, whole), terms, most, dtype)
        chosen = choose(machine, pixels, vectors, terms, panel, most, dtype)
        if spec.short_rows and most and spec.product_type == "f32" and chosen.vectors == 1:
            return tiling_of(machine, LEAST_SHARING * most, vectors, min(vectors, 2), terms, most, dtype)
        return chosen

    by_row = tiling(max(spec.run_pixels, SHORT_PIXELS) if spec.short_rows else spec.run_pixels)
    whole = macro.parts == 1 and (macro.mc is None or macro.mc >= spec.pixel_rows)
    if spec.by_channels and spec.pixel_rows > 1 and whole and not tiled:  # tile registers' rows are evenly spaced
        crossing = tiling(spec.pixel_rows * spec.out.shape[2])
        if crossing.cycles < CROSSING_GAIN * by_row.cycles * spec.pixel_rows:
            return crossing, True
    return by_row, False


def few_pixels_tiling(spec: Conv2d, machine: Machine, macro: MacroTile, channels: int) -> RegisterTiling | None:
    """Return the register tiles of at most FEW_PIXELS single pixels of a run, for so many output channels.

    None where a run does not set the number of pixels, and for tiles of a given number of channels.
    """
    if not spec.single_pixels or not spec.packed or macro.nr is not None:
        return None
    lanes = vector_lanes(machine, spec.product_type)
    vectors, panel = -(-channels // lanes), max(1, spec.lanes // lanes)
    return choose(machine, FEW_PIXELS, vectors, terms_of_block(spec, macro), panel, FEW_PIXELS, spec.tile_type)


# Pixels up to which a run is one register tile of fewer channels: a tile of so many by two vectors fits the registers
# of AVX-512. In tiles of four vectors weights are read twice or three times: an encoder of 256 channels and 7 tokens
# took 1.08 times as long, of 13 tokens 1.10 times (Intel Xeon with AMX (sapphirerapids), 2026-12-01, 5d4cfa64).
ONE_TILE_PIXELS = 13


def one_tile_runs(
    spec: Conv2d, machine: Machine, macro: MacroTile, channels: int, vectors: int
) -> Iterator[tuple[int, RegisterTiling]]:
    """Yield (pixels, register tiles) of the runs that are one tile of fewer than `vectors` vectors of channels, and
    several of so many.

    Then a run reads each weight once, where no cache nearer than level 2 keeps a chunk's for another tile. Measured for
    f32 on x86 only. channels: of a chunk's run; none where a run does not set the number of pixels, and for tiles of a
    given number of channels.
    """
    of_run = (spec.single_pixels or spec.short_rows) and spec.packed and macro.nr is None
    if not of_run or spec.weight_bytes < MANY_WEIGHTS or machine.arch != "x86_64" or spec.tile_type != "f32":
        return
    lanes, terms = vector_lanes(machine, spec.product_type), terms_of_block(spec, macro)
    in_all, panel = -(-channels // lanes), max(1, spec.lanes // lanes)
    known = all(path != "out.shape.2" for path, _ in spec.words)
    most = min(ONE_TILE_PIXELS, uncrowded_pixels(spec, machine, whole_rows=known) or ONE_TILE_PIXELS)
    end = most_pixels(machine, vectors, spec.tile_type, terms) + 1
    for fewer in range((vectors - 1) // panel * panel, 0, -panel):
        begin, end = end, max(end, min(most, most_pixels(machine, fewer, spec.tile_type, terms)) + 1)
        for pixels in range(begin, end):
            if not known or pixels % spec.out.shape[2] == 0:
                yield pixels, tiling_of(machine, pixels, in_all, fewer, terms, pixels, spec.tile_type)


def conv2d_registers(spec: Conv2d, machine: Machine, macro: MacroTile, channels: int) -> BlockRegisters:
    """Return the register tiles of a block of `channels` output channels."""
    lanes = vector_lanes(machine, spec.product_type)
    tiling, crossing = register_tiling(spec, machine, macro, channels)
    pixels = spec.run_pixels * (spec.pixel_rows if crossing else 1)
    # terms = 0 leaves out the register model's cost of weights beyond level 1, which the planner counts as traffic. The
    # ends of f16 blocks count.
    most, terms = uncrowded_pixels(spec, machine), 0 if spec.tiling_rules.partial_sums else conv_sum(spec).length
    of_row = tiling_of(machine, pixels, -(-channels // lanes), tiling.vectors, terms, most, spec.tile_type)
    shared = tiling.shared * (1 if crossing else spec.pixel_rows)
    return BlockRegisters(of_row.widths, tiling.vectors * lanes, tiling.vectors, of_row.cycles, crossing, shared)


def prefetches_inputs(spec: Conv2d, machine: Machine, chunk: int) -> bool:
    """Return True if each tile of a row prefetches the next tile's inputs, as these miss level 1 in most chunks.

    Where windows overlap, a tile's own loads fetch most of the next tile's inputs. On x86 measured on a Zen 3, on Arm
    simulated (docs/design/engine-tiles.md). In-order cores would lose an issue slot per prefetch of f32 inputs; f16
    loops have slots to spare, and each panel of channels reads all inputs of its rows from level 2. Out-of-order cores
    of Arm have slots to spare, too, fewer in f16. chunk: channels of a chunk.
    """
    if spec.kernel[1] > spec.stride[1]:
        return False
    if machine.in_order:
        return machine.arch == "aarch64" and spec.x.dtype == "f16"
    on_arm = machine.arch == "aarch64"
    if on_arm and spec.x.dtype == "f32":
        return True
    if spec.by_channels and not on_arm:
        return False
    # All rows are passed over for a chunk where channels are the work, else a row for all chunks.
    rows = spec.pixel_rows if spec.by_channels else 1
    pass_bytes = rows * spec.out.shape[2] * spec.stride[1] * spec.kernel[0] * spec.x.shape[3] * spec.item_bytes
    return pass_bytes > ROW_NEAR_BYTES or spec.out_channels <= (FEW_CHUNKS_ARM if on_arm else FEW_CHUNKS) * chunk


def prefetches_windows(spec: Conv2d, machine: Machine, chunk: int) -> bool:
    """Return True if each tile of a row prefetches what windows that overlap read next, on Arm.

    A first layer reads rows of few channels, by loads of many addresses: hardware prefetchers follow none of them. With
    many chunks of channels most read what is near. chunk: channels of a chunk.
    """
    overlaps = spec.kernel[1] > spec.stride[1]
    return machine.arch == "aarch64" and overlaps and spec.out_channels <= FEW_CHUNKS_ARM * chunk


def share_bytes(spec: KernelSpec, macro: MacroTile, chunk_bytes: int, tiles: int) -> int:
    """Return the bytes of the next chunk's weights that each of `tiles` register tiles prefetches per term of a sum.

    chunk_bytes: size of a chunk's weights per term. The result is 0 where no prefetch is planned, or where too few
    tiles share a chunk; these prefetch their own weights, `macro.prefetch_distance_bytes` ahead.
    """
    if not spec.panel_channels or not macro.prefetch_distance_bytes or tiles < LEAST_SHARING:
        return 0
    return -(-chunk_bytes // tiles)
