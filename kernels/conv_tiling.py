"""What is decided of a convolution's loops before they are written: register tiles, and what is asked for early."""

from mavcg.kernel import Machine
from mavcg.kernels.conv_spec import Conv2d, conv_sum
from mavcg.kernels.gemm_tile import F32_BYTES
from mavcg.kernels.tiling import Tiling, choose, lanes_f32, plain_rows, tiling_of
from mavcg.tile_plan import MacroTile

# Of the inputs of a row of pixels: fewer stay in level 1 while all chunks of channels pass over them.
ROW_NEAR_BYTES = 1 << 15
FEW_CHUNKS = 2
LEAST_SHARING = 4  # register tiles that share a prefetch of the next weights
# Tiles that go on in the next row must be so much faster to be worth addresses made at run time.
CROSSING_GAIN = 0.95


def plain_macro(spec: Conv2d) -> MacroTile:
    """What is right in any cache: a block of rows that all channels pass over, or all rows where channels are cut."""
    row_bytes = spec.out.shape[2] * spec.stride[1] * spec.stride[0] * spec.x.shape[3] * F32_BYTES
    rows = 0 if spec.by_channels else plain_rows(row_bytes)
    return MacroTile(rows, pack_lanes=spec.lanes if spec.packed else 0)


def register_tiling(spec: Conv2d, machine: Machine, macro: MacroTile, channels: int) -> tuple[Tiling, bool]:
    """The register tiles of a run of so many output channels, and whether they cross from a row of pixels to the next.

    They cross only where one block is all rows of the images.
    """
    terms = conv_sum(spec).length
    terms = min(terms, macro.k_block or terms)
    lanes = lanes_f32(machine)

    def tiling(pixels: int) -> Tiling:
        if not spec.packed:
            return choose(machine, pixels, 1, terms)
        vectors, panel = -(-channels // lanes), max(1, spec.lanes // lanes)
        if macro.tile_channels:
            whole = max(1, macro.tile_channels // (panel * lanes)) * panel
            return tiling_of(machine, pixels, vectors, min(vectors, whole), terms)
        return choose(machine, pixels, vectors, terms, panel)

    apart = tiling(spec.out.shape[2])
    whole = macro.parts == 1 and not 0 < macro.rows < spec.pixel_rows
    if spec.by_channels and spec.pixel_rows > 1 and whole:
        crossing = tiling(spec.pixel_rows * spec.out.shape[2])
        if crossing.cycles < CROSSING_GAIN * apart.cycles * spec.pixel_rows:
            return crossing, True
    return apart, False


def asks_inputs(spec: Conv2d, machine: Machine, chunk: int) -> bool:
    """Whether tiles of a row prefetch the next one's inputs: where these come from afar for most chunks of channels.

    Windows that overlap bring most of the next tile's inputs along. Measured on a Zen 3 (docs/design/engine-tiles.md);
    in-order cores would lose an issue slot each time.
    """
    if machine.arch != "x86_64" or spec.by_channels or spec.kernel[1] > spec.stride[1]:
        return False
    row_bytes = spec.out.shape[2] * spec.stride[1] * spec.kernel[0] * spec.x.shape[3] * F32_BYTES
    return row_bytes > ROW_NEAR_BYTES or spec.out_channels <= FEW_CHUNKS * chunk


def ask_bytes(spec: Conv2d, macro: MacroTile, chunk_bytes: int, tiles: int) -> int:
    """Of the next chunk's weights, what a register tile prefetches for each term of a sum, where so many share it.

    chunk_bytes: of a chunk's weights of one term. 0: nothing, since none is planned, or too few tiles share a chunk:
    these ask for their own weights, `macro.prefetch_bytes` ahead.
    """
    if not spec.packed or not macro.prefetch_bytes or tiles < LEAST_SHARING:
        return 0
    return -(-chunk_bytes // tiles)
