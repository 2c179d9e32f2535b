"""Import of a file's nodes in order, including calls of functions and branches that are known at import."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError
from mavcg.importers.call import results_of
from mavcg.importers.declared_shapes import DeclaredShapes, Dims
from mavcg.importers.emitter import Emitter
from mavcg.importers.limits import DEEPEST, LISTED, MOST_NODES, NeedsConstant, UnsupportedOp
from mavcg.importers.onnx_functions import (
    expanded_counts,
    function_key,
    opsets_of,
    resolve_attributes,
    schema_function,
    too_many_calls,
    with_defaults,
    without,
)
from mavcg.importers.onnx_loops import LOOPS, body_of
from mavcg.importers.onnx_narrow import tensor_constant
from mavcg.importers.onnx_ops.call import OnnxCall
from mavcg.importers.onnx_ops.sequences import OF_SEQUENCES
from mavcg.importers.onnx_ops.table import HANDLERS
from mavcg.importers.onnx_order import order_nodes, reads
from mavcg.importers.onnx_proto import read_attributes, read_tensor
from mavcg.importers.onnx_sequences import check_tensors, either_branch
from mavcg.importers.value import Value

if TYPE_CHECKING:
    import onnx


@dataclass
class Scope:
    """The names of a graph or function body. outer: scope of the graph around a branch, whose names are visible."""

    values: dict[str, Value]
    outer: Scope | None = None

    def find(self, name: str) -> Value | None:
        """Return the value of a name in this scope or an outer one."""
        value = self.values.get(name)
        return value if value is not None or self.outer is None else self.outer.find(name)


@dataclass(frozen=True)
class OnnxGraphBody:
    """The nodes of a graph or function body.

    opsets: opset version by domain. bound: attributes of the function's call. depth: nesting of functions and branches.
    declared: shapes of its tensors in the file.
    """

    nodes: Sequence[onnx.NodeProto]
    outputs: Sequence[str]
    opsets: Mapping[str, int]
    bound: Mapping[str, onnx.AttributeProto]
    depth: int
    declared: DeclaredShapes = DeclaredShapes()


@dataclass
class Walker:
    """The state of an import. functions: of the file, by domain and name. folder: of external data. count: nodes so
    far. made: the least nodes that a call of a function has become so far."""

    emitter: Emitter
    folder: Path | None
    functions: Mapping[tuple[str, str], onnx.FunctionProto] = field(default_factory=dict)
    count: int = 0
    made: dict[tuple[str, str], int] = field(default_factory=dict)

    @cached_property
    def function_nodes(self) -> dict[tuple[str, str], int]:
        """Number of nodes of each function of the file, with all that it calls."""
        return expanded_counts(self.functions, DEEPEST, MOST_NODES)

    def run(self, body: OnnxGraphBody, scope: Scope) -> list[Value]:
        """Import a body and return the values of its outputs. Raises: MavcgError for a node that cannot be imported."""
        if body.depth > DEEPEST:
            raise MavcgError(f"functions or branches are nested more than {DEEPEST} deep; does a function call itself?")
        nodes = order_nodes(body.nodes, body.outputs, set(scope.values))
        self._check_expansion(nodes)
        last: dict[str, int] = {}
        for i, node in enumerate(nodes):
            for name in reads(node):
                last[name] = i
        last.update(dict.fromkeys(body.outputs, len(nodes)))
        for i, node in enumerate(nodes):
            self.count += 1
            if self.count > MOST_NODES:
                raise MavcgError(f"more than {MOST_NODES} nodes once functions are expanded; too large a model")
            required = tuple(bool(name) and name in last for name in node.output)
            known = len(self.made)
            results = self.node_results(node, required, body, scope)
            if len(self.made) > known:  # calls in branches are counted once one of them is expanded
                self._check_expansion(nodes[i + 1 :])
            for name, value, want in zip(node.output, results, required, strict=True):
                if want:
                    assert value is not None
                    axis = None if value.count is None else value.count.axis
                    if value.is_tensor:
                        body.declared.check(name, f"%{name}", node_location(node), value.shape, axis)
                    scope.values[name] = value
            # Values are freed after their last use: computed weights would exist several times.
            for name in reads(node):
                if last[name] == i:
                    scope.values.pop(name, None)
        outputs = []
        for name in body.outputs:
            value = scope.find(name)
            if value is None:
                raise MavcgError(f"no node makes the output %{name}")
            outputs.append(value)
        return outputs

    def _check_expansion(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Raise MavcgError if calls of functions would make more than MOST_NODES nodes, before any is expanded."""
        keys = [function_key(node) for node in nodes]
        sizes = [max(self.function_nodes.get(key, 0), self.made.get(key, 0)) for key in keys]
        if self.count + sum(sizes) > MOST_NODES:
            raise too_many_calls(keys[sizes.index(max(sizes))], MOST_NODES)

    def node_results(
        self, node: onnx.NodeProto, required: tuple[bool, ...], body: OnnxGraphBody, scope: Scope
    ) -> Sequence[Value | None]:
        """Return the values of a node's outputs, None for unused ones. required: True for used ones. Raises:
        MavcgError."""
        node = resolve_attributes(node, body.bound)
        domain = "" if node.domain == "ai.onnx" else node.domain
        origin = _origin(node)
        op = f"{domain}.{node.op_type}" if domain else node.op_type
        location = node_location(node)
        inputs = tuple(self._input(name, location, scope) for name in node.input)
        function = self.functions.get((domain, node.op_type))
        results: Sequence[Value | None]
        if function is not None:
            given = {a.name: a for a in node.attribute}
            before = self.count
            results = self._function(function, inputs, given, body, location, required)
            nodes = self.count - before
            self.made[domain, node.op_type] = min(nodes, self.made.get((domain, node.op_type), nodes))
        elif (domain, node.op_type) == ("", "If"):
            results = self._branch(node, inputs, body, scope, location)
        elif (domain, node.op_type) in HANDLERS or (not domain and node.op_type in LOOPS):
            if domain or node.op_type not in OF_SEQUENCES:
                check_tensors(node, inputs, location)
            attrs = read_attributes(node, location, self.folder)
            if not domain:
                name, version = node.op_type, body.opsets.get("")
                if version is None:
                    raise MavcgError(
                        f"{location}: the file does not say which opset of ai.onnx it uses; its opset_import lacks it"
                    )
            else:
                name, version = op, body.opsets.get(domain, 1)
            call = OnnxCall(self.emitter, name, origin, inputs, version, tuple(node.input), attrs, required)
            if not domain and node.op_type in LOOPS:
                graph, run = self._inner_graph(node, "body", body, scope, location)
                results = LOOPS[node.op_type](call, body_of(graph, run))
            else:
                made = HANDLERS[domain, node.op_type](call)
                if made is None:
                    results = self._by_definition(node, domain, inputs, body, required)
                else:
                    results = results_of(made)
        else:
            results = self._by_definition(node, domain, inputs, body, required)
        results = [*results, *[None] * (len(required) - len(results))][: len(required)]
        for i, (value, want) in enumerate(zip(results, required, strict=True)):
            if want and value is None:
                raise UnsupportedOp(
                    f"{location}: its output {i} (%{node.output[i]}) is read; this output is not supported"
                )
        return results

    def _input(self, name: str, location: str, scope: Scope) -> Value | None:
        if not name:
            return None
        value = scope.find(name)
        if value is None:
            raise MavcgError(f"{location}: it reads %{name}, which no input, initializer or node defines")
        return value

    def _function(
        self,
        function: onnx.FunctionProto,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, onnx.AttributeProto],
        body: OnnxGraphBody,
        location: str,
        required: Sequence[bool],
    ) -> list[Value | None]:
        """Import a call of a function and return its results. attributes: the call's attributes."""
        if len(inputs) > len(function.input):
            raise MavcgError(f"{location}: {len(inputs)} inputs for a function of {len(function.input)}")
        opsets = {**body.opsets, **opsets_of(function.opset_import)}
        bound = {a.name: a for a in function.attribute_proto} | dict(attributes)
        scope = Scope({name: v for name, v in zip(function.input, inputs, strict=False) if v is not None})
        absent = {name for name in function.input if name not in scope.values}
        nodes = [without(node, absent) for node in function.node]
        read = [name for name, want in zip(function.output, required, strict=False) if want]
        inner = OnnxGraphBody(nodes, read, opsets, bound, body.depth + 1)  # a function is for tensors of any shape
        values = dict(zip(read, self.run(inner, scope), strict=True))
        return [values.get(name) for name in function.output]

    def _by_definition(
        self,
        node: onnx.NodeProto,
        domain: str,
        inputs: Sequence[Value | None],
        body: OnnxGraphBody,
        required: Sequence[bool],
    ) -> list[Value | None]:
        """Import an operator by the function that defines it. Raises: UnsupportedOp if there is none."""
        version, location = body.opsets.get(domain, 1), node_location(node)
        function = schema_function(node, domain, version, inputs)
        if function is None:
            raise UnsupportedOp(f"{location}: this operator is not supported; {LISTED}")
        return self._function(function, inputs, with_defaults(node, domain, version), body, location, required)

    def _branch(
        self, node: onnx.NodeProto, inputs: Sequence[Value | None], body: OnnxGraphBody, scope: Scope, location: str
    ) -> list[Value]:
        """Import the branch of an If whose condition is known, or both if a run decides, and return the results."""
        condition = inputs[0] if inputs else None
        if condition is None or condition.dtype != "bool" or condition.type.elements != 1:
            raise MavcgError(f"{location}: its condition is not a bool scalar")
        if condition.array is None:
            call = OnnxCall(self.emitter, "If", _origin(node), tuple(inputs), 0, tuple(node.input), {}, ())
            runs = [self._inner_graph(node, f"{name}_branch", body, scope, location)[1] for name in ("then", "else")]
            if (results := either_branch(call, condition, [partial(run, {}) for run in runs])) is not None:
                return results
            raise NeedsConstant(
                f"{location}: its condition is known only when the model runs; supported: branches that are decided at "
                "import, also by an input whose value is fixed in the file (docs/models.md, Branches)",
                node.input[0],
            )
        chosen = "then_branch" if bool(condition.array.reshape(())) else "else_branch"
        _, run = self._inner_graph(node, chosen, body, scope, location)
        return run({})

    def _inner_graph(
        self, node: onnx.NodeProto, name: str, body: OnnxGraphBody, scope: Scope, location: str
    ) -> tuple[onnx.GraphProto, Callable[[Mapping[str, Value]], list[Value]]]:
        """Return a graph among a node's attributes, and a function that imports it for values of its inputs.

        Its initializers are read once. Raises: MavcgError if the attribute is missing.
        """
        graph = next((a.g for a in node.attribute if a.name == name and a.HasField("g")), None)
        if graph is None:
            raise MavcgError(f"{location}: its attribute {name} is missing")
        values = read_initializers(graph, location, self.folder)
        outputs = [o.name for o in graph.output]
        declared = body.declared.inside(declared_dims(graph))
        inner = OnnxGraphBody(graph.node, outputs, body.opsets, body.bound, body.depth + 1, declared)
        return graph, lambda given: self.run(inner, Scope({**values, **given}, scope))


