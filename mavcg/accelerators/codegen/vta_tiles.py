"""Tiles of a group for VTA: the fastest of a grid by estimate, and the next smaller one for a full memory."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mavcg.accelerators.codegen.parameters import WeightSlice, is_depthwise
from mavcg.accelerators.codegen.regions import Region, group_passes
from mavcg.accelerators.codegen.vta_code import slice_blocks
from mavcg.accelerators.codegen.vta_nodes import refuse_group
from mavcg.accelerators.groups import ORDERS, GroupTile
from mavcg.accelerators.isa.datapath import blocks
from mavcg.accelerators.isa.vta import BLOCK, INPUTS, SUMS, WEIGHTS
from mavcg.accelerators.simulator.vta_timing import ALU_INTERVAL
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import CONVOLUTIONS, XGraph, XNode

_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 28, 56, 112)
_ALU_PASSES = 6  # of a result: reset, bias, rounding, shift, two limits
_PER_TILE = 60  # cycles of a tile's start-up that nothing hides


def ranked_vta_tiles(graph: XGraph, nodes: Sequence[str], stored: frozenset[str], target: IsaTarget) -> list[GroupTile]:
    """Return tiles that fit by estimate, the fastest first. stored: tensors that the group writes."""
    refuse_group(graph, nodes)
    by_name = graph.by_name()
    members = [node for node in graph.nodes if node.name in set(nodes)]
    rated = []
    for tile in _grid(members, stored, by_name[members[0].inputs[0]].channels):
        cycles = _estimate(members, stored, tile, by_name, target)
        if cycles is not None:
            rated.append((cycles, -tile.rows, -tile.columns, -tile.out_ch, tile.order, tile))
    return [entry[-1] for entry in sorted(rated, key=lambda entry: entry[:-1])]


def _grid(members: Sequence[XNode], stored: frozenset[str], in_ch: int) -> Iterator[GroupTile]:
    outer = [node for node in members if node.name in stored]
    height, width = max(n.shape[1] for n in outer), max(n.shape[2] for n in outer)
    channels = blocks(max(node.channels for node in members), BLOCK)
    sizes = {(blocks(height, a), blocks(width, b)) for a in _COUNTS for b in _COUNTS[:7] if a >= b or a >= height}
    for rows, columns in sorted(sizes, reverse=True):
        for out in sorted({blocks(channels, count) for count in _COUNTS[:8]}, reverse=True):
            for order in ORDERS:
                yield GroupTile(rows, columns, out * BLOCK, in_ch, order)


def _estimate(
    members: Sequence[XNode],
    stored: frozenset[str],
    tile: GroupTile,
    by_name: dict[str, XNode],
    target: IsaTarget,
) -> float | None:
    """Return the cycles of a group with a tile; None if the tile cannot fit."""
    head = members[0]
    regions, written = next(iter(group_passes(members, stored, tile, by_name)))
    height, width = (max(by_name[name].shape[axis] for name in written) for axis in (1, 2))
    tiles = head.shape[0] * blocks(height, tile.rows) * blocks(width, tile.columns)
    ranges, out = blocks(head.channels, tile.out_ch), min(tile.out_ch, blocks(head.channels, BLOCK) * BLOCK)
    vectors = blocks(out, BLOCK)
    made = {node.name for node in members}
    tensors = {name: _pixels(region) * vectors for name, region in regions.items()}
    convolves = head.kind in CONVOLUTIONS
    read = head.inputs[0]
    sums = sum(size for name, size in tensors.items() if not (convolves and name == read and name not in made))
    entries = 3 * vectors
    if sums + entries > SUMS.depth:
        return None
    steps = weights = loaded = 0
    if convolves:
        in_ch = by_name[read].channels
        diagonal = is_depthwise(head, in_ch)
        loaded = _pixels(regions[read]) * (vectors if diagonal else blocks(in_ch, BLOCK))
        weights = slice_blocks(head, in_ch, WeightSlice(head.name, 0, out, 0, in_ch))
        if loaded > INPUTS.depth or weights > WEIGHTS.depth:
            return None
        steps = tensors[head.name] * head.kernel[0] * head.kernel[1] * (1 if diagonal else blocks(in_ch, BLOCK))
    alu = sum(
        tensors[n.name] * (_ALU_PASSES + (n.kernel[0] * n.kernel[1] if n.kind not in CONVOLUTIONS else 0))
        for n in members
    )
    compute = tiles * ranges * (steps + ALU_INTERVAL * alu + _PER_TILE)
    rounds = tiles * ranges
    outside = tile.order == ORDERS[0]
    resident = weights * ranges <= WEIGHTS.depth
    moved = weights * WEIGHTS.element_bytes * ranges * (1 if outside or resident else tiles)
    moved += loaded * BLOCK * (rounds if outside and tiles > 1 else tiles)
    others = sum(size for name, size in tensors.items() if name not in made and not (convolves and name == read))
    moved += rounds * BLOCK * (others + sum(_pixels(region) * vectors for region in written.values()))
    transfers = moved / target.ddr_bytes_per_cycle + rounds * target.ddr_latency_cycles / 4
    double = 2 * loaded <= INPUTS.depth and 2 * weights <= WEIGHTS.depth and 2 * sums + entries <= SUMS.depth
    return max(compute, transfers) if double else compute + transfers


def _pixels(region: Region) -> int:
    return region.rows * region.columns


def least_vta_tile(tile: GroupTile) -> GroupTile:
    """Return a tile to begin with where no estimate fits: small, with all input channels."""
    return replace(tile, rows=4, columns=min(tile.columns, 16), out_ch=BLOCK)


def smaller_vta_tile(tile: GroupTile, memory: str, most_in: int) -> GroupTile | None:
    """Return the next smaller tile, which takes less of a full memory; None if no tile is smaller.

    memory: name of the full memory. most_in: input channels of the group.
    """
    if tile.whole:
        return replace(tile, whole=False)
    if memory != INPUTS.name and tile.out_ch > BLOCK:
        return replace(tile, out_ch=max(BLOCK, tile.out_ch // 2 // BLOCK * BLOCK))
    if memory != WEIGHTS.name and tile.rows > 1:
        return replace(tile, rows=blocks(tile.rows, 2))
    if memory != WEIGHTS.name and tile.columns > 1:
        return replace(tile, columns=blocks(tile.columns, 2))
    channels = min(tile.in_ch, most_in)
    if channels <= BLOCK:
        return None
    return replace(tile, in_ch=max(BLOCK, channels // 2 // BLOCK * BLOCK))
