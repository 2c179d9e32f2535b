"""Definitions of the operators of loops, and the evaluation of a loop's body in each iteration."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.graph import Array, Node
from mavcg.graph.ops.loops import LOOP_OPS, LoopRange

DEFINITIONS: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = dict.fromkeys(
    ("loop_state", "loop_enter", "loop_copy", "loop_final"), lambda node, inputs: np.asarray(inputs[0])
)


def run_loop(
    nodes: Sequence[Node],
    loops: Sequence[LoopRange],
    at: int,
    values: dict[str, Array],
    compute: Callable[[Node, dict[str, Array]], None],
) -> None:
    """Evaluate a loop, whose states have their first values.

    nodes: of the graph, in an order of order_by_loops. loops: its loops; at: number of the one to evaluate. values: of
    all tensors so far; those of the body are added, with the next value of each state as the last iteration leaves it.
    compute: adds the outputs of another node to the values.
    """
    loop, inner = loops[at], {r.first: place for place, r in enumerate(loops) if r.parent == at}
    own = [node for node in nodes[loop.first : loop.last + 1] if node.op in LOOP_OPS]
    own = [node for node in own if node.attr("loop") == loop.number]
    for iteration in range(loop.trips):
        if loop.condition and not values[loop.condition].reshape(-1)[0]:
            break
        made: dict[str, Array] = {}
        number = loop.first
        while number <= loop.last:
            if number in inner:
                run_loop(nodes, loops, inner[number], values, compute)
                number = loops[inner[number]].last + 1
                continue
            node = nodes[number]
            x = values[node.inputs[0]]
            if node.op == "loop_slice":
                values[node.output] = x[len(x) - 1 - iteration if node.attr("reverse") else iteration]
            elif node.op == "loop_next":
                made[node.inputs[0]] = values[node.inputs[1]]
            elif node.op == "loop_stack":
                if not iteration:  # a new array, since those of other runs of this loop may be read later
                    values[node.output] = np.zeros((loop.trips, *x.shape), x.dtype)
                values[node.output][loop.trips - 1 - iteration if node.attr("reverse") else iteration] = x
            else:
                compute(node, values)
            number += 1
        values.update(made)
    values.update({node.output: values[node.inputs[0]] for node in own if node.op == "loop_next"})
