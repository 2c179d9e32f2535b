"""Numbers that a file computes from the length of a bounded dimension, such as a divisor by the number of tokens.

They are folded when the file is read for one length, to constants that differ from length to length. Here they become
operators on one more input of the graph, the length, which no caller passes: the engine has it in a word of the
context.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mavcg.choose.lengths.samples import Lengths, ReadGraph, kernel_samples
from mavcg.graph import Array, Graph, Node, TensorType
from mavcg.graph.counts import Dimension, Length
from mavcg.ops import make_node
from mavcg.specs.model_program import OperandAddress, Program


def length_input(dimension: str) -> str:
    """Return the name of the input with a dimension's length; no name of a format has spaces there, and import would
    rename this one."""
    return f"length of {dimension}"


@dataclass(frozen=True)
class _Affine:
    """The number scale * length + offset."""

    scale: int
    offset: int

    def at(self, length: int, like: Array) -> Array:
        """Return the number at a length, of the type and shape of an array."""
        return np.full(like.shape, self.scale * length + self.offset).astype(like.dtype)


def with_length_inputs(read: ReadGraph, dimensions: Sequence[Dimension]) -> ReadGraph:
    """Return a function that reads the graph for lengths with the numbers that follow from them as operators.

    A number that changes with one length alone, to scale * length + offset with integers by the longest and another
    one, is replaced in the graph of any lengths where it is that, too; other constants stay as they are.
    """
    for dimension in dimensions:
        read = _with_length_input(read, dimension, {each.name: each.most for each in dimensions})
    return read


def _with_length_input(read: ReadGraph, dimension: Dimension, most: Lengths) -> ReadGraph:
    first, name = _another_length(dimension), dimension.name
    graphs = {length: read({**most, name: length}) for length in (dimension.most, first)}
    numbers = _numbers((dimension.most, first), graphs)

    def read_with_input(lengths: Lengths) -> Graph:
        alone = lengths == {**most, name: lengths[name]} and lengths[name] in graphs
        graph = graphs[lengths[name]] if alone else read(lengths)
        return _with_operators(graph, numbers, length_input(name), lengths[name]) if numbers else graph

    return read_with_input


def _another_length(dimension: Dimension) -> int:
    """Return the length of the dimension that is compared with the longest one."""
    return kernel_samples([dimension])[1][dimension.name]


def _numbers(lengths: tuple[int, int], graphs: Mapping[int, Graph]) -> dict[str, _Affine]:
    """Return the constants of one element that differ between two lengths, by name."""
    first, second = (graphs[length].constants for length in lengths)
    numbers = {}
    for name in first:
        a, b = first[name], second.get(name)
        if b is None or a.size != 1 or a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind not in "iuf":
            continue
        if a.tobytes() != b.tobytes() and (number := _affine(lengths, a, b)) is not None:
            numbers[name] = number
    return numbers


def _affine(lengths: tuple[int, int], a: Array, b: Array) -> _Affine | None:
    x, y = float(a.reshape(())), float(b.reshape(()))
    if not (x.is_integer() and y.is_integer()) or (int(x) - int(y)) % (lengths[0] - lengths[1]):
        return None
    scale = (int(x) - int(y)) // (lengths[0] - lengths[1])
    return _Affine(scale, int(x) - scale * lengths[0])


def _with_operators(graph: Graph, numbers: Mapping[str, _Affine], given: str, length: int) -> Graph:
    """Return the graph for a length with the input `given`, and operators that compute these constants from it."""
    types, constants = dict(graph.types), dict(graph.constants)
    types[given] = TensorType("i32", ())
    nodes = list[Node]()

    def add(op: str, inputs: list[str], output: str, tensor: TensorType, **attributes: Any) -> str:
        nodes.append(make_node(op, inputs, (output,), **attributes))
        types[output] = tensor
        return output

    def number(value: int, output: str) -> str:
        constants[output] = np.array(value, np.int64)
        types[output] = TensorType("i64", ())
        return output

    wide = add("cast", [given], f"{given}, i64", TensorType("i64", ()), to="i64")
    for name, affine in numbers.items():
        array = constants.get(name)
        if array is None or array.tobytes() != affine.at(length, array).tobytes():
            continue  # the graphs of two lengths then differ, which is refused
        del constants[name]
        product = add("mul", [wide, number(affine.scale, f"{name}, scale")], f"{name}, product", types[wide])
        made = add("add", [product, number(affine.offset, f"{name}, offset")], f"{name}, sum", types[wide])
        kind = graph.types[name].dtype
        made = made if kind == "i64" else add("cast", [made], f"{name}, {kind}", TensorType(kind, ()), to=kind)
        add("reshape", [made], name, graph.types[name], shape=graph.types[name].shape)
    return replace(graph, inputs=(*graph.inputs, given), nodes=(*nodes, *graph.nodes), types=types, constants=constants)


def without_length_inputs(program: Program, dimensions: Sequence[Dimension]) -> Program:
    """Return the program in which the inputs of lengths, its last ones, are words of the context."""
    names = {length_input(dimension.name): dimension.name for dimension in dimensions}
    words = {
        i: OperandAddress("count", count=Length(names[tensor.name]))
        for i, tensor in enumerate(program.inputs)
        if tensor.name in names
    }

    def in_context(operand: OperandAddress) -> OperandAddress:
        return words.get(operand.index, operand) if operand.base == "input" else operand

    inputs = tuple(tensor for i, tensor in enumerate(program.inputs) if i not in words)
    return replace(program.with_addresses(in_context), inputs=inputs)
