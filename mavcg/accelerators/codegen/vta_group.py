"""Generate VTA's instructions of a fused group: a convolution, or work of the ALU, and what the ALU does after it.

All tensors of a group are tiles of the accumulators, whose 32-bit numbers are the tensors' 8-bit ones once they are
rounded and limited. A position of a convolution's kernel is an instruction for the rectangle of pixels whose input lies
inside of the map, so that pads need no memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from mavcg.accelerators.codegen.clusters import channel_ranges
from mavcg.accelerators.codegen.parameters import WeightSlice, is_depthwise, read_channels
from mavcg.accelerators.codegen.regions import Region, group_passes
from mavcg.accelerators.codegen.vta_alu import AluCode, eltwise_code, pool_code
from mavcg.accelerators.codegen.vta_code import MicroOp, VectorTile, VtaCode, slice_blocks
from mavcg.accelerators.codegen.vta_nodes import refuse_group
from mavcg.accelerators.codegen.vta_windows import input_pixel, inside
from mavcg.accelerators.fixed_point import bounds
from mavcg.accelerators.groups import ORDERS, GroupTile
from mavcg.accelerators.isa.datapath import blocks
from mavcg.accelerators.isa.footprint import AccessedRange
from mavcg.accelerators.isa.vta import BLOCK, INPUTS, SUMS, WEIGHTS
from mavcg.accelerators.xgraph import CONVOLUTIONS, XNode

Channels = tuple[int, int]


# Steps before an accumulator may be written again within an instruction: the published hardware does not check whether
# its pipeline still holds the earlier sum. The length is assumed.
REUSE_DISTANCE = 16


class VtaGroupCode:
    """Generator of the code of one group with given tiles."""

    def __init__(self, code: VtaCode, names: Sequence[str], stored: Iterable[str], tile: GroupTile) -> None:
        """Raises: GroupTooLarge for a group with more than one convolution, which VTA cannot keep on chip."""
        self.code, self.tile = code, tile
        chosen = set(names)
        self.nodes = [node for node in code.graph.nodes if node.name in chosen]
        self.names = {node.name for node in self.nodes}
        self.stored = self.names & set(stored)
        cluster = refuse_group(code.graph, names)
        in_ch = code.by_name[cluster.head.inputs[0]].channels
        self.ranges = channel_ranges(cluster, in_ch, tile.out_ch, code.path)

    def emit(self) -> None:
        """Emit the group. Raises: DoesNotFitError if a tile does not fit; the caller then restores the state."""
        if self.nodes[0].kind == "concat":
            return  # its parts were stored in their places
        self.code.begin_group()
        passes = list(group_passes(self.nodes, self.stored, self.tile, self.code.by_name))
        if self.tile.order == ORDERS[0]:
            for channels in self.ranges:
                for regions, written in passes:
                    self._emit_tile(regions, written, channels)
            return
        for regions, written in passes:
            for channels in self.ranges:
                self._emit_tile(regions, written, channels)

    def _emit_tile(self, regions: Mapping[str, Region], written: Mapping[str, Region], channels: Channels) -> None:
        """Emit a range of channels of all nodes, for one tile."""
        alu = AluCode(self.code, channels, self.names)
        for node in self.nodes:
            if node.name not in regions:
                continue
            out = regions[node.name]
            if node.kind in CONVOLUTIONS:
                tile = self._emit_convolution(alu, node, regions, channels)
            elif node.kind in ("max_pool", "avg_pool"):
                tile = pool_code(alu, node, regions)
            else:
                tile = eltwise_code(alu, node, regions)
            alu.tiles[node.name] = tile
            if node.name in written:
                self.code.store(node.name, tile, written[node.name])
            assert tile.region == out
        alu.release()

    def _emit_convolution(
        self, alu: AluCode, node: XNode, regions: Mapping[str, Region], channels: Channels
    ) -> VectorTile:
        code, source = self.code, self.code.by_name[node.inputs[0]]
        first, end = channels
        target = alu.new_tile(regions[node.name])
        entries, shift = code.load_entries(node, first, end)
        alu.pinned.append(entries)
        alu.reset(target)
        for part in self._slices(node, channels):
            count = blocks(part.in_end - part.in_first, BLOCK)
            tile = code.load_map(source.name, regions[source.name], part.in_first, count, to_sums=False)
            weights = code.load_weights(part)
            for row in range(node.kernel[0]):
                for column in range(node.kernel[1]):
                    self._emit_position(node, (row, column), part, tile, target, weights)
            code.weights.release(weights)
            code.inputs.release(tile.address)
        alu.add_vectors(target, entries)
        if isinstance(shift, int):
            alu.shift(target, shift)
        else:
            for vectors in shift:
                alu.vector_operation("shr", target, vectors)
        alu.limit(target, *bounds(node), node)
        return target

    def _slices(self, node: XNode, channels: Channels) -> list[WeightSlice]:
        """Return the slices of weights for a range of output channels: one for each part of the input channels."""
        in_ch = self.code.by_name[node.inputs[0]].channels
        low, high = read_channels(node, in_ch, *channels, self.code.path)
        step = max(BLOCK, self.tile.in_ch // BLOCK * BLOCK)
        if is_depthwise(node, in_ch):
            step = high - low
        return [WeightSlice(node.name, *channels, at, min(at + step, high)) for at in range(low, high, step)]

    def _emit_position(
        self, node: XNode, position: Channels, part: WeightSlice, source: VectorTile, target: VectorTile, weights: int
    ) -> None:
        """Emit the products of a position of the kernel, for all pixels whose input lies inside of the map."""
        code, given = self.code, self.code.by_name[node.inputs[0]]
        out = target.region
        rows = inside(node, 0, position[0], out.top, out.bottom, given.shape[1])
        columns = inside(node, 1, position[1], out.left, out.right, given.shape[2])
        if rows[0] >= rows[1] or columns[0] >= columns[1]:
            return
        ranges = (
            AccessedRange(INPUTS.name, source.address, source.end, False),
            AccessedRange(WEIGHTS.name, weights, weights + slice_blocks(node, given.channels, part), False),
            AccessedRange(SUMS.name, target.address, target.end, True),
        )
        for loops, micro_ops in _loops(node, position, Region(*rows, *columns), source, target, weights, given):
            begin = code.load_micro_ops(micro_ops)
            code.emit("compute.gemm", {"uop_bgn": begin, "uop_end": begin + len(micro_ops), **loops}, ranges)


def _loops(
    node: XNode,
    position: Channels,
    outs: Region,
    source: VectorTile,
    target: VectorTile,
    weights: int,
    given: XNode,
) -> Iterator[tuple[dict[str, int], tuple[MicroOp, ...]]]:
    """Yield the loops and micro-operations of instructions that multiply a position of the kernel by all its inputs.

    The outer loop adds input channels up, so that an accumulator is not written again within REUSE_DISTANCE steps. The
    shorter side of the pixels is in the micro-operations, the other in the inner loop. outs: pixels of the result.
    given: the input.
    """
    diagonal = is_depthwise(node, given.channels)
    stride = (1, 1) if node.kind == "dense" else node.stride
    # Vectors from a pixel to the next of a column, and of a row: in the accumulators, and in the inputs.
    down = target.region.columns * target.count, stride[0] * source.region.columns * source.count
    right = target.count, stride[1] * source.count
    listed, looped = (right, down) if outs.columns <= outs.rows else (down, right)
    count, repeats = sorted((outs.rows, outs.columns))
    to = target.at(outs.top, outs.left)
    at = source.at(*input_pixel(node, outs.top, outs.left, *position))
    depth, positions = (1 if diagonal else source.count), node.kernel[0] * node.kernel[1]
    place = weights + (position[0] * node.kernel[1] + position[1]) * depth
    micro_ops = tuple(
        (to + pixel * listed[0] + out, at + pixel * listed[1] + diagonal * out, place + out * positions * depth)
        for pixel in range(count)
        for out in range(target.count)
    )
    loops = {"iter_in": repeats}
    if repeats > 1:
        loops |= {"dst_factor_in": looped[0], "src_factor_in": looped[1]}
    if len(micro_ops) * repeats >= REUSE_DISTANCE or depth == 1:
        if depth > 1:
            loops |= {"src_factor_out": 1, "wgt_factor_out": 1}
        yield {**loops, "iter_out": depth}, micro_ops
        return
    for inner in range(depth):
        yield {**loops, "iter_out": 1}, tuple((to, at + inner, block + inner) for to, at, block in micro_ops)
