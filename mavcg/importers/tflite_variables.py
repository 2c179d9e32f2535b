"""The variables of a TFLite file during its import: VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE and CALL_ONCE.

A variable that the main subgraph reads before it assigns it keeps its value from one run to the next: it becomes an
input and an output of the graph that are a state. Its first value is what the subgraph of CALL_ONCE assigns, or zeros.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Array, Graph, GraphState, TensorType, fresh_names
from mavcg.importers.emitter import Emitter, finish_graph
from mavcg.importers.limits import UnsupportedOp
from mavcg.importers.tflite_model import TfliteModel, TfliteOperator, TfliteTensor, shorten_name
from mavcg.importers.value import Value, constant

CALL_ONCE, VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE = "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"
OPERATORS = (ASSIGN_VARIABLE, CALL_ONCE, READ_VARIABLE, VAR_HANDLE)
Variable = tuple[bytes, bytes]  # container and name
_TENSOR = b"\0tensor"  # in place of the container of a variable tensor, whose number is its name


@dataclass
class Variables:
    """The variables of a file, and the operators of one subgraph on them.

    values: of the variables at this point of a run. initial: before the first run, as arrays. assigned: variables that
    the main subgraph assigns; others keep their initial values. states: (variable, name of its input) for those that
    were read before they were assigned. handles: variables by index of the tensor that names them in the subgraph.
    """

    emitter: Emitter
    values: dict[Variable, Value] = field(default_factory=dict)
    initial: dict[Variable, Array] = field(default_factory=dict)
    assigned: frozenset[Variable] = frozenset()
    states: list[tuple[Variable, str]] = field(default_factory=list)
    handles: dict[int, Variable] = field(default_factory=dict)

    def handle(self, operator: TfliteOperator) -> Variable:
        """Note the result of a VAR_HANDLE."""
        variable = variable_of(operator)
        self.handles.update(dict.fromkeys(operator.outputs, variable))
        return variable

    def named_by(self, operator: TfliteOperator, location: str, count: int) -> Variable:
        """Return the variable that an operator of `count` inputs works on. Raises: MavcgError."""
        variable = self.handles.get(operator.inputs[0]) if len(operator.inputs) == count else None
        if variable is None:
            raise UnsupportedOp(f"{location}: supported: a variable that a VAR_HANDLE of the same subgraph names")
        return variable

    def read(self, operator: TfliteOperator, result: TfliteTensor, location: str, taken: Sequence[str]) -> Value:
        """Return the value that a READ_VARIABLE reads. taken: names of inputs and outputs of the graph.

        Raises: MavcgError for a variable whose shape is not known.
        """
        variable = self.named_by(operator, location, 1)
        if variable not in self.values:
            first = self.initial.get(variable)
            if first is None:
                if not result.dtype or any(n < 0 for n in result.shape) or result.free:
                    raise UnsupportedOp(
                        f"{location}: {result.label} of {result.kind}{list(result.shape)} has no first "
                        "value; supported: variables with one, or of a known shape"
                    )
                first = np.zeros(result.shape, DTYPES[result.dtype])
            stem = variable[1].decode("utf-8", "replace") or "variable"
            if variable not in self.assigned:
                self.values[variable] = constant(first, stem=stem)
                return self.values[variable]
            (name,) = fresh_names((*taken, *self.emitter.builder.types), [stem])
            self.initial[variable] = first
            made = self.emitter.builder.input(name, TensorType(result.dtype or "f32", first.shape))
            self.states.append((variable, made))
            self.values[variable] = Value(self.emitter.builder.types[made], made)
        return self.values[variable]

    def of_tensor(self, tensor: TfliteTensor, rows: int, location: str, taken: Sequence[str]) -> Value:
        """Return the value of a variable tensor, which is zero at first. rows: its first length in place of the file's.
        taken: as for read. Raises: UnsupportedOp for one of an unknown shape."""
        variable = (_TENSOR, str(tensor.index).encode())
        if variable not in self.values:
            if not tensor.dtype or any(n < 0 for n in tensor.shape) or tensor.free:
                raise UnsupportedOp(
                    f"{location}: {tensor.label} of {tensor.kind}{list(tensor.shape)}; supported: "
                    "variables of a known shape"
                )
            (name,) = fresh_names((*taken, *self.emitter.builder.types), [tensor.name or "state"])
            shape = (rows, *tensor.shape[1:])
            made = self.emitter.builder.input(name, TensorType(tensor.dtype, shape))
            self.initial[variable] = np.zeros(shape, DTYPES[tensor.dtype])
            self.states.append((variable, made))
            self.values[variable] = Value(self.emitter.builder.types[made], made)
        return self.values[variable]

    def keep(self, tensor: TfliteTensor, new: Value, location: str) -> None:
        """Set a variable tensor to its next value. Raises: MavcgError for one of another type."""
        variable = (_TENSOR, str(tensor.index).encode())
        if self.values[variable].type != new.type or new.count is not None:
            raise MavcgError(f"{location}: {tensor.label} is {self.values[variable].type} where {new.type} is kept")
        self.values[variable] = new
        self.assigned |= {variable}

    def assign(self, operator: TfliteOperator, value: Callable[[int], Value], location: str) -> None:
        """Set a variable to the value of a tensor. Raises: MavcgError for a value of another type than it has."""
        variable = self.named_by(operator, location, 2)
        new, old = value(operator.inputs[1]), self.values.get(variable)
        if (old is not None and old.type != new.type) or new.count is not None:
            raise UnsupportedOp(
                f"{location}: assigns {new.type} to a variable of {old.type if old is not None else 'no value'}; "
                "supported: one type and shape, which no run decides"
            )
        self.values[variable] = new


def variable_of(operator: TfliteOperator) -> Variable:
    """Return the variable that a VAR_HANDLE names."""
    container, name = (operator.options.get(key) or b"" for key in ("Container", "SharedName"))
    return bytes(container), bytes(name)


def assigned_variables(model: TfliteModel) -> frozenset[Variable]:
    """Return the variables that a subgraph assigns."""
    handles = {i: variable_of(o) for o in model.operators if o.op == VAR_HANDLE for i in o.outputs}
    assigned = (o.inputs[0] for o in model.operators if o.op == ASSIGN_VARIABLE and o.inputs)
    return frozenset(handles[i] for i in assigned if i in handles)


def initial_values(model: TfliteModel, evaluate: Callable[[TfliteModel, Variables], None]) -> Mapping[Variable, Array]:
    """Return the values that the subgraphs of all CALL_ONCE assign.

    evaluate: imports the operators of a subgraph, in which all values are known. Raises: MavcgError for a value that is
    not, and for a CALL_ONCE that runs after variables were read or assigned.
    """
    used = False
    made = Variables(Emitter("initial values"))
    for operator in model.operators:
        if operator.op == CALL_ONCE:
            location = f"node '{operator.index}:{CALL_ONCE}' ({CALL_ONCE})"
            if used:
                raise UnsupportedOp(f"{location}: supported: before all operators on variables")
            number = operator.options.get("InitSubgraphIndex", 0)
            body = model.bodies.get(number)
            if body is None:
                raise MavcgError(f"{location}: runs subgraph {number}, which the file does not have; it is damaged")
            made.handles, made.assigned = {}, assigned_variables(body)
            evaluate(body, made)
        used = used or operator.op in (READ_VARIABLE, ASSIGN_VARIABLE)
    arrays: dict[Variable, Array] = {}
    for variable, value in made.values.items():
        array = value.array
        if array is None:
            label = shorten_name(variable[1].decode("utf-8", "replace"))
            raise UnsupportedOp(f"variable '{label}': its first value is not known when the library is built")
        arrays[variable] = array
    return arrays


def graph_with_states(
    variables: Variables, inputs: Sequence[str], names: Sequence[str], outputs: Sequence[Value]
) -> Graph:
    """Return the finished graph, whose states are the variables. inputs: names of the file's inputs; names: of its
    outputs."""
    states = [(variable, name) for variable, name in variables.states if variable in variables.assigned]
    taken = (*variables.emitter.builder.types, *inputs, *names)
    nexts = fresh_names(taken, [f"{name}:next" for _, name in states])
    graph = finish_graph(
        variables.emitter,
        [*inputs, *(name for _, name in states)],
        [*names, *nexts],
        [*outputs, *(variables.values[variable] for variable, _ in states)],
    )
    made = []
    for (variable, name), output in zip(states, nexts, strict=True):
        first = variables.initial[variable]
        zero = not np.ascontiguousarray(first).reshape(-1).view(np.uint8).any()  # by its bits: -0.0 is not zero
        made.append(GraphState(name, output, None if zero else first))
    return replace(graph, states=tuple(made))
