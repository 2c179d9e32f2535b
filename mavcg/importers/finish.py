"""End of an import: outputs get their names in the file."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mavcg.graph import Graph, fresh_names, prune
from mavcg.importers.emitter import Emitter, Value


def finish_graph(emitter: Emitter, inputs: Collection[str], names: Sequence[str], values: Sequence[Value]) -> Graph:
    """Return the finished graph, with outputs under their names and without unneeded nodes.

    inputs: names of the graph's inputs. names, values: names, without repetition, and values of the outputs. An output
    has the name of an input only if it is that input.
    """
    builder = emitter.builder
    renamed: dict[str, str] = {}
    inputs = set(inputs)
    for name, value in zip(names, values, strict=True):
        made = emitter.place(value)
        if made in inputs and made == name:
            renamed[made] = name
            continue
        if value.is_constant or made in renamed or made in inputs:
            # An input, a constant or another output under a second name needs a copy.
            made = builder.add("reshape", [made], name, shape=value.shape)
        renamed[made] = name
    return _with_names(prune(builder.finish(list(renamed))), renamed)


def _with_names(graph: Graph, required: Mapping[str, str]) -> Graph:
    """Return the graph with tensors renamed; other tensors with these names get fresh names."""
    names = dict(required)
    taken = set(required.values()) | set(graph.inputs)
    inputs = set(graph.inputs)
    inside = [name for name in graph.types if name not in names and name in taken and name not in inputs]
    names.update(zip(inside, fresh_names({*graph.types, *taken}, inside), strict=True))
    nodes = tuple(
        replace(node.with_inputs(names), outputs=tuple(names.get(o, o) for o in node.outputs)) for node in graph.nodes
    )
    return replace(
        graph,
        nodes=nodes,
        outputs=tuple(names.get(o, o) for o in graph.outputs),
        types={names.get(n, n): t for n, t in graph.types.items()},
        constants={names.get(n, n): a for n, a in graph.constants.items()},
    )
