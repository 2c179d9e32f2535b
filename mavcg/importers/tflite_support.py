"""Analysis of the operators of a TFLite file: which can be imported, each separately, and graphs of some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.importers.declared_shapes import DeclaredShapeError, GivenShapes
from mavcg.importers.limits import COUNTED, NO_TYPE, reason
from mavcg.importers.tflite_control import CONTROL
from mavcg.importers.tflite_file import TfliteImport, needed_operators
from mavcg.importers.tflite_model import TfliteModel, TfliteOperator
from mavcg.importers.tflite_parse import RUNS, parse_model, read_file
from mavcg.importers.value import Value


@dataclass(frozen=True)
class OperatorSupport:
    """An operator of the file. why: reason why it cannot be built; "" if it can."""

    operator: TfliteOperator
    why: str


@dataclass(frozen=True)
class Anchor:
    """A constant by which a loaded file is located in memory: the tensor's index, and its offset in the file."""

    tensor: int
    offset: int


@dataclass(frozen=True)
class TfliteSupport:
    """A file with the support of each of its operators.

    model: its tensors have shapes inferred from the inputs'. data: the file's bytes. anchor: None if no constant is
    stored in the file as it is used, in this subgraph alone. number: of the subgraph in the file.
    """

    model: TfliteModel
    data: bytes
    operators: tuple[OperatorSupport, ...]
    anchor: Anchor | None
    number: int = 0


def tflite_support(path: Path, shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({})) -> TfliteSupport:
    """Try to import every operator of a file. shapes: shapes of inputs, by name, instead of the file's.

    Of several subgraphs the main one is taken; operators that run the others stay with the runtime.
    Raises: MavcgError for a file that is damaged.
    """
    try:
        data = read_file(path)
        parsed = parse_model(data)
        # The runtime starts with the file's shapes; if its user resizes free dimensions, it keeps the whole graph.
        model = replace(parsed, tensors=tuple(replace(tensor, free=()) for tensor in parsed.tensors))
        operators, shape_of = _try_operators(model, shapes)
    except MavcgError as error:
        error.args = (f"{path}: {error}", *error.args[1:])
        raise
    tensors = tuple(replace(tensor, shape=shape_of.get(tensor.index, tensor.shape)) for tensor in model.tensors)
    return TfliteSupport(replace(model, tensors=tensors), data, operators, _anchor(model, data))


def body_supports(support: TfliteSupport) -> tuple[TfliteSupport, ...]:
    """Try to import every operator of the subgraphs that IF and WHILE of a file run, and of those that these run.

    Their inputs have the shapes of the file. A subgraph that cannot be read is left out; its runtime will say why.
    """
    found: dict[int, TfliteSupport | None] = {}
    waiting = list(_flow_bodies(support.model))
    while waiting:
        number = waiting.pop(0)
        if number in found or number not in support.model.bodies:
            continue
        body = support.model.bodies[number]
        body = replace(body, tensors=tuple(replace(tensor, free=()) for tensor in body.tensors))
        waiting += _flow_bodies(body)
        try:
            operators, shape_of = _try_operators(body, {})
        except MavcgError:
            found[number] = None
            continue
        tensors = tuple(replace(tensor, shape=shape_of.get(tensor.index, tensor.shape)) for tensor in body.tensors)
        model = replace(body, tensors=tensors)
        found[number] = TfliteSupport(model, support.data, operators, _anchor(body, support.data), number)
    return tuple(each for each in found.values() if each is not None)


def _flow_bodies(model: TfliteModel) -> Iterator[int]:
    """Yield the numbers of the subgraphs that a subgraph's control flow runs, in the order of the operators."""
    for operator in model.operators:
        for option in RUNS[operator.op] if operator.op in CONTROL else ():
            yield operator.options.get(option, 0)


def _try_operators(
    model: TfliteModel, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[tuple[OperatorSupport, ...], dict[int, tuple[int, ...]]]:
    """Try to import every operator; return the results, and the inferred shapes by tensor."""
    walk = TfliteImport(model, "", shapes)
    walk.add_inputs()
    # The file's shapes hold for the file's input shapes: after a resize, results of unsupported operators are unknown.
    resized = any(walk.values[index].shape != model.tensors[index].shape for index in model.inputs)
    needed = {operator.index for operator in needed_operators(model)}
    lost: set[int] = set()
    tried = []
    for operator in model.operators:
        if not operator.outputs:
            why = "it has no results; it changes the interpreter's state"
        elif operator.index not in needed:
            why = "nothing reads its result"
        elif operator.op in CONTROL:
            why = "control flow is the runtime's in a partial build"
        elif lost.intersection(operator.inputs):
            why = NO_TYPE
        else:
            try:
                walk.convert(operator)
                counted = [i for i in operator.outputs if walk.values[i].count is not None]
                why = COUNTED if counted else ""
                for index in counted:
                    del walk.values[index]
            except DeclaredShapeError:
                raise
            except MavcgError as error:
                why = reason(error)
        if why:
            for index in operator.outputs:
                tensor = model.tensors[index]
                if not resized and tensor.dtype and all(n >= 0 for n in tensor.shape) and index not in walk.values:
                    type = TensorType(tensor.dtype, tensor.shape)
                    walk.values[index] = Value(type, walk.emitter.builder.input(f"%{index}", type))
                else:
                    lost.add(index)
        tried.append(OperatorSupport(operator, why))
    return tuple(tried), {index: value.shape for index, value in walk.values.items()}


def part_graph(
    support: TfliteSupport, nodes: Sequence[int], name: str, loops: bool = False
) -> tuple[Graph, tuple[int, ...], tuple[int, ...]]:
    """Return the graph of some operators of a file, with the file's indices of its input and output tensors.

    nodes: positions in support.operators. loops: recurrent operators of any number of time steps become loops of the
    graph. Raises: MavcgError if it cannot be imported.
    """
    model = support.model
    operators = [support.operators[i].operator for i in nodes]
    made = {index for operator in operators for index in operator.outputs}
    read = dict.fromkeys(i for operator in operators for i in operator.inputs if i >= 0)
    inputs = tuple(i for i in read if i not in made and model.tensors[i].data is None)
    inside = set(nodes)
    elsewhere = {
        i for j, entry in enumerate(support.operators) if j not in inside for i in entry.operator.inputs
    } | set(model.outputs)
    outputs = tuple(i for operator in operators for i in operator.outputs if i in elsewhere)
    part = replace(model, operators=tuple(operators), inputs=inputs, outputs=outputs, subgraphs=1)
    # The whole file's shapes were compared when it was read.
    walk = TfliteImport(part, name, GivenShapes(ignore_declared=True))
    if loops:
        walk.emitter.loops, walk.emitter.least_trips = True, 1
    return walk.graph(), inputs, outputs


def _anchor(model: TfliteModel, data: bytes) -> Anchor | None:
    """Return the first constant that is a view of the file's bytes, not a copy, and locates this subgraph alone."""
    if model.shared is None:
        return None
    start = int(np.frombuffer(data, np.uint8).ctypes.data)
    for tensor in model.tensors:
        if tensor.data is not None and tensor.data.size and tensor.index not in model.shared:
            offset = int(tensor.data.ctypes.data) - start
            if 0 <= offset and offset + tensor.data.nbytes <= len(data):
                return Anchor(tensor.index, offset)
    return None
