"""Import of IF and WHILE of TFLite files, whose branches, condition and body are subgraphs.

A branch whose condition is known is a part of the graph around it. A WHILE whose number of iterations follows from
constants, as of a recurrent layer's time steps, is a loop without a condition, or unrolled; the number is counted by an
import of what the condition needs, and nothing else. Other conditions are decided in the run (graph/ops/loops.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mavcg.errors import MavcgError
from mavcg.graph.ops.loops import MOST_TRIPS
from mavcg.importers.emitter import Emitter
from mavcg.importers.graph_loop import begin_loop, conditional_branches
from mavcg.importers.limits import MOST_UNROLLED
from mavcg.importers.tflite_model import TfliteModel
from mavcg.importers.tflite_ops.call import TfliteCall
from mavcg.importers.value import Value, constant

MOST_COUNTED = 1 << 12  # iterations that are counted before a run decides when the loop ends
_Counted = tuple[int, Mapping[int, Value]]  # iterations, and the states that decide their number, after the last one


@dataclass(frozen=True)
class FlowSubgraph:
    """A subgraph that an operator runs.

    run: imports what these outputs (indices of tensors) need, for values of the inputs, and returns their values.
    """

    model: TfliteModel
    run: Callable[[Emitter, Sequence[Value], Sequence[int]], list[Value]]

    def results(self, emitter: Emitter, values: Sequence[Value]) -> list[Value]:
        """Import the subgraph for values of its inputs and return its outputs' values."""
        return self.run(emitter, values, self.model.outputs)


def import_if(call: TfliteCall, bodies: Sequence[FlowSubgraph]) -> tuple[Value, ...]:
    """Import an IF: the branch whose condition is known, or both where a run decides. Raises: UnsupportedOp."""
    condition, given = call.input(0), [call.input(i) for i in range(1, len(call.inputs))]
    _check_condition(call, condition)
    if condition.array is not None:
        return tuple(bodies[0 if condition.array.reshape(-1)[0] else 1].results(call.emitter, given))
    branches = [partial(body.results, call.emitter, given) for body in bodies]
    results = conditional_branches(call, condition, branches)
    if results is None:
        raise _undecided_error(call)
    return tuple(results)


def import_while(call: TfliteCall, bodies: Sequence[FlowSubgraph]) -> tuple[Value, ...]:
    """Import a WHILE: its states after the last iteration.

    Raises: UnsupportedOp if a run decides the number of iterations where loops are unrolled, or a state changes its
    type then; and for too many iterations.
    """
    condition, body = bodies
    states = [call.input(i) for i in range(len(call.inputs))]
    if any(len(each.model.inputs) != len(states) for each in bodies) or len(body.model.outputs) != len(states):
        counts = (len(each.model.inputs) for each in bodies)
        raise call.fail(
            f"{len(states)} states for subgraphs of {' and '.join(map(str, counts))} inputs, and "
            f"{len(body.model.outputs)} outputs; the file is damaged"
        )
    counted = _count_trips(condition, body, states)
    if counted is None:
        if not call.emitter.loops:
            raise _undecided_error(call)
        return tuple(_loop(call, condition, body, states, None))
    trips = counted[0]
    if trips >= call.emitter.least_trips and call.emitter.loops:
        try:
            return tuple(_loop(call, condition, body, states, counted))
        except MavcgError:  # such as a state that grows; unrolled, the body may be supported, or is refused by name
            pass
    if trips > MOST_UNROLLED:
        raise call.unsupported(f"{trips} iterations that cannot be a loop", f"at most {MOST_UNROLLED}")
    for _ in range(trips):
        states = body.results(call.emitter, states)
    return tuple(states)


def _loop(
    call: TfliteCall, condition: FlowSubgraph, body: FlowSubgraph, initial: Sequence[Value], counted: _Counted | None
) -> list[Value]:
    """Return the states after a loop of the graph. counted: its number of iterations; None: its condition ends it.

    What the body returns as it is, such as weights, is no state of the loop, nor is a counter that only the condition
    reads.
    """
    outputs, results = body.model.outputs, list(initial)
    changed = {i for i, index in enumerate(outputs) if body.model.inputs[i] != index}
    if counted is not None:
        for number, value in counted[1].items():
            results[number] = value
        changed &= _closure(body.model, frozenset(range(len(outputs))) - counted[1].keys())
    goes_on = None if counted is not None else _holds(call, condition, initial)
    loop = begin_loop(call, MOST_TRIPS if counted is None else counted[0])
    order, values = sorted(changed), list(initial)
    for number in order:
        values[number] = loop.state(initial[number])
    if goes_on is not None:
        loop.state(goes_on, condition=True)
    with loop.open():
        made = body.run(call.emitter, values, [outputs[number] for number in order])
        if goes_on is not None:
            nexts = list(values)
            for number, value in zip(order, made, strict=True):
                nexts[number] = value
            made.append(_holds(call, condition, nexts))
    loop.end(made)
    for i, number in enumerate(order):
        results[number] = loop.final(i)
    return results


def _holds(call: TfliteCall, condition: FlowSubgraph, states: Sequence[Value]) -> Value:
    """Import the condition of a WHILE; a bool without dimensions."""
    (made,) = condition.results(call.emitter, states) if len(condition.model.outputs) == 1 else (constant(0),)
    _check_condition(call, made)
    return call.reshape(made, ())


def _check_condition(call: TfliteCall, condition: Value) -> None:
    if condition.dtype != "bool" or condition.type.elements != 1:
        raise call.fail(f"a condition of {condition.type}; one bool is needed")


def _undecided_error(call: TfliteCall) -> MavcgError:
    return call.unsupported(
        "its condition is known only when the model runs",
        "that in f32 networks that are built whole (docs/models.md, Loops)",
    )


def _count_trips(condition: FlowSubgraph, body: FlowSubgraph, states: Sequence[Value]) -> _Counted | None:
    """Return the number of iterations of a WHILE, and the states that decide it after the last one, if it follows from
    constants and is at most MOST_COUNTED, else None. Only these states are computed."""
    order = sorted(_closure(body.model, _inputs_of(condition.model, condition.model.outputs)))
    emitter, values = Emitter("iterations"), list(states)
    for trips in range(MOST_COUNTED + 1):
        if any(values[number].array is None for number in order):
            return None
        goes_on = condition.results(emitter, values)
        if len(goes_on) != 1 or goes_on[0].dtype != "bool" or goes_on[0].array is None or goes_on[0].array.size != 1:
            return None
        if not goes_on[0].array.reshape(-1)[0]:
            return trips, {number: values[number] for number in order}
        made = body.run(emitter, values, [body.model.outputs[number] for number in order])
        for number, value in zip(order, made, strict=True):
            values[number] = value
    return None


def _closure(body: TfliteModel, numbers: frozenset[int]) -> frozenset[int]:
    """Return the numbers of all states on which these states depend, in any iteration."""
    while True:
        more = numbers | _inputs_of(body, [body.outputs[number] for number in numbers])
        if more == numbers:
            return numbers
        numbers = more


def _inputs_of(model: TfliteModel, outputs: Sequence[int]) -> frozenset[int]:
    """Return the numbers of a subgraph's inputs on which tensors depend."""
    needed = set(outputs)
    for operator in reversed(model.operators):
        if needed.intersection(operator.outputs):
            needed.update(operator.inputs)
    return frozenset(number for number, index in enumerate(model.inputs) if index in needed)


CONTROL: Mapping[str, Callable[[TfliteCall, Sequence[FlowSubgraph]], tuple[Value, ...]]] = {
    "IF": import_if,
    "WHILE": import_while,
}
