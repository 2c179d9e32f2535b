"""Numbers that a file computes from the length of a bounded dimension, such as a divisor by the number of tokens.

They are folded when the file is read for one length, to constants that differ from length to length. Here they become
operators on one more input of the graph, the length, which no caller passes: the engine has it in a word of the context
(word_of_length).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mavcg.graph import Array, Graph, Node, TensorType
from mavcg.model.bounded_graph import ReadGraph, sampled_lengths
from mavcg.ops import make_node
from mavcg.specs.count import Length
from mavcg.specs.dimension import Dimension
from mavcg.specs.model_program import OperandAddress, Program

LENGTH = "length of a run"  # name of the input; no name of a format has spaces there, and import would rename this one


@dataclass(frozen=True)
class _Affine:
    """The number scale * length + offset."""

    scale: int
    offset: int

    def at(self, length: int, like: Array) -> Array:
        """Return the number at a length, of the type and shape of an array."""
        return np.full(like.shape, self.scale * length + self.offset).astype(like.dtype)


def with_length_input(read: ReadGraph, dimension: Dimension) -> ReadGraph:
    """Return a function that reads the graph for a length with the numbers that follow from it as operators.

    Numbers of which the longest and another length say that they are scale * length + offset, with integers, are
    replaced in the graph of a length where they are that there, too; other constants stay as they are.
    """
    lengths = (dimension.most, sampled_lengths(dimension)[0])
    graphs = {length: read(length) for length in lengths}
    numbers = _numbers(lengths, graphs)

    def read_with_input(length: int) -> Graph:
        graph = graphs[length] if length in graphs else read(length)
        return _with_operators(graph, numbers, length) if numbers else graph

    return read_with_input


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


def _with_operators(graph: Graph, numbers: Mapping[str, _Affine], length: int) -> Graph:
    """Return the graph for a length with its input LENGTH, and operators that compute these constants from it."""
    types, constants = dict(graph.types), dict(graph.constants)
    types[LENGTH] = TensorType("i32", ())
    nodes = list[Node]()

    def add(op: str, inputs: list[str], output: str, tensor: TensorType, **attributes: Any) -> str:
        nodes.append(make_node(op, inputs, (output,), **attributes))
        types[output] = tensor
        return output

    def number(value: int, output: str) -> str:
        constants[output] = np.array(value, np.int64)
        types[output] = TensorType("i64", ())
        return output

    wide = add("cast", [LENGTH], f"{LENGTH}, i64", TensorType("i64", ()), to="i64")
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
    return replace(
        graph, inputs=(*graph.inputs, LENGTH), nodes=(*nodes, *graph.nodes), types=types, constants=constants
    )


def without_length_input(program: Program, dimension: Dimension) -> Program:
    """Return the program whose last input, if it is LENGTH, is the context's word with the length."""
    if not program.inputs or program.inputs[-1].name != LENGTH:
        return program
    number, word = len(program.inputs) - 1, OperandAddress("count", count=Length(dimension.name))

    def in_context(operand: OperandAddress) -> OperandAddress:
        return word if (operand.base, operand.index) == ("input", number) else operand

    steps = tuple(replace(step, operands=tuple(map(in_context, step.operands))) for step in program.steps)
    return replace(program, inputs=program.inputs[:-1], steps=steps)
