"""Load a model's file, graph or built-in network as an XGraph: coarse operations, and host nodes for the CPU.

Graph passes have already folded batch norms, biases and pads into convolutions (intrinsic fusion), and activations
(point-wise fusion). Here each node becomes a coarse operation if the accelerator has one; any other node becomes a host
node with a graph of its own. Reshapes that keep the order of elements are removed.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from mavcg.accelerators.fake_quantisation import without_fake_quantisation
from mavcg.accelerators.networks import NAMES, network
from mavcg.accelerators.operators.eight_bit import add_eight_bit
from mavcg.accelerators.operators.elementwise import ELTWISE, UNIT_ACTS, add_eltwise, add_unit_act
from mavcg.accelerators.operators.moves import (
    add_concat,
    add_reorganise,
    add_reshape,
    add_upsample,
    find_shuffles,
    find_space_to_depth,
)
from mavcg.accelerators.operators.products import add_conv, add_deconv, add_dense, add_mean, add_pool
from mavcg.accelerators.operators.scales import LOWERED_ACTS, add_channel_pad, add_prelu, add_shuffle, add_single_act
from mavcg.accelerators.operators.xgraph_maker import XGraphMaker, add_host
from mavcg.accelerators.shapes import NAME, check_xgraph
from mavcg.accelerators.target import VTA, IsaTarget
from mavcg.accelerators.tensor_formats import fold_eight_bit_pads, tensor_formats, transposes_outside
from mavcg.accelerators.xgraph import ModelOutput, XGraph, XNode
from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.importers.load import import_model, is_model
from mavcg.passes.graph.activations import recognise_activations
from mavcg.passes.graph.float_widths import spell_out_double, widen_half
from mavcg.passes.graph.fold import fold_constants
from mavcg.passes.graph.intrinsic import fold_scale_after, fold_scale_before, merge_scales
from mavcg.passes.graph.pads import fold_pads
from mavcg.passes.graph.pointwise import fuse_pointwise
from mavcg.passes.graph.prune import prune
from mavcg.passes.graph.quantized import eight_bit
from mavcg.passes.graph.states import without_counts, without_states
from mavcg.passes.graph.transposes import cancel_transposes

PASSES = (
    without_fake_quantisation,
    prune,
    cancel_transposes,
    prune,
    widen_half,
    spell_out_double,
    fold_constants,
    recognise_activations,
    fold_pads,
    merge_scales,
    fold_scale_after,
    fold_scale_before,
    merge_scales,
    fuse_pointwise,
    prune,
)


# Passes that keep the 8-bit numbers of a file, up to operators on them.
FILE_SCALE_PASSES = (
    prune,
    cancel_transposes,
    prune,
    widen_half,
    spell_out_double,
    eight_bit,
    fold_constants,
    recognise_activations,
    fold_pads,
    fold_eight_bit_pads,
    transposes_outside,
    prune,
)


def xgraph_of(graph: Graph, dense_on_host: bool = True, file_scales: bool = False) -> XGraph:
    """Return the coarse operations of a network, checked: in f32, or with the scales of its file.

    dense_on_host: True to leave fully connected layers to the CPU, as the paper does. file_scales: True to keep the
    scales, zero points and 8-bit numbers of the graph.
    Raises: MavcgError for inputs that are not f32, and for a graph without an operation that the accelerator has.
    """
    model = graph
    for rewrite in FILE_SCALE_PASSES if file_scales else PASSES:
        graph = rewrite(graph)
    maker = XGraphMaker(graph, dense_on_host, formats=tensor_formats(graph, model) if file_scales else {})
    for name in graph.inputs:
        if graph.types[name].dtype != "f32" and name not in maker.formats:
            raise MavcgError(f"graph {graph.name}: input {name} is {graph.types[name]}; give a model with f32 inputs")
        _add_input(maker, name)
    blocks, shuffles = ({}, {}) if file_scales else (find_space_to_depth(graph), find_shuffles(graph))
    inner = {name for _, _, inside in blocks.values() for name in inside}
    for node in graph.nodes:
        if node.output in maker.now or node.output in inner:
            continue  # a transpose of an input, or a part of a move
        if _is_output_only(maker, node):
            continue  # the host gives out the map in this order
        if file_scales:
            add_eight_bit(maker, node)
        elif node.output in blocks:
            add_reorganise(maker, node, *blocks[node.output])
        elif node.output in shuffles and maker.image(shuffles[node.output][0]) is not None:
            add_shuffle(maker, node, *shuffles[node.output])  # nothing reads the transpose any more
        elif not _MAKERS.get(node.op, _is_refused)(maker, node):
            add_host(maker, node)
    outputs = tuple(map(partial(_output, maker, model), model.outputs, graph.outputs))
    plain = "".join(c if NAME.fullmatch(c) else "_" for c in graph.name) or "net"
    names = tuple(dict.fromkeys(output.tensor for output in outputs))
    made = XGraph(plain, tuple(maker.nodes), names, maker.parameters, maker.hosts, outputs)
    made = _without_unread(made)
    check_xgraph(made)
    if not any(node.on_accelerator for node in made.nodes):
        which = " on 8-bit numbers of the file" if file_scales else ""
        raise MavcgError(
            f"graph {graph.name}: no operator{which} that the accelerator computes, such as conv2d, pools and add"
        )
    return made


def _add_input(maker: XGraphMaker, name: str) -> None:
    """Add an input node.

    An input that is only read by a transpose from N, C, H, W gets the order N, H, W, C and op "nchw".
    """
    graph = maker.graph
    readers = graph.readers().get(name, ())
    if len(readers) == 1 and readers[0].op == "transpose" and readers[0].attr("perm") == (0, 2, 3, 1):
        made = maker.add(XNode(name, "input", (), graph.types[readers[0].output].shape, op="nchw"), readers[0].output)
        maker.now[name] = made
    else:
        maker.add(XNode(name, "input", (), _four(graph.types[name].shape)), name)


def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape as N, H, W, C: insert ones before the last dimension, or merge surplus dimensions into H."""
    if len(shape) == 4:
        return shape
    if len(shape) < 4:
        return (*shape[:1], *(1,) * (4 - len(shape)), *shape[1:]) if shape else (1, 1, 1, 1)
    return (shape[0], int(np.prod(shape[1:-2])), shape[-2], shape[-1])


