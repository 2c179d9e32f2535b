"""Make an XGraph of mavcg's graph: intrinsic and point-wise fusion, moves pruned, the rest to the CPU.

The graph passes have folded batch norms, biases and pads into convolutions before (intrinsic fusion), and activations
(point-wise fusion). Here each node becomes a coarse operation where the accelerator has one; all else becomes a host
node with a graph of its own. Reshapes that leave the order of elements as it is vanish.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from mavcg.accel.fake_quantisation import without_fake_quantisation
from mavcg.accel.shapes import MOST_WINDOW, NAME, check_xgraph
from mavcg.accel.xgraph import Parameters, XGraph, XNode
from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node, TensorType
from mavcg.passes.graph.activations import recognise_activations
from mavcg.passes.graph.float_widths import spell_out_double, widen_half
from mavcg.passes.graph.fold import fold_constants
from mavcg.passes.graph.intrinsic import fold_scale_after, fold_scale_before, merge_scales
from mavcg.passes.graph.pads import fold_pads
from mavcg.passes.graph.pointwise import fuse_pointwise
from mavcg.passes.graph.prune import prune
from mavcg.passes.graph.transposes import cancel_transposes

PASSES = (
    without_fake_quantisation, prune, cancel_transposes, prune, widen_half, spell_out_double, fold_constants,
    recognise_activations, fold_pads, merge_scales, fold_scale_after, fold_scale_before, merge_scales, fuse_pointwise,
    prune,
)  # fmt: skip
_ELTWISE = {"add": "add", "sub": "sub", "mul": "mul", "max": "max", "min": "min"}
_UNIT_ACTS = ("relu", "clip", "leaky_relu")


@dataclass
class _XGraphMaker:
    """The XGraph while it grows. now: the XGraph's tensor for each of the graph's; names: taken so far."""

    graph: Graph
    dense_on_host: bool
    nodes: list[XNode] = field(default_factory=list)
    parameters: dict[str, Parameters] = field(default_factory=dict)
    hosts: dict[str, Graph] = field(default_factory=dict)
    now: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def name(self, stem: str) -> str:
        """A free name made of the characters that names have."""
        plain = "".join(c if NAME.fullmatch(c) else "_" for c in stem) or "node"
        name, number = plain, 0
        while name in self.shapes:
            number += 1
            name = f"{plain}.{number}"
        return name

    def add(self, node: XNode, tensor: str, parameters: Parameters | None = None) -> str:
        """Append a node that makes `tensor` of the graph ("" for none)."""
        named = replace(node, name=self.name(node.name))
        self.nodes.append(named)
        self.shapes[named.name] = named.shape
        if parameters is not None:
            self.parameters[named.name] = parameters
        if tensor:
            self.now[tensor] = named.name
        return named.name

    def image(self, tensor: str) -> str | None:
        """The XGraph's node for a tensor that is a feature map there too; None for other ones."""
        name = self.now.get(tensor)
        return name if name is not None and self.shapes[name] == self.graph.types[tensor].shape else None

    def constant(self, tensor: str) -> Array | None:
        """The array of an f32 constant; None for others."""
        array = self.graph.constants.get(tensor)
        return array if array is not None and array.dtype == np.float32 else None


def xgraph_of(graph: Graph, dense_on_host: bool = True) -> XGraph:
    """The coarse operations of a network, in f32, checked.

    dense_on_host: fully connected layers go to the CPU, as in the paper. Raises: MavcgError for inputs that are no f32
    tensors, and for a graph without an operation that the accelerator has.
    """
    for one in PASSES:
        graph = one(graph)
    maker = _XGraphMaker(graph, dense_on_host)
    for name in graph.inputs:
        if graph.types[name].dtype != "f32":
            raise MavcgError(f"graph {graph.name}: input {name} is {graph.types[name]}; give a model of f32 inputs")
        _add_input(maker, name)
    blocks = _space_to_depth(graph)
    for node in graph.nodes:
        if node.output in maker.now:
            continue  # a transpose of an input
        if node.output in blocks:
            _add_reorganise(maker, node, *blocks[node.output])
        elif node.output not in {inner for _, _, inside in blocks.values() for inner in inside} and (
            not _MAKERS.get(node.op, _refused)(maker, node)
        ):
            _add_host(maker, node)
    outputs = tuple(_output(maker, name) for name in graph.outputs)
    plain = "".join(c if NAME.fullmatch(c) else "_" for c in graph.name) or "net"
    made = XGraph(plain, tuple(maker.nodes), outputs, maker.parameters, maker.hosts)
    made = _without_unread(made)
    check_xgraph(made)
    if not any(node.on_accelerator for node in made.nodes):
        raise MavcgError(f"graph {graph.name}: no operator that the accelerator has; there are conv2d, pools, add, ..")
    return made


