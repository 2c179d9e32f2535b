"""Analysis of the nodes of an ONNX file: which can be imported, each separately, and why others cannot.

Nodes are visited as in an import. The outputs of a node that cannot be imported become inputs of later nodes, with
types from onnx's shape inference, so that every later node is tried too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError, OptionError
from mavcg.graph import TensorType
from mavcg.importers.declared_shapes import DeclaredShapeError
from mavcg.importers.emitter import Emitter
from mavcg.importers.limits import COUNTED, NO_TYPE, OF_SEQUENCE, reason
from mavcg.importers.onnx_file import check_given, declared_shapes, dims_of, given_symbols, supported_opsets
from mavcg.importers.onnx_graph import OnnxGraphBody, Scope, Walker, node_location, read_initializers
from mavcg.importers.onnx_order import order_nodes, reads
from mavcg.importers.onnx_proto import DTYPE_NAMES, LARGEST_DIMENSION, one_line, onnx_module
from mavcg.importers.value import Value, all_tensors

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class NodeSupport:
    """A node that the model's outputs need.

    inputs: names that the node and its branches read. outputs: its outputs that are read. why: reason why it cannot be
    built; "" if it can. known: its results are known at import. replicable: its inputs are known too, so that several
    subgraphs may contain it.
    """

    node: onnx.NodeProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    why: str = ""
    known: bool = False
    replicable: bool = False


@dataclass(frozen=True)
class ModelSupport:
    """All nodes that the outputs need, in topological order.

    model: the file with the given shapes of inputs. values: values that are known at import, initializers included.
    types: types of tensors whose shape is known.
    """

    model: onnx.ModelProto
    nodes: tuple[NodeSupport, ...]
    values: Mapping[str, Value]
    types: Mapping[str, TensorType]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the model's outputs."""
        return tuple(output.name for output in self.model.graph.output)


def model_support(model: onnx.ModelProto, path: Path, shapes: Mapping[str, tuple[int, ...]]) -> ModelSupport:
    """Try to import every node of a model.

    shapes: shapes of inputs with free dimensions, by name; other free dimensions stay free, and nodes that depend on
    them are not supported. path: for messages and external data.
    Raises: MavcgError for a file that is damaged, an opset that is too old, or a contradicted shape.
    """
    opsets = supported_opsets(model, path)
    values = read_initializers(model.graph, f"{path}: the graph", path.parent)
    declared = declared_shapes(model.graph, [i for i in model.graph.input if i.name not in values], shapes)
    model = with_shapes(model, shapes, set(values))
    types = {name: value.type for name, value in values.items()} | inferred_types(model)
    emitter = Emitter(model.graph.name or path.stem)
    functions = {("" if f.domain == "ai.onnx" else f.domain, f.name): f for f in model.functions}
    walker = Walker(emitter, path.parent, functions)
    for info in model.graph.input:
        if info.name in types and info.name not in values:
            values[info.name] = Value(types[info.name], emitter.builder.input(info.name, types[info.name]))
    outputs = [o.name for o in model.graph.output]
    nodes = order_nodes(model.graph.node, outputs, set(values) | {i.name for i in model.graph.input})
    read = {name for node in nodes for name in reads(node)} | set(outputs)
    made = {name for node in nodes for name in node.output} | set(values) | {i.name for i in model.graph.input}
    for name in read - made:
        raise MavcgError(f"{path}: %{name} is read, but no input, initializer or node defines it")
    body = OnnxGraphBody(nodes, outputs, opsets, {}, 0, declared)
    tried = []
    for node in nodes:
        tried.append(_try_node(node, tuple(name for name in node.output if name in read), walker, body, values, types))
    return ModelSupport(model, tuple(tried), {n: v for n, v in values.items() if v.is_constant}, types)


