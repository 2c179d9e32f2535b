"""Definitions of the operators of loops, and the evaluation of a loop's body in each iteration."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.graph import Array, Node
from mavcg.ops.loops import LoopRange

DEFINITIONS: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = dict.fromkeys(
    ("loop_state", "loop_enter", "loop_copy", "loop_final"), lambda node, inputs: np.asarray(inputs[0])
)


def run_loop(
    body: Sequence[Node], loop: LoopRange, values: dict[str, Array], compute: Callable[[Node, dict[str, Array]], None]
) -> None:
    """Evaluate a loop, whose states have their first values.

    body: its nodes, in an order of order_by_loops. values: of all tensors so far; those of the body are added, with the
    next value of each state as the last iteration leaves it. compute: adds the outputs of another node to the values.
    """
    nexts = {node.output: node for node in body if node.op == "loop_next"}
    for iteration in range(loop.trips):
        if loop.condition and not values[loop.condition].reshape(-1)[0]:
            break
        made: dict[str, Array] = {}
        for node in body:
            x = values[node.inputs[0]]
            if node.op == "loop_slice":
                values[node.output] = x[len(x) - 1 - iteration if node.attr("reverse") else iteration]
            elif node.op == "loop_next":
                made[node.inputs[0]] = values[node.inputs[1]]
            elif node.op == "loop_stack":
                rows = values.setdefault(node.output, np.zeros((loop.trips, *x.shape), x.dtype))
                rows[loop.trips - 1 - iteration if node.attr("reverse") else iteration] = x
            else:
                compute(node, values)
        values.update(made)
    values.update({name: values[node.inputs[0]] for name, node in nexts.items()})