def _add_input(maker: _XGraphMaker, name: str) -> None:
    """An input; one that is only read after a transpose from N, C, H, W is held as N, H, W, C, with op "nchw"."""
    graph = maker.graph
    readers = graph.readers().get(name, ())
    if len(readers) == 1 and readers[0].op == "transpose" and readers[0].attr("perm") == (0, 2, 3, 1):
        made = maker.add(XNode(name, "input", (), graph.types[readers[0].output].shape, op="nchw"), readers[0].output)
        maker.now[name] = made
    else:
        maker.add(XNode(name, "input", (), _four(graph.types[name].shape)), name)


def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape as N, H, W, C: ones before the last dimension; more than four are merged into H."""
    if len(shape) == 4:
        return shape
    if len(shape) < 4:
        return (*shape[:1], *(1,) * (4 - len(shape)), *shape[1:]) if shape else (1, 1, 1, 1)
    return (shape[0], int(np.prod(shape[1:-2])), shape[-2], shape[-1])


def _refused(maker: _XGraphMaker, node: Node) -> bool:
    return False


def _act(node: Node) -> tuple[str, tuple[float, ...]] | None:
    """A fused activation in the accelerator's terms; None for one that it does not have."""
    return _act_of(node.attr("act"), tuple(node.attr("act_args")))


def _act_of(act: str, args: tuple[float, ...]) -> tuple[str, tuple[float, ...]] | None:
    if act in ("", "relu"):
        return act, ()
    if act == "clip" and args[0] == 0 and args[1] == float("inf"):
        return "relu", ()
    if act == "clip" and np.isfinite(args).all() and args[0] <= args[1]:
        return "clip", args
    return ("leaky", args) if act == "leaky_relu" and 0 <= args[0] < 1 else None


def _finite(*arrays: Array) -> bool:
    return all(bool(np.isfinite(array).all()) for array in arrays)


def _add_conv(maker: _XGraphMaker, node: Node) -> bool:
    x, w = maker.image(node.inputs[0]), maker.constant(node.inputs[1])
    residual = node.inputs[3] if len(node.inputs) > 3 else ""
    second = maker.image(residual) if residual else ""
    act = _act(node)
    bias = _bias(maker, node, 0 if w is None else w.shape[0])
    if x is None or w is None or bias is None or second is None or not _finite(w, bias):
        return False
    in_ch, groups = maker.shapes[x][3], node.attr("groups")
    kind = "depthwise" if groups == in_ch and in_ch > 1 else "conv"
    inner = act if act is not None and not residual else ("", ())
    conv = XNode(
        node.origin or node.output, kind, (x,), maker.graph.types[node.output].shape, w.shape[1:3], node.attr("stride"),
        node.attr("dilation"), node.attr("pads"), groups=groups, act=inner[0], act_args=inner[1], origin=node.origin,
    )  # fmt: skip
    made = maker.add(conv, node.output, Parameters(w, bias))
    if residual:
        assert second is not None
        outer = act or ("", ())
        total = XNode(f"{conv.name}.add", "eltwise", (made, second), conv.shape, op="add", act=outer[0],
                      act_args=outer[1], origin=node.origin)  # fmt: skip
        maker.add(total, node.output)
    if act is None:
        _add_host_act(maker, node)
    return True


def _bias(maker: _XGraphMaker, node: Node, out_ch: int) -> Array | None:
    if len(node.inputs) < 3 or not node.inputs[2]:
        return np.zeros(out_ch, np.float32)
    return maker.constant(node.inputs[2])


