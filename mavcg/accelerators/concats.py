"""Concatenate without copies: each input is saved directly at its offset in the joined tensor, with a channel stride.

DNNVM, section III-A and fig. 2(c): SAVE writes the O_1 channels of a pixel, then steps O_1 + O_2 channels to the next
pixel.
"""

from dataclasses import dataclass

from mavcg.accelerators.xgraph import XGraph


@dataclass(frozen=True)
class Placement:
    """Location of a tensor off chip: within another tensor, or on its own.

    root: name of the tensor that contains it, or its own name. first: its first channel in the root. stride: number of
    channels of a pixel of the root.
    """

    root: str
    first: int
    stride: int


def placements(graph: XGraph) -> dict[str, Placement]:
    """Return the placement of every feature map; inputs and tensors of host nodes are their own roots.

    An input of a concat lies within the joined tensor if an accelerator node makes it, no other concat contains it, and
    it occurs once in the concat. For nested concats, the outermost is the root.
    """
    nodes = graph.by_name()
    within: dict[str, tuple[str, int]] = {}
    for node in graph.nodes:
        if node.kind != "concat" or not node.on_accelerator:
            continue
        first = 0
        for name in node.inputs:
            part = nodes[name]
            # The input itself is rounded to the concat's radix position, so both positions must be equal.
            free = name not in within and node.inputs.count(name) == 1 and part.radix == node.radix
            if part.on_accelerator and free:
                within[name] = (node.name, first)
            first += part.channels
    placed: dict[str, Placement] = {}
    for node in reversed(graph.nodes):  # readers first, so that outer concats are placed before inner ones
        if node.name in within:
            outer, first = within[node.name]
            around = placed[outer]
            placed[node.name] = Placement(around.root, around.first + first, around.stride)
        else:
            placed[node.name] = Placement(node.name, 0, node.shape[-1] if node.shape else 1)
    return placed


def copied_parts(graph: XGraph) -> dict[str, tuple[int, ...]]:
    """Return, for each concat, the indices of the inputs that must be copied because they do not lie within it."""
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
