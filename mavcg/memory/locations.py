"""Locations of a graph's tensors in buffers, and the steps between which each buffer is used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mavcg.graph import Graph, Node
from mavcg.graph.counts import Count
from mavcg.graph.layout import dense_strides
from mavcg.graph.ops.loops import OUTSIDE, LoopRange
from mavcg.memory.loop_storage import span_of
from mavcg.specs.kernel import View


@dataclass(frozen=True)
class Location:
    """Location of a tensor: `offset` elements from the start of the buffer of `root`, with the strides of `view`.

    advance: (number of a loop, elements that the tensor moves by in each iteration of it). advance_counts: (number of
    such a loop, how many elements that are in a run, up or down), where they follow from its lengths; advance has those
    of the longest ones.
    """

    root: str
    offset: int
    view: View
    advance: tuple[tuple[int, int], ...] = ()
    advance_counts: tuple[tuple[int, Count], ...] = ()


@dataclass(frozen=True)
class Inside:
    """The place of a tensor in its container: from `start` along each axis, every `step`-th element.

    step is None for a reshape: the tensor is the whole container, and both are dense. row: 1 or -1 for a tensor that is
    a row of its container, the next one in each iteration of `loop`, from the first or from the last on; else 0.
    """

    container: str
    start: tuple[int, ...] = ()
    step: tuple[int, ...] | None = None
    row: int = 0
    loop: int = OUTSIDE


@dataclass(frozen=True)
class Storage:
    """A graph with the location of each tensor.

    graph: with the copies that sharing required. silent: outputs of nodes for which no kernel runs. bordered: outputs
    of pads whose input is written in place. locations: of every tensor but constants. loops: ranges of the graph's
    nodes that a run repeats, in order. inside: the place of each tensor that lies in another one.
    """

    graph: Graph
    locations: Mapping[str, Location]
    silent: frozenset[str]
    bordered: frozenset[str]
    loops: tuple[LoopRange, ...] = ()
    inside: Mapping[str, Inside] = field(default_factory=dict)

    def views(self, node: Node) -> dict[str, View]:
        """Return the views of a node's inputs and outputs; constants are dense."""
        names = [name for name in (*node.inputs, *node.outputs) if name]
        return {name: self.view(name) for name in names}

    def view(self, name: str) -> View:
        """Return the shape and strides of a tensor."""
        if name in self.locations:
            return self.locations[name].view
        kind = self.graph.types[name]
        return View(kind.dtype, kind.shape, dense_strides(kind.shape))


def lifetimes_of(storage: Storage, order: Sequence[Node]) -> dict[str, tuple[int, int]]:
    """Return the first and last step at which each buffer is used, by root.

    Steps are the nodes' positions in `order`. A buffer that is also used outside of a loop is used in all of it.
    """
    spans: dict[str, tuple[int, int]] = {}
    for index, node in enumerate(order):
        for name in (*node.inputs, *node.outputs):
            if name in storage.locations:
                root = storage.locations[name].root
                first, _ = spans.get(root, (index, index))
                spans[root] = (first, index)
    if storage.loops:
        return {root: span_of(*span, storage.loops) for root, span in spans.items()}
    return spans
