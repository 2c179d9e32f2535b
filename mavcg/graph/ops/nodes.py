"""All operators by name; making nodes of them, inference of their types, and verification of graphs between passes."""

import difflib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array, AttrValue, Graph, Node, TensorType, type_of
from mavcg.graph.ops import (
    attention,
    block_weights,
    eight_bit,
    elementwise,
    layouts,
    loops,
    reduction,
    selection,
    spatial,
    trees,
)
from mavcg.graph.ops.op import Attr, Operator, TypedNode, check_type, node_location

# Each family of operators is a module with a tuple OPS; a new family is added here.
FAMILIES = (spatial, elementwise, reduction, attention, layouts, eight_bit, block_weights, loops, selection, trees)

OPS: Mapping[str, Operator] = MappingProxyType({op.name: op for family in FAMILIES for op in family.OPS})


def operator(node: Node) -> Operator:
    """Return the operator of a node. Raises: MavcgError for an unknown name."""
    op = OPS.get(node.op)
    if op is None:
        near = difflib.get_close_matches(node.op, OPS, n=1)
        hint = f"perhaps {near[0]} is meant" if near else f"there are {', '.join(sorted(OPS))}"
        raise MavcgError(f"{node_location(node)}: unknown operator {node.op}; {hint}")
    return op


def make_node(op: str, inputs: Sequence[str], outputs: Sequence[str], origin: str = "", **attrs: Any) -> Node:
    """Return a node with all attributes of its operator, including defaults, and all inputs, "" for absent ones.

    attrs: lists, NumPy arrays and NumPy scalars become tuples and Python numbers; an integer is accepted for a float,
    but not a float for an integer. Raises: MavcgError for an unknown operator, an unknown or missing attribute or one
    of another kind, and for too many or too few inputs.
    """
    node = Node(op, tuple(inputs), tuple(outputs), (), origin)
    known = operator(node)
    for name in attrs:
        if name not in known.attrs:
            has = ", ".join(known.attrs) or "none"
            raise MavcgError(f"{node_location(node)}: it has no attribute {name}; it has {has}")
    values: dict[str, AttrValue] = {}
    for name, attr in known.attrs.items():
        if attrs.get(name) is not None:
            values[name] = _coerce(node, name, attr, attrs[name])
        elif attr.default is not None:
            values[name] = attr.default
        else:
            raise MavcgError(f"{node_location(node)}: its attribute {name} is missing; it has no default")
    most = known.most
    if not known.least <= len(node.inputs) <= (len(node.inputs) if most is None else most):
        raise MavcgError(f"{node_location(node)}: {len(node.inputs)} inputs; it reads {', '.join(known.inputs)}")
    padded = node.inputs if most is None else (*node.inputs, *[""] * (most - len(node.inputs)))
    made = Node(op, padded, node.outputs, tuple(sorted(values.items())), origin)
    check_form(made)
    return made


# Nodes that check_form has accepted, by id. Passes keep most nodes, which never change, and are verified after each.
_well_formed: "WeakValueDictionary[int, Node]" = WeakValueDictionary()


def check_form(node: Node) -> None:
    """Check a node's attributes and inputs against its operator, except types. Raises: MavcgError for a difference."""
    if _well_formed.get(id(node)) is not node:
        _check_form(node)
        _well_formed[id(node)] = node


def _check_form(node: Node) -> None:
    known = operator(node)
    if [name for name, _ in node.attrs] != sorted(known.attrs):
        have, want = ", ".join(n for n, _ in node.attrs), ", ".join(sorted(known.attrs))
        raise MavcgError(f"{node_location(node)}: its attributes are ({have}) where ({want}) in this order are needed")
    for name, value in node.attrs:
        same = _coerce(node, name, known.attrs[name], value)
        if repr(same) != repr(value):
            raise MavcgError(
                f"{node_location(node)}: {name}={value!r} instead of {same!r}; use make_node, which converts it"
            )
    if known.most is not None and len(node.inputs) != known.most:
        reads = f"it reads {', '.join(known.inputs)}, with _ for one that is absent"
        raise MavcgError(f"{node_location(node)}: {len(node.inputs)} inputs; {reads}")
    if known.most is None and not node.inputs:
        raise MavcgError(f"{node_location(node)}: it has no inputs; it reads {', '.join(known.inputs)}")
    for i, name in enumerate(node.inputs):
        if not name and (known.most is None or not known.inputs[i].endswith("?")):
            missing = known.inputs[min(i, len(known.inputs) - 1)]
            raise MavcgError(f"{node_location(node)}: its input {missing} is missing")


def infer(
    node: Node, types: Mapping[str, TensorType], constants: Mapping[str, Array] = MappingProxyType({})
) -> tuple[TensorType, ...]:
    """Return the types of a node's outputs.

    types: types of at least its inputs, by name. constants: constant arrays, by name; constant indices are checked.
    Raises: MavcgError that names the node and the types of its inputs if these are incompatible.
    """
    check_form(node)
    for name in node.inputs:
        if name and name not in types:
            raise MavcgError(f"{node_location(node)}: it reads %{name}, which no earlier node makes")
    case = TypedNode(
        operator(node),
        node,
        tuple(types[name] if name else None for name in node.inputs),
        tuple(constants.get(name) for name in node.inputs),
    )
    return case.op.infer(case)