def _origin(node: onnx.NodeProto) -> str:
    return node.name or next((n for n in node.output if n), node.op_type)


def node_location(node: onnx.NodeProto) -> str:
    """Return a node's name for error messages."""
    domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
    return f"node '{_origin(node)}' ({domain}{node.op_type})"


def declared_dims(graph: onnx.GraphProto) -> dict[Hashable, Dims]:
    """Return the shapes that a graph declares for its tensors, without those of unknown rank.

    A length of 0 counts as free, because some exporters write it for an unknown one.
    """
    return {
        info.name: tuple(d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else None for d in tensor.shape.dim)
        for info in (*graph.input, *graph.value_info, *graph.output)
        for tensor in [info.type.tensor_type]
        if tensor.HasField("shape")
    }


def read_initializers(graph: onnx.GraphProto, location: str, folder: Path | None) -> dict[str, Value]:
    """Return a graph's initializers. Raises: MavcgError for a damaged, repeated or sparse one."""
    if graph.sparse_initializer:
        raise MavcgError(f"{location}: sparse initializers; not supported, export the model with dense ones")
    values: dict[str, Value] = {}
    for tensor in graph.initializer:
        if tensor.name in values:
            raise MavcgError(f"{location}: initializer %{tensor.name} is given twice")
        values[tensor.name] = tensor_constant(
            read_tensor(tensor, f"{location}: initializer %{tensor.name}", folder), stem=tensor.name or "c"
        )
    return values
