"""Extract subgraphs of an ONNX model, and write the model in which one node replaces each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array, TensorType
from mavcg.importers.onnx_proto import DTYPE_NAMES, onnx_module, read_tensor
from mavcg.importers.onnx_support import ModelSupport, NodeSupport

if TYPE_CHECKING:
    import onnx

DOMAIN = "mavcg"
_NUMBERS = {name: number for number, name in DTYPE_NAMES.items()}
LARGEST_MODEL_BYTES = (1 << 31) - 1  # of a protobuf message


@dataclass(frozen=True)
class Subgraph:
    """A convex set of nodes. nodes: their indices in ModelSupport.nodes. inputs, outputs: tensors at its border."""

    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def make_subgraph(support: ModelSupport, nodes: Sequence[int], staying: Set[int] = frozenset()) -> Subgraph:
    """Return a subgraph of these nodes, with the tensors that it reads, and those that other nodes or the user read.

    staying: nodes with results known in `support` that stay in the written model (staying_nodes).
    """
    inside = set(nodes)
    made = {name for i in nodes for name in support.nodes[i].outputs}
    read = dict.fromkeys(name for i in nodes for name in support.nodes[i].inputs)
    inputs = tuple(name for name in read if name not in made and name not in support.values)
    elsewhere = {
        name
        for i, node in enumerate(support.nodes)
        if i not in inside and (not node.known or i in staying)
        for name in node.inputs
    } | set(support.outputs)
    outputs = tuple(
        name for i in nodes for name in support.nodes[i].outputs if name in elsewhere and name not in support.values
    )
    return Subgraph(tuple(nodes), inputs, outputs)


def staying_nodes(written: ModelSupport, support: ModelSupport, replaced: Set[int]) -> frozenset[int]:
    """Return the nodes that the written model keeps: those that its outputs and the replaced nodes depend on.

    written: support of the written model, whose free dimensions stay free if the library has several sizes. support:
    support of one size, in which more is known. replaced: nodes that are replaced.
    """
    makers = {name: i for i, node in enumerate(written.nodes) for name in node.outputs}
    needed = [name for i in replaced for name in support.nodes[i].inputs if name not in support.values]
    needed += written.outputs
    staying: set[int] = set()
    while needed:
        i = makers.get(needed.pop())
        if i is not None and i not in replaced and i not in staying and not written.nodes[i].known:
            staying.add(i)
            needed += written.nodes[i].inputs
    return frozenset(staying)


def subgraph_model(support: ModelSupport, subgraph: Subgraph, name: str) -> onnx.ModelProto:
    """Return a model of the subgraph alone; known values that it needs are computed by nodes, or are initializers."""
    onnx = onnx_module()
    model = onnx.ModelProto()
    model.ir_version = support.model.ir_version
    model.opset_import.extend(support.model.opset_import)
    model.graph.name = name
    needed = [name for i in subgraph.nodes for name in support.nodes[i].inputs]
    nodes, initializers = known_parts(support, needed)
    model.graph.node.extend(nodes)
    model.graph.node.extend(support.nodes[i].node for i in subgraph.nodes)
    model.graph.initializer.extend(initializers)
    model.graph.input.extend(value_info(name, support.types[name]) for name in subgraph.inputs)
    model.graph.output.extend(value_info(name, support.types[name]) for name in subgraph.outputs)
    return model  # type: ignore[no-any-return]


def known_parts(
    support: ModelSupport, names: Iterable[str], fold: bool = False
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Return nodes and initializers that make these tensors, if their values are known when the model is read.

    A node with known inputs is repeated, so that 8-bit weights stay 8-bit, unless `fold` is given; other values become
    initializers.
    """
    makers = {name: node for node in support.nodes if not fold for name in node.outputs if node.replicable}
    initializers = {tensor.name: tensor for tensor in support.model.graph.initializer}
    nodes: dict[int, NodeSupport] = {}
    tensors: dict[str, onnx.TensorProto] = {}
    stack = list(names)
    while stack:
        name = stack.pop()
        if name in makers:
            if id(makers[name]) not in nodes:
                nodes[id(makers[name])] = makers[name]
                stack += makers[name].inputs
        elif name in initializers:
            tensors[name] = initializers[name]
        elif name in support.values and name not in tensors:
            array = support.values[name].array
            assert array is not None
            tensors[name] = _tensor(name, array, support.values[name].type)
    ordered = [node.node for node in support.nodes if id(node) in nodes]
    return ordered, [tensors[name] for name in sorted(tensors)]


