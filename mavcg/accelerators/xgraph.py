"""XGraph: a network as the coarse operations of an accelerator (DNNVM, section III-B).

A node makes exactly one tensor, which has the node's name. Feature maps are N, H, W, C. After quantisation, a tensor of
radix position r represents integer * 2^-r (8-bit, signed), so that all scaling is by shifts. A network that keeps the
numbers of an 8-bit file has radix positions of 0, and for each tensor a scale and a zero point: (integer - zero) *
scale.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph

# Kinds of nodes: operations of the accelerator, inputs, and nodes that the CPU computes.
CONVOLUTIONS = ("conv", "depthwise", "deconv", "dense")
POOLS = ("max_pool", "avg_pool")
MOVES = ("concat", "upsample", "reorganise")
ACCELERATED = (*CONVOLUTIONS, *POOLS, "eltwise", *MOVES)
KINDS = ("input", *ACCELERATED, "host")
ELTWISE_OPS = ("add", "sub", "mul", "max", "min", "copy")
ACTS = ("", "relu", "clip", "leaky")
SLOPE_BITS = 8  # fraction bits of the multiplier of a leaky ReLU: a multiple of 1/256


@dataclass(frozen=True)
class XNode:
    """A coarse operation and the tensor that it makes.

    inputs: names of nodes. shape: shape of the tensor, [N, H, W, C], but any for a host node. kernel, stride, dilation:
    height, width; the kernel of `dense` is the whole input map. pads: top, left, bottom, right. output_pads: for
    deconv, rows and columns added at the bottom and right. count_pads: for avg_pool, pads that the divisor counts (0 or
    pads). groups: groups of conv and deconv; for depthwise the input's channels. op: for eltwise one of ELTWISE_OPS,
    for host the operator, for a convolution that the model does not have what it does (scale,
    pad, shuffle), for input "nchw" if the model's own order is N, C, H, W. factor: for upsample (nearest) and
    reorganise (space to depth), height and width. act: activation, one of ACTS, applied last. act_args: lower and upper
    bound of clip, or slope of leaky, as real numbers. radix: radix position of the tensor; None before quantisation,
    and for a host node whose result stays f32. weight_radix: radix position of the weights, one or one for each output
    channel; () before quantisation. multipliers: what the sums of each output channel are multiplied by, from 1 to 2^16
    - 1, if the weights' scales are not powers of two: a weight q stands for q * multiplier * 2^-weight_radix; () for 1.
    Of eltwise, multipliers are those of its operands, and weight_radix the shift. scale, zero: those of an 8-bit file's
    tensor; scale is None for a tensor with a radix position alone. ratio: of an avg_pool with such scales, its input's
    over its own. bias_steps: what quantisation adds to each output channel's integer bias; () for nothing. origin: node
    of the user's file. on_cpu: True if the CPU computes it though the accelerator could.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    shape: tuple[int, ...]
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    output_pads: tuple[int, int] = (0, 0)
    count_pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1
    op: str = ""
    factor: tuple[int, int] = (1, 1)
    act: str = ""
    act_args: tuple[float, ...] = ()
    radix: int | None = None
    weight_radix: tuple[int, ...] = ()
    multipliers: tuple[int, ...] = ()
    scale: float | None = None
    zero: int = 0
    ratio: float = 1.0
    bias_steps: tuple[int, ...] = ()
    origin: str = ""
    on_cpu: bool = False

    @property
    def channels(self) -> int:
        """Number of the result's channels."""
        return self.shape[-1]

    @property
    def on_accelerator(self) -> bool:
        """Return True if the accelerator executes the node; an input is memory, and a host node runs on the CPU."""
        return self.kind in ACCELERATED and not self.on_cpu


@dataclass(frozen=True)
class Parameters:
    """Weights and bias of a node.

    weights: of conv and deconv [out_ch, k_h, k_w, in_ch / groups], of depthwise [out_ch, k_h, k_w, 1] (output channel o
    reads input channel o // (out_ch / in_ch)), of dense [out_ch, H, W, in_ch]. bias: [out_ch]. f32 before quantisation;
    then int8 and int32, the bias at radix position (input's + weights').
    """

    weights: Array
    bias: Array


@dataclass(frozen=True)
class ModelOutput:
    """An output as the model has it: its name, its dimensions, and the tensor that has its elements, in their order.

    nchw: True if its order is N, C, H, W and the tensor's is N, H, W, C.
    """

    name: str
    tensor: str
    dims: tuple[int, ...]
    nchw: bool = False

    def in_its_order(self, tensor: Array) -> Array:
        """Return the output from its tensor, [N, H, W, C] if nchw is True."""
        return (tensor.transpose(0, 3, 1, 2) if self.nchw else tensor).reshape(self.dims)


