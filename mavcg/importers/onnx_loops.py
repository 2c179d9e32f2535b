"""Import of Loop and Scan: as loops of the graph where that is possible (onnx_graph_loops.py), else unrolled.

Then the number of iterations follows from constants and shapes, as of branches.

An iteration is an import of the body with the values of the one before. Conditions that follow from iteration numbers
and shapes end a Loop at the right place, since whatever is known at import is evaluated there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mavcg.importers.call import known_at_build
from mavcg.importers.limits import MOST_UNROLLED, UnsupportedOp
from mavcg.importers.movement import element, stack
from mavcg.importers.onnx_graph_loops import LoopBody, RunBody, conditional_loop, scan_loop
from mavcg.importers.onnx_ops.call import OnnxCall
from mavcg.importers.onnx_order import reads
from mavcg.importers.value import Value, all_tensors, constant

if TYPE_CHECKING:
    import onnx


def body_of(graph: onnx.GraphProto, run: RunBody) -> LoopBody:
    """Return the body that a graph is. run: imports the graph, as of LoopBody."""
    read = frozenset(
        (*(name for node in graph.node for name in reads(node)), *(output.name for output in graph.output))
    )
    return LoopBody(tuple(i.name for i in graph.input), len(graph.output), run, read)


@known_at_build("M", "condition")
def import_loop(call: OnnxCall, body: LoopBody) -> list[Value | None]:
    """Import a Loop: its carried values after the last iteration, then what each iteration adds to its other outputs.

    Raises: NeedsConstant if the number of iterations or the first condition is an input's; UnsupportedOp for a
    condition that depends on computed values, and for too many iterations.
    """
    carried = [call.input(2 + i) for i in range(len(call.inputs) - 2)]
    if len(body.inputs) != 2 + len(carried) or body.count < 1 + len(carried):
        raise call.fail(
            f"a body of {len(body.inputs)} inputs and {body.count} outputs for {len(carried)} carried values"
        )
    if not all_tensors(call.maybe(i) for i in (0, 1)):
        raise call.fail("its number of iterations or its condition is no tensor")
    # A sequence is no state of a loop in the graph.
    kept = conditional_loop(call, body, carried) if all_tensors(carried) else None
    if kept is not None:
        return kept
    trips, go_on = _trips(call), _first_condition(call)
    collected: list[list[Value]] = [[] for _ in range(body.count - 1 - len(carried))]
    number = 0
    while go_on and (trips is None or number < trips):
        _check_number(call, number + 1 if trips is None else trips)
        given = [constant(np.array(number, np.int64)), constant(np.array(True)), *carried]
        condition, *results = body.run(dict(zip(body.inputs, given, strict=True)))
        number += 1
        if condition.array is None and (trips is None or number < trips):
            raise UnsupportedOp(
                f"{call.location}: its condition after iteration {number} is known only when the model runs; "
                "supported: loops whose number of iterations follows from constants and shapes"
            )
        go_on = condition.array is None or bool(condition.array.reshape(-1)[0])
        carried = results[: len(carried)]
        for values, value in zip(collected, results[len(carried) :], strict=True):
            values.append(value)
    stacked = [_stack(call, values, 0) if want else None for values, want in _read(call, collected, len(carried))]
    return [*carried, *stacked]


def import_scan(call: OnnxCall, body: LoopBody) -> list[Value | None]:
    """Import a Scan since opset 9: its states after the last element, then what each iteration adds to its outputs.

    Raises: MavcgError for inputs that do not fit the body; UnsupportedOp for too many iterations.
    """
    if call.version < 9:
        raise call.unsupported(f"Scan of opset {call.version}, with a batch dimension", "opset 9 or later")
    count = call.attr_int("num_scan_inputs")
    states = len(call.inputs) - count
    if count < 1 or states < 0 or len(body.inputs) != states + count or body.count < states:
        raise call.fail(
            f"num_scan_inputs {count} of {len(call.inputs)} inputs, for a body of {len(body.inputs)} inputs and "
            f"{body.count} outputs"
        )
    carried = [call.input(i) for i in range(states)]
    scanned = [call.input(states + i, rank_min=1) for i in range(count)]
    outputs = body.count - states
    axes = _entries(call, "scan_input_axes", count)
    axes = tuple(call.axis(axis, x.rank) for axis, x in zip(axes, scanned, strict=True))
    backwards = _entries(call, "scan_input_directions", count)
    lengths = {x.shape[axis] for axis, x in zip(axes, scanned, strict=True)}
    if len(lengths) != 1:
        raise call.fail(
            f"its scanned inputs have {', '.join(map(str, sorted(lengths)))} elements; one length is needed"
        )
    (length,) = lengths
    out_axes, out_backwards = (_entries(call, f"scan_output_{name}", outputs) for name in ("axes", "directions"))
    rows = [(_from_axis(call, x, axis), bool(back)) for x, axis, back in zip(scanned, axes, backwards, strict=True)]
    if (kept := scan_loop(call, body, carried, rows, length)) is not None:
        loop, values = kept
        wants = [*call.required[states:], *[False] * outputs][:outputs]
        ends = zip(values, wants, out_axes, out_backwards, strict=True)
        stacks = [_to_axis(call, loop.stack(x, bool(back)), axis) if want else None for x, want, axis, back in ends]
        return [*(loop.final(i) for i in range(states)), *stacks]
    _check_number(call, length)
    collected: list[list[Value]] = [[] for _ in range(outputs)]
    for number in range(length):
        elements = [
            element(call, x, axis, length - 1 - number if back else number)
            for x, axis, back in zip(scanned, axes, backwards, strict=True)
        ]
        results = body.run(dict(zip(body.inputs, [*carried, *elements], strict=True)))
        carried = results[:states]
        for values, value in zip(collected, results[states:], strict=True):
            values.append(value)
    return [
        *carried,
        *(
            _stack(call, values[::-1] if back else values, axis) if want else None
            for (values, want), axis, back in zip(_read(call, collected, states), out_axes, out_backwards, strict=True)
        ),
    ]


LOOPS: Mapping[str, Callable[[OnnxCall, LoopBody], list[Value | None]]] = {"Loop": import_loop, "Scan": import_scan}


def _from_axis(call: OnnxCall, x: Value, axis: int) -> Value:
    return call.transpose(x, (axis, *(i for i in range(x.rank) if i != axis)))


def _to_axis(call: OnnxCall, x: Value, axis: int) -> Value:
    axis = call.axis(axis, x.rank)
    return call.transpose(x, (*range(1, axis + 1), 0, *range(axis + 1, x.rank)))


def _trips(call: OnnxCall) -> int | None:
    """Return the most iterations; None where the condition alone ends the loop."""
    if call.maybe(0) is None:
        return None
    number = call.array(0, "M")
    if number.size != 1 or number.dtype != np.int64:
        raise call.fail("its input M is not one i64")
    return int(number.reshape(()))


def _first_condition(call: OnnxCall) -> bool:
    value = call.maybe(1)
    if value is not None and (value.dtype != "bool" or value.type.elements != 1):
        raise call.fail("its condition is not a bool scalar")
    return value is None or bool(call.array(1, "condition").reshape(()))


def _check_number(call: OnnxCall, iterations: int) -> None:
    if iterations > MOST_UNROLLED:
        raise call.unsupported(f"{iterations} iterations or more", f"at most {MOST_UNROLLED}")


def _entries(call: OnnxCall, name: str, count: int) -> tuple[int, ...]:
    return call.attr_ints(name, (0,) * count, count)


def _read(call: OnnxCall, collected: Sequence[list[Value]], first: int) -> list[tuple[list[Value], bool]]:
    """Return each collected output with whether it is read. first: number of the first one among the outputs."""
    wants = [*call.required[first:], *[False] * len(collected)]
    return list(zip(collected, wants, strict=False))


def _stack(call: OnnxCall, values: Sequence[Value], axis: int) -> Value:
    """Return equal tensors along a new axis. Raises: UnsupportedOp for none; MavcgError for unequal ones."""
    if not values:
        raise call.unsupported("an output of an iteration is read where there is none", "at least one iteration")
    if len({value.type for value in values}) != 1:
        raise call.fail("an output of its iterations has different shapes or types")
    return stack(call, values, call.axis(axis, values[0].rank + 1))
