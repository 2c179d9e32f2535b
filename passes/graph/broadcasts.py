"""Compute elementwise operators before their operands are broadcast."""

from mavcg.graph import Graph, Node
from mavcg.graph.ops.op import broadcast_shape
from mavcg.passes.graph.permutation import ELEMENTWISE
from mavcg.passes.graph.rewrite import Rewrite, scalar_of


def delay_broadcasts(graph: Graph) -> Graph:
    """Compute elementwise operators on what is broadcast, and broadcast the results, where all operands are equal rows.

    Before:
        input %x: f32[1,5]
        const %c: f32[] = {2.0}
        %b = broadcast_to(%x) shape=[4,5]
        %y = mul(%b, %c)
        return %y
    After:
        input %x: f32[1,5]
        const %c: f32[] = {2.0}
        %y.1 = mul(%x, %c)
        %y = broadcast_to(%y.1) shape=[4,5]
        return %y

    Exporters make masks of attention for each query, of which all are the same.
    """
    if not any(node.op == "broadcast_to" for node in graph.nodes):
        return graph
    new = Rewrite(graph)
    for node in graph.nodes:
        sources = _sources(node, new)
        narrow = broadcast_shape(*(new.types[name].shape for name in sources)) if sources else None
        shape = new.types[node.output].shape
        if narrow is None or narrow == shape:
            new.keep(node)
            continue
        made = new.add(node.op, sources, node.output, node.origin, **dict(node.attrs))
        new.into(node.output, "broadcast_to", (made,), node.origin, shape=shape)
    return new.finish()


def _sources(node: Node, new: Rewrite) -> list[str]:
    """Return a node's operands before they were broadcast, and numbers; none where an operand is another tensor."""
    if node.op not in ELEMENTWISE or node.op == "broadcast_to":
        return []
    sources, broadcast = list[str](), False
    for name in map(new.of, node.inputs):
        maker = new.made.get(name)
        if maker is not None and maker.op == "broadcast_to":
            name, broadcast = maker.inputs[0], True
        elif scalar_of(new.array(name)) is None:
            return []
        elif new.types[name].elements > 1:
            array = new.array(name)
            assert array is not None
            name = new.constant(array.reshape(-1)[:1], name)
        sources.append(name)
    return sources if broadcast else []
