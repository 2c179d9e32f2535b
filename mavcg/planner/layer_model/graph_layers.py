"""The layers of a graph that the planner plans: convolutions, and products with matrices of weights as 1x1 ones."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Graph, Node, TensorType
from mavcg.ops.op import node_location
from mavcg.planner.layer_model.layer import ConvLayer, ItemBytes
from mavcg.planner.layer_model.transposed import phases

# What makes a matrix of weights of another one, at build time or where a model keeps its weights in few bits.
_CARRIERS = frozenset(("reshape", "transpose", "cast", "dequantize", "slice", "concat", "broadcast_to"))


def layers_of(graph: Graph, fully_connected: bool = True) -> tuple[ConvLayer, ...]:
    """Return every convolution and, unless fully_connected is False, every product with weights, in the graph's order.

    conv2d, qconv2d and iconv2d: each is a layer, and a pad before it counts as its own padding. conv_transpose2d: a
    layer for each position within its stride, of stride 1 and with the taps that meet there; each is counted with the
    input that it reads. matmul, qmatmul and imatmul: where one matrix is a constant or an input of the graph, a 1x1
    layer whose rows are those of the other (paper, 3.1). Names are those of the user's file, or of what a node makes,
    and differ.
    Raises: MavcgError for a batch of several images, which six loops do not have.
    """
    reader = _LayerReader(graph)
    found: list[ConvLayer] = []
    taken: dict[str, int] = {}
    for node in graph.nodes:
        if node.op in _PRODUCTS and not fully_connected:
            continue
        for layer in _MAKERS.get(node.op, _none)(reader, node):
            if layer.macs:
                found.append(replace(layer, name=_unique(taken, layer.name)))
    return tuple(found)


class _LayerReader:
    """A graph, with the producers of its tensors and which of these are weights."""

    def __init__(self, graph: Graph) -> None:
        self.types = graph.types
        self.producers = graph.producers()
        self.inputs = set(graph.inputs)
        self.constants = set(graph.constants)
        for node in graph.nodes:
            if node.op in _CARRIERS and all(name in self.constants for name in node.inputs if name):
                self.constants.update(node.outputs)

    def weights(self, a: str, b: str) -> str:
        """Return the factor of a product that is weights: if both may be, the second, constants first; "" for none."""
        return next((name for kind in (self.constants, self.inputs) for name in (b, a) if name in kind), "")

    def image_before_pads(
        self, name: str, pads: tuple[int, ...], zero: float
    ) -> tuple[TensorType, tuple[int, int, int, int]]:
        """Return an image before the pad nodes that make it, and all pads together: top, left, bottom, right."""
        top, left, bottom, right = pads
        node = self.producers.get(name)
        while node is not None and node.op == "pad":
            before, after = node.attr("before"), node.attr("after")
            others = (before[0], before[3], after[0], after[3])
            if node.attr("mode") != "constant" or node.attr("value") != zero or any(others):
                break
            top, left, bottom, right = top + before[1], left + before[2], bottom + after[1], right + after[2]
            name = node.inputs[0]
            node = self.producers.get(name)
        return self.types[name], (top, left, bottom, right)


_Maker = Callable[[_LayerReader, Node], Iterator[ConvLayer]]


def _none(reader: _LayerReader, node: Node) -> Iterator[ConvLayer]:
    yield from ()


def _convolution(reader: _LayerReader, node: Node) -> Iterator[ConvLayer]:
    zero = float(node.attr("x_zero")) if node.op == "qconv2d" else 0.0
    x, pads = reader.image_before_pads(node.inputs[0], node.attr("pads"), zero)
    w, y = reader.types[node.inputs[1]], reader.types[node.output]
    _one_image(node, x)
    groups = node.attr("groups")
    out_ch, k_h, k_w, in_ch = w.shape
    yield ConvLayer(
        _name(node),
        oc=out_ch // groups, ic=in_ch, oh=y.shape[1], ow=y.shape[2], kh=k_h, kw=k_w, ih=x.shape[1], iw=x.shape[2],
        stride=node.attr("stride"), pads=pads, dilation=node.attr("dilation"), groups=groups, items=_items(x, w, y),
    )  # fmt: skip


def _transposed_convolution(reader: _LayerReader, node: Node) -> Iterator[ConvLayer]:
    x, w, y = (reader.types[name] for name in (node.inputs[0], node.inputs[1], node.output))
    _one_image(node, x)
    groups = node.attr("groups")
    out_ch, _, _, in_ch = w.shape
    rows, columns = (
        phases(
            x.shape[1 + a], y.shape[1 + a], w.shape[1 + a], *(node.attr(n)[a] for n in ("stride", "dilation", "pads"))
        )
        for a in (0, 1)
    )
    several = len(rows) * len(columns) > 1
    for row in rows:
        for column in columns:
            yield ConvLayer(
                f"{_name(node)}@{row.first},{column.first}" if several else _name(node),
                oc=out_ch // groups, ic=in_ch, oh=row.outputs, ow=column.outputs, kh=len(row.taps), kw=len(column.taps),
                ih=row.length, iw=column.length, pads=(row.before, column.before, row.after, column.after),
                dilation=(row.dilation, column.dilation), groups=groups, items=_items(x, w, y),
            )  # fmt: skip


def _product(reader: _LayerReader, node: Node) -> Iterator[ConvLayer]:
    """Yield a[.., M, K] with b[.., K, N]; where a is the weights, y^T = b^T a^T is the same product."""
    a, b, y = (reader.types[name] for name in (node.inputs[0], node.inputs[1], node.output))
    rows, depth, width = a.shape[-2], a.shape[-1], y.shape[-1]
    batch = y.shape[:-2]
    chosen = reader.weights(*node.inputs[:2])
    if not chosen:
        return
    if chosen == node.inputs[1]:
        image, weights, out_ch = a, b, width
    else:
        image, weights, out_ch, rows = b, a, rows, width
    if prod(weights.shape[:-2]) == 1:
        # One matrix for all: more rows of the same layer. With the weights in front each of the batch has columns.
        groups, rows = 1, rows * prod(batch)
    elif weights.shape[:-2] == batch == image.shape[:-2]:
        groups = prod(batch)
    else:
        return  # an image that several matrices share is no convolution of one group
    if prod(image.shape) != groups * rows * depth:
        return
    yield ConvLayer(
        _name(node), oc=out_ch, ic=depth, oh=rows, ow=1, kh=1, kw=1, ih=rows, iw=1, groups=groups,
        items=_items(image, weights, y),
    )  # fmt: skip


_PRODUCTS = ("matmul", "qmatmul", "imatmul")
_MAKERS: dict[str, _Maker] = {
    "conv2d": _convolution, "qconv2d": _convolution, "iconv2d": _convolution,
    "conv_transpose2d": _transposed_convolution,
    "matmul": _product, "qmatmul": _product, "imatmul": _product,
}  # fmt: skip


def _one_image(node: Node, x: TensorType) -> None:
    if x.shape[0] > 1:
        raise MavcgError(
            f"{node_location(node)}: a batch of {x.shape[0]} images; a plan is of one image: "
            "export the model with a batch of 1 or a free one"
        )


def _items(x: TensorType, w: TensorType, y: TensorType) -> ItemBytes:
    """Return the element sizes of a layer: partial sums have 4 bytes, i32 or f32, but those of f64."""
    of_x, of_w, of_y = (DTYPES[t.dtype].itemsize for t in (x, w, y))
    return ItemBytes(of_x, of_w, of_y, psum=8 if y.dtype == "f64" else 4)


def _name(node: Node) -> str:
    return node.origin or node.output


def _unique(taken: dict[str, int], name: str) -> str:
    """Return `name`, or with a number where another layer has it: NAME.2, NAME.3, ..."""
    unique = name
    while unique in taken:
        taken[name] += 1
        unique = f"{name}.{taken[name]}"
    taken[unique] = 1
    return unique