def _is_refused(maker: XGraphMaker, node: Node) -> bool:
    return False


def _output(maker: XGraphMaker, model: Graph, name: str, now: str) -> ModelOutput:
    """Return an output of the model. name, now: its names before and after the passes."""
    if now not in maker.now and (moved := _map_in_another_order(maker, now)) is not None:
        return ModelOutput(name, moved, tuple(model.shape(name)), nchw=True)
    if now not in maker.now:
        raise MavcgError(f"graph {maker.graph.name}: output {name} is a constant, so nothing would be computed")
    tensor = maker.now[now]
    # An input that the device has as N, H, W, C, returned as it came.
    nchw = now in maker.graph.inputs and any(node.name == tensor and node.op == "nchw" for node in maker.nodes)
    return ModelOutput(name, tensor, tuple(model.shape(name)), nchw)


def _is_output_only(maker: XGraphMaker, node: Node) -> bool:
    """Return True for a feature map as N, C, H, W that is an output of the graph and that no node reads."""
    graph = maker.graph
    if node.output not in graph.outputs or graph.readers().get(node.output):
        return False
    return _map_in_another_order(maker, node.output) is not None


def _map_in_another_order(maker: XGraphMaker, output: str) -> str | None:
    """Return the accelerator's feature map that a tensor is the transpose of, to N, C, H, W; None for other tensors."""
    node = maker.graph.producers().get(output)
    if node is None or node.op != "transpose" or node.attr("perm") != (0, 3, 1, 2):
        return None
    name = maker.image(node.inputs[0])
    return name if any(one.name == name and one.on_accelerator for one in maker.nodes) else None


def _without_unread(graph: XGraph) -> XGraph:
    """Return the graph without the nodes that no output depends on; inputs stay."""
    needed = set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.name in needed:
            needed.update(node.inputs)
    nodes = tuple(node for node in graph.nodes if node.name in needed or node.kind == "input")
    return replace(
        graph,
        nodes=nodes,
        parameters={k: v for k, v in graph.parameters.items() if k in needed},
        hosts={k: v for k, v in graph.hosts.items() if k in needed},
    )


_MAKERS: Mapping[str, Callable[[XGraphMaker, Node], bool]] = {
    "conv2d": add_conv,
    "conv_transpose2d": add_deconv,
    "matmul": add_dense,
    "max_pool2d": add_pool,
    "avg_pool2d": add_pool,
    "reduce_mean": add_mean,
    **dict.fromkeys(ELTWISE, add_eltwise),
    **dict.fromkeys(UNIT_ACTS, add_unit_act),
    **dict.fromkeys(LOWERED_ACTS, add_single_act),
    "prelu": add_prelu,
    "pad": add_channel_pad,
    "concat": add_concat,
    "reshape": add_reshape,
    "resample": add_upsample,
}


def load_xgraph(
    model: str,
    target: IsaTarget,
    shapes: Mapping[str, tuple[int, ...]],
    weights: Path | None = None,
    file_scales: bool = False,
) -> XGraph:
    """Return the f32 XGraph of an .onnx, .tflite or .prototxt file, or of a built-in network.

    shapes: shapes of inputs whose dimensions a file leaves free. weights: weights of a .prototxt; None for the
    .caffemodel beside it. file_scales: True for an XGraph that keeps the scales of an 8-bit file. Raises: MavcgError
    for a name that is neither, a file that cannot be read, shapes of a built-in network, and a target or a network
    without such scales.
    """
    on_host = target.dense == "cpu"
    if file_scales and (model in NAMES or target.isa == VTA):
        f32 = f"{model} is a built-in network in f32; give an 8-bit file"
        raise MavcgError(f"--file-scales: {f32 if model in NAMES else 'VTA has shifts alone; leave it out'}")
    if model in NAMES:
        if shapes:
            raise MavcgError(f"--shape: {model} is a built-in network with a fixed shape; give a model's file")
        if weights is not None:
            raise MavcgError(f"--weights {weights}: {model} is a built-in network, which has weights; give a .prototxt")
        return xgraph_of(network(model), on_host)
    if not is_model(Path(model)) and not Path(model).exists():
        raise MavcgError(
            f"{model}: neither a .onnx, .tflite or .prototxt file nor a built-in network; known: {', '.join(NAMES)}"
        )
    why_not = f"{model}: a program for an accelerator has no memory between runs"
    graph = without_states(import_model(Path(model), shapes, weights), why_not)
    whole = without_counts(graph, f"{model}: a program for an accelerator has outputs of fixed shapes")
    return xgraph_of(whole, on_host, file_scales)
