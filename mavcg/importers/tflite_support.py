"""Analysis of the operators of a TFLite file: which can be imported, each separately, and graphs of some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.importers.declared_shapes import DeclaredShapeError, GivenShapes, ignores_declared
from mavcg.importers.limits import COUNTED, DEEPEST, NO_TYPE, reason
from mavcg.importers.tflite_control import CONTROL
from mavcg.importers.tflite_file import TfliteImport, needed_operators
from mavcg.importers.tflite_inputs import input_and_output_names
from mavcg.importers.tflite_model import TfliteModel, TfliteOperator
from mavcg.importers.tflite_parse import RUNS, parse_model, read_file
from mavcg.importers.value import Value

Shapes = tuple[tuple[int, ...], ...]


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
    stored in the file as it is used, in this subgraph alone. number: of the subgraph in the file. shape_of: the shapes
    that were inferred, by tensor.
    """

    model: TfliteModel
    data: bytes
    operators: tuple[OperatorSupport, ...]
    anchor: Anchor | None
    number: int = 0
    shape_of: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


def tflite_support(path: Path, shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({})) -> TfliteSupport:
    """Return the support of the main subgraph of a file. Raises: as graph_supports."""
    return graph_supports(path, shapes)[0]


def graph_supports(
    path: Path, shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({})
) -> tuple[TfliteSupport, ...]:
    """Try to import every operator of a file's main subgraph, and of those that its IF and WHILE run.

    shapes: shapes of inputs, by name, instead of the file's. Without them, all subgraphs have the shapes of the file;
    else those that the operators give them, and a subgraph is left out whose shapes are not known, or that two
    operators run in different ones. So is one that cannot be read; its runtime will say why. The main one is the first.
    Raises: MavcgError for a file that is damaged.
    """
    try:
        data = read_file(path)
        flow = _Flow(data, bool(shapes), ignores_declared(shapes))
        main = flow.support(parse_model(data), shapes, 0)
    except MavcgError as error:
        error.args = (f"{path}: {error}", *error.args[1:])
        raise
    return (main, *(each for each in flow.found.values() if each is not None))


@dataclass
class _Flow:
    """The subgraphs of a file that control flow runs, in the order in which they are found.

    resized: their inputs have other shapes than the file's. ignored: the shapes that the file declares are, as of
    GivenShapes. found: None for one that is being read, or left out. given: shapes of their inputs. depth: of control
    flow around the present one; what is deeper than DEEPEST is left out.
    """

    data: bytes
    resized: bool
    ignored: bool
    found: dict[int, TfliteSupport | None] = field(default_factory=dict)
    given: dict[int, Shapes | None] = field(default_factory=dict)
    depth: int = 0

    def support(self, parsed: TfliteModel, shapes: Mapping[str, tuple[int, ...]], number: int) -> TfliteSupport:
        """Try to import every operator of a subgraph. shapes: of its inputs, by name. Raises: MavcgError."""
        # The runtime starts with the file's shapes; if its user resizes free dimensions, it keeps the whole graph.
        model = replace(parsed, tensors=tuple(replace(tensor, free=()) for tensor in parsed.tensors))
        operators, shape_of = self.try_operators(model, shapes)
        tensors = tuple(replace(tensor, shape=shape_of.get(tensor.index, tensor.shape)) for tensor in model.tensors)
        return TfliteSupport(
            replace(model, tensors=tensors), self.data, operators, _anchor(model, self.data), number, shape_of
        )

    def results(self, model: TfliteModel, operator: TfliteOperator, shapes: Shapes | None) -> Shapes | None:
        """Try to import what an operator runs, and return the shapes of its results. shapes: of its operands; None:
        they are not known, as the results then are not."""
        passed = shapes if operator.op == "WHILE" or shapes is None else shapes[1:]
        numbers = [operator.options.get(option, 0) for option in RUNS[operator.op]]
        made = [self.body(model, number, passed) for number in numbers]
        if operator.op == "WHILE":  # its condition comes first; the states keep their shapes
            return passed if passed is not None and made[-1] == passed else None
        return made[0] if all(each == made[0] for each in made) else None

    def body(self, model: TfliteModel, number: int, shapes: Shapes | None) -> Shapes | None:
        """Try to import a subgraph, and return the shapes of its outputs. shapes: of its inputs."""
        body = model.bodies.get(number)
        if body is None or (self.resized and (shapes is None or len(shapes) != len(body.inputs))):
            self.found[number] = None
            return None
        if number in self.found or self.depth == DEEPEST:
            if self.resized and self.given.get(number) != shapes:
                self.found[number] = None
        else:
            self.found[number], self.given[number] = None, shapes
            self.depth += 1
            try:
                names = input_and_output_names(body)[: len(body.inputs)]
                by_name = dict(zip(names, shapes, strict=True)) if self.resized and shapes is not None else {}
                self.found[number] = self.support(body, GivenShapes(by_name, self.ignored), number)
            except MavcgError:
                return None
            finally:
                self.depth -= 1
        made = self.found.get(number)
        return None if made is None else _known_shapes(made.shape_of, body.outputs)

    def try_operators(
        self, model: TfliteModel, shapes: Mapping[str, tuple[int, ...]]
    ) -> tuple[tuple[OperatorSupport, ...], Mapping[int, tuple[int, ...]]]:
        """Try to import every operator; return the results, and the inferred shapes by tensor."""
        walk = TfliteImport(model, "", shapes)
        walk.add_inputs()
        # The file's shapes hold for the file's input shapes: after a resize, results of unsupported operators are
        # unknown, but for those of control flow, whose subgraphs tell them.
        resized = any(walk.values[index].shape != model.tensors[index].shape for index in model.inputs)
        needed = {operator.index for operator in needed_operators(model)}
        lost: set[int] = set()
        tried = []
        for operator in model.operators:
            shape_of: Mapping[int, tuple[int, ...]] = {}
            if operator.op in CONTROL:
                known = {index: value.shape for index, value in walk.values.items()}
                constants = {tensor.index: tensor.shape for tensor in model.tensors if tensor.data is not None}
                made = self.results(model, operator, _known_shapes(constants | known, operator.inputs))
                if made is not None and len(made) == len(operator.outputs):
                    shape_of = dict(zip(operator.outputs, made, strict=True))
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
                    shape = shape_of.get(index, tensor.shape) if resized else tensor.shape
                    known_shape = index in shape_of or not resized
                    if known_shape and tensor.dtype and all(n >= 0 for n in shape) and index not in walk.values:
                        type = TensorType(tensor.dtype, shape)
                        walk.values[index] = Value(type, walk.emitter.builder.input(f"%{index}", type))
                    else:
                        lost.add(index)
            tried.append(OperatorSupport(operator, why))
        return tuple(tried), {index: value.shape for index, value in walk.values.items()}


def _known_shapes(shape_of: Mapping[int, tuple[int, ...]], tensors: Sequence[int]) -> Shapes | None:
    """Return the shapes of tensors; None if one is not known."""
    return tuple(shape_of[index] for index in tensors) if all(index in shape_of for index in tensors) else None


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