def _try_node(
    node: onnx.NodeProto,
    outputs: tuple[str, ...],
    walker: Walker,
    body: OnnxGraphBody,
    values: dict[str, Value],
    types: dict[str, TensorType],
) -> NodeSupport:
    """Try to import a node, and add its results to values and types."""
    inputs = tuple(reads(node))
    missing = [name for name in inputs if name not in values]
    why = NO_TYPE if missing else ""
    if not missing:
        try:
            required = tuple(name in outputs for name in node.output)
            results = walker.node_results(node, required, body, Scope(values))
        except DeclaredShapeError:
            raise
        except MavcgError as error:
            why = reason(error)
        else:
            made = {n: v for n, v, read in zip(node.output, results, required, strict=True) if read and v is not None}
            if any(value.count is not None for value in made.values()):
                return NodeSupport(node, inputs, outputs, COUNTED)
            if not all_tensors(made.values()):
                return NodeSupport(node, inputs, outputs, OF_SEQUENCE)
            for name, value in made.items():
                body.declared.check(name, f"%{name}", node_location(node), value.shape)
            lacking = next((value.narrow for value in made.values() if value.narrow and not value.is_constant), "")
            if lacking:  # at a subgraph's border it would be of another type than in the model
                return NodeSupport(node, inputs, outputs, f"elements of type {lacking}")
            values.update(made)
            types.update({name: value.type for name, value in made.items()})
            known = all(value.is_constant for value in made.values())
            inputs_known = all(values[name].is_constant for name in inputs)
            return NodeSupport(node, inputs, outputs, "", known, known and inputs_known)
    for name in outputs:
        if name in types:
            values[name] = Value(types[name], walker.emitter.builder.input(name, types[name]))
    return NodeSupport(node, inputs, outputs, why)


def with_shapes(
    model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]], initializers: set[str]
) -> onnx.ModelProto:
    """Return a copy of the model with these shapes of inputs; named dimensions that they fix are fixed everywhere.

    Raises: MavcgError for the shape of an unknown input.
    """
    inputs = [info for info in model.graph.input if info.name not in initializers]
    names = [info.name for info in inputs]
    for name in shapes:
        if name not in names:
            raise OptionError(f"--shape {name}: no such input; inputs are {', '.join(names) or 'none'}")
    symbols = given_symbols(inputs, shapes)
    copy = type(model)()
    copy.CopyFrom(model)
    for info in copy.graph.input:
        tensor = info.type.tensor_type
        if info.name in shapes:
            check_given(info, shapes[info.name])
            del tensor.shape.dim[:]
            for length in shapes[info.name]:
                tensor.shape.dim.add().dim_value = length
    for info in (*copy.graph.input, *copy.graph.output, *copy.graph.value_info):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param in symbols and dim.dim_param:
                dim.dim_value = symbols[dim.dim_param]
    if shapes:
        # The file's types of intermediate tensors were for free dimensions and may contradict the given shapes.
        del copy.graph.value_info[:]
        for info in copy.graph.output:
            info.type.tensor_type.ClearField("shape")
    return copy


def inferred_types(model: onnx.ModelProto) -> dict[str, TensorType]:
    """Return the types of tensors with a known shape, by onnx's shape inference.

    Raises: MavcgError if onnx cannot infer the model's shapes.
    """
    onnx = onnx_module()
    try:
        inferred = onnx.shape_inference.infer_shapes(_without_weights(model), data_prop=True)
    except Exception as error:  # onnx's C++ code raises several undocumented classes
        raise MavcgError(f"the shapes of its tensors cannot be inferred ({one_line(error)})") from error
    types = {}
    for info in (*inferred.graph.value_info, *inferred.graph.output, *model.graph.input):
        dims = dims_of(info)
        dtype = DTYPE_NAMES.get(info.type.tensor_type.elem_type)
        fixed = info.type.tensor_type.HasField("shape") and all(isinstance(d, int) for d in dims)
        if dtype is not None and fixed and all(0 <= int(d) < LARGEST_DIMENSION for d in dims):
            types[info.name] = TensorType(dtype, tuple(int(d) for d in dims))
    return types


MOST_SHAPE_BYTES = 1 << 12  # maximum bytes of an initializer that shapes may be computed from


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with large initializers as inputs: onnx serialises models, up to 2 GB."""
    copy = type(model)()
    copy.CopyFrom(model)
    there = {info.name for info in copy.graph.input}
    large = [t for t in copy.graph.initializer if t.ByteSize() > MOST_SHAPE_BYTES or t.data_location == 1]
    for tensor in large:
        if tensor.name not in there:
            info = copy.graph.input.add()
            info.name = tensor.name
            info.type.tensor_type.elem_type = tensor.data_type
            for length in tensor.dims:
                info.type.tensor_type.shape.dim.add().dim_value = length
    kept = [t for t in copy.graph.initializer if t.ByteSize() <= MOST_SHAPE_BYTES and t.data_location != 1]
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(kept)
    return copy
