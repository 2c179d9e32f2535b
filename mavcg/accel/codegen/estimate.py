"""Estimate a group's cycles with a tile, without its code: for choosing among many tiles (DNNVM, eq. 3 and 4).

The paper's equation 4 adds the times of transfers and arithmetic; here they overlap where two tiles fit, so the slowest
unit counts. The choice is checked by simulation, which is exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mavcg.accel.codegen.clusters import NodeCluster, channel_ranges
from mavcg.accel.codegen.parameters import WeightSlice, is_depthwise, slice_words
from mavcg.accel.codegen.regions import Region
from mavcg.accel.groups import ORDERS, GroupTile
from mavcg.accel.isa.datapath import Datapath, blocks
from mavcg.accel.simulator.timing import BEAT_BYTES, STARTUP
from mavcg.accel.target import IsaTarget
from mavcg.accel.xgraph import CONVOLUTIONS, XNode

_PER_TRANSFER = 20  # cycles that a transfer does not hide: start-up, arbitration with others
Regions = Mapping[str, Region]


@dataclass(frozen=True)
class GroupEstimate:
    """cycles: predicted. ddr_bytes: moved. overlaps: True if two tiles fit, so transfers hide behind arithmetic."""

    cycles: float
    ddr_bytes: int
    overlaps: bool


@dataclass(frozen=True)
class EstimatedGroup:
    """A group as the estimate sees it. stored: nodes that the features segment has."""

    nodes: Sequence[XNode]
    clusters: Sequence[NodeCluster]
    stored: frozenset[str]
    by_name: Mapping[str, XNode]

    def inside(self, name: str) -> bool:
        """True if a node of the group makes the tensor, other than a concat, which is read from off chip."""
        return self.by_name[name].kind != "concat" and any(node.name == name for node in self.nodes)


@dataclass(frozen=True)
class AlikePasses:
    """Tiles of a group whose regions have the same sizes. regions, written: of one of them; count: of tiles."""

    regions: Regions
    written: Regions
    count: int


def alike_passes(passes: Sequence[tuple[Regions, Regions]]) -> list[AlikePasses]:
    """Count tiles of the same sizes together: those inside of a map are alike. passes: regions of all tensors and of
    those that are written, of each tile; the first stays first."""
    counts: dict[object, int] = {}
    first: dict[object, tuple[Regions, Regions]] = {}
    for regions, written in passes:
        sizes = tuple(
            (name, r.bottom - r.top, r.right - r.left) for each in (regions, written) for name, r in each.items()
        )
        counts[sizes] = counts.get(sizes, 0) + 1
        first.setdefault(sizes, (regions, written))
    return [AlikePasses(*first[sizes], count) for sizes, count in counts.items()]


def estimate(
    shape: EstimatedGroup, passes: Sequence[AlikePasses], tile: GroupTile, path: Datapath, target: IsaTarget
) -> GroupEstimate | None:
    """Return the estimate; None where a tile is sure not to fit.

    passes: of alike_passes.
    """
    ranges = [
        channel_ranges(c, shape.by_name[c.head.inputs[0]].channels, tile.out_ch, path) for c in shape.clusters
    ]  # fmt: skip
    words = _pass_words(shape, passes[0].regions, ranges, path)
    if words is None or words.pinned > path.feature_words:
        return None
    number = sum(each.count for each in passes)
    outside = len(shape.clusters) == 1 and number > 1 and tile.order == ORDERS[0]
    outside = outside and shape.clusters[0].head.kind in CONVOLUTIONS
    weights, resident = _weights(shape, ranges, path)
    if weights is None:
        return None
    reloads = 1 if resident or outside else number
    conv = pool = misc = 0.0
    moved, transfers = weights * reloads, sum(len(r) for r in ranges) * reloads
    for each in passes:
        rounds = len(ranges[0]) if outside else 1
        saved = sum(_saved(shape.by_name[name], region, ranges, shape) for name, region in each.written.items())
        moved += each.count * (_input_bytes(shape, each.regions) * rounds + saved)
        transfers += each.count * (rounds + len(each.written) * max(len(r) for r in ranges))
        for node in shape.nodes:
            if node.name in each.regions:
                a, b, c = _arithmetic(node, each.regions[node.name], shape, ranges, path, target)
                conv, pool, misc = conv + a * each.count, pool + b * each.count, misc + c * each.count
    ddr = moved / target.ddr_bytes_per_cycle + transfers * _PER_TRANSFER
    # Before the first and after the last tile nothing overlaps.
    edge = (_input_bytes(shape, passes[0].regions) + weights / max(1, len(ranges[0]))) / target.ddr_bytes_per_cycle
    edge += 2 * target.ddr_latency_cycles
    overlaps = words.pinned + words.moving <= path.feature_words
    cycles = edge + (max(conv, pool, misc, ddr) if overlaps else conv + ddr + max(pool, misc))
    return GroupEstimate(cycles, moved, overlaps)


@dataclass(frozen=True)
class _PassWords:
    """Words of feature memory: pinned at once; moving: of the next tile's transfers."""

    pinned: int
    moving: int


