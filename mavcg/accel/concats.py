"""Concatenation without copies: a part is saved into its place of the joined tensor with a channel stride.

DNNVM, section III-A and fig. 2(c): SAVE writes O_1 channels of a pixel and steps O_1 + O_2 to the next pixel's.
"""

from dataclasses import dataclass

from mavcg.accel.xgraph import XGraph


@dataclass(frozen=True)
class Placement:
    """Location of a tensor off chip: within the tensor `root`, whose pixels have `stride` channels, from channel
    `first`.

    A tensor by itself is its own root, with first 0 and its own channels as stride.
    """

    root: str
    first: int
    stride: int


def placements(graph: XGraph) -> dict[str, Placement]:
    """Return the placement of every tensor of feature maps; tensors of host nodes and inputs are their own roots.

    A part of a concat lies in the joined tensor if an accelerator node makes it, it has no other place, and it stands
    once in the concat. Concats within concats lie in the outermost.
    """
    nodes = graph.by_name()
    within: dict[str, tuple[str, int]] = {}
    for node in graph.nodes:
        if node.kind != "concat":
            continue
        first = 0
        for name in node.inputs:
            part = nodes[name]
            # Rounding to the concat's radix position is the part's own, so both must agree.
            free = name not in within and node.inputs.count(name) == 1 and part.radix == node.radix
            if part.on_accelerator and free:
                within[name] = (node.name, first)
            first += part.channels
    found: dict[str, Placement] = {}
    for node in reversed(graph.nodes):  # readers first, so that outer concats have their places
        if node.name in within:
            outer, first = within[node.name]
            around = found[outer]
            found[node.name] = Placement(around.root, around.first + first, around.stride)
        else:
            found[node.name] = Placement(node.name, 0, node.shape[-1] if node.shape else 1)
    return found


def copied_parts(graph: XGraph) -> dict[str, tuple[int, ...]]:
    """Return for each concat the positions of the inputs that must be copied into it, because they lie elsewhere."""
    places, nodes = placements(graph), graph.by_name()
    copied: dict[str, tuple[int, ...]] = {}
    for node in graph.nodes:
        if node.kind == "concat":
            own, first, positions = places[node.name], 0, []
            for at, name in enumerate(node.inputs):
                expected = Placement(own.root, own.first + first, own.stride)
                if places[name] != expected:
                    positions.append(at)
                first += nodes[name].channels
            copied[node.name] = tuple(positions)
    return copied
