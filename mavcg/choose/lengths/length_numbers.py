"""Numbers that a file computes from the lengths of bounded dimensions, such as a divisor by the number of tokens, its
square root, or the places of tokens behind a cache.

They are folded when the file is read for one length, to constants that differ from length to length. Here they become
operators on further inputs of the graph, the lengths, which no caller passes: the engine has them in words of the
context.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from types import MappingProxyType
from typing import Any

import numpy as np

from mavcg.choose.lengths.samples import Lengths, ReadGraph, kernel_samples
from mavcg.graph import Array, Graph, Node, TensorType, fresh_name
from mavcg.graph.counts import Count, Dimension
from mavcg.graph.ops import make_node
from mavcg.specs.model_program import OperandAddress, Program

_LARGEST = 1 << 53  # whole numbers that a double has exactly
_LARGEST_ROOT = 1 << 26


def length_input(dimension: str) -> str:
    """Return the name of the input with a dimension's length, or with a count by its text.

    No name of a format has spaces there, and import would rename this one.
    """
    return f"length of {dimension}"


@dataclass(frozen=True)
class _LengthNumbers:
    """Numbers function(offset + sum of scale * length), each `step` more than the one before it along an axis.

    scales: by dimension, none of them 0. many: False for a single number, of the longest lengths too. function: one of
    _FUNCTIONS; "" for none.
    """

    scales: Mapping[str, int]
    offset: int
    step: int
    many: bool
    function: str

    def at(self, lengths: Lengths, like: Array) -> Array:
        """Return the numbers at lengths, of the type and shape of an array."""
        first = self.offset + sum(scale * lengths[name] for name, scale in self.scales.items())
        whole = (first + self.step * np.arange(like.size)).reshape(like.shape).astype(like.dtype)
        if not self.function:
            return whole
        with np.errstate(all="ignore"):  # of lengths at which the file has another number, which is then refused
            return _FUNCTIONS[self.function].compute(whole)


@dataclass(frozen=True)
class _LengthFunction:
    """A function of one number, which is computed as other floats of its type are; its inverse finds the argument."""

    operators: tuple[str, ...]
    compute: Callable[[Array], Array]
    inverse: Callable[[float], float]


_FUNCTIONS: Mapping[str, _LengthFunction] = MappingProxyType(
    {
        "sqrt": _LengthFunction(("sqrt",), np.sqrt, lambda y: y * y),
        "reciprocal": _LengthFunction(("reciprocal",), lambda x: np.divide(1, x, dtype=x.dtype), lambda y: 1 / y),
        "reciprocal of sqrt": _LengthFunction(
            ("sqrt", "reciprocal"), lambda x: np.divide(1, np.sqrt(x), dtype=x.dtype), lambda y: 1 / (y * y)
        ),
    }
)


def with_length_inputs(read: ReadGraph, dimensions: Sequence[Dimension]) -> ReadGraph:
    """Return a function that reads the graph for lengths with the numbers that follow from them as operators.

    Numbers are found by the longest lengths and those of which one is another one. They are replaced in the graph of
    any lengths where they follow from these, too; other constants stay as they are.
    """
    most = {dimension.name: dimension.most for dimension in dimensions}
    samples = [most, *({**most, each.name: kernel_samples([each])[1][each.name]} for each in dimensions)]
    graphs = [read(lengths) for lengths in samples]
    numbers = _found_numbers(graphs, samples)

    def read_with_inputs(lengths: Lengths) -> Graph:
        graph = graphs[samples.index(dict(lengths))] if lengths in samples else read(lengths)
        return _with_operators(graph, numbers, lengths)

    return read_with_inputs


def with_numbers_computed(graphs: Sequence[Graph], samples: Sequence[Lengths]) -> list[Graph]:
    """Return the graphs for kernel_samples with the numbers that follow from the lengths as operators."""
    alone = 1 + len(samples[0])
    numbers = _found_numbers(graphs[:alone], samples[:alone])
    return [_with_operators(graph, numbers, lengths) for graph, lengths in zip(graphs, samples, strict=True)]


def _found_numbers(graphs: Sequence[Graph], samples: Sequence[Lengths]) -> Mapping[str, _LengthNumbers]:
    """Return the constants that follow from the lengths, by name. samples: as of _numbers."""
    numbers = dict[str, _LengthNumbers]()
    for name in graphs[0].constants:
        arrays = [graph.constants[name] for graph in graphs if name in graph.constants]
        if len(arrays) == len(samples) and (found := _numbers(samples, arrays)) is not None:
            numbers[name] = found
    return numbers


def _numbers(samples: Sequence[Lengths], arrays: Sequence[Array]) -> _LengthNumbers | None:
    """Return the numbers that are these arrays at the samples, each after the first of which changes one dimension.

    None for arrays that do not follow from the lengths in this way, or are equal where they overlap.
    """
    first = arrays[0]
    kinds = {(array.dtype, array.ndim, array.size == max(array.shape, default=1)) for array in arrays}
    if kinds != {(first.dtype, first.ndim, True)} or first.dtype.kind not in "iuf" or not min(a.size for a in arrays):
        return None
    starts = [float(array.flat[0]) for array in arrays]
    if len(set(starts)) == 1 or not all(map(isfinite, starts)):
        return None
    forms = ("", *(_FUNCTIONS if first.dtype.kind == "f" and first.size == 1 else ()))
    return next((found for form in forms if (found := _numbers_of(form, samples, arrays)) is not None), None)


def _numbers_of(function: str, samples: Sequence[Lengths], arrays: Sequence[Array]) -> _LengthNumbers | None:
    longest = arrays[0]
    starts = [float(array.flat[0]) for array in arrays]
    if function:
        if not all(1 / _LARGEST_ROOT < start < _LARGEST_ROOT for start in starts):
            return None
        exact = [_FUNCTIONS[function].inverse(start) for start in starts]
        starts = [float(round(each)) for each in exact]
    if not all(start.is_integer() and abs(start) < _LARGEST for start in starts):
        return None
    whole = [int(start) for start in starts]
    step = float(longest.flat[1]) - float(longest.flat[0]) if longest.size > 1 else 0.0
    if not step.is_integer():
        return None
    scales = dict[str, int]()
    for sample, start in zip(samples[1:], whole[1:], strict=True):
        name = next(name for name in sample if sample[name] != samples[0][name])
        scale, rest = divmod(whole[0] - start, samples[0][name] - sample[name])
        if rest:
            return None
        scales |= {name: scale} if scale else {}
    offset = whole[0] - sum(scale * samples[0][name] for name, scale in scales.items())
    found = _LengthNumbers(scales, offset, int(step), longest.size > 1, function)
    pairs = zip(samples, arrays, strict=True)
    return found if all(found.at(lengths, a).tobytes() == a.tobytes() for lengths, a in pairs) else None


def _with_operators(graph: Graph, numbers: Mapping[str, _LengthNumbers], lengths: Lengths) -> Graph:
    """Return the graph for lengths with inputs of those that are used, and operators that compute numbers from them."""
    types, constants = dict(graph.types), dict(graph.constants)
    nodes, inputs = list[Node](), list(graph.inputs)

    def add(op: str, inputs: list[str], output: str, tensor: TensorType, **attributes: Any) -> str:
        nodes.append(make_node(op, inputs, (output,), **attributes))
        types[output] = tensor
        return output

    def constant(value: Array, output: str) -> str:
        constants[output] = value
        types[output] = TensorType("i64", value.shape)
        return output

    wide = dict[str, str]()
    for dimension in lengths:
        if any(dimension in each.scales for each in numbers.values()):
            given = length_input(dimension)
            if given not in inputs:
                inputs.append(given)
                types[given] = TensorType("i32", ())
            wide[dimension] = add("cast", [given], fresh_name(types, f"{given}, i64"), TensorType("i64", ()), to="i64")
    for name, each in numbers.items():
        array = constants.get(name)
        if array is None or array.tobytes() != each.at(lengths, array).tobytes():
            continue  # the graphs of two lengths then differ, which is refused
        del constants[name]
        made = constant(np.array(each.offset, np.int64), f"{name}, offset")
        for dimension, scale in each.scales.items():
            factor = constant(np.array(scale, np.int64), f"{name}, scale of {dimension}")
            product = add("mul", [wide[dimension], factor], f"{name}, product of {dimension}", TensorType("i64", ()))
            made = add("add", [product, made], f"{name}, sum of {dimension}", TensorType("i64", ()))
        if each.many:
            places = constant((each.step * np.arange(array.size)).reshape(array.shape), f"{name}, places")
            made = add("add", [made, places], f"{name}, whole", TensorType("i64", array.shape))
        kind = graph.types[name].dtype
        if kind != "i64":
            made = add("cast", [made], f"{name}, {kind}", TensorType(kind, types[made].shape), to=kind)
        for op in _FUNCTIONS[each.function].operators if each.function else ():
            made = add(op, [made], f"{name}, {op}", types[made])
        add("reshape", [made], name, graph.types[name], shape=graph.types[name].shape)
    nodes += graph.nodes
    return replace(graph, inputs=tuple(inputs), nodes=tuple(nodes), types=types, constants=constants)


def without_length_inputs(program: Program, lengths: Mapping[str, Count]) -> Program:
    """Return the program in which the inputs of lengths, its last ones, are words of the context. lengths: by input."""
    words = {
        i: OperandAddress("count", count=lengths[tensor.name])
        for i, tensor in enumerate(program.inputs)
        if tensor.name in lengths
    }

    def in_context(operand: OperandAddress) -> OperandAddress:
        return words.get(operand.index, operand) if operand.base == "input" else operand

    inputs = tuple(tensor for i, tensor in enumerate(program.inputs) if i not in words)
    return replace(program.with_addresses(in_context), inputs=inputs)
