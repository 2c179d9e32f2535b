"""Decide which nodes VTA computes with the reference's bits; the others are left to the CPU."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mavcg.accelerators.codegen.clusters import NodeCluster, clusters_of
from mavcg.accelerators.concats import copied_parts
from mavcg.accelerators.groups import GroupTooLarge
from mavcg.accelerators.isa.vta import BLOCK, LEAST_SHIFT, MOST_SHIFT
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.windows import window_counts
from mavcg.accelerators.xgraph import CONVOLUTIONS, XGraph, XNode

_LIMIT = 1 << 31  # of accumulators, which wrap where the reference's shifts do not
_MOST_BYTE = 128  # greatest magnitude of an 8-bit number
_MOST_SUM_SHIFT = 2 * MOST_SHIFT  # of convolutions: their halves are in the bias


def with_vta_nodes(graph: XGraph, target: IsaTarget) -> XGraph:
    """Return a quantised network in which the nodes that VTA does not compute are left to the CPU."""
    for node in graph.nodes:  # in order: a concat depends on who computes its parts
        if node.on_accelerator and refusal(graph, node, target):
            graph = graph.with_nodes({node.name: replace(node, on_cpu=True)})
    return graph


def refusal(graph: XGraph, node: XNode, target: IsaTarget) -> str:
    """Return why VTA does not compute a node of a quantised network; "" if it does."""
    by_name = graph.by_name()
    sources = [by_name[name] for name in node.inputs]
    if node.scale is not None or any(source.scale is not None for source in sources):
        return "its ALU multiplies by 8 bits alone, and the scales are those of an 8-bit file"
    if node.act == "leaky":
        return "its ALU has no multiplication of negative values alone"
    if node.kind == "concat":
        return _refused_concat(graph, node, sources)
    if node.kind in CONVOLUTIONS and node.kind != "deconv":
        return _refused_convolution(graph, node, sources[0], target)
    radices = [source.radix or 0 for source in sources]
    if node.kind == "max_pool":
        return _refused_sum(_MOST_BYTE, radices[0] - (node.radix or 0), target)
    if node.kind == "avg_pool":
        counts = np.unique(window_counts(node, sources[0].shape))
        if len(counts) > 1 or counts[0] & (counts[0] - 1):
            return "its ALU divides by powers of two alone"
        taps = node.kernel[0] * node.kernel[1]
        return _refused_sum(_MOST_BYTE * taps, radices[0] + divisor_bits(node, sources[0]) - (node.radix or 0), target)
    if node.kind == "eltwise":
        total = sum(radices) if node.op == "mul" else max(radices)
        lefts = [0 if node.op in ("mul", "copy") else total - radix for radix in radices]
        if max(lefts) > -LEAST_SHIFT:
            return f"it would shift an operand by {max(lefts)} bits"
        most = _MOST_BYTE**2 if node.op == "mul" else sum(_MOST_BYTE << left for left in lefts)
        return _refused_sum(most, total - (node.radix or 0), target)
    return f"it has no instruction for {node.kind}"


def refuse_group(graph: XGraph, names: Sequence[str]) -> NodeCluster:
    """Return the nodes of a group as the one cluster that VTA can keep on chip.

    Raises: GroupTooLarge for a group with a convolution after its first node.
    """
    chosen = set(names)
    nodes = [node for node in graph.nodes if node.name in chosen]
    clusters = clusters_of(nodes, graph.by_name())
    if len(clusters) > 1 or any(node.kind in CONVOLUTIONS for node in nodes[1:]):
        raise GroupTooLarge(
            f"{graph.name}: {', '.join(names)}: VTA's array reads its inputs from DDR memory only; give groups of one "
            "convolution or less, and operations of the ALU after it"
        )
    return clusters[0]


def is_refused_group(graph: XGraph, names: Sequence[str]) -> bool:
    """Return True for a group that refuse_group refuses."""
    try:
        refuse_group(graph, names)
    except GroupTooLarge:
        return True
    return False


def divisor_bits(node: XNode, source: XNode) -> int:
    """Return the binary logarithm of the divisor of an average, which is a power of two."""
    return int(window_counts(node, source.shape).flat[0]).bit_length() - 1


def _refused_sum(most: int, shift: int, target: IsaTarget) -> str:
    """Return what is wrong with sums of at most this magnitude and their shift, whose half is an immediate."""
    if not LEAST_SHIFT <= shift <= MOST_SHIFT:
        return f"it would shift a sum by {shift} bits"
    return "" if _fits(most, shift) else "its sums may need more than 32 bits"


def _fits(most: int, shift: int) -> bool:
    return (most + (1 << max(0, shift))) << max(0, -shift) < _LIMIT


def _refused_convolution(graph: XGraph, node: XNode, source: XNode, target: IsaTarget) -> str:
    if node.multipliers:
        return "its ALU multiplies by 8 bits alone, and weights have scales that are no powers of two"
    parameters = graph.parameters[node.name]
    weights = np.abs(parameters.weights.astype(np.int64)).reshape(node.channels, -1).sum(axis=1)
    most = weights * _MOST_BYTE + np.abs(parameters.bias.astype(np.int64))
    shifts = np.broadcast_to(np.asarray(node.weight_radix) + (source.radix or 0) - (node.radix or 0), most.shape)
    for channel, shift in enumerate(int(s) for s in shifts):
        if not LEAST_SHIFT <= shift <= _MOST_SUM_SHIFT:
            return f"it would shift a sum by {shift} bits"
        if not _fits(int(most[channel]), shift):
            return "its sums may need more than 32 bits"
    return ""


def _refused_concat(graph: XGraph, node: XNode, sources: list[XNode]) -> str:
    if node.act or copied_parts(graph)[node.name]:
        return "its parts would have to be copied"
    if any(source.channels % BLOCK for source in sources[:-1]):
        return f"its parts do not begin at whole vectors of {BLOCK} channels"
    if not all(source.on_accelerator for source in sources):
        return "the CPU computes one of its parts"
    return ""