@dataclass(frozen=True)
class XGraph:
    """A network for an accelerator.

    nodes: in an order in which each reads only earlier nodes; inputs are nodes of kind "input". outputs: names of
    nodes. model_outputs: what the model calls them, several of one node too; () for a network without a model.
    parameters: weights and bias of each node in CONVOLUTIONS. hosts: for each host node, a graph that computes its
    tensor in f32 from the tensors that it reads, in order.
    """

    name: str
    nodes: tuple[XNode, ...]
    outputs: tuple[str, ...]
    parameters: Mapping[str, Parameters] = field(default_factory=dict)
    hosts: Mapping[str, Graph] = field(default_factory=dict)
    model_outputs: tuple[ModelOutput, ...] = ()

    def by_name(self) -> dict[str, XNode]:
        """Return the nodes by their names."""
        return {node.name: node for node in self.nodes}

    def inputs(self) -> tuple[XNode, ...]:
        """Return the nodes of kind "input", in order."""
        return tuple(node for node in self.nodes if node.kind == "input")

    def readers(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the nodes that read each tensor, each once, in order; () for a tensor without readers."""
        readers: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                readers[name].append(node.name)
        return {name: tuple(names) for name, names in readers.items()}

    def with_nodes(self, changed: Mapping[str, XNode]) -> "XGraph":
        """Return the graph with some nodes replaced. changed: new nodes by name."""
        return replace(self, nodes=tuple(changed.get(node.name, node) for node in self.nodes))


def touched_range(node: XNode, axis: int, first: int, end: int, length: int) -> tuple[int, int]:
    """Return the rows or columns [low, high) of an input that those of the result from `first` to `end` depend on.

    The range may extend into the pads, beyond 0 and `length`. axis: 0 for rows, 1 for columns. length: rows or columns
    of the input.
    """
    stride, pad = node.stride[axis], node.pads[axis]
    span = (node.kernel[axis] - 1) * node.dilation[axis]
    if node.kind in ("conv", "depthwise", "max_pool", "avg_pool"):
        return first * stride - pad, (end - 1) * stride - pad + span + 1
    if node.kind == "deconv":
        return -((span - first - pad) // stride), (end - 1 + pad) // stride + 1
    if node.kind == "dense":
        return 0, length
    if node.kind == "upsample":
        return first // node.factor[axis], -(-end // node.factor[axis])
    if node.kind == "reorganise":
        return first * node.factor[axis], end * node.factor[axis]
    return first, end


def operations(graph: XGraph, node: XNode) -> int:
    """Return a convolution's operations, 2 for a multiply-add, padding included; 0 for other nodes (DNNVM, eq. 3)."""
    if node.kind not in CONVOLUTIONS:
        return 0
    tensors = graph.by_name()
    in_ch = tensors[node.inputs[0]].channels
    # A deconvolution multiplies each input by each tap of the filter once; other kinds have each tap once per output.
    places = tensors[node.inputs[0]].shape if node.kind == "deconv" else node.shape
    depth = in_ch // node.groups
    return 2 * node.kernel[0] * node.kernel[1] * depth * node.channels * places[0] * places[1] * places[2]


def accelerator_share(graph: XGraph) -> float:
    """Return the fraction of the operations of the model's convolutions that the accelerator computes; 0 without any.

    Fully connected layers count only on the accelerator, since the paper leaves them to the CPU.
    """
    theirs = [n for n in graph.nodes if n.kind in CONVOLUTIONS and not n.op]
    ours = sum(operations(graph, n) for n in theirs if n.on_accelerator)
    total = sum(operations(graph, n) for n in theirs) + sum(map(_host_operations, graph.hosts.values()))
    return ours / total if total else 0.0


def _host_operations(host: Graph) -> int:
    total = 0
    for node in host.nodes:
        if node.op in ("conv2d", "qconv2d", "conv_transpose2d"):
            # The filter has an element for each multiply-add of an output pixel, or of an input pixel if transposed.
            pixels = host.shape(node.inputs[0] if node.op == "conv_transpose2d" else node.output)[:3]
            total += 2 * host.types[node.inputs[1]].elements * prod(pixels)
    return total


def location(graph: XGraph, node: XNode) -> str:
    """Return the description of a node in messages."""
    of_file = f" ({node.origin})" if node.origin and node.origin != node.name else ""
    return f"xgraph {graph.name}: {node.kind} {node.name}{of_file}"


def refuse_node(graph: XGraph, node: XNode, wrong: str) -> MavcgError:
    """Return an error about a node, for the caller to raise. wrong: the fault and the remedy."""
    return MavcgError(f"{location(graph, node)}: {wrong}")
