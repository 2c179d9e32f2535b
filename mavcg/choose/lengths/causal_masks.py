"""Causal masks that a kernel reads: operators on places of queries and keys, in place of a constant of one length.

A mask [.., queries, keys] says which keys a query sees: the last one all, each before it one less. Attention that is
found in the graph (passes/graph/attention.py) reads none. Where a mask is joined with that of an input, it is read.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mavcg.choose.lengths.length_numbers import with_numbers_computed
from mavcg.choose.lengths.same_graph import causal_numbers
from mavcg.choose.lengths.samples import Lengths
from mavcg.graph import Array, Graph, Node, TensorType
from mavcg.graph.ops import make_node


def with_computed_masks(graphs: Sequence[Graph], samples: Sequence[Lengths]) -> list[Graph]:
    """Return the graphs for kernel_samples with operators in place of causal masks that differ between them."""
    read = {name for node in graphs[0].nodes for name in node.inputs}
    masks = [name for name in graphs[0].constants if name in read and _is_mask(name, graphs)]
    if not masks:
        return list(graphs)
    for name in masks:
        graphs = [_with_operators(graph, name) for graph in graphs]
    return with_numbers_computed(graphs, samples)


def _is_mask(name: str, graphs: Sequence[Graph]) -> bool:
    """Return True for a constant that is a causal mask of other numbers of keys in other graphs."""
    arrays = [graph.constants.get(name) for graph in graphs]
    longest = arrays[0]
    if longest is None or longest.ndim < 2 or longest.shape[-2] < 2:
        return False
    if all(each is not None and each.shape == longest.shape for each in arrays):
        return False
    numbers = [None if each is None or each.dtype != longest.dtype else causal_numbers(each) for each in arrays]
    return numbers[0] is not None and all(each == numbers[0] for each in numbers)


def _with_operators(graph: Graph, name: str) -> Graph:
    mask: Array = graph.constants[name]
    types, constants = dict(graph.types), {key: each for key, each in graph.constants.items() if key != name}
    nodes = list[Node]()
    queries, keys = mask.shape[-2:]
    outer = (1,) * (mask.ndim - 2)

    def constant(value: Array, label: str, dtype: str) -> str:
        constants[f"{name}, {label}"] = value
        types[f"{name}, {label}"] = TensorType(dtype, value.shape)
        return f"{name}, {label}"

    def add(op: str, inputs: Sequence[str], output: str, tensor: TensorType, **attributes: Any) -> str:
        nodes.append(make_node(op, inputs, (output,), **attributes))
        types[output] = tensor
        return output

    of_keys = constant(np.arange(keys, dtype=np.int32).reshape(*outer, 1, keys), "keys", "i32")
    of_queries = constant(np.arange(queries, dtype=np.int32).reshape(*outer, queries, 1), "queries", "i32")
    before = constant(np.array(keys - queries, np.int32), "keys before", "i32")
    last = add("add", (of_queries, before), f"{name}, last", TensorType("i32", (*outer, queries, 1)))
    kind = graph.types[name]
    seen, hidden = mask.flat[0], mask.flat[keys - 1]
    if kind.dtype == "bool":
        add("less_equal" if seen else "greater", (of_keys, last), name, kind)
    else:
        behind = add("greater", (of_keys, last), f"{name}, behind", TensorType("bool", kind.shape))
        values = [constant(np.array(value), text, kind.dtype) for text, value in (("hidden", hidden), ("seen", seen))]
        add("where", (behind, *values), name, kind)
    return replace(graph, nodes=(*nodes, *graph.nodes), types=types, constants=constants)