def _add_deconv(maker: _XGraphMaker, node: Node) -> bool:
    x, w, act = maker.image(node.inputs[0]), maker.constant(node.inputs[1]), _act(node)
    bias = _bias(maker, node, 0 if w is None else w.shape[0])
    if x is None or w is None or bias is None or not _finite(w, bias):
        return False
    # Rows that no tap reaches hold the bias; the accelerator writes them as any other.
    inner = act or ("", ())
    deconv = XNode(
        node.origin or node.output, "deconv", (x,), maker.graph.types[node.output].shape, w.shape[1:3],
        node.attr("stride"), node.attr("dilation"), node.attr("pads"), node.attr("output_pads"),
        groups=node.attr("groups"), act=inner[0], act_args=inner[1], origin=node.origin,
    )  # fmt: skip
    maker.add(deconv, node.output, Parameters(w, bias))
    if act is None:
        _add_host_act(maker, node)
    return True


def _add_dense(maker: _XGraphMaker, node: Node) -> bool:
    """A product of a flattened map with constant weights."""
    x, w, act = maker.now.get(node.inputs[0]), maker.constant(node.inputs[1]), _act(node)
    if maker.dense_on_host or x is None or w is None or w.ndim != 2 or act is None:
        return False
    shape, out = maker.shapes[x], maker.graph.types[node.output].shape
    rows = w if node.attr("transpose_b") else w.T
    bias = _bias(maker, node, rows.shape[0])
    residual = len(node.inputs) > 3 and node.inputs[3]
    if residual or bias is None or len(shape) != 4 or int(np.prod(shape[1:])) != rows.shape[1] or not _finite(w, bias):
        return False
    if int(np.prod(out[:-1])) != shape[0]:
        return False
    dense = XNode(node.origin or node.output, "dense", (x,), (shape[0], 1, 1, rows.shape[0]), (shape[1], shape[2]),
                  act=act[0], act_args=act[1], origin=node.origin)  # fmt: skip
    weights = np.ascontiguousarray(rows).reshape(rows.shape[0], *shape[1:])
    maker.add(dense, node.output, Parameters(weights, bias))
    return True


