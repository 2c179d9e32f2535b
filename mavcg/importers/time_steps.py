"""The time steps of a recurrent layer: a loop of the graph, or nodes of each step."""

from collections.abc import Callable
from dataclasses import dataclass

from mavcg.importers.call import NodeCall
from mavcg.importers.graph_loop import new_loop
from mavcg.importers.movement import cut, element, join
from mavcg.importers.value import Value

State = tuple[Value, ...]
# (the input's part of the gates [batch, gates * hidden], state) -> the next state, the hidden one first
Step = Callable[[Value, State], State]


@dataclass(frozen=True)
class StepOrder:
    """The order of the time steps, and what is needed of them.

    all_steps: the hidden states of all steps are needed. backwards: from the last one on; the state stays as it was at
    first until the end of its sequence. valid: [steps, batch, 1], of bool, steps within each sequence; None: all are.
    """

    all_steps: bool = True
    backwards: bool = False
    valid: Value | None = None


def _within(call: NodeCall, step: Step, valid: Value | None, x: Value, state: State) -> tuple[Value, State]:
    """Return the hidden state that a time step outputs, and its state: zeros and the state before it where it is after
    the end of a sequence. valid: [batch, 1]; None: it is within all."""
    made = step(x, state)
    if valid is None:
        return made[0], made
    held = tuple(call.add("where", valid, new, old) for new, old in zip(made, state, strict=True))
    return call.add("where", valid, made[0], call.scalar(0.0, made[0])), held


def iterate(call: NodeCall, step: Step, sums: Value, state: State, order: StepOrder) -> tuple[Value, State]:
    """Return the hidden states of all time steps, [steps, 1, batch, hidden], and the state after the last one.

    sums: [steps * batch, gates * hidden]. The first is that of one step unless order.all_steps.
    """
    backwards, valid = order.backwards, order.valid
    batch, width = state[0].shape[0], sums.shape[1]
    steps = sums.shape[0] // batch
    loop = new_loop(call, steps)
    if loop is not None:
        rows = call.reshape(sums, (steps, batch, width))
        part = loop.row(rows, backwards)
        own = tuple(loop.state(value) for value in state)
        keep = None if valid is None else loop.row(valid, backwards)
        hidden, made = _within(call, step, keep, part, own)
        loop.end(made)
        hidden = call.reshape(hidden, (1, *hidden.shape))
        sequence = loop.stack(hidden, backwards) if order.all_steps else hidden
        return sequence, tuple(loop.final(i) for i in range(len(own)))
    by_time: dict[int, Value] = {}
    for t in range(steps - 1, -1, -1) if backwards else range(steps):
        part = cut(call, sums, {0: (t * batch, (t + 1) * batch, 1)})
        keep = None if valid is None else element(call, valid, 0, t)
        hidden, state = _within(call, step, keep, part, state)
        by_time[t] = call.reshape(hidden, (1, 1, *hidden.shape))
    return join(call, [by_time[t] for t in range(steps)], 0) if order.all_steps else by_time[0], state