def _coerce(node: Node, name: str, attr: Attr, value: Any) -> AttrValue:
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    coerced: Any
    if attr.kind in ("ints", "floats"):
        items = [_scalar(attr.kind[:-1], v) for v in plain] if isinstance(plain, list | tuple) else [None]
        coerced = None if None in items else tuple(items)
    else:
        coerced = _scalar(attr.kind, plain)
    if coerced is None:
        kinds = {"ints": "whole numbers", "floats": "numbers", "int": "a whole number", "float": "a number"}
        expected = kinds.get(attr.kind) or {"bool": "true or false", "str": "a word"}[attr.kind]
        raise MavcgError(f"{node_location(node)}: attribute {name} is {value!r}; it takes {expected}")
    if attr.length is not None and isinstance(coerced, tuple) and len(coerced) != attr.length:
        raise MavcgError(f"{node_location(node)}: attribute {name} is {value!r}; it takes {attr.length} numbers")
    if attr.choices and coerced not in attr.choices:
        raise MavcgError(f"{node_location(node)}: attribute {name} is {value!r}; it takes {', '.join(attr.choices)}")
    checked_value: AttrValue = coerced
    return checked_value


def _scalar(kind: str, value: Any) -> bool | int | float | str | None:
    """Return the value as this kind; None if it is of another kind."""
    if isinstance(value, np.generic):
        value = value.item()
    match kind, value:
        case "bool", int() if value in (0, 1):  # files store bool as 0 and 1
            return bool(value)
        case ("str", str() as plain) | ("int", int() as plain) if not isinstance(value, bool):
            return plain
        case "float", int() | float() if not isinstance(value, bool):
            return float(value)
    return None


def verify(graph: Graph) -> None:
    """Check that each tensor is made once and before it is read, that types are right and attributes complete.

    Raises: MavcgError that names the first node or tensor that breaks a rule.
    """
    where = f"graph {graph.name}"
    made: set[str] = set()

    def make(name: str, by: str) -> None:
        if not name:
            raise MavcgError(f"{by}: a tensor without a name")
        if name in made:
            raise MavcgError(f"{by}: %{name} is made twice; every tensor must be made once")
        if name not in graph.types:
            raise MavcgError(f"{by}: %{name} has no type")
        check_type(by, name, graph.types[name])
        made.add(name)

    for name in graph.inputs:
        make(name, f"{where}, its inputs")
    for name, array in graph.constants.items():
        make(name, f"{where}, its constants")
        if type_of(array) != graph.types[name]:
            raise MavcgError(f"{where}: constant %{name} is declared as {graph.types[name]} and is {type_of(array)}")
    for node in graph.nodes:
        for name in node.inputs:
            if name and name not in made:
                raise MavcgError(f"{node_location(node)}: it reads %{name}, which no earlier node makes")
        inferred = infer(node, graph.types, graph.constants)
        if len(inferred) != len(node.outputs):
            count = len(node.outputs)
            raise MavcgError(f"{node_location(node)}: {count} outputs where the operator has {len(inferred)}")
        for name, tensor in zip(node.outputs, inferred, strict=True):
            make(name, node_location(node))
            if graph.types[name] != tensor:
                raise MavcgError(f"{node_location(node)}: %{name} is declared as {graph.types[name]} and is {tensor}")
    if not graph.outputs:
        raise MavcgError(f"{where}: it has no outputs; nothing would be computed")
    for name in graph.outputs:
        if name not in made:
            raise MavcgError(f"{where}: no node makes its output %{name}")
    _verify_states(graph)
    _verify_counts(graph)


def _verify_counts(graph: Graph) -> None:
    """Check that counts are outputs, the last ones, i64 scalars, and axes of other outputs. Raises: MavcgError."""
    counts = dict.fromkeys(count.count for count in graph.counts)
    where = f"graph {graph.name}"
    if graph.outputs[len(graph.outputs) - len(counts) :] != tuple(counts) or len(counts) == len(graph.outputs):
        raise MavcgError(f"{where}: its counts %{', %'.join(counts)} are not its last outputs, in this order")
    if len({count.output for count in graph.counts}) != len(graph.counts):
        raise MavcgError(f"{where}: two counts of one output; a run decides about one length of it")
    for count in graph.counts:
        of = graph.types[count.output] if count.output in graph.outputs and count.output not in counts else None
        if of is None or not 0 <= count.axis < len(of.shape) or graph.types[count.count] != TensorType("i64", ()):
            raise MavcgError(f"{where}: %{count.count} is no count of axis {count.axis} of an output %{count.output}")


def _verify_states(graph: Graph) -> None:
    """Check that states are different inputs, each with an output of its own, of the same type and number of axes.

    Of one length of a bounded dimension the output may be longer. Raises: MavcgError.
    """
    inputs, outputs = set(graph.inputs), set(graph.outputs)
    for state in graph.states:
        where = f"graph {graph.name}: state %{state.input} = %{state.output}"
        if state.input not in inputs or state.output not in outputs:
            raise MavcgError(f"{where}: is not an input and an output of it that no other state has")
        inputs.remove(state.input)
        outputs.remove(state.output)
        kind, following = graph.types[state.input], graph.types[state.output]
        if (kind.dtype, len(kind.shape)) != (following.dtype, len(following.shape)):
            raise MavcgError(f"{where}: {kind} and {following}; a state has one type")
        if state.initial is not None and type_of(state.initial) != kind:
            raise MavcgError(f"{where}: its initial value is {type_of(state.initial)}, and the state {kind}")
