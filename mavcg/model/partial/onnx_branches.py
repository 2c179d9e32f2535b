"""Graphs inside of ONNX nodes, which stay with the runtime: read as models of their own, and put back.

The bodies of an If, a Loop or a Scan read values of the graphs around them by name. A body becomes a model with these
values as inputs, or as constants where they are known, so that subgraphs are found in it as in any model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError
from mavcg.importers.onnx_order import reads
from mavcg.importers.onnx_support import ModelSupport, NodeSupport, model_support
from mavcg.model.partial.onnx_subgraphs import known_parts, value_info

if TYPE_CHECKING:
    import onnx

DEEPEST = 8  # levels of graphs in graphs that are searched for subgraphs


@dataclass(frozen=True)
class Branch:
    """A graph inside of a node.

    node: the node's index in the support of the graph around it. attribute: the graph's name there. support: of the
    graph as a model. inside: graphs in its own nodes.
    """

    node: int
    attribute: str
    support: ModelSupport
    inside: tuple[Branch, ...]


def branches_of(support: ModelSupport, path: Path, depth: int = 0) -> tuple[Branch, ...]:
    """Return the graphs inside of the nodes that cannot be built. path: of the model's file, for external data."""
    if depth == DEEPEST:
        return ()
    found = []
    for i, node in enumerate(support.nodes):
        for attribute in node.node.attribute if node.why else ():
            if attribute.HasField("g"):
                inner = _support_of(support, attribute.g, path)
                if inner is not None:
                    found.append(Branch(i, attribute.name, inner, branches_of(inner, path, depth + 1)))
    return tuple(found)


def _support_of(around: ModelSupport, graph: onnx.GraphProto, path: Path) -> ModelSupport | None:
    """Return the support of a body as a model; None for one that cannot be read, whose runtime will say why."""
    try:
        return model_support(_as_model(around, graph), path, {})
    except MavcgError:
        return None


def _as_model(around: ModelSupport, graph: onnx.GraphProto) -> onnx.ModelProto:
    """Return a model of a body. Its inputs: values of the graphs around it that only a run knows, then its own.

    Shapes of inner tensors in the file are left out: with --shape they may be those of other lengths.
    """
    model = type(around.model)()
    model.ir_version = around.model.ir_version
    model.opset_import.extend(around.model.opset_import)
    model.graph.CopyFrom(graph)
    del model.graph.value_info[:], model.graph.input[:]
    for info in model.graph.output:
        info.type.tensor_type.ClearField("shape")
    names = list(captured_names(graph))
    model.graph.initializer.extend(known_parts(around, (name for name in names if name in around.values), fold=True)[1])
    for name in names:
        if name not in around.values and name in around.types:
            model.graph.input.append(value_info(name, around.types[name]))
        elif name not in around.values:
            model.graph.input.add().name = name  # of a type that only a run tells
    model.graph.input.extend(graph.input)
    return model


def captured_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the values of graphs around a body that it reads."""
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    names = (name for node in graph.node for name in reads(node))
    return (name for name in dict.fromkeys([*names, *(o.name for o in graph.output)]) if name not in own)


def with_bodies(support: ModelSupport, bodies: Mapping[int, Mapping[str, onnx.ModelProto]]) -> ModelSupport:
    """Return the support of a graph with bodies in place of those of the same name. bodies: by node, attribute."""
    nodes = list(support.nodes)
    for i, models in bodies.items():
        nodes[i] = _with_graphs(nodes[i], models)
    return replace(support, nodes=tuple(nodes))


def _with_graphs(node: NodeSupport, models: Mapping[str, onnx.ModelProto]) -> NodeSupport:
    made = type(node.node)()
    made.CopyFrom(node.node)
    for attribute in made.attribute:
        if attribute.name in models:
            outside = set(captured_names(attribute.g))
            written = models[attribute.name].graph
            del attribute.g.node[:], attribute.g.initializer[:], attribute.g.value_info[:]
            attribute.g.node.extend(written.node)
            attribute.g.initializer.extend(t for t in written.initializer if t.name not in outside)
            attribute.g.value_info.extend(written.value_info)
    return replace(node, node=made, inputs=tuple(reads(made)))


def with_free_inputs(model: onnx.ModelProto, file: onnx.ModelProto) -> onnx.ModelProto:
    """Return a written model with the inputs as in the file if control flow stays in it.

    --shape gives the lengths of one branch; with these the runtime may refuse another, which is for other lengths.
    """
    if not any(attribute.HasField("g") for node in model.graph.node for attribute in node.attribute):
        return model
    infos = {info.name: info for info in file.graph.input}
    for info in model.graph.input:
        info.CopyFrom(infos[info.name])
    del model.graph.value_info[:]
    return model