def _add_pool(maker: _XGraphMaker, node: Node) -> bool:
    x = maker.image(node.inputs[0])
    kernel, dilation = node.attr("kernel"), node.attr("dilation")
    pads, spans = node.attr("pads"), [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    if x is None or kernel[0] * kernel[1] > MOST_WINDOW or any(pads[i] >= spans[i % 2] for i in range(4)):
        return False
    kind, counted = ("max_pool", (0,) * 4) if node.op == "max_pool2d" else ("avg_pool", node.attr("count_pads"))
    pool = XNode(node.origin or node.output, kind, (x,), maker.graph.types[node.output].shape, kernel,
                 node.attr("stride"), dilation, pads, count_pads=counted, origin=node.origin)  # fmt: skip
    maker.add(pool, node.output)
    return True


def _add_mean(maker: _XGraphMaker, node: Node) -> bool:
    """Global average pooling: a mean over height and width."""
    x = maker.image(node.inputs[0])
    if x is None or node.attr("axes") != (1, 2):
        return False
    shape = maker.shapes[x]
    if shape[1] * shape[2] > MOST_WINDOW:
        return False
    pool = XNode(node.origin or node.output, "avg_pool", (x,), (shape[0], 1, 1, shape[3]), (shape[1], shape[2]),
                 origin=node.origin)  # fmt: skip
    maker.add(pool, node.output)
    return True


def _add_eltwise(maker: _XGraphMaker, node: Node) -> bool:
    a, b = maker.image(node.inputs[0]), maker.image(node.inputs[1])
    shape = maker.graph.types[node.output].shape
    if a is not None and b is not None and maker.shapes[a] == maker.shapes[b] == shape:
        eltwise = XNode(node.origin or node.output, "eltwise", (a, b), shape, op=_ELTWISE[node.op], origin=node.origin)
        maker.add(eltwise, node.output)
        return True
    return _add_scale(maker, node, shape)


def _add_scale(maker: _XGraphMaker, node: Node, shape: tuple[int, ...]) -> bool:
    """x * c or x + c with a constant for each channel, or for all: a depthwise convolution of one position."""
    a, b = node.inputs
    for x_name, c_name, first in ((a, b, True), (b, a, False)):
        x, c = maker.image(x_name), maker.constant(c_name)
        if x is None or c is None or maker.shapes[x] != shape or c.size not in (1, shape[3]) or shape[3] < 2:
            continue
        if node.op not in ("add", "sub", "mul") or not _finite(c) or (c.size > 1 and c.shape[-1] != shape[3]):
            return False
        values = np.broadcast_to(c.reshape(-1), (shape[3],)).astype(np.float32)
        sign = -1.0 if node.op == "sub" and not first else 1.0
        scale = values if node.op == "mul" else np.full(shape[3], sign, np.float32)
        shift = (
            np.zeros(shape[3], np.float32) if node.op == "mul" else -values if node.op == "sub" and first else values
        )
        made = XNode(node.origin or node.output, "depthwise", (x,), shape, groups=shape[3], origin=node.origin)
        maker.add(made, node.output, Parameters(np.ascontiguousarray(scale.reshape(-1, 1, 1, 1)), shift))
        return True
    return False


def _add_unit_act(maker: _XGraphMaker, node: Node) -> bool:
    """An activation that stands alone, fused into the operation before it where nobody else reads that."""
    args = {"relu": (), "clip": ("lo", "hi"), "leaky_relu": ("alpha",)}[node.op]
    act, x = _act_of(node.op, tuple(float(node.attr(name)) for name in args)), maker.image(node.inputs[0])
    if act is None or x is None:
        return False
    before = next(n for n in maker.nodes if n.name == x)
    readers = [n for n in maker.graph.nodes if node.inputs[0] in n.inputs]
    if before.kind == "eltwise" and not before.act and len(readers) == 1 and node.inputs[0] not in maker.graph.outputs:
        maker.nodes[maker.nodes.index(before)] = replace(before, act=act[0], act_args=act[1])
        maker.now[node.output] = x
        return True
    copy = XNode(node.origin or node.output, "eltwise", (x,), maker.shapes[x], op="copy", act=act[0], act_args=act[1],
                 origin=node.origin)  # fmt: skip
    maker.add(copy, node.output)
    return True


def _add_concat(maker: _XGraphMaker, node: Node) -> bool:
    parts = [maker.image(name) for name in node.inputs]
    if node.attr("axis") != 3 or any(part is None for part in parts):
        return False
    names = tuple(part for part in parts if part is not None)
    concat = XNode(
        node.origin or node.output, "concat", names, maker.graph.types[node.output].shape, origin=node.origin
    )
    maker.add(concat, node.output)
    return True


def _add_reshape(maker: _XGraphMaker, node: Node) -> bool:
    """A reshape moves nothing: its result is the same tensor in memory (DNNVM, section III-A: flatten is pruned)."""
    if node.inputs[0] not in maker.now:
        return False
    maker.now[node.output] = maker.now[node.inputs[0]]
    return True


def _add_upsample(maker: _XGraphMaker, node: Node) -> bool:
    """Nearest neighbours by a whole factor along height or width; two in a row become one."""
    x, axis = maker.image(node.inputs[0]), node.attr("axis")
    index, weight = maker.graph.constants.get(node.inputs[1]), maker.graph.constants.get(node.inputs[2])
    if x is None or axis not in (1, 2) or index is None or weight is None:
        return False
    shape, length = maker.graph.types[node.output].shape, maker.shapes[x][axis]
    factor = shape[axis] // length
    nearest = np.take_along_axis(index, weight.argmax(axis=1)[:, None], axis=1)[:, 0]
    single = bool(((weight == 1).sum(axis=1) == 1).all() and ((weight == 0) | (weight == 1)).all())
    if not single or shape[axis] != factor * length or (nearest != np.arange(shape[axis]) // factor).any():
        return False
    before = next(n for n in maker.nodes if n.name == x)
    factors = (factor, 1) if axis == 1 else (1, factor)
    readers = [n for n in maker.graph.nodes if node.inputs[0] in n.inputs]
    if before.kind == "upsample" and len(readers) == 1 and node.inputs[0] not in maker.graph.outputs:
        both = (before.factor[0] * factors[0], before.factor[1] * factors[1])
        maker.nodes[maker.nodes.index(before)] = replace(before, factor=both, shape=shape)
        maker.shapes[x] = shape
        maker.now[node.output] = x
        return True
    made = XNode(node.origin or node.output, "upsample", (x,), shape, factor=factors, origin=node.origin)
    maker.add(made, node.output)
    return True


def _space_to_depth(graph: Graph) -> dict[str, tuple[str, tuple[int, int], tuple[str, str]]]:
    """Find reshape, transpose, reshape that move blocks to channels: output -> input, factor, tensors inside."""
    producers, readers = graph.producers(), graph.readers()
    found = dict[str, tuple[str, tuple[int, int], tuple[str, str]]]()
    for last in graph.nodes:
        middle = producers.get(last.inputs[0]) if last.op == "reshape" else None
        first = producers.get(middle.inputs[0]) if middle is not None and middle.op == "transpose" else None
        if middle is None or first is None or first.op != "reshape" or middle.attr("perm") != (0, 1, 3, 2, 4, 5):
            continue
        x, split, y = graph.shape(first.inputs[0]), graph.shape(first.output), graph.shape(last.output)
        inside = (first.output, middle.output)
        if len(x) != 4 or len(split) != 6 or any(len(readers.get(t, ())) != 1 or t in graph.outputs for t in inside):
            continue
        n, rows, block_h, columns, block_w, channels = split
        whole = (n, rows * block_h, columns * block_w, channels) == x
        if whole and y == (n, rows, columns, block_h * block_w * channels):
            found[last.output] = (first.inputs[0], (block_h, block_w), inside)
    return found


def _add_reorganise(maker: _XGraphMaker, node: Node, x: str, factor: tuple[int, int], inside: tuple[str, str]) -> None:
    source = maker.image(x)
    if source is None:
        raise MavcgError(f"{node.origin or node.output}: space to depth of a tensor that is no feature map")
    shape = maker.graph.types[node.output].shape
    made = XNode(node.origin or node.output, "reorganise", (source,), shape, factor=factor, origin=node.origin)
    maker.add(made, node.output)


def _add_host(maker: _XGraphMaker, node: Node) -> None:
    """A node that the accelerator does not have, with a graph of its own."""
    types = maker.graph.types
    if len(node.outputs) != 1:
        raise MavcgError(f"{node.origin or node.outputs[0]} ({node.op}): {len(node.outputs)} results; one is supported")
    read = tuple(dict.fromkeys(n for n in node.inputs if n and n not in maker.graph.constants))
    for name in (*read, node.output):
        if types[name].dtype != "f32" and name not in maker.now and name != node.output:
            raise MavcgError(f"{node.origin or node.output} ({node.op}): reads {types[name]}, which is not on the CPU")
    kept = {n: maker.graph.constants[n] for n in node.inputs if n in maker.graph.constants}
    names = (*read, *kept, node.output)
    host = Graph(node.op, read, (node.output,), (node,), {n: types[n] for n in names}, kept)
    made = XNode(node.origin or node.output, "host", tuple(maker.now[n] for n in read), types[node.output].shape,
                 op=node.op, origin=node.origin)  # fmt: skip
    maker.hosts[maker.add(made, node.output)] = host


def _add_host_act(maker: _XGraphMaker, node: Node) -> None:
    """The activation of a convolution, which the accelerator does not have, as a node of the CPU."""
    from mavcg.ops import make_node
    from mavcg.ops.elementwise import ACTIVATIONS

    act, made = node.attr("act"), maker.now[node.output]
    attrs = dict(zip(ACTIVATIONS[act], node.attr("act_args"), strict=True))
    if "tanh" in attrs:
        attrs["tanh"] = bool(attrs["tanh"])
    shape = maker.shapes[made]
    types = {"x": TensorType("f32", shape), "y": TensorType("f32", shape)}
    host = Graph(act, ("x",), ("y",), (make_node(act, ("x",), ("y",), node.origin, **attrs),), types)
    name = maker.add(XNode(f"{made}.{act}", "host", (made,), shape, op=act, origin=node.origin), node.output)
    maker.hosts[name] = host


def _output(maker: _XGraphMaker, name: str) -> str:
    if name not in maker.now:
        raise MavcgError(f"graph {maker.graph.name}: its output {name} is a constant; nothing would be computed")
    return maker.now[name]


def _without_unread(graph: XGraph) -> XGraph:
    """The graph without nodes that no output needs; its inputs stay."""
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


_MAKERS: Mapping[str, Callable[[_XGraphMaker, Node], bool]] = {
    "conv2d": _add_conv, "conv_transpose2d": _add_deconv, "matmul": _add_dense, "max_pool2d": _add_pool,
    "avg_pool2d": _add_pool, "reduce_mean": _add_mean, **dict.fromkeys(_ELTWISE, _add_eltwise),
    **dict.fromkeys(_UNIT_ACTS, _add_unit_act), "concat": _add_concat, "reshape": _add_reshape,
    "resample": _add_upsample,
}  # fmt: skip
