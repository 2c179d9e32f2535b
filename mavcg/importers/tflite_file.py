"""Importer of TFLite files.

Supports f32, f16 and quantised 8-bit tensors, per tensor or per channel. An operator on 8-bit tensors becomes
dequantize, the operator on f32, quantize, which passes/graph/quantized.py rewrites as 8-bit arithmetic; operators that
only move elements move 8-bit numbers. Inputs and outputs keep their types.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Array, Graph
from mavcg.importers.call import results_of
from mavcg.importers.declared_shapes import DeclaredShapes
from mavcg.importers.emitter import Emitter
from mavcg.importers.limits import (
    DEEPEST,
    LARGEST_BYTES,
    LARGEST_TENSOR_BYTES,
    LEAST_TRIPS,
    LISTED,
    MOST_NODES,
    UnsupportedOp,
)
from mavcg.importers.tflite_control import CONTROL, FlowSubgraph
from mavcg.importers.tflite_inputs import declared_shapes, input_and_output_names, input_types
from mavcg.importers.tflite_model import TfliteModel, TfliteOperator, TfliteTensor
from mavcg.importers.tflite_ops.call import Handler, TfliteCall, scale_and_zero
from mavcg.importers.tflite_ops.recurrent import KEEPERS, batch_axis
from mavcg.importers.tflite_ops.table import HANDLERS
from mavcg.importers.tflite_parse import RUNS, parse_model, read_file
from mavcg.importers.tflite_rows import with_row_updates
from mavcg.importers.tflite_sparse import SparseData
from mavcg.importers.tflite_variables import (
    ASSIGN_VARIABLE,
    CALL_ONCE,
    OPERATORS,
    READ_VARIABLE,
    VAR_HANDLE,
    Variables,
    assigned_variables,
    graph_with_states,
    initial_values,
)
from mavcg.importers.value import Value, constant


def import_tflite(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    loops: bool = False,
    least_trips: int = LEAST_TRIPS,
) -> Graph:
    """Return the graph of a TFLite file; its inputs and outputs carry the file's names.

    shapes: shapes of inputs, by name, instead of those in the file; required for inputs with free dimensions other than
    the first, which defaults to 1. loops, least_trips: as of Emitter.
    Raises: UnsupportedOp for an unsupported operator, MavcgError, naming the location, for a file that is damaged or
    incomplete.
    """
    try:
        made = TfliteImport(parse_model(read_file(path)), path.stem, shapes)
        made.emitter.loops, made.emitter.least_trips = loops, least_trips
        return made.graph()
    except MavcgError as error:
        # Prefix the message with the file's name and keep the error's class, which callers distinguish.
        error.args = (f"{path}: {error}", *error.args[1:])
        raise


@dataclass
class Expansion:
    """The operators of an import, each counted as often as it is imported. depth: nesting of control flow."""

    count: int = 0
    depth: int = 0

    @contextmanager
    def enter_body(self, location: str) -> Iterator[None]:
        """Import control flow one level deeper. Raises: MavcgError beyond DEEPEST."""
        if self.depth == DEEPEST:
            raise MavcgError(f"{location}: nested more than {DEEPEST} deep; does a subgraph run itself?")
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


class TfliteImport:
    """The state of an import. values: graph values of the file's tensors imported so far, by index.

    emitter, expansion: those of the subgraph around this one; None for the main one.
    """

    def __init__(
        self,
        model: TfliteModel,
        name: str,
        shapes: Mapping[str, tuple[int, ...]],
        emitter: Emitter | None = None,
        expansion: Expansion | None = None,
    ) -> None:
        self.model = model
        self.emitter = emitter or Emitter(name)
        self.expansion = expansion or Expansion()
        self.shapes = shapes
        self.values: dict[int, Value] = {}
        self.dequantized: dict[int, Value] = {}
        self.declared = DeclaredShapes()
        self.variables = Variables(self.emitter)
        self.names: Sequence[str] | None = None  # of inputs and outputs, where variable tensors become states

    def graph(self) -> Graph:
        """Import the subgraph and return the graph. Raises: MavcgError for a file without outputs, and as `convert`."""
        model = self.model
        if not model.outputs:
            raise MavcgError("the file has no outputs; nothing would be computed")
        self.names = names = self.add_inputs()
        variables = self.variables
        variables.initial.update(initial_values(model, self.evaluate))
        variables.assigned = assigned_variables(model)
        for operator in needed_operators(model):
            self.run(operator, variables, names)
        outputs = [self.value(index, "the subgraph's outputs") for index in model.outputs]
        inputs = names[: len(model.inputs)]
        return graph_with_states(variables, inputs, names[len(inputs) :], outputs)

    def evaluate(self, body: TfliteModel, variables: Variables) -> None:
        """Import a subgraph that assigns variables their first values."""
        walk = TfliteImport(body, "", {})
        for operator in body.operators:
            walk.run(operator, variables, ())

    def run(self, operator: TfliteOperator, variables: Variables, names: Sequence[str]) -> None:
        """Add an operator to the graph; one on variables changes these. Raises: MavcgError as `convert`."""
        location = f"node '{self.model.label(operator)}' ({operator.op})"
        if operator.op == VAR_HANDLE:
            variables.handle(operator)
        elif operator.op == READ_VARIABLE and len(operator.outputs) == 1:
            tensor = self.model.tensors[operator.outputs[0]]
            self.values[tensor.index] = variables.read(operator, tensor, location, names)
            self.declared.check(tensor.index, tensor.label, location, self.values[tensor.index].shape)
        elif operator.op == ASSIGN_VARIABLE:
            variables.assign(operator, lambda index: self.value(index, location), location)
        elif operator.op != CALL_ONCE:
            self.convert(operator)

    def add_inputs(self) -> list[str]:
        """Add the inputs to the graph; return the names of inputs and outputs. Raises: MavcgError as graph."""
        names = input_and_output_names(self.model)
        types = input_types(self.model, names, self.shapes)
        for (index, type), name in zip(types.items(), names, strict=False):
            self.values[index] = Value(type, self.emitter.builder.input(name, type))
        self.declared = declared_shapes(self.model, types, self.shapes)
        return names

    def value(self, index: int, reader: str) -> Value:
        """Return the value of a tensor that an operator or output reads. reader: its name, for messages.

        Raises: UnsupportedOp for a variable; MavcgError for a tensor without a producer, or a damaged sparse constant.
        """
        if index in self.values:
            return self.values[index]
        tensor = self.model.tensors[index]
        dtype = tensor.element_type
        if tensor.variable:
            raise UnsupportedOp(
                f"{reader}: {tensor.label} keeps its value from one run to the next; supported: models without state"
            )
        data = tensor.data if tensor.sparse is None else self.dense(tensor, tensor.sparse)
        if data is None and 0 in tensor.shape:
            if math.prod(max(1, n) for n in tensor.shape) > LARGEST_TENSOR_BYTES:  # NumPy multiplies these, too
                raise MavcgError(f"{reader}: reads {tensor.label}, which is too large: {list(tensor.shape)}")
            data = np.zeros(tensor.shape, DTYPES[dtype])
        if data is None:
            raise MavcgError(
                f"{reader}: reads {tensor.label}, which is not an input, a constant or an earlier operator's result"
            )
        self.values[index] = constant(data, dtype, stem=tensor.name or "c")
        return self.values[index]

    def dense(self, tensor: TfliteTensor, sparse: SparseData) -> Array:
        """Return a sparse constant as a dense array. Raises: MavcgError if it is damaged, or too large, or all are."""
        total = DTYPES[tensor.element_type].itemsize * math.prod(tensor.shape)
        if any(n < 0 for n in tensor.shape) or total > LARGEST_BYTES:
            raise MavcgError(
                f"{tensor.label}: {list(tensor.shape)} takes {total} bytes; at most {LARGEST_BYTES} of a tensor that "
                "is stored sparse, none negative"
            )
        self.emitter.count_bytes(total, tensor.label)
        try:
            return sparse.dense(tensor.shape)
        except ValueError as error:
            raise MavcgError(f"{tensor.label} is stored sparse: {error}; the file is damaged") from error

    def input_of(self, operator: TfliteOperator, index: int, location: str) -> Value:
        """Return the value of a tensor that an operator reads; a variable that it keeps is a state."""
        tensor = self.model.tensors[index]
        if tensor.variable and operator.op in KEEPERS and self.names is not None:
            return self.variables.of_tensor(tensor, self.sequences(operator, tensor, location), location, self.names)
        return self.value(index, location)

    def sequences(self, operator: TfliteOperator, state: TfliteTensor, location: str) -> int:
        """Return the number of sequences whose states a variable tensor holds: the file's, or as many as are given."""
        axis, first = batch_axis(operator.op, operator.options), operator.inputs[0]
        declared = self.model.tensors[first].shape[axis : axis + 1]
        given = self.value(first, location).shape[axis : axis + 1]
        return given[0] if given and declared == state.shape[:1] else state.shape[0]

    def convert(self, operator: TfliteOperator) -> None:
        """Add an operator to the graph.

        Raises: UnsupportedOp for an operator without a handler; MavcgError for one that is damaged, or too many.
        """
        self.expansion.count += 1
        if self.expansion.count > MOST_NODES:
            raise MavcgError(f"more than {MOST_NODES} operators once control flow is expanded; too large a model")
        results = tuple(self.model.tensors[i] for i in operator.outputs)
        origin = self.model.label(operator)
        location = f"node '{origin}' ({operator.op})"
        handler = HANDLERS.get(operator.op) or self.control(operator, location)
        call = TfliteCall(
            self.emitter,
            operator.op,
            origin,
            tuple(self.input_of(operator, i, location) if i >= 0 else None for i in operator.inputs),
            tuple(self.model.tensors[i] if i >= 0 else None for i in operator.inputs),
            results,
            operator.options,
            self.dequantized,
        )
        made = handler(call)
        for position, value in call.nexts.items():
            if (kept := self.model.tensors[operator.inputs[position]]).variable:
                self.variables.keep(kept, value, location)
        values = results_of(made)
        if len(values) != len(results):
            raise call.fail(f"{len(results)} outputs where it has {len(values)}")
        for tensor, value in zip(results, values, strict=True):
            if tensor.index in self.values:
                raise call.fail(f"it makes {tensor.label}, which is made already; the file is damaged")
            stored = _as_stored(call, tensor, value)
            axis = None if stored.count is None else stored.count.axis
            self.declared.check(tensor.index, tensor.label, location, stored.shape, axis)
            self.values[tensor.index] = stored

    def control(self, operator: TfliteOperator, location: str) -> Handler:
        """Return the import of control flow. Raises: UnsupportedOp for another operator."""
        if operator.op in OPERATORS:
            raise UnsupportedOp(f"{location}: a variable in control flow; supported: in the main subgraph")
        if operator.op not in CONTROL:
            raise UnsupportedOp(f"{location}: this operator is not supported; {LISTED}")
        numbers = (operator.options.get(option, 0) for option in RUNS[operator.op])
        bodies, make = [self.subgraph(number, location) for number in numbers], CONTROL[operator.op]
        return lambda call: make(call, bodies)

    def subgraph(self, number: int, location: str) -> FlowSubgraph:
        """Return a subgraph that an operator runs. Raises: MavcgError if the file lacks it."""
        model = self.model.bodies.get(number)
        if model is None:
            raise MavcgError(f"{location}: runs subgraph {number}, which the file does not have; the file is damaged")
        model = with_row_updates(model)
        known = dict[int, Value]()  # constants, which all iterations share

        def run(emitter: Emitter, values: Sequence[Value], outputs: Sequence[int]) -> list[Value]:
            walk = TfliteImport(replace(model, outputs=tuple(outputs)), "", {}, emitter, self.expansion)
            return walk.results(values, known, f"{location}: subgraph {number}")

        return FlowSubgraph(model, run)

    def results(self, given: Sequence[Value], known: dict[int, Value], location: str) -> list[Value]:
        """Import a subgraph of control flow for values of its inputs, and return its outputs' values.

        known: values of its constants from former imports, to which this one adds. Raises: MavcgError.
        """
        model = self.model
        if len(given) != len(model.inputs):
            raise MavcgError(f"{location}: {len(model.inputs)} inputs for {len(given)} values; the file is damaged")
        for index, value in zip(model.inputs, given, strict=True):
            tensor = model.tensors[index]
            if tensor.element_type != value.dtype:
                raise MavcgError(f"{location}: {value.type} for {tensor.label} of {tensor.kind}; the file is damaged")
        with self.expansion.enter_body(location):
            self.values = known | dict(zip(model.inputs, given, strict=True))
            for operator in needed_operators(model):
                self.convert(operator)
        results = [self.value(index, location) for index in model.outputs]
        known.update((i, v) for i, v in self.values.items() if model.tensors[i].data is not None)
        return results


def _as_stored(call: TfliteCall, tensor: TfliteTensor, value: Value) -> Value:
    """Return a result in the file's type of its tensor: real numbers are quantized for an 8-bit tensor."""
    dtype = tensor.element_type
    if tensor.eight_bit and value.dtype == "f32":
        assert tensor.quant is not None
        scale, zero = scale_and_zero(tensor.quant, dtype)
        return call.add("quantize", value, scale, zero, axis=tensor.quant.axis, to=dtype)
    if dtype == "f16" and value.dtype == "f32":
        return call.cast(value, dtype)
    if dtype != value.dtype:
        raise call.fail(f"its result is {value.type} where the file says that {tensor.label} is {tensor.kind}")
    return value


def needed_operators(model: TfliteModel) -> Sequence[TfliteOperator]:
    """Return the operators that outputs and variables need, in the file's order, which is the order of execution."""
    required = set(model.outputs)
    needed = []
    for operator in reversed(model.operators):
        if required.intersection(operator.outputs) or operator.op == ASSIGN_VARIABLE:
            needed.append(operator)
            required.update(operator.inputs)
    return needed[::-1]
