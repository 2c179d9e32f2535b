"""Evaluation of a node or a whole graph by the reference."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Array, Graph, Node, is_float, type_of
from mavcg.graph.ops.loops import loop_ranges, order_by_loops
from mavcg.graph.ops.nodes import infer
from mavcg.graph.ops.op import FLOATS, node_location
from mavcg.graph.reference import (
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
from mavcg.graph.reference.loops import run_loop

# Each family of operators is a module with a mapping DEFINITIONS, named as that in ops/; a new family is added here.
FAMILIES = (spatial, elementwise, reduction, attention, layouts, eight_bit, block_weights, loops, selection, trees)
DEFINITIONS: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = MappingProxyType(
    {name: define for family in FAMILIES for name, define in family.DEFINITIONS.items()}
)
# Operators without arithmetic, which need no wider type.
_EXACT = (*layouts.MOVES, "where", "cast", "bitcast", "convert_layout")


Visit = Callable[[Node, Sequence[Array | None], Array], None]


def evaluate(node: Node, inputs: Sequence[Array | None], wide: bool = False) -> tuple[Array, ...]:
    """Return the outputs of a node as contiguous arrays.

    inputs: an array for each of the node's inputs, None for absent ones, which may be left out at the end. wide: floats
    are accepted in any precision, computed as float64 and returned as float64, without rounding to the graph's type,
    for comparison with kernels.
    Raises: MavcgError for inputs that the operator does not accept.
    """
    inputs = (*inputs, *[None for name in node.inputs[len(inputs) :] if not name])
    if len(inputs) != len(node.inputs):
        raise MavcgError(f"{node_location(node)}: {len(inputs)} arrays for {len(node.inputs)} inputs")
    names = [f"{i}" if array is not None else "" for i, array in enumerate(inputs)]
    arrays = {name: np.asarray(array) for name, array in zip(names, inputs, strict=True) if array is not None}
    types = {name: type_of(array) for name, array in arrays.items()}
    if wide:
        types = {name: replace(t, dtype="f32") if t.dtype in FLOATS else t for name, t in types.items()}
    inferred = infer(replace(node, inputs=tuple(names)), types, arrays)
    if wide or node.op not in _EXACT:
        arrays = {name: a.astype(np.float64) if is_float(a.dtype) else a for name, a in arrays.items()}
    with np.errstate(all="ignore"):
        result = DEFINITIONS[node.op](node, [arrays.get(name) for name in names])
        dtype = np.dtype(np.float64) if wide and inferred[0].dtype in FLOATS else DTYPES[inferred[0].dtype]
        rounded = np.asarray(result, dtype=dtype, order="C")
    if rounded.shape != inferred[0].shape:
        raise AssertionError(
            f"{node_location(node)}: the definition makes {rounded.shape} where {inferred[0]} was inferred"
        )
    return (rounded,)


def run(graph: Graph, *arrays: Array, wide: bool = False, visit: Visit | None = None) -> tuple[Array, ...]:
    """Return the outputs of a graph. arrays: its inputs, in order. wide: as in `evaluate`, for all nodes.

    visit: called with each node, its inputs and its result.
    Raises: MavcgError for a missing input, or one of another type than the graph's.
    """
    if len(arrays) != len(graph.inputs):
        raise MavcgError(f"graph {graph.name}: {len(arrays)} inputs given; it has {len(graph.inputs)}")
    values: dict[str, Array] = dict(graph.constants)
    for name, array in zip(graph.inputs, arrays, strict=True):
        if type_of(array) != graph.types[name]:
            raise MavcgError(
                f"graph {graph.name}: input {name} is {type_of(array)} where {graph.types[name]} is needed"
            )
        values[name] = array
    nodes = order_by_loops(graph.nodes)
    ranges = loop_ranges(nodes)
    bodies = {loop.first: place for place, loop in enumerate(ranges) if loop.parent < 0}
    last = {name: i for i, node in enumerate(nodes) for name in node.inputs}
    for loop in (ranges[place] for place in bodies.values()):  # all iterations read what one does
        read = {name for node in nodes[loop.first : loop.last + 1] for name in node.inputs}
        last.update({name: loop.last for name in read if last[name] < loop.last})

    def compute(node: Node, values: dict[str, Array]) -> None:
        inputs = [values[name] if name else None for name in node.inputs]
        results = evaluate(node, inputs, wide)
        if visit is not None:
            visit(node, inputs, results[0])
        values.update(zip(node.outputs, results, strict=True))

    end = -1  # of the loop that ran last
    for i, node in enumerate(nodes):
        if i in bodies:
            end = ranges[bodies[i]].last
            run_loop(nodes, ranges, bodies[i], values, compute)
        elif i > end:
            compute(node, values)
        for name in {*node.inputs, *node.outputs}:
            # Tensors are freed after their last use: all together are much larger than those live at one time.
            if last.get(name, i) == i and name not in graph.outputs:
                values.pop(name, None)
    return tuple(values[name] for name in graph.outputs)
