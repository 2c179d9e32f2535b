"""Check that an XGraph obeys the rules that fixed_point and code generation rely on."""

import re
from collections.abc import Sequence

import numpy as np

from mavcg.accelerators.fixed_point import MOST_SHIFT
from mavcg.accelerators.xgraph import (
    ACTS,
    CONVOLUTIONS,
    ELTWISE_OPS,
    KINDS,
    POOLS,
    XGraph,
    XNode,
    refuse_node,
)

Shape = tuple[int, ...]
# Limits of radix positions. Shifts then fit 7 bits with a sign, and aligned sums 32 bits.
LEAST_RADIX, MOST_RADIX = -16, 24
LEAST_SHIFT = -16
MOST_ALIGNMENT = 15
MOST_MULTIPLIER = (1 << 16) - 1
MOST_LENGTH = 1 << 20  # maximum length of a dimension
MOST_WINDOW = 1 << 16  # maximum positions of a pool's window, so that its sum times a reciprocal stays below 2^40
NAME = re.compile(r"[A-Za-z0-9_.:/$@+-]+")


def check_xgraph(graph: XGraph) -> None:
    """Check names, order, shapes, parameters and the limits of radix positions.

    Raises: MavcgError naming the node, the value and the limit.
    """
    seen: dict[str, XNode] = {}
    for node in graph.nodes:
        missing = [name for name in node.inputs if name not in seen]
        if missing:
            raise refuse_node(
                graph, node, f"reads {missing[0]}, which is not an earlier node; list nodes in execution order"
            )
        if node.name in seen:
            raise refuse_node(graph, node, "a second node of this name; give each node its own name")
        _check_node(graph, node, [seen[name] for name in node.inputs])
        seen[node.name] = node
    for name in graph.outputs:
        if name not in seen:
            raise refuse_node(graph, graph.nodes[-1], f"the graph's output {name} is not a node of the graph")


def _check_node(graph: XGraph, node: XNode, inputs: Sequence[XNode]) -> None:
    if node.kind not in KINDS or not NAME.fullmatch(node.name):
        raise refuse_node(
            graph,
            node,
            f"unknown kind or invalid name; kinds are {', '.join(KINDS)}; names are letters, digits and _.:/$@+-",
        )
    if node.kind == "host":
        if node.name not in graph.hosts:
            raise refuse_node(graph, node, "has no graph for the CPU; give one in hosts")
        return
    counts = {"input": 0, "eltwise": 1 if node.op == "copy" else 2, "concat": len(inputs) or 1}
    if len(inputs) != counts.get(node.kind, 1):
        raise refuse_node(graph, node, f"has {len(inputs)} inputs where {counts.get(node.kind, 1)} are needed")
    for shape in (node.shape, *(i.shape for i in inputs)):
        if len(shape) != 4 or not all(1 <= length <= MOST_LENGTH for length in shape):
            raise refuse_node(graph, node, f"{shape} is not a shape N, H, W, C of 1 to {MOST_LENGTH} each")
    small = (*node.kernel, *node.stride, *node.dilation, *node.factor, node.groups)
    if min(small) < 1 or min(*node.pads, *node.output_pads, *node.count_pads) < 0:
        raise refuse_node(
            graph, node, "kernel, stride, dilation, factor and groups must be at least 1, pads at least 0"
        )
    if node.act not in ACTS or len(node.act_args) != {"clip": 2, "leaky": 1}.get(node.act, 0):
        raise refuse_node(
            graph,
            node,
            f"act {node.act!r} with {len(node.act_args)} arguments; acts are {ACTS}; clip takes 2, leaky 1",
        )
    if node.act == "leaky" and not 0 <= node.act_args[0] < 1:
        raise refuse_node(graph, node, f"leaky with slope {node.act_args[0]}; it must be at least 0 and below 1")
    if node.kind != "input":
        expected = result_shape(graph, node, [i.shape for i in inputs])
        if node.shape != expected:
            raise refuse_node(graph, node, f"shape {node.shape} where its inputs give {expected}")
    if node.kind in CONVOLUTIONS:
        _check_parameters(graph, node, inputs[0])
    if node.radix is not None:
        _check_radices(graph, node, inputs)


