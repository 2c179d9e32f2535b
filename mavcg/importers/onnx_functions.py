"""Functions of ONNX files and of ONNX itself: bodies with the attributes and inputs of a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES
from mavcg.importers.onnx_proto import DTYPE_NAMES, one_line, onnx_module
from mavcg.importers.value import Value

if TYPE_CHECKING:
    import onnx


def opsets_of(imports: Iterable[Any]) -> dict[str, int]:
    """Return the opset version of each domain that a file or a function imports."""
    return {("" if o.domain == "ai.onnx" else o.domain): o.version for o in imports}


def expanded_counts(
    functions: Mapping[tuple[str, str], onnx.FunctionProto], deepest: int, most: int
) -> dict[tuple[str, str], int]:
    """Return the number of nodes of each function once all calls in it are expanded, `deepest` levels of them.

    Numbers above `most` are most + 1. Nothing is expanded: 25 functions that each call the one before twice have 2^25
    nodes. Of the branches of a node the smaller is counted. functions: by domain and name.
    """
    calls = {key: [function_key(node) for node in function.node] for key, function in functions.items()}
    branches = {key: sum(map(_branch_nodes, function.node)) for key, function in functions.items()}
    return _node_counts(calls, branches, deepest, most)


def _node_counts(
    calls: Mapping[tuple[str, str], Sequence[tuple[str, str]]],
    more: Mapping[tuple[str, str], int],
    deepest: int,
    most: int,
) -> dict[tuple[str, str], int]:
    """Return the number of nodes of each function from those it calls, and from nodes that are counted beside them."""
    counts = dict.fromkeys(calls, 0)
    for _ in range(deepest):
        counts = {
            key: min(most + 1, more.get(key, 0) + sum(1 + counts.get(other, 0) for other in those))
            for key, those in calls.items()
        }
    return counts


def without_functions(model: onnx.ModelProto, deepest: int, most: int) -> onnx.ModelProto:
    """Return the model with each call of a function that the file defines replaced by the function's nodes.

    They are counted first, in all branches. Raises: MavcgError for more than `most`, and for functions that onnx cannot
    expand: that call themselves, or are not well-formed.
    """
    onnx = onnx_module()
    from onnx.inliner import inline_local_functions

    calls = {("" if f.domain == "ai.onnx" else f.domain, f.name): _all_calls(f.node) for f in model.functions}
    graph = ("", "")  # an operator has a name
    calls[graph] = _all_calls(model.graph.node)
    counts = _node_counts(calls, {}, deepest, most)
    if counts[graph] > most:
        raise too_many_calls(max(calls[graph], key=lambda key: counts.get(key, 0)), most)
    try:
        return inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        raise MavcgError(f"the functions that it defines cannot be expanded ({one_line(error)})") from error


def _all_calls(nodes: Iterable[onnx.NodeProto]) -> list[tuple[str, str]]:
    """Return the keys of nodes and of all nodes in their branches and bodies."""
    keys, left = [], list(nodes)
    while left:
        node = left.pop()
        keys.append(function_key(node))
        left += [inner for a in node.attribute for g in (a.g, *a.graphs) for inner in g.node]
    return keys


def too_many_calls(function: tuple[str, str], most: int) -> MavcgError:
    """Return the error for calls that make more than `most` nodes. function: domain and name of the largest."""
    return MavcgError(
        f"function {'.'.join(filter(None, function))}: its calls make more than {most} nodes once functions are "
        "expanded; export the model without functions that call each other many times"
    )


def function_key(node: onnx.NodeProto) -> tuple[str, str]:
    """Return the domain and the name by which a node finds its function."""
    return ("" if node.domain == "ai.onnx" else node.domain, node.op_type)


def _branch_nodes(node: onnx.NodeProto) -> int:
    return min((len(a.g.node) for a in node.attribute if a.HasField("g")), default=0)


def resolve_attributes(node: onnx.NodeProto, bound: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """Return a node of a function's body with references to the function's attributes replaced by the call's values.

    bound: attributes of the call, by name; references to absent ones are removed.
    """
    if not any(a.ref_attr_name for a in node.attribute):
        return node
    copy = type(node)()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            copy.attribute.add().CopyFrom(attribute)
        elif attribute.ref_attr_name in bound:
            actual = copy.attribute.add()
            actual.CopyFrom(bound[attribute.ref_attr_name])
            actual.name = attribute.name
    return copy


def without(node: onnx.NodeProto, absent: set[str]) -> onnx.NodeProto:
    """Return a node of a function's body in which inputs that the call omits are absent."""
    if not any(name in absent for name in node.input):
        return node
    copy = type(node)()
    copy.CopyFrom(node)
    for i, name in enumerate(copy.input):
        if name in absent:
            copy.input[i] = ""
    return copy


def with_defaults(node: onnx.NodeProto, domain: str, version: int) -> dict[str, onnx.AttributeProto]:
    """Return a node's attributes, including the schema's defaults."""
    schema = _schema(node, domain, version)
    defaults = (
        {name: a.default_value for name, a in schema.attributes.items() if a.default_value.name} if schema else {}
    )
    return defaults | {a.name: a for a in node.attribute}


def _schema(node: onnx.NodeProto, domain: str, version: int) -> Any:
    onnx = onnx_module()
    try:
        return onnx.defs.get_schema(node.op_type, max(1, min(version, 1 << 20)), domain)
    except (onnx.defs.SchemaError, RuntimeError, UnicodeError):
        return None


def schema_function(
    node: onnx.NodeProto, domain: str, version: int, inputs: Sequence[Value | None]
) -> onnx.FunctionProto | None:
    """Return the function by which ONNX defines an operator; None if there is none.

    Raises: MavcgError for a node that ONNX cannot expand.
    """
    onnx = onnx_module()
    schema = _schema(node, domain, version)
    if schema is None or schema.deprecated:
        return None
    function = onnx.FunctionProto()
    plain = [v for v in schema.function_opset_versions if v <= version]
    dependent = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if plain:
        function.ParseFromString(schema.get_function_with_opset_version(max(plain)))
        return function  # type: ignore[no-any-return]
    if not dependent:
        return None
    numbers = {name: number for number, name in DTYPE_NAMES.items()}
    types = []
    for value in inputs:
        type = onnx.TypeProto()
        if value is not None and not value.is_tensor:
            for element in (value.elements or ())[:1]:
                type.sequence_type.elem_type.tensor_type.elem_type = numbers[element.dtype]
        elif value is not None:
            assert value.dtype in DTYPES
            type.tensor_type.elem_type = numbers[value.dtype]
            for length in value.shape:
                type.tensor_type.shape.dim.add().dim_value = length
        types.append(type.SerializeToString())
    try:
        text = schema.get_context_dependent_function_with_opset_version(max(dependent), node.SerializeToString(), types)
    except (RuntimeError, ValueError) as error:
        raise MavcgError(f"node '{node.name or node.op_type}' ({node.op_type}): {one_line(error)}") from error
    function.ParseFromString(text)
    return function  # type: ignore[no-any-return]
