"""Cost and gain of prefetching the weights of the next chunk of channels, by a model of x86 cores.

Register tiles of a chunk share the prefetches (kernels/conv/tiling.share_bytes). The gain is twofold. Lines from
beyond level 2 arrive in time; macro_tile.py counts these in bytes. The first lines that a chunk's first tile reads
from level 2 arrive too, before the core's own prefetcher has detected the stream. The constants, [chunk_prefetch] of
profiles/fits/x86.toml, were fitted to layers of SqueezeNet on a Zen 3, with and without the prefetch
(docs/design/engine-tiles.md).
"""

from dataclasses import dataclass

from mavcg.cost.kernel_work import KernelWork, block_channels, k_tile, registers
from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.conv.tiling import LEAST_SHARING, share_bytes
from mavcg.kernels.gemm.loop_shape import unroll_factor
from mavcg.kernels.gemm.register_tile import BlockRegisters, Widths
from mavcg.profiles.cost_fits import fit_of
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.sums_of_products import TilingRules
from mavcg.specs.tile_plan import MacroTile


@dataclass(frozen=True)
class ChunkPass:
    """A pass of a block's rows of pixels over a chunk of channels, in all register tiles of the chunk.

    widths: register tiles of one row, or of all rows if tiles cross from one row to the next (crossing). rows: of
    pixels. chunk_bytes: weights of the chunk in a block of terms. returns_bytes: bytes that go through level 1 until
    the next pass over the same chunk, which are the call's weights, inputs and outputs; 0 if the chunk is all of the
    call's weights, None if no other pass follows. pixel_bytes: inputs of a register tile. terms: of the block.
    """

    widths: Widths
    crossing: bool
    rows: int
    chunk_bytes: int
    returns_bytes: int | None
    pixel_bytes: int
    terms: int


def is_modelled(rules: TilingRules, machine: Machine) -> bool:
    """True if this model covers the core and kernels with these rules."""
    return rules.shared_prefetch and fit_of(machine).chunk_prefetch is not None


def shares(rules: TilingRules, machine: Machine, chunk: ChunkPass) -> bool:
    """True if the model covers the kernel and the pass has enough register tiles to share the prefetches."""
    return is_modelled(rules, machine) and _tiles(chunk) >= LEAST_SHARING


def cycles(spec: KernelSpec, machine: Machine, macro: MacroTile, chunk: ChunkPass, free_bytes: float) -> float:
    """Return the cycles of a pass's prefetches, or without them the cycles that it waits at the start of the chunk.

    free_bytes: bytes of level 1 that the plan may use.
    """
    fit = fit_of(machine).chunk_prefetch
    assert fit is not None
    stays = chunk.chunk_bytes + chunk.pixel_bytes <= free_bytes
    if not macro.prefetch_distance_bytes:
        near = chunk.returns_bytes is not None and chunk.returns_bytes <= free_bytes
        return fit.start_cycles if stays and not near else 0.0
    unroll = unroll_factor(machine, chunk.terms)
    prefetches = chunk.terms / unroll * -(-unroll * _prefetch_bytes_per_term(spec, macro, chunk) // LINE_BYTES)
    lost = 0.0 if stays else chunk.chunk_bytes / LINE_BYTES * fit.lost_line_cycles
    return _tiles(chunk) * prefetches * fit.prefetch_cycles + lost


def _tiles(chunk: ChunkPass) -> int:
    return (chunk.widths.count + chunk.widths.count_less) * (1 if chunk.crossing else chunk.rows)


def _prefetch_bytes_per_term(spec: KernelSpec, macro: MacroTile, chunk: ChunkPass) -> int:
    return share_bytes(spec, macro, chunk.chunk_bytes // chunk.terms, _tiles(chunk))


def pass_of(work: KernelWork, machine: Machine, macro: MacroTile, tiles: BlockRegisters | None = None) -> ChunkPass:
    """Return the pass of a block's rows over a chunk of channels. tiles: the register tiles of the block, if known."""
    task = work.task(macro.call_rows)
    rows, channels = min(macro.mc or task.oh, task.oh), block_channels(macro, task)
    tiles = tiles or registers(work, machine, macro, channels)
    ic, kh, kw = k_tile(task, macro.kc)
    terms, chunk, items = ic * kh * kw, min(tiles.channels, channels), task.items
    returns: int | None = None
    if not work.by_channels:
        moved = rows * task.ow * task.oc * items.output + task.input_rows(rows) * task.iw * ic * items.input
        returns = task.oc * terms * items.weight + moved if task.oc > chunk else 0
    return ChunkPass(
        tiles.widths,
        tiles.crossing,
        rows,
        chunk * terms * items.weight,
        returns,
        tiles.widths.mr * terms * items.input,
        terms,
    )
