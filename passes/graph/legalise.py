"""Rewrites a graph by a choice of primitives and layouts, and inserts the layout conversions between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node, TensorType
from mavcg.graph.layout import Layout, image_shape, lay_out, same_order
from mavcg.passes.graph.layout_forms import in_layout, is_entry, layouts_of
from mavcg.passes.graph.rewrite import Rewrite

Chain = tuple[Layout, ...]


@dataclass(frozen=True)
class ChosenPrimitive:
    """The primitive chosen for a convolution.

    image: tensor that it reads in place of the node's input: the image before the pad node. pads: rows above and below,
    and columns left and right, that it pads by itself.
    """

    name: str
    layout_in: Layout
    layout_out: Layout
    image: str
    pads: tuple[int, int]


@dataclass(frozen=True)
class LayoutChoice:
    """Layouts and primitives chosen for a graph; all other nodes stay as they are, in HWC.

    block: channels per block of CHWc. primitives, layouts: output of a node -> its choice. chains: (tensor, required
    layout) -> the layouts through which it is converted, both ends included; the default is a single conversion.
    """

    block: int
    primitives: Mapping[str, ChosenPrimitive] = field(default_factory=dict)
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    chains: Mapping[tuple[str, Layout], Chain] = field(default_factory=dict)


def legalise(graph: Graph, choice: LayoutChoice) -> Graph:
    """Write a choice into an optimised graph.

    Before, with im2 from HWC to CHW for %y, and CHW for %z:
        %p = pad(%x) before=[0,1,1,0] after=[0,1,1,0]
        %y = conv2d(%p, %w)
        %z = relu(%y)
        return %z
    After:
        %y.1 = primitive_conv2d(%x, %w) primitive=im2_.._hwc_chw layout_in=HWC layout_out=CHW pads=[1,1] ..
        %z.1 = relu(%y.1)
        %z = convert_layout(%z.1) layout_from=CHW layout_to=HWC ..
        return %z

    Readers of an image in the same layout share one conversion. Inputs and outputs of the graph stay in HWC.
    Raises: MavcgError for a node that cannot be computed in the layout chosen for it.
    """
    return _Legaliser(graph, choice).graph()


class _Legaliser:
    def __init__(self, graph: Graph, choice: LayoutChoice) -> None:
        self.old, self.choice = graph, choice
        self.new = Rewrite(graph)
        self.producers = graph.producers()
        self.made_in: dict[str, Layout] = {}  # tensor of the old graph -> the layout in which its node makes it
        self.have: dict[tuple[str, Layout], str] = {}

    def graph(self) -> Graph:
        for node in self.old.nodes:
            chosen = self.choice.primitives.get(node.outputs[0])
            layout = self.choice.layouts.get(node.outputs[0], Layout.HWC)
            if chosen is not None:
                self._primitive(node, chosen)
            elif layout is not Layout.HWC:
                self._in_layout(node, layout)
            else:
                self.new.put(replace(node, inputs=tuple(self.read(name, Layout.HWC) for name in node.inputs)))
        for name in self.old.outputs:
            self.new.alias(name, self.read(name, Layout.HWC))
        return self.new.finish()

    def read(self, name: str, layout: Layout) -> str:
        """Return a tensor of the old graph in a layout; add the conversion if it does not exist yet."""
        made_in = self.made_in.get(name, Layout.HWC)
        if (not name) or (name not in self.old.constants and layout is made_in):
            return self.have.get((name, layout), name)
        if (name, layout) not in self.have:
            self.have[name, layout] = self._convert(name, made_in, layout)
        return self.have[name, layout]

    def _convert(self, name: str, made_in: Layout, layout: Layout) -> str:
        if name in self.old.constants:
            if layout is Layout.HWC:
                return name
            return self.new.constant(lay_out(np.asarray(self.old.constants[name]), layout, self.choice.block), name)
        producer = self.producers.get(name)
        counted = (name, layout) in self.choice.chains
        if layout is Layout.HWC and not counted and producer is not None and producer.op == "pad":
            # The reader is a convolution by the engine's default kernel, which pads the image in HWC.
            image = self.read(producer.inputs[0], Layout.HWC)
            return self.new.add("pad", (image,), name, producer.origin, **dict(producer.attrs))
        chain = self.choice.chains.get((name, layout), (made_in, layout))
        if not chain or (chain[0], chain[-1]) != (made_in, layout):
            raise MavcgError(f"tensor '{name}': is made in {made_in}, and the chain to {layout} does not lead there")
        if len(chain) > 2:
            return self._step(name, self.read_along(name, chain[:-1]), chain[-2], layout)
        return self._step(name, self.read(name, made_in), made_in, layout)

    def read_along(self, name: str, chain: Chain) -> str:
        """Return the tensor in the last layout of a chain; add the chain's conversions that do not exist yet."""
        layout = chain[-1]
        if len(chain) == 1:
            return self.read(name, layout)
        if (name, layout) not in self.have:
            self.have[name, layout] = self._step(name, self.read_along(name, chain[:-1]), chain[-2], layout)
        return self.have[name, layout]

    def _step(self, name: str, source: str, layout_from: Layout, layout_to: Layout) -> str:
        n, h, w, c = self.old.shape(name)
        origin = self.producers[name].origin if name in self.producers else name
        if same_order(layout_from, layout_to, c, h, w):
            shape = image_shape(layout_to, c, h, w, self.choice.block, n)
            return self.new.add("reshape", (source,), name, origin, shape=shape)
        return self.new.add(
            "convert_layout",
            (source,),
            name,
            origin,
            layout_from=str(layout_from),
            layout_to=str(layout_to),
            c=c,
            h=h,
            w=w,
            block=self.choice.block,
            n=n,
        )

    def _set(self, name: str, layout: Layout, tensor: str) -> None:
        """Record that a node makes `name` of the old graph as `tensor` of the new graph, in a layout."""
        self.made_in[name] = layout
        self.have[name, layout] = tensor

    def _primitive(self, node: Node, chosen: ChosenPrimitive) -> None:
        n, h, w, c = self.old.shape(chosen.image)
        residual = self.read(node.inputs[3], chosen.layout_out)
        output = self.new.add(
            "primitive_conv2d",
            (self.read(chosen.image, chosen.layout_in), node.inputs[1], node.inputs[2], residual),
            node.output,
            node.origin,
            primitive=chosen.name,
            layout_in=str(chosen.layout_in),
            layout_out=str(chosen.layout_out),
            c=c,
            h=h,
            w=w,
            block=self.choice.block,
            n=n,
            pads=chosen.pads,
            stride=node.attr("stride"),
            groups=node.attr("groups"),
            dilation=node.attr("dilation"),
            act=node.attr("act"),
            act_args=node.attr("act_args"),
        )
        _, out_h, out_w, out_c = self.old.shape(node.output)
        shape = image_shape(chosen.layout_out, out_c, out_h, out_w, self.choice.block, n)
        if self.new.types[output] != TensorType("f32", shape):
            raise MavcgError(
                f"node '{node.origin or node.output}': pads of {chosen.pads} on %{chosen.image} "
                f"make {self.new.types[output]} where {self.old.types[node.output]} in {chosen.layout_out} is needed"
            )
        self._set(node.output, chosen.layout_out, output)

    def _in_layout(self, node: Node, layout: Layout) -> None:
        able = layouts_of(node, self.old, self.choice.block)
        if layout not in able:
            raise MavcgError(
                f"node '{node.origin or node.outputs[0]}' ({node.op}): cannot be done in {layout}; "
                f"it can in {', '.join(able)}"
            )
        images = [name for name in node.inputs if name and name not in self.old.constants]
        entry = is_entry(node, self.old)  # reads no image yet
        inputs = {name: self.read(name, Layout.HWC if entry else layout) for name in images}
        self._set(node.output, layout, in_layout(self.new, node, inputs, layout, self.choice.block))