def _pass_words(
    shape: EstimatedGroup, regions: Regions, ranges: Sequence[Sequence[tuple[int, int]]], path: Datapath
) -> _PassWords | None:
    def words(name: str, channels: int) -> int:
        region = regions[name]
        return region.rows * (region.columns + 1) * blocks(channels, path.word)

    number = {node.name: at for at, cluster in enumerate(shape.clusters) for node in cluster.nodes}
    outer = {i for node in shape.nodes for i in node.inputs if not shape.inside(i) and i in regions}
    loaded = sum(words(name, shape.by_name[name].channels) for name in outer)
    full = sum(
        words(node.name, node.channels)
        for node in shape.nodes
        if node.name in regions
        and any(node.name in r.inputs and number[r.name] != number[node.name] for r in shape.nodes)
    )
    slices = 0
    for cluster, each in zip(shape.clusters, ranges, strict=True):
        channels = each[0][1] - each[0][0]
        slices = max(slices, sum(words(n.name, channels) for n in cluster.nodes if n.name in regions))
    return _PassWords(loaded + full + slices, loaded + slices)


def _weights(
    shape: EstimatedGroup, ranges: Sequence[Sequence[tuple[int, int]]], path: Datapath
) -> tuple[int | None, bool]:
    """Return bytes of all weights, None if a slice does not fit, and True if all stay on chip."""
    total, largest = 0, 0
    for cluster, each in zip(shape.clusters, ranges, strict=True):
        for node in cluster.nodes:
            if node.kind in CONVOLUTIONS:
                in_ch = shape.by_name[node.inputs[0]].channels
                for first, end in each:
                    low, high = (first, end) if is_depthwise(node, in_ch) else (0, in_ch // _groups(node, in_ch))
                    words = slice_words(node, in_ch, WeightSlice(node.name, first, end, low, high), path)
                    total, largest = total + words, max(largest, words)
    if largest > path.weight_words:
        return None, False
    return total * path.weight_word, total <= path.weight_words


def _groups(node: XNode, in_ch: int) -> int:
    return in_ch if node.kind == "depthwise" else node.groups


def _input_bytes(shape: EstimatedGroup, regions: Regions) -> int:
    outer = dict.fromkeys(i for node in shape.nodes for i in node.inputs if not shape.inside(i) and i in regions)
    return sum(regions[name].rows * regions[name].columns * shape.by_name[name].channels for name in outer)


def _saved(node: XNode, region: Region, ranges: Sequence[Sequence[tuple[int, int]]], shape: EstimatedGroup) -> int:
    for cluster, each in zip(shape.clusters, ranges, strict=True):
        if node in cluster.nodes:
            pixels = region.rows * region.columns
            if len(each) == 1:
                return pixels * node.channels
            return pixels * sum(blocks(end - first, BEAT_BYTES) * BEAT_BYTES for first, end in each)
    return 0


def _arithmetic(
    node: XNode, region: Region, shape: EstimatedGroup, ranges: Sequence[Sequence[tuple[int, int]]], path: Datapath,
    target: IsaTarget,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the cycles of conv, pool and misc for a region of a node's tensor."""
    taps, pixels = node.kernel[0] * node.kernel[1], region.rows * region.columns
    elements = pixels * blocks(node.channels, path.word) * path.word
    if node.kind in ("max_pool", "avg_pool"):
        return 0, elements * taps / target.pool_parallel, 0
    if node.kind not in CONVOLUTIONS:
        return 0, 0, 0 if node.kind == "concat" else elements / target.misc_parallel
    in_ch = shape.by_name[node.inputs[0]].channels
    steps = blocks(region.rows, path.row_lanes) * region.columns * taps
    if node.kind == "deconv":
        steps /= node.stride[0] * node.stride[1]  # type: ignore[assignment]
    each = next(r for c, r in zip(shape.clusters, ranges, strict=True) if node in c.nodes)
    out = sum(blocks(end - first, path.oc_lanes) for first, end in each)
    depth = 1 if is_depthwise(node, in_ch) else blocks(in_ch // _groups(node, in_ch), path.word)
    return steps * out * depth + len(each) * STARTUP["conv"], 0, 0
