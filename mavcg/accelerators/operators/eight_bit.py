"""Convert operators on 8-bit numbers to coarse operations that keep the file's scales and zero points.

An operator that the accelerator does not have becomes a node of the CPU, which reads and makes the real numbers of its
8-bit tensors.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mavcg.accelerators.fixed_point import multiplier_of, shift_round, wrap32
from mavcg.accelerators.operators.elementwise import MOST_FACTOR
from mavcg.accelerators.operators.moves import add_concat, add_reshape
from mavcg.accelerators.operators.products import add_pool
from mavcg.accelerators.operators.xgraph_maker import XGraphMaker, add_host, in_format
from mavcg.accelerators.shapes import MOST_WINDOW
from mavcg.accelerators.tensor_formats import TensorFormat, stated_format
from mavcg.accelerators.xgraph import Parameters, XNode
from mavcg.graph import Array, Graph, Node, TensorType
from mavcg.graph.ops import make_node
from mavcg.graph.ops.eight_bit import limits

_MOST_FACTOR = 1 << 15  # of a result over a sum: shifts to the right only
_MOST_RATIO, _LEAST_RATIO = 1 << 10, 2.0**-20  # of averages, whose shift has 7 bits with a sign


def add_eight_bit(maker: XGraphMaker, node: Node) -> None:
    """Add a node of a graph with operators on 8-bit numbers, on the accelerator or the CPU."""
    made = _MAKERS.get(node.op)
    if made is None or not made(maker, node):
        formats = maker.formats
        eight_bit = node.output in formats or any(name in formats for name in node.inputs)
        (_add_integer_host if eight_bit else add_host)(maker, node)


def _limits(node: Node, to: TensorFormat) -> tuple[str, tuple[float, ...]]:
    """Return the activation that has an operator's bounds."""
    low, high = int(node.attr("lo")), int(node.attr("hi"))
    if (low, high) == limits(to.dtype):
        return "", ()
    return "clip", (to.real(low), to.real(high))


