"""The XGraph under construction, with its nodes, names and tensors, for the modules of operators."""

from dataclasses import dataclass, field, replace

import numpy as np

from mavcg.accelerators.shapes import NAME
from mavcg.accelerators.xgraph import Parameters, XNode
from mavcg.graph import Array, Graph, Node


@dataclass
class XGraphMaker:
    """The XGraph under construction. now: name of the XGraph's tensor for each tensor of the graph."""

    graph: Graph
    dense_on_host: bool
    nodes: list[XNode] = field(default_factory=list)
    parameters: dict[str, Parameters] = field(default_factory=dict)
    hosts: dict[str, Graph] = field(default_factory=dict)
    now: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def name(self, stem: str) -> str:
        """Return an unused name with the characters that names may have."""
        plain = "".join(c if NAME.fullmatch(c) else "_" for c in stem) or "node"
        name, number = plain, 0
        while name in self.shapes:
            number += 1
            name = f"{plain}.{number}"
        return name

    def add(self, node: XNode, tensor: str, parameters: Parameters | None = None) -> str:
        """Append a node that makes the graph's tensor `tensor` ("" for none)."""
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
