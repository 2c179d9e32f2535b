"""Compute the work of a group with given tiles by an analytic model: bytes, cycles of each unit, fit on chip.

The time is that of the busiest unit or of the DDR memory, which all work at the same time, plus the first tile's loads
and the last tile's saves, which overlap with nothing. Equation 4 of DNNVM adds all times up, but the paper's text and
figures overlap them.
"""

from dataclasses import dataclass

from mavcg.accelerators.fusion.group_shape import GroupShape
from mavcg.accelerators.fusion.intervals import Interval, needed_ranges, tile_ranges
from mavcg.accelerators.groups import GroupTile
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XNode

_CHANNELWISE = ("depthwise", "max_pool", "avg_pool", "eltwise", "upsample")


@dataclass(frozen=True)
class GroupWork:
    """The work of a group for a batch.

    load_bytes, save_bytes: DDR traffic, with the weights among the loads. weight_bytes: weights loaded. feature_bytes:
    loads and saves without weights. conv_cycles, pool_cycles, misc_cycles: busy cycles of each unit. first_bytes,
    last_bytes: transfers before the first and after the last computation. tiles: number of tiles.
    """

    load_bytes: int
    save_bytes: int
    weight_bytes: int
    conv_cycles: int
    pool_cycles: int
    misc_cycles: int
    first_bytes: int
    last_bytes: int
    tiles: int

    @property
    def feature_bytes(self) -> int:
        """Return the DDR traffic of feature maps, in bytes."""
        return self.load_bytes + self.save_bytes - self.weight_bytes

    @property
    def ddr_bytes(self) -> int:
        """Return the total DDR traffic, in bytes."""
        return self.load_bytes + self.save_bytes

    def cycles(self, target: IsaTarget) -> float:
        """Return the time in cycles of the accelerator."""
        compute = max(self.conv_cycles, self.pool_cycles, self.misc_cycles)
        if self.ddr_bytes == 0:
            return float(compute)
        latency = 2 * target.ddr_latency_cycles
        exposed = (self.first_bytes + self.last_bytes) / target.port_bytes_per_cycle + latency
        # If transfers take longest, the exposed transfers are already included in them.
        transfers = target.transfer_cycles(self.load_bytes, self.save_bytes) + latency
        return float(max(compute + exposed, transfers))


def _sum(ranges: list[dict[str, Interval]], name: str) -> int:
    return sum(r[name][1] - r[name][0] for r in ranges)


def _most(ranges: list[dict[str, Interval]], name: str) -> int:
    return max(r[name][1] - r[name][0] for r in ranges)


@dataclass(frozen=True)
class _Tiled:
    """Ranges of all tensors of an image for each row of tiles, and for each column of tiles."""

    shape: GroupShape
    rows: list[dict[str, Interval]]
    columns: list[dict[str, Interval]]

    def area(self, name: str) -> int:
        """Return the number of pixels of a tensor over all tiles of all images, with halos counted each time."""
        return self.shape.images * _sum(self.rows, name) * _sum(self.columns, name)

    def largest(self, name: str) -> int:
        """Return the number of pixels of a tensor in its largest tile."""
        return _most(self.rows, name) * _most(self.columns, name)

    def whole(self, name: str) -> int:
        """Return the number of pixels of an image's tensor."""
        return self.shape.lengths[0][name] * self.shape.lengths[1][name]

    @property
    def tiles(self) -> int:
        return self.shape.images * len(self.rows) * len(self.columns)


def _tile_work(shape: GroupShape, tile: GroupTile) -> _Tiled:
    rows: list[dict[str, Interval]] = []
    columns: list[dict[str, Interval]] = []
    lengths, ranges = shape.lengths, (rows, columns)
    for axis, size in ((0, tile.rows), (1, tile.columns)):
        of_results = {name: lengths[axis][name] for name in shape.results}
        if tile.whole:
            ranges[axis].append({n.name: (0, lengths[axis][n.name]) for n in (*shape.inputs, *shape.nodes)})
            continue
        for made in tile_ranges(max(of_results.values()), size):
            results = {name: (min(made[0], n), min(made[1], n)) for name, n in of_results.items()}
            ranges[axis].append(needed_ranges(shape.nodes, results, lengths[axis], axis))
    return _Tiled(shape, rows, columns)


