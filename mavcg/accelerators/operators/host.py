"""Add host nodes, each with a graph of its own, for operators that the accelerator cannot compute."""

from mavcg.accelerators.operators.xgraph_maker import XGraphMaker
from mavcg.accelerators.xgraph import XNode
from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node, TensorType
from mavcg.ops import make_node
from mavcg.ops.elementwise import ACTIVATIONS


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
