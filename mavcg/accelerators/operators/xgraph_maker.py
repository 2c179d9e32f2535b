"""The XGraph under construction, for the modules of operators: its nodes, names and tensors, and nodes of the host.

A node of the host has a graph of its own: the accelerator has no operation for it.

"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from mavcg.accelerators.shapes import NAME
from mavcg.accelerators.tensor_formats import TensorFormat
from mavcg.accelerators.xgraph import Parameters, XNode
from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node, TensorType
from mavcg.graph.ops import make_node
from mavcg.graph.ops.elementwise import ACTIVATIONS


@dataclass
class XGraphMaker:
    """The XGraph under construction.

    now: name of the XGraph's tensor for each tensor of the graph. formats: scale and zero point of each 8-bit tensor of
    the graph, if its numbers are kept.
    """

    graph: Graph
    dense_on_host: bool
    nodes: list[XNode] = field(default_factory=list)
    parameters: dict[str, Parameters] = field(default_factory=dict)
    hosts: dict[str, Graph] = field(default_factory=dict)
    now: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    formats: Mapping[str, TensorFormat] = field(default_factory=dict)

    def name(self, stem: str) -> str:
        """Return an unused name with the characters that names may have."""
        plain = "".join(c if NAME.fullmatch(c) else "_" for c in stem) or "node"
        name, number = plain, 0
        while name in self.shapes:
            number += 1
            name = f"{plain}.{number}"
        return name

    def add(self, node: XNode, tensor: str, parameters: Parameters | None = None) -> str:
        """Append a node that makes the graph's tensor `tensor` ("" for none), with its format."""
        if tensor in self.formats:
            node = in_format(node, self.formats[tensor])
        named = replace(node, name=self.name(node.name))
        self.nodes.append(named)
        self.shapes[named.name] = named.shape
        if parameters is not None:
            self.parameters[named.name] = parameters
        if tensor:
            self.now[tensor] = named.name
        return named.name

    def image(self, tensor: str) -> str | None:
        """Return the XGraph's node for a tensor that is a feature map in both graphs; None for other tensors."""
        name, shape = self.now.get(tensor), self.graph.types[tensor].shape
        return name if name is not None and len(shape) == 4 and self.shapes[name] == shape else None

    def constant(self, tensor: str) -> Array | None:
        """Return the array of an f32 constant; None for other tensors."""
        array = self.graph.constants.get(tensor)
        return array if array is not None and array.dtype == np.float32 else None


def in_format(node: XNode, format: TensorFormat) -> XNode:
    """Return a node whose tensor keeps the numbers of an 8-bit file."""
    return replace(node, radix=0, scale=format.scale, zero=format.int8_zero)


def all_finite(*arrays: Array) -> bool:
    """Return True if no array has an infinity or a NaN."""
    return all(bool(np.isfinite(array).all()) for array in arrays)


def fused_act(node: Node) -> tuple[str, tuple[float, ...]] | None:
    """Return the accelerator's activation for a node's fused activation, as name and arguments; None if it has none."""
    return accelerator_act(node.attr("act"), tuple(node.attr("act_args")))


def accelerator_act(act: str, args: tuple[float, ...]) -> tuple[str, tuple[float, ...]] | None:
    """Return the accelerator's activation for an activation of graphs, as name and arguments; None if it has none."""
    if act in ("", "relu"):
        return act, ()
    if act == "clip" and args[0] == 0 and args[1] == float("inf"):
        return "relu", ()
    if act == "clip" and np.isfinite(args).all() and args[0] <= args[1]:
        return "clip", args
    return ("leaky", args) if act == "leaky_relu" and 0 <= args[0] < 1 else None


def add_host(maker: XGraphMaker, node: Node) -> None:
    """Add a node that the accelerator cannot compute, with a graph of its own.

    Raises: MavcgError for several results, and for an operand of another type than f32 that is not computed on the CPU.
    """
    types = maker.graph.types
    if len(node.outputs) != 1:
        raise MavcgError(
            f"{node.origin or node.outputs[0]} ({node.op}): has {len(node.outputs)} results; one is supported"
        )
    read = tuple(dict.fromkeys(n for n in node.inputs if n and n not in maker.graph.constants))
    for name in (*read, node.output):
        if types[name].dtype != "f32" and name not in maker.now and name != node.output:
            raise MavcgError(
                f"{node.origin or node.output} ({node.op}): reads {types[name]}, which the CPU does not compute"
            )
    kept = {n: maker.graph.constants[n] for n in node.inputs if n in maker.graph.constants}
    names = (*read, *kept, node.output)
    host = Graph(node.op, read, (node.output,), (node,), {n: types[n] for n in names}, kept)
    made = XNode(
        node.origin or node.output,
        "host",
        tuple(maker.now[n] for n in read),
        types[node.output].shape,
        op=node.op,
        origin=node.origin,
    )
    maker.hosts[maker.add(made, node.output)] = host


def add_host_act(maker: XGraphMaker, node: Node) -> None:
    """Add a convolution's activation, which the accelerator does not have, as a node of the CPU."""

    act, made = node.attr("act"), maker.now[node.output]
    attrs = dict(zip(ACTIVATIONS[act], node.attr("act_args"), strict=True))
    if "tanh" in attrs:
        attrs["tanh"] = bool(attrs["tanh"])
    shape = maker.shapes[made]
    types = {"x": TensorType("f32", shape), "y": TensorType("f32", shape)}
    host = Graph(act, ("x",), ("y",), (make_node(act, ("x",), ("y",), node.origin, **attrs),), types)
    name = maker.add(XNode(f"{made}.{act}", "host", (made,), shape, op=act, origin=node.origin), node.output)
    maker.hosts[name] = host