def result_shape(graph: XGraph, node: XNode, shapes: Sequence[Shape]) -> Shape:
    """Return the shape of a node's tensor, given the shapes of its inputs.

    Raises: MavcgError if the inputs' shapes do not fit the node.
    """
    x = shapes[0]
    if node.kind in ("conv", "depthwise", *POOLS):
        if node.kind in POOLS and node.kernel[0] * node.kernel[1] > MOST_WINDOW:
            raise refuse_node(graph, node, f"a window of {node.kernel}; at most {MOST_WINDOW} positions")
        channels = x[3] if node.kind in POOLS else node.channels
        return (x[0], *(_windows(graph, node, axis, x[1 + axis]) for axis in (0, 1)), channels)
    if node.kind == "deconv":
        return (x[0], *(_spread(graph, node, axis, x[1 + axis]) for axis in (0, 1)), node.channels)
    if node.kind == "dense":
        return (x[0], 1, 1, node.channels)
    if node.kind == "eltwise":
        if node.op not in ELTWISE_OPS or any(shape != x for shape in shapes):
            raise refuse_node(
                graph, node, f"{node.op} of {list(shapes)}; ops are {', '.join(ELTWISE_OPS)}, of one shape"
            )
        return x
    if node.kind == "concat":
        if any(shape[:3] != x[:3] for shape in shapes):
            raise refuse_node(graph, node, f"joins {list(shapes)}, which differ in more than channels")
        return (*x[:3], sum(shape[3] for shape in shapes))
    rows, columns = node.factor
    if node.kind == "upsample":
        return (x[0], x[1] * rows, x[2] * columns, x[3])
    if x[1] % rows or x[2] % columns:
        raise refuse_node(graph, node, f"blocks of {node.factor} do not divide rows and columns of {x}")
    return (x[0], x[1] // rows, x[2] // columns, x[3] * rows * columns)


def _windows(graph: XGraph, node: XNode, axis: int, length: int) -> int:
    span = node.dilation[axis] * (node.kernel[axis] - 1) + 1
    room = length + node.pads[axis] + node.pads[axis + 2] - span
    if room < 0:
        raise refuse_node(graph, node, f"a window of {span} does not fit into {length} with pads {node.pads}")
    if node.kind in POOLS and max(node.pads[axis], node.pads[axis + 2]) >= span:
        raise refuse_node(
            graph, node, f"pads {node.pads} contain a whole window of {span}; make them smaller than the window"
        )
    return room // node.stride[axis] + 1


def _spread(graph: XGraph, node: XNode, axis: int, length: int) -> int:
    span = node.dilation[axis] * (node.kernel[axis] - 1) + 1
    made = (length - 1) * node.stride[axis] + span + node.output_pads[axis] - node.pads[axis] - node.pads[axis + 2]
    if made < 1:
        raise refuse_node(graph, node, f"pads {node.pads} leave no element of the result; make them smaller")
    return made


def _check_parameters(graph: XGraph, node: XNode, x: XNode) -> None:
    if node.name not in graph.parameters:
        raise refuse_node(graph, node, "has no weights")
    parameters = graph.parameters[node.name]
    depth = x.channels // node.groups
    if node.groups > 1 and (x.channels % node.groups or node.channels % node.groups or node.kind == "dense"):
        raise refuse_node(
            graph, node, f"{node.groups} groups do not divide {x.channels} input and {node.channels} output channels"
        )
    if (node.kind == "depthwise") != (node.kind != "deconv" and depth == 1 and node.groups > 1) and x.channels > 1:
        raise refuse_node(graph, node, f"{node.groups} groups of {x.channels} channels do not suit kind {node.kind}")
    expected = (node.channels, *node.kernel, 1 if node.kind == "depthwise" else depth)
    if node.kind == "dense" and node.kernel != x.shape[1:3]:
        raise refuse_node(graph, node, f"kernel {node.kernel} where the input's rows and columns are {x.shape[1:3]}")
    if parameters.weights.shape != expected or parameters.bias.shape != (node.channels,):
        given = f"weights {parameters.weights.shape} and bias {parameters.bias.shape}"
        raise refuse_node(graph, node, f"{given} where {expected} and {(node.channels,)} are needed")
    if node.radix is not None:
        if parameters.weights.dtype != np.int8 or parameters.bias.dtype != np.int32:
            raise refuse_node(graph, node, "has a radix position, but its weights are not int8 with an int32 bias")
        if len(node.weight_radix) not in (1, node.channels):
            raise refuse_node(
                graph, node, f"{len(node.weight_radix)} radix positions of weights; give 1 or {node.channels}"
            )
        if len(node.multipliers) not in (0, node.channels) or not all(
            0 < m <= MOST_MULTIPLIER for m in node.multipliers
        ):
            raise refuse_node(
                graph, node, f"multipliers {node.multipliers[:4]}..; give 0 or {node.channels}, 1 to {MOST_MULTIPLIER}"
            )
        if len(node.bias_steps) not in (0, node.channels):
            raise refuse_node(graph, node, f"{len(node.bias_steps)} steps of biases; give 0 or {node.channels}")


def _check_radices(graph: XGraph, node: XNode, inputs: Sequence[XNode]) -> None:
    radices = [i.radix for i in inputs if i.radix is not None]
    shifts = () if node.scale is not None else node.weight_radix  # those of files' scales are checked as shifts
    own = [r for r in (node.radix, *shifts, *radices) if r is not None]
    if len(radices) != len(inputs):
        raise refuse_node(graph, node, "has a radix position, but one of its inputs has none")
    if any(not LEAST_RADIX <= r <= MOST_RADIX for r in own):
        raise refuse_node(graph, node, f"radix positions {own}; each must be {LEAST_RADIX} to {MOST_RADIX}")
    if node.kind == "input":
        return
    if node.kind not in (*CONVOLUTIONS, "avg_pool", "eltwise") and any(
        (i.scale, i.zero) != (node.scale, node.zero) for i in inputs
    ):
        raise refuse_node(graph, node, "moves elements of another scale or zero point; put a copy between them")
    if node.kind == "eltwise" and len(node.multipliers) not in (0, len(inputs)):
        raise refuse_node(graph, node, f"{len(node.multipliers)} multipliers of {len(inputs)} operands")
    if node.kind == "deconv" and inputs[0].zero:
        raise refuse_node(graph, node, "reads a tensor with a zero point, which its positions without an input lack")
    if node.kind == "eltwise" and node.op not in ("mul", "copy") and max(radices) - min(radices) > MOST_ALIGNMENT:
        raise refuse_node(graph, node, f"inputs of radix {radices}; they may differ by at most {MOST_ALIGNMENT}")
    for low, high in shift_limits(node, radices):
        least = least_shift(node)
        if not least <= low <= high <= MOST_SHIFT:
            raise refuse_node(graph, node, f"shifts of {low} to {high}; they must be {least} to {MOST_SHIFT}")


def least_shift(node: XNode) -> int:
    """Return the least shift of a node: sums times a multiplier are not shifted left, so that they keep to 64 bits."""
    return 0 if node.multipliers else LEAST_SHIFT


def shift_limits(node: XNode, radices: Sequence[int]) -> list[tuple[int, int]]:
    """Return the (smallest, largest) shift for each input of a quantised node.

    For avg_pool, the shift by the reciprocal's radix position is not included.
    """
    assert node.radix is not None
    if node.kind == "concat":
        return [(r - node.radix, r - node.radix) for r in radices]
    if node.weight_radix:
        base = radices[0] - node.radix
        return [(base + min(node.weight_radix), base + max(node.weight_radix))]
    total = sum(radices) if node.op == "mul" else max(radices)
    return [(total - node.radix, total - node.radix)]