def _factors(real: Array) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return multipliers and shifts of factors; None if one is too large or no number above 0."""
    factors = np.asarray(real, np.float64).reshape(-1)
    if not (np.isfinite(factors).all() and (factors > 0).all() and (factors < _MOST_FACTOR).all()):
        return None
    pairs = [multiplier_of(float(factor)) for factor in factors]
    return tuple(m for m, _ in pairs), tuple(s for _, s in pairs)


def _product(
    maker: XGraphMaker, node: Node, x: str, weights: Array, shape: tuple[int, ...]
) -> tuple[XNode, Parameters] | None:
    """Return a product with constant weights [out_ch, ..], of kind dense, and its parameters; None if it has others.

    What the input's zero point adds is in the bias.
    """
    graph, formats = maker.graph, maker.formats
    bias, real = (graph.constants.get(name) for name in node.inputs[2:4])
    given, to = formats.get(node.inputs[0]), formats[node.output]
    if bias is None or real is None or given is None or any(node.inputs[4:]):
        return None
    factors = _factors(real)
    if factors is None or node.attr("x_zero") != given.zero or node.attr("out_zero") != to.zero:
        return None
    act, args = _limits(node, to)
    added = weights.astype(np.int64).reshape(len(weights), -1).sum(axis=1) * given.int8_zero
    made = XNode(
        node.origin or node.output,
        "dense",
        (x,),
        shape,
        act=act,
        act_args=args,
        weight_radix=factors[1],
        multipliers=factors[0],
        origin=node.origin,
    )
    return made, Parameters(weights, wrap32(bias.astype(np.int64) - added).astype(np.int32))


def _add_conv(maker: XGraphMaker, node: Node) -> bool:
    x, w = maker.image(node.inputs[0]), maker.graph.constants.get(node.inputs[1])
    if x is None or w is None or w.dtype != np.int8 or node.attr("own_scale"):
        return False
    made = _product(maker, node, x, w, maker.graph.types[node.output].shape)
    if made is None:
        return False
    in_ch, groups = maker.shapes[x][3], node.attr("groups")
    conv = replace(
        made[0],
        kind="depthwise" if groups == in_ch and in_ch > 1 else "conv",
        kernel=w.shape[1:3],
        stride=node.attr("stride"),
        dilation=node.attr("dilation"),
        pads=node.attr("pads"),
        groups=groups,
    )
    maker.add(conv, node.output, made[1])
    return True


def _add_dense(maker: XGraphMaker, node: Node) -> bool:
    x, w = maker.now.get(node.inputs[0]), maker.graph.constants.get(node.inputs[1])
    if maker.dense_on_host or x is None or w is None or w.dtype != np.int8 or w.ndim != 2:
        return False
    shape, out = maker.shapes[x], maker.graph.types[node.output].shape
    rows = w if node.attr("transpose_b") else w.T
    if len(shape) != 4 or int(np.prod(shape[1:])) != rows.shape[1] or int(np.prod(out[:-1])) != shape[0]:
        return False
    weights = np.ascontiguousarray(rows).reshape(rows.shape[0], *shape[1:])
    made = _product(maker, node, x, weights, (shape[0], 1, 1, rows.shape[0]))
    if made is None:
        return False
    maker.add(replace(made[0], kernel=shape[1:3]), node.output, made[1])
    return True


def _add_pair(maker: XGraphMaker, node: Node) -> bool:
    """Add a sum, difference or product of two maps, or of a map and a value for each channel."""
    names = _same_shapes(maker, node)
    if names is None:
        return False
    to = maker.formats[node.output]
    if node.op == "qmul":
        op, factors = "mul", _factors(np.asarray(node.attr("multiplier")))
        multipliers, shift = ((factors[0][0], 1), factors[1][0]) if factors else ((0, 0), 0)
    else:
        scales = np.asarray([node.attr("a_scale"), node.attr("b_scale")], np.float64)
        op, factors = ("sub" if scales[1] < 0 else "add"), _factors(np.abs(scales).max())
        shift = factors[1][0] if factors else 0
        first, second = (max(1, round(float(np.ldexp(abs(scale), shift)))) for scale in scales)
        multipliers = (first, second)
        if scales[0] <= 0 or max(multipliers) >= 1 << 16:
            return False
    if factors is None:
        return False
    act, args = _limits(node, to)
    made = XNode(
        node.origin or node.output,
        "eltwise",
        names,
        maker.graph.types[node.output].shape,
        op=op,
        act=act,
        act_args=args,
        multipliers=multipliers,
        weight_radix=(shift,),
        origin=node.origin,
    )
    maker.add(made, node.output)
    return True


def _same_shapes(maker: XGraphMaker, node: Node) -> tuple[str, ...] | None:
    """Return the operands of an operation as maps of the result's shape; None for others than maps.

    A value for each channel is repeated for each pixel.
    """
    shape, names = maker.graph.types[node.output].shape, list[str]()
    for tensor in node.inputs[:2]:
        name = maker.image(tensor)
        if name is None:
            return None
        if maker.shapes[name] != shape:
            if maker.shapes[name] != (shape[0], 1, 1, shape[3]) or max(shape[1:3]) > MOST_FACTOR:
                return None
            stem = f"{node.origin or node.output}.repeat"
            repeated = XNode(stem, "upsample", (name,), shape, factor=(shape[1], shape[2]), origin=node.origin)
            name = maker.add(in_format(repeated, maker.formats[tensor]), "")
        names.append(name)
    return tuple(names)


def _add_average(maker: XGraphMaker, node: Node) -> bool:
    x, ratio, to = maker.image(node.inputs[0]), float(node.attr("multiplier")), maker.formats[node.output]
    if x is None or not _LEAST_RATIO < ratio < _MOST_RATIO:
        return False
    shape = maker.shapes[x]
    act, args = _limits(node, to)
    made = XNode(
        node.origin or node.output,
        "avg_pool",
        (x,),
        (shape[0], 1, 1, shape[3]),
        (shape[1], shape[2]),
        act=act,
        act_args=args,
        ratio=ratio,
        origin=node.origin,
    )
    if node.op == "qavg_pool2d":
        kernel, dilation, pads = node.attr("kernel"), node.attr("dilation"), node.attr("pads")
        if any(pads[i] >= dilation[i % 2] * (kernel[i % 2] - 1) + 1 for i in range(4)):
            return False
        window = {"kernel": kernel, "stride": node.attr("stride"), "dilation": dilation, "pads": pads}
        shape = maker.graph.types[node.output].shape
        made = replace(made, shape=shape, count_pads=node.attr("count_pads"), **window)
    elif node.attr("axes") != (1, 2):
        return False
    if made.kernel[0] * made.kernel[1] > MOST_WINDOW:
        return False
    maker.add(made, node.output)
    return True


def _add_copy(maker: XGraphMaker, node: Node) -> bool:
    """Add a clip, or a table that only changes scale and zero point."""
    x, given, to = maker.image(node.inputs[0]), maker.formats.get(node.inputs[0]), maker.formats.get(node.output)
    if x is None or given is None or to is None:
        return False
    made = XNode(node.origin or node.output, "eltwise", (x,), maker.shapes[x], op="copy", origin=node.origin)
    if node.op == "clip":
        act, args = _limits(node, to)
        maker.add(replace(made, act=act, act_args=args), node.output)
        return True
    table = maker.graph.constants.get(node.inputs[1])
    factors = None if table is None else _table_factors(table.astype(np.int64), given, to)
    if table is None or factors is None:
        return False
    low, high = int(table.min()), int(table.max())
    copy = replace(made, act="clip", act_args=(to.real(low), to.real(high)))
    maker.add(replace(copy, multipliers=factors[0], weight_radix=factors[1]), node.output)
    return True


def _table_factors(
    table: Array, given: TensorFormat, to: TensorFormat
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return multiplier and shift that give a table's entries, or a step less or more; None for other functions.

    Each entry between the least and the greatest bounds the factor from both sides.
    """
    low, high = limits(given.dtype)
    steps, results = np.arange(low, high + 1) - given.zero, table - to.zero
    inner = (table > table.min()) & (table < table.max()) & (steps != 0)
    if not inner.any():
        return None
    ends = np.stack([(results[inner] + half) / steps[inner] for half in (-0.5, 0.5)])
    least, most = ends.min(axis=0).max(), ends.max(axis=0).min()
    factors = _factors(np.asarray((least + most) / 2)) if least <= most else None
    if factors is None:
        return None
    scaled = shift_round(steps * factors[0][0], factors[1][0], "half_up") + to.zero
    return factors if np.abs(np.clip(scaled, table.min(), table.max()) - table).max() <= 1 else None


