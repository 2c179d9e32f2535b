"""Generate the instructions of a fused group: for each tile of the written tensors, all nodes in ranges of channels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mavcg.accelerators.codegen.clusters import NodeCluster, channel_ranges, clusters_of
from mavcg.accelerators.codegen.code import CodeState
from mavcg.accelerators.codegen.node_code import (
    ConvolutionStep,
    emit_channelwise,
    emit_convolution,
    emit_copy,
    emit_reorganise,
)
from mavcg.accelerators.codegen.parameters import WeightSlice, is_depthwise, read_channels
from mavcg.accelerators.codegen.regions import ChipTile, Region, group_passes, needed_region
from mavcg.accelerators.concats import copied_parts
from mavcg.accelerators.groups import ORDERS, GroupTile
from mavcg.accelerators.isa.datapath import SUM_WORDS, blocks
from mavcg.accelerators.xgraph import CONVOLUTIONS, XNode

Channels = tuple[int, int]


@dataclass
class _Pass:
    """One tile of the group: the regions of all tensors, and their tiles that are in feature memory.

    written: regions of the tensors that are written. full: tiles with all channels of a tensor, computed or loaded.
    """

    regions: Mapping[str, Region]
    written: Mapping[str, Region]
    full: dict[str, ChipTile] = field(default_factory=dict)


class GroupCode:
    """Generator of the code of one group with given tiles."""

    def __init__(self, code: CodeState, names: Sequence[str], stored: Iterable[str], tile: GroupTile) -> None:
        self.code, self.tile = code, tile
        chosen = set(names)
        self.nodes = [node for node in code.graph.nodes if node.name in chosen]
        self.names = {node.name for node in self.nodes}
        self.stored = self.names & set(stored)
        self.clusters = clusters_of(self.nodes, code.by_name)
        self.cluster_of = {node.name: i for i, cluster in enumerate(self.clusters) for node in cluster.nodes}
        joins = any(node.kind == "concat" for node in self.nodes)
        self.copied = copied_parts(code.graph) if joins else {}
        self.joined_here = {name for node in self.nodes if node.kind == "concat" for name in node.inputs}
        self.ranges = [self._ranges(cluster) for cluster in self.clusters]

    def emit(self) -> None:
        """Emit the group. Raises: DoesNotFitError if a tile does not fit; the caller then restores the state."""
        passes = self.passes()
        self.code.features.forget()  # groups exchange maps only through DDR memory, so that costs can be added
        self._prefetch_weights()
        if self._channels_outside(len(passes)):
            for channels in self.ranges[0]:
                for regions in passes:
                    self._emit_pass(_Pass(*regions), [channels])
        else:
            for regions in passes:
                self._emit_pass(_Pass(*regions), None)

    def _channels_outside(self, passes: int) -> bool:
        single = len(self.clusters) == 1 and self.clusters[0].head.kind in CONVOLUTIONS
        return single and passes > 1 and self.tile.order == ORDERS[0]

    def _ranges(self, cluster: NodeCluster) -> list[Channels]:
        in_ch = self.code.by_name[cluster.head.inputs[0]].channels
        return channel_ranges(cluster, in_ch, self.tile.out_ch, self.code.path)

    def passes(self) -> Sequence[tuple[Mapping[str, Region], Mapping[str, Region]]]:
        """Return, for each tile, the regions of all tensors and the regions of the written tensors."""
        passes = []
        for regions, written in group_passes(self.nodes, self.stored, self.tile, self.code.by_name):
            # A concat's inputs in this group are read back from the features segment: save all regions needed.
            read_back = self.joined_here & self.stored & regions.keys()
            passes.append((regions, {**written, **{name: regions[name] for name in read_back}}))
        return passes

    def _prefetch_weights(self) -> None:
        """Load the first weights before feature maps: they do not depend on earlier saves."""
        code, room = self.code, self.code.path.weight_words // 2
        for cluster, ranges in zip(self.clusters, self.ranges, strict=True):
            if cluster.head.kind not in CONVOLUTIONS:
                continue
            for channels in ranges:
                for part in self._slices(cluster.head, channels):
                    words = self._slice_words(cluster.head, part)
                    if words > room:
                        return
                    room -= words
                    code.weights.release(code.load_weights(part))

    def _slice_words(self, node: XNode, part: WeightSlice) -> int:
        path, in_ch = self.code.path, self.code.by_name[node.inputs[0]].channels
        taps = node.kernel[0] * node.kernel[1]
        words = path.block_words(taps, part.in_end - part.in_first, is_depthwise(node, in_ch))
        return words * blocks(part.end - part.first, path.oc_lanes)

    def _slices(self, node: XNode, channels: Channels) -> list[WeightSlice]:
        """Return the slices of weights for a range of output channels: one for each part of the input channels."""
        path, in_ch = self.code.path, self.code.by_name[node.inputs[0]].channels
        low, high = read_channels(node, in_ch, *channels, path)
        step = max(path.word, self.tile.in_ch // path.word * path.word)
        if is_depthwise(node, in_ch):
            step = high - low
        return [WeightSlice(node.name, *channels, at, min(at + step, high)) for at in range(low, high, step)]

    def _emit_pass(self, state: _Pass, only: list[Channels] | None) -> None:
        for number, cluster in enumerate(self.clusters):
            if cluster.head.name in state.regions:
                for channels in self.ranges[number] if only is None else only:
                    self._emit_range(state, number, channels)
            for name in [name for name in state.full if self._last_reader(name) <= number]:
                self.code.features.release(state.full.pop(name).address)
        for tile in state.full.values():
            self.code.features.release(tile.address)

    def _last_reader(self, name: str) -> int:
        return max((self.cluster_of[reader] for reader in self.code.readers[name] if reader in self.names), default=-1)

    def _emit_range(self, state: _Pass, number: int, channels: Channels) -> None:
        """Emit a range of channels of a cluster, for one tile."""
        code, in_cluster = self.code, dict[str, ChipTile]()
        temporary: list[ChipTile] = []
        for node in self.clusters[number].nodes:
            if node.name not in state.regions:
                continue
            if node.kind == "concat":
                self._emit_concat(state, node)
                continue
            out = state.regions[node.name]
            target = self._target(state, node, number, channels, temporary)
            if node.kind in CONVOLUTIONS:
                self._emit_convolution(state, node, in_cluster, channels, target, temporary)
            elif node.kind == "reorganise":
                source = self._source(
                    state, node.inputs[0], in_cluster, (0, code.by_name[node.inputs[0]].channels), temporary
                )
                emit_reorganise(code, node, source, target, out)
            else:
                sources = [self._source(state, name, in_cluster, channels, temporary) for name in node.inputs]
                emit_channelwise(code, node, sources, target, out, channels[0], channels[1] - channels[0])
            in_cluster[node.name] = target
            if node.name in state.written:
                code.save(node.name, target, state.written[node.name], channels[0], channels[1] - channels[0])
        for tile in temporary:
            code.features.release(tile.address)

    def _target(
        self, state: _Pass, node: XNode, number: int, channels: Channels, temporary: list[ChipTile]
    ) -> ChipTile:
        """Return the tile for a result: with all channels if a later cluster reads it, else with the range."""
        code, region = self.code, state.regions[node.name]
        readers = [self.code.by_name[r] for r in code.readers[node.name] if r in self.names]
        if any(self.cluster_of[r.name] != number and r.kind != "concat" for r in readers):
            if node.name not in state.full:
                state.full[node.name] = code.new_tile(node.name, region, 0, node.channels)
            return state.full[node.name]
        tile = code.new_tile(node.name, region, channels[0], channels[1] - channels[0])
        temporary.append(tile)
        return tile

    def _source(
        self, state: _Pass, name: str, in_cluster: Mapping[str, ChipTile], channels: Channels, temporary: list[ChipTile]
    ) -> ChipTile:
        """Return a tile with a range of channels of an input: made by this cluster, by an earlier one, or loaded."""
        if name in in_cluster:
            return in_cluster[name]
        if name in state.full:
            return state.full[name]
        code = self.code
        everything = channels == (0, code.by_name[name].channels)
        tile = code.load_tile(name, state.regions[name], channels[0], channels[1] - channels[0])
        if everything:
            state.full[name] = tile  # released after the last cluster that reads it
        else:
            temporary.append(tile)
        return tile

    def _emit_convolution(
        self,
        state: _Pass,
        node: XNode,
        in_cluster: Mapping[str, ChipTile],
        channels: Channels,
        target: ChipTile,
        temporary: list[ChipTile],
    ) -> None:
        code, out = self.code, state.regions[node.name]
        slices, sums = self._slices(node, channels), 0
        if len(slices) > 1:
            words = SUM_WORDS * out.rows * out.columns * blocks(channels[1] - channels[0], code.path.word)
            sums = code.features.allocate(words, None)
        for at, part in enumerate(slices):
            passing: list[ChipTile] = []
            parameters = code.load_weights(part)
            name = node.inputs[0]
            source = self._source(state, name, in_cluster, (part.in_first, part.in_end), passing)
            step = ConvolutionStep(part, source, target, out, parameters, sums, at > 0, at < len(slices) - 1)
            emit_convolution(code, node, step)
            code.weights.release(parameters)
            for tile in passing:
                code.features.release(tile.address)
        if len(slices) > 1:
            code.features.release(sums)

    def _emit_concat(self, state: _Pass, node: XNode) -> None:
        """Copy the inputs of a concat that were not saved directly into the joined tensor."""
        code, first = self.code, 0
        for at, name in enumerate(node.inputs):
            part = code.by_name[name]
            if at in self.copied[node.name]:
                region = needed_region(node, state.regions[node.name], part)
                source = code.load_tile(name, region, 0, part.channels)
                target = code.new_tile(node.name, region, 0, part.channels, cached=False)
                emit_copy(code, node, source, target, region, part.radix or 0, first)
                stored = code.tensors[node.name]
                code.save_at(stored.offset + first, node.name, target, region, part.channels)
                code.features.release(source.address)
                code.features.release(target.address)
            first += part.channels
