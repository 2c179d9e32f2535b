"""The layers of a graph that the planner tiles: convolutions, and matrix products with weights as 1x1 convolutions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import gcd, prod

from mavcg.cost.layer import ConvLayer, ItemBytes
from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Graph, Node, TensorType
from mavcg.graph.ops.op import node_location

# Operators that compute weights from other weights at build time, or expand weights that a model stores in few bits.
_CARRIERS = frozenset(("reshape", "transpose", "cast", "dequantize", "slice", "concat", "broadcast_to"))


def layers_of(graph: Graph, fully_connected: bool = True) -> tuple[ConvLayer, ...]:
    """Return all convolutions of a graph as layers, in its order, and with fully_connected all products with weights.

    conv2d, qconv2d and iconv2d: one layer each; a pad node before it counts as the layer's own padding.
    conv_transpose2d:
    one layer of stride 1 for each output position modulo the stride, with the taps that contribute to it; each layer
    counts the input that it reads. matmul, qmatmul and imatmul: if one matrix is a constant or an input of the graph, a
    1x1
    layer whose rows are the rows of the other matrix (paper, 3.1). Names are unique; they are the names in the user's
    file,
    or else of the node's output.
    Raises: MavcgError for a batch of several images, which six loops cannot express.
    """
    reader = _LayerReader(graph)
    layers: list[ConvLayer] = []
    name_counts: dict[str, int] = {}
    for node in graph.nodes:
        if node.op in _PRODUCTS and not fully_connected:
            continue
        for layer in _MAKERS.get(node.op, _no_layers)(reader, node):
            if layer.macs:
                layers.append(replace(layer, name=_unique(name_counts, layer.name)))
    return tuple(layers)


class _LayerReader:
    """A graph with the producers of its tensors and the set of tensors that are weights."""

    def __init__(self, graph: Graph) -> None:
        self.types = graph.types
        self.producers = graph.producers()
        self.inputs = set(graph.inputs)
        self.constants = set(graph.constants)
        for node in graph.nodes:
            if node.op in _CARRIERS and all(name in self.constants for name in node.inputs if name):
                self.constants.update(node.outputs)

    def weights(self, a: str, b: str) -> str:
        """Return the factor of a product that is weights, "" if neither is.

        Constants come before inputs, and the second factor before the first.
        """
        return next((name for kind in (self.constants, self.inputs) for name in (b, a) if name in kind), "")

    def image_before_pads(
        self, name: str, pads: tuple[int, ...], zero: float
    ) -> tuple[TensorType, tuple[int, int, int, int]]:
        """Return the image that a chain of pad nodes extends, and the sum of all pads: top, left, bottom, right."""
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


def _no_layers(reader: _LayerReader, node: Node) -> Iterator[ConvLayer]:
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
        oc=out_ch // groups,
        ic=in_ch,
        oh=y.shape[1],
        ow=y.shape[2],
        kh=k_h,
        kw=k_w,
        ih=x.shape[1],
        iw=x.shape[2],
        stride=node.attr("stride"),
        pads=pads,
        dilation=node.attr("dilation"),
        groups=groups,
        items=_items(x, w, y),
    )


@dataclass(frozen=True)
class Phase:
    """One convolution of stride 1 along one axis; it computes the outputs at first, first + stride, ...

    outputs: number of them. taps: taps of the kernel that contribute to them. dilation: between these taps, in inputs.
    start, length: the range of inputs that is read. before, after: padding, in inputs.
    """

    first: int
    outputs: int
    taps: tuple[int, ...]
    dilation: int
    start: int
    length: int
    before: int
    after: int


def phases(length: int, outputs: int, kernel: int, stride: int, dilation: int, pad: int) -> tuple[Phase, ...]:
    """Return the convolutions that compute one axis of a transposed convolution.

    Output o sums input i times tap k wherever i * stride + k * dilation = o + pad, so outputs that agree modulo the
    stride use the same taps. Outputs to which no tap or no input contributes are the bias alone, and are left out.
    length, outputs: of the input and the output. pad: before the output.
    """
    convolutions = []
    step = stride // gcd(stride, dilation)  # between the taps of a phase
    for first in range(min(stride, outputs)):
        taps = tuple(k for k in range(kernel) if (first + pad - k * dilation) % stride == 0)
        if not taps:
            continue
        count = -(-(outputs - first) // stride)
        lowest = (first + pad - taps[-1] * dilation) // stride
        highest = (first + (count - 1) * stride + pad - taps[0] * dilation) // stride
        start, stop = max(0, lowest), min(length, highest + 1)
        if stop <= start:
            continue
        before, after = start - lowest, highest + 1 - stop
        spread = step * dilation // stride
        convolutions.append(Phase(first, count, taps, spread, start, stop - start, before, after))
    return tuple(convolutions)


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
                oc=out_ch // groups,
                ic=in_ch,
                oh=row.outputs,
                ow=column.outputs,
                kh=len(row.taps),
                kw=len(column.taps),
                ih=row.length,
                iw=column.length,
                pads=(row.before, column.before, row.after, column.after),
                dilation=(row.dilation, column.dilation),
                groups=groups,
                items=_items(x, w, y),
            )


def _product(reader: _LayerReader, node: Node) -> Iterator[ConvLayer]:
    """Yield a[.., M, K] times b[.., K, N] as a layer; if a is the weights, it is computed as y^T = b^T a^T."""
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
        # The whole batch has the same weights: its rows (columns, if a is the weights) are more rows of one layer.
        groups, rows = 1, rows * prod(batch)
    elif weights.shape[:-2] == batch == image.shape[:-2]:
        groups = prod(batch)
    else:
        return  # several matrices that multiply the same image are not a grouped convolution
    if prod(image.shape) != groups * rows * depth:
        return
    yield ConvLayer(
        _name(node),
        oc=out_ch,
        ic=depth,
        oh=rows,
        ow=1,
        kh=1,
        kw=1,
        ih=rows,
        iw=1,
        groups=groups,
        items=_items(image, weights, y),
    )


_PRODUCTS = ("matmul", "qmatmul", "imatmul")
_MAKERS: dict[str, _Maker] = {
    "conv2d": _convolution,
    "qconv2d": _convolution,
    "iconv2d": _convolution,
    "conv_transpose2d": _transposed_convolution,
    "matmul": _product,
    "qmatmul": _product,
    "imatmul": _product,
}


def _one_image(node: Node, x: TensorType) -> None:
    if x.shape[0] > 1:
        raise MavcgError(
            f"{node_location(node)}: a batch of {x.shape[0]} images; a plan covers one image: "
            "export the model with batch size 1 or a free batch dimension"
        )


def _items(x: TensorType, w: TensorType, y: TensorType) -> ItemBytes:
    """Return the element sizes of a layer. Partial sums have 4 bytes (i32 or f32), or 8 for f64."""
    x_bytes, w_bytes, y_bytes = (DTYPES[t.dtype].itemsize for t in (x, w, y))
    return ItemBytes(x_bytes, w_bytes, y_bytes, psum=8 if y.dtype == "f64" else 4)


def _name(node: Node) -> str:
    return node.origin or node.output


def _unique(name_counts: dict[str, int], name: str) -> str:
    """Return `name`, or NAME.2, NAME.3, ... if another layer has that name already."""
    unique = name
    while unique in name_counts:
        name_counts[name] += 1
        unique = f"{name}.{name_counts[name]}"
    name_counts[unique] = 1
    return unique
