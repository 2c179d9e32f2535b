"""Divide a group into clusters of nodes that are computed together, a range of output channels at a time.

A cluster is a node and the channel-wise nodes that read it, so that the units convolve, pool, add and save ranges of
channels at the same time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from mavcg.accelerators.codegen.node_code import is_channelwise
from mavcg.accelerators.codegen.parameters import is_depthwise
from mavcg.accelerators.isa.datapath import Datapath
from mavcg.accelerators.xgraph import CONVOLUTIONS, XNode


@dataclass(frozen=True)
class NodeCluster:
    """Nodes of a cluster, the head first, all with the same number of channels."""

    nodes: tuple[XNode, ...]

    @property
    def head(self) -> XNode:
        """Return the first node."""
        return self.nodes[0]


def clusters_of(nodes: Sequence[XNode], by_name: Mapping[str, XNode]) -> tuple[NodeCluster, ...]:
    """Return the clusters of a group in the order of their computation. nodes: in the graph's order."""
    clusters: list[list[XNode]] = []
    at: dict[str, int] = {}
    for node in nodes:
        made_here = [name for name in node.inputs if name in at and by_name[name].kind != "concat"]
        single = node.kind in ("concat", "reorganise") or not is_channelwise(node, by_name[node.inputs[0]].channels)
        latest = max((at[name] for name in made_here), default=-1)
        if single or latest < 0 or clusters[latest][0].kind in ("reorganise", "concat"):
            at[node.name] = len(clusters)
            clusters.append([node])
        elif any(at[name] > latest for name in node.inputs if name in at):  # a concat of a later cluster
            at[node.name] = len(clusters)
            clusters.append([node])
        else:
            at[node.name] = latest
            clusters[latest].append(node)
    return tuple(NodeCluster(tuple(cluster)) for cluster in clusters)


def channel_step(path: Datapath) -> int:
    """Return the smallest range of channels that is a multiple of a word and of the array's block."""
    return lcm(path.word, path.oc_lanes)


def channel_ranges(cluster: NodeCluster, in_ch: int, most: int, path: Datapath) -> list[tuple[int, int]]:
    """Divide the channels of a cluster into ranges that are so small that two slices of weights fit in weight memory.

    in_ch: channels of the head's input. most: largest number of channels in a range.
    """
    head, step = cluster.head, channel_step(path)
    if head.kind in ("concat", "reorganise"):
        return [(0, head.channels)]
    size = max(step, most // step * step)
    if head.kind in CONVOLUTIONS:
        depthwise = is_depthwise(head, in_ch)
        words = path.block_words(head.kernel[0] * head.kernel[1], in_ch, depthwise) * (step // path.oc_lanes)
        size = max(step, min(size, path.weight_words // 2 // words * step))
    return [(first, min(first + size, head.channels)) for first in range(0, head.channels, size)]