def _tensor(name: str, array: Array, type: TensorType) -> onnx.TensorProto:
    tensor = onnx_module().numpy_helper.from_array(np.ascontiguousarray(array).reshape(type.shape), name)
    return tensor  # type: ignore[no-any-return]


def value_info(name: str, type: TensorType) -> onnx.ValueInfoProto:
    """Return the description of a tensor in a model."""
    info = onnx_module().helper.make_tensor_value_info(name, _NUMBERS[type.dtype], type.shape)
    return info  # type: ignore[no-any-return]


@dataclass(frozen=True)
class OperatorNode:
    """The node that replaces a subgraph.

    op: its operator in the domain `mavcg`. fingerprint: that of the library's subgraph.
    """

    subgraph: Subgraph
    op: str
    fingerprint: str


def rewritten_model(
    support: ModelSupport, operators: Sequence[OperatorNode], folder: Path | None, sized: ModelSupport | None = None
) -> onnx.ModelProto:
    """Return the user's model with one node in place of each subgraph; all else is unchanged.

    support: support of the written model, as in staying_nodes. sized: support of one size, if the library has several.
    folder: folder of the model's external data; those that the remaining nodes need are put into the model.
    Raises: MavcgError if the model would be larger than a file can be.
    """
    onnx = onnx_module()
    model = onnx.ModelProto()
    model.CopyFrom(support.model)
    taken = {i for operator in operators for i in operator.subgraph.nodes}
    left = [support.nodes[i] for i in sorted(staying_nodes(support, sized or support, taken))]
    needed = [name for node in left for name in node.inputs] + list(support.outputs)
    known, initializers = known_parts(support, needed)
    stand_ins = [_operator_node(operator) for operator in operators]
    del model.graph.node[:]
    model.graph.node.extend(_in_order([*known, *(node.node for node in left), *stand_ins]))
    del model.graph.initializer[:]
    model.graph.initializer.extend(_embedded_tensors(initializers, folder))
    _keep_infos(model, support, operators, sized)
    model.opset_import.add(domain=DOMAIN, version=1)
    size = model.ByteSize()
    if size > LARGEST_MODEL_BYTES:
        raise MavcgError(
            f"the model with {len(operators)} subgraphs taken out has {size} bytes; an ONNX file has at most "
            f"{LARGEST_MODEL_BYTES}"
        )
    return model  # type: ignore[no-any-return]


def _operator_node(operator: OperatorNode) -> onnx.NodeProto:
    node = onnx_module().helper.make_node(
        operator.op,
        operator.subgraph.inputs,
        operator.subgraph.outputs,
        name=operator.op,
        domain=DOMAIN,
        fingerprint=operator.fingerprint,
    )
    return node  # type: ignore[no-any-return]


def _in_order(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield the nodes, each after those that make its inputs."""
    from mavcg.importers.onnx_order import reads

    maker = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    order = TopologicalSorter(
        {i: [maker[name] for name in reads(node) if name in maker] for i, node in enumerate(nodes)}
    )
    return (nodes[i] for i in order.static_order())


def _embedded_tensors(tensors: Iterable[onnx.TensorProto], folder: Path | None) -> Iterator[onnx.TensorProto]:
    for tensor in tensors:
        if tensor.data_location == 1:
            array = read_tensor(tensor, f"initializer %{tensor.name}", folder)
            yield onnx_module().numpy_helper.from_array(array, tensor.name)
        else:
            yield tensor


def _keep_infos(
    model: onnx.ModelProto, support: ModelSupport, operators: Sequence[OperatorNode], sized: ModelSupport | None
) -> None:
    """Keep the descriptions of remaining tensors, and describe the results of the new nodes.

    If the library has several sizes, their types have no shapes.
    """
    there = {name for node in model.graph.node for name in node.output}
    new = [name for operator in operators for name in operator.subgraph.outputs]
    outputs = set(support.outputs)
    infos = [info for info in model.graph.value_info if info.name in there and info.name not in set(new)]
    del model.graph.value_info[:]
    model.graph.value_info.extend(infos)
    types = (sized or support).types
    described = [value_info(name, types[name]) for name in new if name not in outputs]
    for info in described if sized is not None else ():
        info.type.tensor_type.ClearField("shape")
    model.graph.value_info.extend(described)
    used = {name for node in model.graph.node for name in node.input} | {t.name for t in model.graph.initializer}
    defaults: Mapping[str, object] = {t.name: t for t in support.model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in defaults or info.name in used]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    for info in model.graph.output:
        if not info.type.tensor_type.HasField("shape") and info.name in support.types:
            info.CopyFrom(value_info(info.name, support.types[info.name]))
