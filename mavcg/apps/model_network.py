"""A model's graph as a CNN of the paper: layers, rows, windows, and the bytes of each edge."""

from collections.abc import Mapping
from dataclasses import replace

from mavcg.apps.application import Cnn, DataEdge, Layer, RowWindow
from mavcg.graph import DTYPES, Graph, Node
from mavcg.memory.storage import IN_PLACE

_POINTWISE = IN_PLACE | {"cast", "quantize", "dequantize", "requantize", "where"}
_WINDOWS = ("conv", "depthwise", "pool")
# Input that every phase reads whole, so that it is live to the last one: the gate of squeeze-and-excite, for example.
_WHOLE = RowWindow(1, 0, 0)
# Bytes per element of data and of weights that are f32 in the file (paper, Table 6.8).
PRECISIONS: Mapping[str, tuple[int, int]] = {"fp32": (4, 4), "fp16": (2, 2), "mixed": (2, 1), "int8": (1, 1)}


def network_of(graph: Graph, name: str, precision: str = "fp32") -> Cnn:
    """Return the CNN of a graph; sizes of edges and weights are in bytes, images are rows of NHWC.

    Inputs are layers, whose data is there at once; outputs lie in the caller's memory and are not edges. precision: of
    PRECISIONS; data of types other than f32 keeps its size.
    """
    data_bytes, weight_bytes = PRECISIONS[precision]
    layers, edges = list[Layer](), dict[tuple[str, str], DataEdge]()
    names = layer_names(graph)
    borders = _borders(graph)
    writer = {tensor: f"input {tensor}" for tensor in graph.inputs}
    for tensor in graph.inputs:
        layers.append(Layer(writer[tensor], "input", _rows(graph, tensor)))
    for number, node in enumerate(graph.nodes):
        layer = names[number]
        if node.outputs[0] in borders:
            writer[node.outputs[0]] = writer[node.inputs[0]]
            continue
        kind, window = _kind(graph, node)
        weights = sum(
            _bytes(graph, tensor, weight_bytes) for tensor in dict.fromkeys(node.inputs) if tensor in graph.constants
        )
        layers.append(Layer(layer, kind, _rows(graph, node.outputs[0]), window, weights))
        for index, tensor in enumerate(node.inputs):
            if tensor in writer and (writer[tensor], layer) not in edges:
                size = _bytes(graph, tensor, data_bytes)
                rows = _rows(graph, tensor)
                own = _edge_window(graph, node, index)
                if tensor in borders:
                    rows = _rows(graph, borders[tensor].inputs[0])
                    size = -(-size // rows) * rows
                    own = replace(window, pad=window.pad + int(borders[tensor].attr("before")[1]))
                edges[(writer[tensor], layer)] = DataEdge(writer[tensor], layer, max(size, rows), rows, own)
        writer |= {tensor: layer for tensor in node.outputs if tensor}
    return Cnn(name, tuple(layers), tuple(edges.values()))


def _borders(graph: Graph) -> dict[str, Node]:
    """Return the pad nodes of images that only windows read, by their output.

    The writer's rows lie inside the border from the start (memory/storage.py), so such a pad is not a layer and its
    input is not an edge. The border counts with the rows.
    """
    borders = {}
    for node in graph.nodes:
        if node.op != "pad" or node.attr("mode") != "constant" or node.inputs[0] in graph.constants:
            continue
        before, after = node.attr("before"), node.attr("after")
        image = len(before) == 4 and not (before[0] or after[0] or before[3] or after[3]) and min(*before, *after) >= 0
        readers = [reader for reader in graph.nodes if node.outputs[0] in reader.inputs]
        if (
            image
            and graph.types[node.outputs[0]].shape[0] == 1
            and node.outputs[0] not in graph.outputs
            and all(
                _kind(graph, reader)[0] in _WINDOWS and reader.inputs.index(node.outputs[0]) == 0 for reader in readers
            )
        ):
            borders[node.outputs[0]] = node
    return borders


def layer_names(graph: Graph) -> list[str]:
    """Return a name for each node.

    The name in the user's file, with the operator if several nodes come from one there.
    """
    counts: dict[str, int] = {}
    borders = []
    for node in graph.nodes:
        name = node.origin or node.outputs[0]
        if sum(twin.origin == node.origin for twin in graph.nodes) > 1 or not node.origin:
            name = f"{name}:{node.op}"
        counts[name] = counts.get(name, 0) + 1
        borders.append(name if counts[name] == 1 else f"{name}#{counts[name]}")
    return borders


def _rows(graph: Graph, tensor: str) -> int:
    shape = graph.types[tensor].shape
    return shape[1] if len(shape) == 4 and shape[0] == 1 and shape[1] > 0 else 1


def _bytes(graph: Graph, tensor: str, f32_bytes: int) -> int:
    kind = graph.types[tensor]
    return kind.elements * (f32_bytes if kind.dtype == "f32" else DTYPES[kind.dtype].itemsize)


def _kind(graph: Graph, node: Node) -> tuple[str, RowWindow]:
    """Return the layer's kind and window; kinds that cannot be computed by parts are the operator's name."""
    out = graph.types[node.outputs[0]].shape
    if len(node.outputs) != 1 or len(out) != 4 or out[0] != 1:
        return node.op, RowWindow()
    if node.op in ("conv2d", "qconv2d", "iconv2d"):
        rows = node.attr("dilation")[0] * (graph.types[node.inputs[1]].shape[1] - 1) + 1
        window = RowWindow(rows, node.attr("stride")[0], node.attr("pads")[0])
        groups = node.attr("groups")
        return ("depthwise" if groups > 1 and groups == graph.types[node.inputs[0]].shape[3] else "conv"), window
    if node.op in ("max_pool2d", "avg_pool2d"):
        rows = node.attr("dilation")[0] * (node.attr("kernel")[0] - 1) + 1
        return "pool", RowWindow(rows, node.attr("stride")[0], node.attr("pads")[0])
    if node.op == "pad_with" or (node.op == "pad" and node.attr("mode") == "constant"):
        return "pad", RowWindow(1, 1, int(node.attr("before")[1]))
    if node.op == "concat" and int(node.attr("axis")) % 4 == 3:
        return "concat", RowWindow()
    if node.op in _POINTWISE and any(graph.types[name].shape == out for name in node.inputs if name):
        live = [name for name in node.inputs if name and name not in graph.constants]
        return ("add" if len(live) > 1 else "activation"), RowWindow()
    return node.op, RowWindow()


def _edge_window(graph: Graph, node: Node, index: int) -> RowWindow | None:
    """Return the window of this input if it differs from the layer's, else None."""
    if node.op == "conv2d" and index == 3:  # a residual, added row by row
        return RowWindow()
    out = graph.types[node.outputs[0]].shape
    if node.op in _POINTWISE and _rows(graph, node.inputs[index]) != _rows(graph, node.outputs[0]) and len(out) == 4:
        return _WHOLE
    return None
