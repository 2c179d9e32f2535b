"""Rewrites operators on f16 and f64 as operators that have kernels.

f16 is a storage format: kernels compute in f32, and results are rounded. For f64, arithmetic has kernels; compound
operators are expanded.
"""

from mavcg.graph import Graph, Node
from mavcg.passes.graph.rewrite import Rewrite

# Operators that move elements without arithmetic, and so work on every type.
_MOVES = ("reshape", "transpose", "slice", "concat", "pad", "gather", "broadcast_to", "where", "cast")


def widen_half(graph: Graph) -> Graph:
    """Compute operators on f16 in f32, with casts around them.

    Before:
        input %x: f16[4]
        %y: f16[4] = exp(%x)
        return %y
    After:
        input %x: f16[4]
        %x.1 = cast(%x) to="f32"
        %y.1 = exp(%x.1)
        %y = cast(%y.1) to="f16"
        return %y

    Each operator's result is rounded to f16, as in the original graph.
    """
    new = Rewrite(graph)
    wide: dict[str, str] = {}
    for node in graph.nodes:
        dtypes = [graph.types[name].dtype for name in (*node.inputs, *node.outputs) if name]
        moves = node.op in _MOVES or (node.op == "scatter" and node.attr("reduction") == "none")
        if moves or "f16" not in dtypes:
            new.keep(node)
            continue
        inputs = []
        for name in map(new.of, node.inputs):
            if name and new.types[name].dtype == "f16":
                if name not in wide:
                    wide[name] = new.add("cast", (name,), name, node.origin, to="f32")
                name = wide[name]
            inputs.append(name)
        if graph.types[node.output].dtype == "f16":
            widened = new.add(node.op, inputs, node.output, node.origin, **dict(node.attrs))
            new.into(node.output, "cast", (widened,), node.origin, to="f16")
        else:
            new.into(node.output, node.op, inputs, node.origin, **dict(node.attrs))
    return new.finish()


def spell_out_double(graph: Graph) -> Graph:
    """Expand the softmax of f64 into simpler operators.

    Before:
        input %x: f64[2,4]
        %y: f64[2,4] = softmax(%x) axis=1
        return %y
    After:
        input %x: f64[2,4]
        %y.1 = reduce_max(%x) axes=[1] keepdims=true
        %y.2 = sub(%x, %y.1)
        %y.3 = exp(%y.2)
        %y.4 = reduce_sum(%y.3) axes=[1] keepdims=true
        %y = div(%y.3, %y.4)
        return %y
    """
    new = Rewrite(graph)
    for node in graph.nodes:
        if node.op in ("softmax", "log_softmax") and graph.types[node.output].dtype == "f64":
            _softmax(new, node)
        else:
            new.keep(node)
    return new.finish()


def _softmax(new: Rewrite, node: Node) -> None:
    x, name, origin = new.of(node.inputs[0]), node.output, node.origin
    axes = (node.attr("axis"),)
    largest = new.add("reduce_max", (x,), name, origin, axes=axes, keepdims=True)
    below = new.add("sub", (x, largest), name, origin)
    powers = new.add("exp", (below,), name, origin)
    total = new.add("reduce_sum", (powers,), name, origin, axes=axes, keepdims=True)
    if node.op == "softmax":
        new.into(name, "div", (powers, total), origin)
    else:
        new.into(name, "sub", (below, new.add("log", (total,), name, origin)), origin)