def channel_passes(shape: GroupShape, tile: GroupTile) -> int:
    """Return the passes over the map: for order channels_rows_columns one for each range of channels, else 1."""
    if tile.whole or tile.order != "channels_rows_columns":
        return 1
    return -(-max(node.channels for node in shape.nodes) // tile.out_ch)


def is_channelwise_after_first(shape: GroupShape) -> bool:
    """Return True if all nodes but the first convolution process each channel by itself.

    Then a range of channels can pass through the group.
    """
    heads = [node for node in shape.nodes if node.kind not in _CHANNELWISE]
    return len(heads) <= 1 and len({node.channels for node in shape.nodes}) == 1


def group_work(shape: GroupShape, tile: GroupTile, target: IsaTarget) -> GroupWork | None:
    """Return the work of a group with a tile; None if the tile does not fit on chip.

    On chip are: two tiles of each input (one is loaded while the other is read) or, with order channels_rows_columns
    and for a single tile, all of it; two ranges of weights, or all weights; tensors inside of the group whole; results
    twice, because one is saved while the next is computed.
    """
    if tile.order == "channels_rows_columns" and not tile.whole and not is_channelwise_after_first(shape):
        return None
    tiled = _tile_work(shape, tile)
    passes = channel_passes(shape, tile)
    chunk = {node.name: min(tile.out_ch, node.channels) for node in shape.nodes}
    if not _fits_outputs(shape, tile, tiled, chunk, target):
        return None
    weights = _weights(shape, tile, tiled, target)
    loads = _loads(shape, tile, tiled, passes, chunk, target)
    if weights is None or loads is None:
        return None
    saves = sum(tiled.area(name) * _channels(shape, name) for name in shape.results)
    conv, pool, misc = _unit_cycles(shape, tiled, target)
    first = sum(tiled.largest(n.name) * n.channels for n in shape.inputs) + min(weights, _first_weights(shape, tile))
    last = max((tiled.largest(name) * chunk[name] for name in shape.results), default=0)
    return GroupWork(
        loads + weights,
        saves,
        weights,
        conv,
        pool,
        misc,
        min(first, loads + weights),
        min(last, saves),
        tiled.tiles * passes,
    )


def _channels(shape: GroupShape, name: str) -> int:
    return next(n.channels for n in (*shape.inputs, *shape.nodes) if n.name == name)


def _fits_outputs(shape: GroupShape, tile: GroupTile, tiled: _Tiled, chunk: dict[str, int], target: IsaTarget) -> bool:
    mixed = {name for node in shape.nodes if node.kind not in _CHANNELWISE for name in node.inputs}
    needed = 0
    for node in shape.nodes:
        channels = node.channels if node.name in mixed or tile.whole else chunk[node.name]
        twice = 2 if node.name in shape.results and not tile.whole else 1
        needed += tiled.largest(node.name) * channels * twice
    return needed <= target.output_bytes


def _first_weights(shape: GroupShape, tile: GroupTile) -> int:
    convolutions = shape.convolutions
    if not convolutions:
        return 0
    return -(
        -shape.weight_bytes(convolutions[0]) * min(tile.out_ch, convolutions[0].channels) // convolutions[0].channels
    )


def _weights(shape: GroupShape, tile: GroupTile, tiled: _Tiled, target: IsaTarget) -> int | None:
    """Return the bytes of weights that are loaded; None if they do not fit."""
    total = sum(shape.weight_bytes(node) for node in shape.convolutions)
    if total <= target.weight_bytes:
        return total
    if tile.whole:
        return None
    for node in shape.convolutions:
        depth = 1 if node.kind == "depthwise" else min(tile.in_ch, shape.channels_in(node) // node.groups)
        block = min(tile.out_ch, node.channels) * (node.kernel[0] * node.kernel[1] * depth + 4)
        if 2 * block > target.weight_bytes:
            return None
    if tile.order == "channels_rows_columns":
        block = -(-total * min(tile.out_ch, shape.nodes[0].channels) // shape.nodes[0].channels)
        return total if 2 * block <= target.weight_bytes else total * tiled.tiles
    return total * tiled.tiles


def _loads(
    shape: GroupShape, tile: GroupTile, tiled: _Tiled, passes: int, chunk: dict[str, int], target: IsaTarget
) -> int | None:
    """Return the bytes of feature maps that are loaded; None if they do not fit."""
    mixed = {name for node in shape.nodes if node.kind not in _CHANNELWISE for name in node.inputs}
    whole = sum(tiled.whole(n.name) * n.channels for n in shape.inputs)
    # Each pass over the map reads all images again, unless all stay on chip.
    if whole * (shape.images if passes > 1 else 1) <= target.input_bytes:
        return whole * shape.images
    if tile.whole:
        return None
    needed, loaded = 0, 0
    for node in shape.inputs:
        channels = node.channels if node.name in mixed else min(tile.out_ch, node.channels)
        needed += 2 * tiled.largest(node.name) * channels
        loaded += tiled.area(node.name) * node.channels * (passes if node.name in mixed else 1)
    return loaded if needed <= target.input_bytes else None


def _unit_cycles(shape: GroupShape, tiled: _Tiled, target: IsaTarget) -> tuple[int, int, int]:
    """Return the cycles of the array, the pooling unit and the element-wise unit, with each tile's halos."""
    conv = pool = misc = 0
    for node in shape.nodes:
        pixels = tiled.area(node.name)
        if node.kind in ("conv", "depthwise", "deconv", "dense"):
            conv += shape.images * array_cycles(shape, node, tiled.rows, tiled.columns, target)
        elif node.kind in ("max_pool", "avg_pool"):
            pool += -(-pixels * node.channels * node.kernel[0] * node.kernel[1] // target.pool_parallel)
        elif node.kind != "concat":
            misc += -(-pixels * node.channels // target.misc_parallel)
    return conv, pool, misc


def array_cycles(
    shape: GroupShape,
    node: XNode,
    rows: list[dict[str, Interval]],
    columns: list[dict[str, Interval]],
    target: IsaTarget,
) -> int:
    """Return the array's cycles for a convolution of an image.

    The array processes rows_parallel rows, oc_parallel output channels and ic_parallel / 2 input channels per cycle.
    """
    depth = 1 if node.kind == "depthwise" else shape.channels_in(node) // node.groups
    blocks = node.groups if node.kind != "depthwise" else 1
    out_ch = node.channels // blocks
    channel_steps = blocks * -(-out_ch // target.oc_parallel) * -(-depth // target.macs_in_channels)
    strips = sum(-(-(r[node.name][1] - r[node.name][0]) // target.rows_parallel) for r in rows)
    taps = node.kernel[0] * node.kernel[1]
    if node.kind == "deconv":  # each result meets every stride-th tap, down and across
        taps = -(-node.kernel[0] // node.stride[0]) * -(-node.kernel[1] // node.stride[1])
    return strips * _sum(columns, node.name) * channel_steps * taps
