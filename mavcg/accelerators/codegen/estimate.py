"""Estimate the cycles of a group with a tile without its code, to choose among many tiles (DNNVM, eq. 3 and 4).

The paper's equation 4 adds the times of transfers and arithmetic. Here they overlap if two tiles fit, so the slowest
unit decides. Simulation, which is exact, checks the choice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mavcg.accelerators.codegen.clusters import NodeCluster, channel_ranges
from mavcg.accelerators.codegen.parameters import WeightSlice, is_depthwise, slice_words
from mavcg.accelerators.codegen.regions import Region
from mavcg.accelerators.groups import ORDERS
from mavcg.accelerators.isa.datapath import Datapath, blocks
from mavcg.accelerators.simulator.timing import STARTUP, whole_bursts
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import CONVOLUTIONS, XNode

_PER_TRANSFER = 20  # exposed cycles of a transfer: start-up, arbitration with other transfers
Regions = Mapping[str, Region]


@dataclass(frozen=True)
class GroupEstimate:
    """Estimate of a group.

    cycles: predicted cycles. ddr_bytes: DDR traffic. overlaps: True if two tiles fit, so that transfers overlap with
    arithmetic.
    """

    cycles: float
    ddr_bytes: int
    overlaps: bool


@dataclass(frozen=True)
class EstimatedGroup:
    """A group as the estimate uses it. stored: nodes whose tensors are in the features segment."""

    nodes: Sequence[XNode]
    clusters: Sequence[NodeCluster]
    stored: frozenset[str]
    by_name: Mapping[str, XNode]

    @cached_property
    def outer(self) -> tuple[str, ...]:
        """Return the tensors that the group reads from DDR memory: its inputs, and concats."""
        made = {node.name for node in self.nodes if node.kind != "concat"}
        return tuple(dict.fromkeys(i for node in self.nodes for i in node.inputs if i not in made))


@dataclass(frozen=True)
class AlikePasses:
    """Tiles of a group whose regions have the same sizes.

    regions, written: regions of one of the tiles. count: number of tiles.
    """

    regions: Regions
    written: Regions
    count: int


def alike_passes(passes: Sequence[tuple[Regions, Regions]]) -> list[AlikePasses]:
    """Count tiles with the same sizes, which most tiles inside of a map have.

    passes: for each tile, the regions of all tensors and of those that are written. The first tile stays first.
    """
    counts: dict[object, int] = {}
    first: dict[object, tuple[Regions, Regions]] = {}
    for regions, written in passes:
        sizes = tuple(
            (name, r.bottom - r.top, r.right - r.left)
            for group_regions in (regions, written)
            for name, r in group_regions.items()
        )
        counts[sizes] = counts.get(sizes, 0) + 1
        first.setdefault(sizes, (regions, written))
    return [AlikePasses(*first[sizes], count) for sizes, count in counts.items()]


@dataclass(frozen=True)
class ChannelDivision:
    """Facts about a division into ranges of output channels, which do not depend on the rows and columns of tiles.

    weights: bytes of all weights; None if a slice does not fit. resident: True if all weights stay on chip. ranges:
    number of ranges in all clusters. longest, first: number of ranges of the cluster with most, and of the first
    cluster. slices: channels of each cluster's first range. conv: for each convolution, the words of weights that a
    position of the kernel takes for a row of pixels, and the start-up cycles. saved: for each stored node, bytes for a
    pixel.
    """

    weights: int | None
    resident: bool
    ranges: int
    longest: int
    first: int
    slices: Sequence[int]
    conv: Mapping[str, tuple[int, int]]
    saved: Mapping[str, int]


@dataclass(frozen=True)
class PassDemand:
    """Demands of tiles with the same rows and columns, which do not depend on the division of channels.

    count: number of tiles. loaded: bytes loaded by a tile. steps: array steps of each convolution, without the factor
    of the channel division. pool, misc: cycles of the units. pixels: size of the written region of each stored node.
    """

    count: int
    loaded: int
    steps: Sequence[tuple[str, float]]
    pool: float
    misc: float
    pixels: Mapping[str, int]


@dataclass(frozen=True)
class TileDemand:
    """Demands of all tiles of a group.

    loaded_words, full_words: words of the first tile's inputs, and of the tensors between clusters. cluster_pixels:
    pixels of all regions of each cluster, with a spare column, that are stored for a range of channels.
    """

    passes: Sequence[PassDemand]
    loaded_words: int
    full_words: int
    cluster_pixels: Sequence[int]


def divide_channels(shape: EstimatedGroup, out_ch: int, path: Datapath, burst: int) -> ChannelDivision:
    """Return the facts about the division into ranges of at most `out_ch` output channels.

    burst: bytes of a burst of the DDR memory.
    """
    conv: dict[str, tuple[int, int]] = {}
    saved: dict[str, int] = {}
    total = largest = 0
    lengths, slices = [], []
    for cluster in shape.clusters:
        ranges = channel_ranges(cluster, shape.by_name[cluster.head.inputs[0]].channels, out_ch, path)
        lengths.append(len(ranges))
        slices.append(ranges[0][1] - ranges[0][0])
        for node in cluster.nodes:
            bursts = sum(whole_bursts(end - first, burst) for first, end in ranges)
            saved[node.name] = node.channels if len(ranges) == 1 else bursts
            if node.kind not in CONVOLUTIONS:
                continue
            in_ch = shape.by_name[node.inputs[0]].channels
            depthwise = is_depthwise(node, in_ch)
            depth = 1 if depthwise else blocks(in_ch // _groups(node, in_ch), path.word)
            out = sum(blocks(end - first, path.oc_lanes) for first, end in ranges)
            conv[node.name] = out * depth, len(ranges) * STARTUP["conv"]
            for first, end in ranges:
                low, high = (first, end) if depthwise else (0, in_ch // _groups(node, in_ch))
                words = slice_words(node, in_ch, WeightSlice(node.name, first, end, low, high), path)
                total, largest = total + words, max(largest, words)
    weights = None if largest > path.weight_words else total * path.weight_word
    resident = total <= path.weight_words
    return ChannelDivision(weights, resident, sum(lengths), max(lengths), lengths[0], slices, conv, saved)


def tile_demand(shape: EstimatedGroup, passes: Sequence[AlikePasses], path: Datapath, target: IsaTarget) -> TileDemand:
    """Return the demands of tiles. passes: as alike_passes returns them."""
    first = passes[0].regions

    def pixels(name: str) -> int:
        return first[name].rows * (first[name].columns + 1)

    number = {node.name: at for at, cluster in enumerate(shape.clusters) for node in cluster.nodes}
    loaded = sum(
        pixels(name) * blocks(shape.by_name[name].channels, path.word) for name in shape.outer if name in first
    )
    full = sum(
        pixels(node.name) * blocks(node.channels, path.word)
        for node in shape.nodes
        if node.name in first
        and any(node.name in r.inputs and number[r.name] != number[node.name] for r in shape.nodes)
    )
    cluster_pixels = [sum(pixels(n.name) for n in cluster.nodes if n.name in first) for cluster in shape.clusters]
    return TileDemand([_pass_demand(shape, alike, path, target) for alike in passes], loaded, full, cluster_pixels)


def _pass_demand(shape: EstimatedGroup, alike: AlikePasses, path: Datapath, target: IsaTarget) -> PassDemand:
    steps: list[tuple[str, float]] = []
    pool = misc = 0.0
    for node in shape.nodes:
        region = alike.regions.get(node.name)
        if region is None:
            continue
        taps, pixels = node.kernel[0] * node.kernel[1], region.rows * region.columns
        elements = pixels * blocks(node.channels, path.word) * path.word
        if node.kind in CONVOLUTIONS:
            taken: float = blocks(region.rows, path.row_lanes) * region.columns * taps
            if node.kind == "deconv":
                taken /= node.stride[0] * node.stride[1]
            steps.append((node.name, taken))
        elif node.kind in ("max_pool", "avg_pool"):
            pool += elements * taps / target.pool_parallel
        elif node.kind != "concat":
            misc += elements / target.misc_parallel
    written = {name: region.rows * region.columns for name, region in alike.written.items()}
    return PassDemand(alike.count, _input_bytes(shape, alike.regions), steps, pool, misc, written)


def estimate(
    shape: EstimatedGroup, tiles: TileDemand, division: ChannelDivision, order: str, path: Datapath, target: IsaTarget
) -> GroupEstimate | None:
    """Return the estimate of a group; None if the tile cannot fit. order: one of groups.ORDERS."""
    slices = max(
        pixels_held * blocks(channels, path.word)
        for pixels_held, channels in zip(tiles.cluster_pixels, division.slices, strict=True)
    )
    pinned = tiles.loaded_words + tiles.full_words + slices
    if pinned > path.feature_words or division.weights is None:
        return None
    number = sum(tile_pass.count for tile_pass in tiles.passes)
    outside = len(shape.clusters) == 1 and number > 1 and order == ORDERS[0]
    outside = outside and shape.clusters[0].head.kind in CONVOLUTIONS
    reloads = 1 if division.resident or outside else number
    rounds = division.first if outside else 1
    conv = pool = misc = 0.0
    loads, saves, transfers = division.weights * reloads, 0, division.ranges * reloads
    for tile_pass in tiles.passes:
        loads += tile_pass.count * tile_pass.loaded * rounds
        saves += tile_pass.count * sum(pixels * division.saved[name] for name, pixels in tile_pass.pixels.items())
        transfers += tile_pass.count * (rounds + len(tile_pass.pixels) * division.longest)
        for name, steps in tile_pass.steps:
            factor, startup = division.conv[name]
            conv += (steps * factor + startup) * tile_pass.count
        pool, misc = pool + tile_pass.pool * tile_pass.count, misc + tile_pass.misc * tile_pass.count
    ddr = target.transfer_cycles(loads, saves) + transfers * _PER_TRANSFER
    # Loads of the first tile and saves of the last tile overlap with nothing.
    edge = (tiles.passes[0].loaded + division.weights / max(1, division.first)) / target.port_bytes_per_cycle
    edge += 2 * target.ddr_latency_cycles
    overlaps = pinned + tiles.loaded_words + slices <= path.feature_words
    cycles = edge + (max(conv, pool, misc, ddr) if overlaps else conv + ddr + max(pool, misc))
    return GroupEstimate(cycles, loads + saves, overlaps)


def _groups(node: XNode, in_ch: int) -> int:
    return in_ch if node.kind == "depthwise" else node.groups


def _input_bytes(shape: EstimatedGroup, regions: Regions) -> int:
    return sum(
        regions[name].rows * regions[name].columns * shape.by_name[name].channels
        for name in shape.outer
        if name in regions
    )
