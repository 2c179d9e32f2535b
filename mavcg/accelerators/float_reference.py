"""Evaluate an XGraph in f32, and convert images to the XGraph's order of dimensions: N, H, W, C."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mavcg.accelerators import windows
from mavcg.accelerators.xgraph import CONVOLUTIONS, Parameters, XGraph, XNode
from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.graph.reference.evaluate import run as run_graph

_ELTWISE: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def arrange_inputs(graph: XGraph, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs in the XGraph's order of dimensions, N, H, W, C, as f32. arrays: in the model's order.

    Raises: MavcgError for an input that is missing, unknown or of another size.
    """
    images, known = dict[str, Array](), [node.name for node in graph.inputs()]
    for name in arrays:
        if name not in known:
            raise MavcgError(f"input {name}: {graph.name} has no such input; it has {', '.join(known)}")
    for node in graph.inputs():
        if node.name not in arrays:
            raise MavcgError(f"input {node.name}: not given; {graph.name} needs {', '.join(known)}")
        array = np.asarray(arrays[node.name], np.float32)
        n, height, width, channels = node.shape
        if node.op == "nchw" and array.shape == (n, channels, height, width):
            array = array.transpose(0, 2, 3, 1)
        elif array.size != int(np.prod(node.shape)) or (node.op == "nchw" and array.shape != node.shape):
            expected = (n, channels, height, width) if node.op == "nchw" else node.shape
            raise MavcgError(f"input {node.name}: is {array.shape}; give {expected}")
        images[node.name] = np.ascontiguousarray(array).reshape(node.shape)
    return images


def activate_f32(node: XNode, values: Array) -> Array:
    """Return a node's tensor, f32, from the values before its activation."""
    if node.act == "relu":
        values = np.maximum(values, 0)
    elif node.act == "clip":
        values = np.clip(values, node.act_args[0], node.act_args[1])
    elif node.act == "leaky":
        values = np.where(values < 0, values * np.float32(node.act_args[0]), values)
    return np.asarray(values).astype(np.float32, copy=False)


def evaluate_node_f32(node: XNode, parameters: Parameters | None, inputs: Sequence[Array]) -> Array:
    """Return the tensor of one accelerator node in f32. parameters: f32; None for kinds without parameters."""
    if node.kind in CONVOLUTIONS:
        assert parameters is not None
        values = windows.convolve(node, inputs[0], parameters.weights) + parameters.bias
    elif node.kind == "avg_pool":
        values = windows.window_sums(node, inputs[0]) / windows.window_counts(node, inputs[0].shape)[..., None]
    elif node.kind == "max_pool":
        values = windows.window_greatest(node, inputs[0])
    elif node.kind == "eltwise":
        values = inputs[0] if node.op == "copy" else _ELTWISE[node.op](*inputs)
    elif node.kind == "concat":
        values = np.concatenate(inputs, axis=-1)
    else:
        values = windows.move_elements(node, inputs[0])
    return activate_f32(node, values)


def evaluate_f32(graph: XGraph, images: Mapping[str, Array]) -> dict[str, Array]:
    """Return every tensor of an unquantised graph by name. images: f32, as `arrange_inputs` returns them."""
    values = dict[str, Array]()
    for node in graph.nodes:
        inputs = [values[name] for name in node.inputs]
        if node.kind == "input":
            values[node.name] = images[node.name]
        elif node.kind == "host":
            host = graph.hosts[node.name]
            shaped = [x.reshape(host.types[name].shape) for name, x in zip(host.inputs, inputs, strict=True)]
            (values[node.name],) = run_graph(host, *shaped)
        else:
            values[node.name] = evaluate_node_f32(node, graph.parameters.get(node.name), inputs)
    return values
