"""A graph as a network for selection: convolutions described by scenarios, all other nodes as dummies without cost.

After Anderson and Gregg (CGO 2018, section 5.1): a node that is not a convolution is a dummy that reads an image in any
layout and writes the same one, so that each conversion is paid for exactly once. Operators that depend on the positions
of elements in memory keep the engine's order, HWC, and so do a network's inputs and outputs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from mavcg.choose.algorithms.dt_graph import Size
from mavcg.graph import Graph, Node, fresh_name
from mavcg.kernels.primitives.common import MOST_BLOCK
from mavcg.kernels.primitives.sparse.family import with_sparsity
from mavcg.passes.graph.layout_forms import is_entry, is_image, layouts_of
from mavcg.specs.primitive import AxisWindow, Layout, Scenario

ENGINE_LAYOUT = Layout.HWC


class Kind(StrEnum):
    """Kind of a node, by its alternatives."""

    CONVOLUTION = "convolution"  # a primitive is chosen
    ANY_LAYOUT = "any layout"  # one layout is chosen for all images that it reads and writes
    FIXED = "fixed"  # nothing is chosen: HWC


@dataclass(frozen=True)
class NetworkNode:
    """A node of the graph, or an input or output of it (op: "input", "output").

    scenario: of a convolution. why: reason why a fixed convolution has no primitive. tensor: the graph's tensor that it
    writes first. image: of a convolution, the tensor before the pads that its scenario includes. layouts: those in
    which a node of any layout can be computed.
    """

    name: str
    op: str
    kind: Kind
    scenario: Scenario | None = None
    why: str = ""
    tensor: str = ""
    image: str = ""
    layouts: tuple[Layout, ...] = (ENGINE_LAYOUT,)


@dataclass(frozen=True)
class Link:
    """An image that one node writes and another reads.

    residual: it is added to a convolution's output, and read in the layout of that output.
    """

    source: str
    target: str
    tensor: str
    size: Size
    residual: bool = False


@dataclass(frozen=True)
class Network:
    """The nodes and images of a graph that matter for selection.

    nodes: by name, in the graph's order: those that read or write images, and convolutions that are left out. links: by
    reader, in the same order.
    """

    name: str
    nodes: dict[str, NetworkNode]
    links: tuple[Link, ...]

    @property
    def convolutions(self) -> tuple[NetworkNode, ...]:
        """Nodes for which a primitive is selected."""
        return tuple(node for node in self.nodes.values() if node.kind is Kind.CONVOLUTION)

    @property
    def left_out(self) -> tuple[NetworkNode, ...]:
        """Convolutions without a scenario: they stay in HWC, and their cost is not counted."""
        return tuple(node for node in self.nodes.values() if node.why)


def network_of(graph: Graph, block: int = MOST_BLOCK) -> Network:
    """Return the network of a graph after passes; pads equal on opposite sides become part of the next convolution.

    Images are f32 tensors [N, H, W, C]; 8-bit images stay in HWC, and are not links. Weights and other constants are
    laid out when a library is built, and cost nothing. block: channels per block of CHWc; what is possible in blocks of
    16 is possible in blocks of 8, too.
    """
    return _Reader(graph, block).network()


class _Reader:
    def __init__(self, graph: Graph, block: int) -> None:
        self.graph, self.block = graph, block
        self.producers = graph.producers()
        self.names: dict[str, str] = {}  # name of the network node that writes a tensor
        self.nodes: dict[str, NetworkNode] = {}
        self.links: list[Link] = []

    def network(self) -> Network:
        kept_nodes = self._kept_nodes()
        reads = {name for node in kept_nodes for name, _ in self._images_read(node)} | set(self.graph.outputs)
        for name in self.graph.inputs:
            if name in reads and self._is_image(name):
                self._add(NetworkNode(f"input {name}", "input", Kind.FIXED), (name,))
        for node in kept_nodes:
            images, described = list(self._images_read(node)), self._describe(node)
            if images or described.why or described.scenario or any(map(self._is_image, node.outputs)):
                self._link(self._add(described, node.outputs), images)
        for name in self.graph.outputs:
            if self._is_image(name) and name in self.names:
                self._link(self._add(NetworkNode(f"output {name}", "output", Kind.FIXED), ()), [(name, False)])
        return Network(self.graph.name, self.nodes, tuple(self.links))

    def _kept_nodes(self) -> list[Node]:
        """Return the graph's nodes without pads that all their readers include."""
        needed, kept = set(self.graph.outputs), list[Node]()
        for node in reversed(self.graph.nodes):
            if node.op == "pad" and node.output not in needed:
                continue
            kept.append(node)
            images = [name for name, _ in self._images_read(node)]
            needed.update(images if node.op == "conv2d" else node.inputs)
        return kept[::-1]

    def _add(self, node: NetworkNode, outputs: tuple[str, ...]) -> str:
        name = fresh_name(self.nodes, node.name)
        self.nodes[name] = replace(node, name=name)
        self.names.update((output, name) for output in outputs if output)
        return name

    def _link(self, target: str, images: list[tuple[str, bool]]) -> None:
        for tensor, residual in images:
            if tensor in self.names:  # else a constant
                self.links.append(Link(self.names[tensor], target, tensor, self._size(tensor), residual))

    def _describe(self, node: Node) -> NetworkNode:
        name, tensor = node.origin or node.outputs[0], node.outputs[0]
        if node.op == "conv2d":
            scenario = self._scenario(node)
            if scenario is not None:
                image = self._skip_pads(node)[0]
                return NetworkNode(name, node.op, Kind.CONVOLUTION, scenario, tensor=tensor, image=image)
            return NetworkNode(name, node.op, Kind.FIXED, why=self._reason(node), tensor=tensor)
        if node.op == "qconv2d" and not (why := self._eight_bit_reason(node)):
            scenario = self._eight_bit_scenario(node)
            return NetworkNode(name, node.op, Kind.CONVOLUTION, scenario, tensor=tensor, image=node.inputs[0])
        if node.op == "qconv2d":
            return NetworkNode(name, node.op, Kind.FIXED, why=why, tensor=tensor)
        if node.op.startswith(("conv", "qconv")):
            return NetworkNode(name, node.op, Kind.FIXED, why=f"is a {node.op}", tensor=tensor)
        layouts = layouts_of(node, self.graph, self.block)
        kind = Kind.FIXED if layouts == (ENGINE_LAYOUT,) else Kind.ANY_LAYOUT
        return NetworkNode(name, node.op, kind, tensor=tensor, layouts=layouts)

    def _images_read(self, node: Node) -> Iterator[tuple[str, bool]]:
        """Yield (tensor, is a residual) for each image that a node reads."""
        if is_entry(node, self.graph):
            return
        if node.op != "conv2d":
            for name in dict.fromkeys(node.inputs):
                if name not in self.graph.constants and self._is_image(name):
                    yield name, False
            return
        image = self._skip_pads(node)[0] if self._scenario(node) is not None else node.inputs[0]
        if self._is_image(image):
            yield image, False
        if len(node.inputs) > 3 and node.inputs[3] and self._is_image(node.inputs[3]):
            if node.inputs[3] not in self.graph.constants:
                yield node.inputs[3], True

    def _skip_pads(self, node: Node) -> tuple[str, tuple[int, int] | None]:
        """Return the image before all pads that can be merged into a convolution, and the merged pads.

        Pads can be merged while opposite sides are equal in sum; None if the convolution's own pads are not.
        """
        name, pads = node.inputs[0], tuple(node.attr("pads"))
        best = (name, _symmetric(pads))
        before = self.producers.get(name)
        while before is not None and before.op == "pad" and before.attr("mode") == "constant":
            low, high = before.attr("before"), before.attr("after")
            if before.attr("value") != 0 or len(low) != 4 or low[0] or low[3] or high[0] or high[3]:
                break
            added = (low[1], low[2], high[1], high[2])
            pads = tuple(a + b for a, b in zip(pads, added, strict=True))
            name = before.inputs[0]
            if min(added) < 0:
                break
            if (merged := _symmetric(pads)) is not None:
                best = (name, merged)
            before = self.producers.get(name)
        return best

    def _scenario(self, node: Node) -> Scenario | None:
        return None if self._reason(node) else self._scenario_of(node)

    def _scenario_of(self, node: Node) -> Scenario:
        image, pads = self._skip_pads(node)
        assert pads is not None
        n, h, w, c = self.graph.shape(image)
        m, *kernel, _ = self.graph.shape(node.inputs[1])
        stride, dilation = node.attr("stride"), node.attr("dilation")
        scenario = Scenario(
            c,
            h,
            w,
            stride[0],
            kernel[0],
            m,
            pads[0],
            node.attr("groups"),
            dilation[0],
            across=AxisWindow(kernel[1], stride[1], pads[1], dilation[1]),
            batch=n,
        )
        weights = self.graph.constants.get(node.inputs[1])
        return scenario if weights is None else with_sparsity(scenario, weights)

    def _eight_bit_scenario(self, node: Node) -> Scenario:
        x = self.graph.types[node.inputs[0]]
        n, h, w, c = x.shape
        m, *kernel, _ = self.graph.shape(node.inputs[1])
        stride, dilation = node.attr("stride"), node.attr("dilation")
        return Scenario(
            c,
            h,
            w,
            stride[0],
            kernel[0],
            m,
            0,
            node.attr("groups"),
            dilation[0],
            across=AxisWindow(kernel[1], stride[1], 0, dilation[1]),
            batch=n,
            dtype=x.dtype,
        )

    def _eight_bit_reason(self, node: Node) -> str:
        """Return the reason why a qconv2d has no scenario; "" if it has one."""
        if any(name not in self.graph.constants for name in node.inputs[1:4]):
            return "has weights that the graph computes"
        if 0 in (*self.graph.shape(node.output), *self.graph.shape(node.inputs[1])):
            return "has no elements"
        return "has a border of its own" if any(node.attr("pads")) else ""

    def _reason(self, node: Node) -> str:
        """Return the reason why a conv2d has no scenario; "" if it has one."""
        x, w = self.graph.types[node.inputs[0]], self.graph.types[node.inputs[1]]
        if x.dtype != "f32" or w.dtype != "f32":
            return f"is of {x.dtype}"
        if node.attr("exact"):
            return "has sums of whole numbers that must be exact"
        if node.attr("weights"):
            return f"has weights in {node.attr('weights')}"
        if node.inputs[1] in self.producers:
            return "has weights that the graph computes"
        if 0 in x.shape or 0 in self.graph.shape(node.output):
            return "has no elements"
        if self._skip_pads(node)[1] is None:
            return f"has pads of {', '.join(map(str, node.attr('pads')))}"
        return ""

    def _is_image(self, name: str) -> bool:
        return is_image(self.graph.types.get(name))

    def _size(self, name: str) -> Size:
        n, h, w, c = self.graph.shape(name)
        return Size(c, h, w, n)


def _symmetric(pads: tuple[int, ...]) -> tuple[int, int] | None:
    """Return (rows above, columns left) of pads (top, left, bottom, right); None if opposite sides differ."""
    top, left, bottom, right = pads
    return (top, left) if (top, left) == (bottom, right) else None