def _add_move(maker: XGraphMaker, node: Node) -> bool:
    """Add a move of 8-bit numbers; those of real numbers are the CPU's."""
    return node.output in maker.formats and _MOVES[node.op](maker, node)


def _add_view(maker: XGraphMaker, node: Node) -> bool:
    """Add nothing for a dequantize: the tensor's real numbers are its own."""
    given = maker.formats.get(node.inputs[0])
    if given is None or stated_format(maker.graph, node) != (given.scale, given.zero):
        return False
    maker.now[node.output] = maker.now[node.inputs[0]]
    return True


def _add_quantize(maker: XGraphMaker, node: Node) -> bool:
    """Give the input of a quantize its format, if nothing else reads that and it has none."""
    x, to = node.inputs[0], maker.formats[node.output]
    if stated_format(maker.graph, node) != (to.scale, to.zero) or x not in maker.now:
        return False
    at = next(i for i, one in enumerate(maker.nodes) if one.name == maker.now[x])
    shared = len(maker.graph.readers()[x]) > 1 or x in maker.graph.outputs
    if maker.nodes[at].radix is not None or shared:
        return False
    maker.nodes[at] = in_format(maker.nodes[at], to)
    maker.now[node.output] = maker.now[x]
    return True


def _add_integer_host(maker: XGraphMaker, node: Node) -> None:
    """Add a node of the CPU that quantizes the real numbers of its inputs, and dequantizes its result."""
    graph, formats = maker.graph, maker.formats
    read = tuple(dict.fromkeys(n for n in node.inputs if n and n not in graph.constants))
    constants = {n: graph.constants[n] for n in node.inputs if n in graph.constants}
    types = {n: graph.types[n] for n in (*constants, *node.inputs, *node.outputs) if n}
    nodes, inputs = list[Node](), list[str]()

    def convert(op: str, x: str, made: str, format: TensorFormat, **attrs: str) -> None:
        names = (f"{made}/scale", f"{made}/zero")
        dtype = np.int8 if format.dtype == "i8" else np.uint8
        constants.update({names[0]: np.asarray(format.scale, np.float32), names[1]: np.asarray(format.zero, dtype)})
        types.update({names[0]: TensorType("f32", ()), names[1]: TensorType(format.dtype, ())})
        nodes.append(make_node(op, (x, *names), (made,), node.origin, **attrs))

    for name in read:
        real = f"{name}/real" if name in formats else name
        inputs.append(real)
        if name in formats:
            types[real] = TensorType("f32", graph.types[name].shape)
            convert("quantize", real, name, formats[name], to=formats[name].dtype)
    nodes.append(node)
    output = node.output
    if output in formats:
        output = f"{node.output}/real"
        types[output] = TensorType("f32", graph.types[node.output].shape)
        convert("dequantize", node.output, output, formats[node.output])
    host = Graph(node.op, tuple(inputs), (output,), tuple(nodes), types, constants)
    made = XNode(
        node.origin or node.output,
        "host",
        tuple(maker.now[n] for n in read),
        graph.types[node.output].shape,
        op=node.op,
        origin=node.origin,
    )
    maker.hosts[maker.add(made, node.output)] = host


_MOVES: Mapping[str, Callable[[XGraphMaker, Node], bool]] = {
    "max_pool2d": add_pool,
    "concat": add_concat,
    "reshape": add_reshape,
}
_MAKERS: Mapping[str, Callable[[XGraphMaker, Node], bool]] = {
    "qconv2d": _add_conv,
    "qmatmul": _add_dense,
    "qadd": _add_pair,
    "qmul": _add_pair,
    "qavg_pool2d": _add_average,
    "qmean": _add_average,
    "lookup": _add_copy,
    "clip": _add_copy,
    "dequantize": _add_view,
    "quantize": _add_quantize,
    **dict.fromkeys(_MOVES, _add_move),
}
