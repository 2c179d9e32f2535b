"""Import of Loop and Scan as loops of the graph (graph/ops/loops.py), whose length and conditions a run may decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph.ops.loops import MOST_TRIPS
from mavcg.importers.graph_loop import GraphLoop, begin_loop, new_loop
from mavcg.importers.onnx_ops.call import OnnxCall
from mavcg.importers.value import Value, constant

RunBody = Callable[[Mapping[str, Value]], list[Value]]  # imports a body for values of its inputs


@dataclass(frozen=True)
class LoopBody:
    """The graph of a Loop or Scan.

    inputs: its names. run: imports it for values of the inputs, and returns the outputs' values. count: number of
    outputs. read: the inputs that a node or an output of it reads.
    """

    inputs: Sequence[str]
    count: int
    run: RunBody
    read: frozenset[str]


def scan_loop(
    call: OnnxCall, body: LoopBody, carried: Sequence[Value], rows: Sequence[tuple[Value, bool]], trips: int
) -> tuple[GraphLoop, list[Value]] | None:
    """Return a Scan as a loop of the graph, and the values of the body's outputs; None where it has to be unrolled.

    rows: each scanned input with its elements along axis 0, and whether they are read from the last one on.
    """
    loop = new_loop(call, trips)
    if loop is None:
        return None
    try:
        given = [*(loop.state(value) for value in carried), *(loop.row(x, back) for x, back in rows)]
        with loop.open():
            results = body.run(dict(zip(body.inputs, given, strict=True)))
        loop.end(results[: len(carried)])
    except MavcgError:  # such as a state that grows; unrolled, the node may be supported, or is refused by name
        return None
    return loop, results[len(carried) :]


@dataclass(frozen=True)
class _Condition:
    """Conditions of a loop, without constants.

    first: all must hold before the first iteration. after: before each other one.
    """

    first: Sequence[Value]
    after: Sequence[Value]


def conditional_loop(call: OnnxCall, body: LoopBody, carried: Sequence[Value]) -> list[Value | None] | None:
    """Return the results of a Loop as a loop of the graph; None where it has to be unrolled.

    It is unrolled if its states change their type, if an operator needs the number of the iteration as a constant, for
    few iterations, and if it has an output of each iteration, whose number only the run knows.
    """
    most, first = call.maybe(0), call.maybe(1)
    if any(v is not None and v.array is not None and v.type.elements != 1 for v in (most, first)):
        return None  # refused by name
    trips = MOST_TRIPS if most is None or most.array is None else min(MOST_TRIPS, int(most.array.reshape(-1)[0]))
    ends = first is not None and first.array is not None and not first.array.reshape(-1)[0]
    if trips < 1 or ends or not call.emitter.loops:
        return None
    loop = begin_loop(call, trips)
    counted = most is not None and most.array is None
    try:
        count = loop.state(constant(np.array(0, np.int64))) if counted or body.inputs[0] in body.read else None
        own = [loop.state(value) for value in carried]
        number = constant(np.array(0, np.int64)) if count is None else count  # which nothing reads
        with loop.open():
            given = [number, constant(np.array(True)), *own]
            goes_on, *results = body.run(dict(zip(body.inputs, given, strict=True)))
        nexts = [*([] if count is None else [call.add("add", count, constant(np.array(1, np.int64)))]), *results]
        nexts = nexts[: len(loop.states)]
        condition = _condition(call, most if counted else None, nexts[:1], first, goes_on)
        stacked = results[len(carried) :]
        wanted = [*call.required[len(carried) :], *[False] * len(stacked)][: len(stacked)]
        if condition is None or (condition.first or condition.after) and any(wanted):
            return None
        if condition.first or condition.after:
            loop.state(_all_of(call, condition.first), condition=True)
            nexts.append(_all_of(call, condition.after))
        elif trips < call.emitter.least_trips or trips == MOST_TRIPS:
            return None
        loop.end(nexts)
        stacks = [loop.stack(value) if want else None for value, want in zip(stacked, wanted, strict=True)]
    except MavcgError:  # as of scan_loop
        return None
    before = 0 if count is None else 1
    return [*(loop.final(before + i) for i in range(len(carried))), *stacks]


def _condition(
    call: OnnxCall, most: Value | None, count: Sequence[Value], first: Value | None, goes_on: Value
) -> _Condition | None:
    """Return the conditions of a loop; None if the body ends it after the first iteration.

    most: the number of iterations, if the run decides it. count: the number of the next one.
    """
    if goes_on.dtype != "bool" or goes_on.type.elements != 1:
        raise call.fail("the condition that its body makes is not a bool scalar")
    if goes_on.array is not None and not goes_on.array.reshape(-1)[0]:
        return None
    before = [] if first is None or first.array is not None else [call.reshape(first, ())]
    after = [] if goes_on.array is not None else [call.reshape(goes_on, ())]
    if most is not None:
        if most.dtype != "i64" or most.type.elements != 1:
            raise call.fail("its input M is not one i64")
        limit = call.reshape(most, ())
        before.append(call.add("less", constant(np.array(0, np.int64)), limit))
        after.append(call.add("less", count[0], limit))
    return _Condition(before, after)


def _all_of(call: OnnxCall, conditions: Sequence[Value]) -> Value:
    both = constant(np.array(True))
    for number, condition in enumerate(conditions):
        both = call.add("and", both, condition) if number else condition
    return both
