"""Handlers of recurrent operators (LSTM, GRU, RNN): a loop over the time steps, or nodes of each step.

The length of a sequence is known. The input's part of all gates is one product for the whole sequence; a step adds the
state's part. All steps share weights and kernels.
"""

from collections.abc import Callable, Mapping

import numpy as np

from mavcg.graph import DTYPES, Array
from mavcg.importers.call import known_at_build
from mavcg.importers.movement import element, join
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.onnx_ops.recurrent_direction import (
    Direction,
    ReadWeights,
    read_direction,
    read_weights,
    weights_of,
)
from mavcg.importers.time_steps import State, Step, StepOrder, iterate
from mavcg.importers.value import Value, constant

MOST_STEPS = 1024  # maximum time steps of all directions without loops; each is about a dozen nodes


@round_once
@known_at_build("W", "R", "B", "P")
def lstm(call: OnnxCall) -> Results:
    """Import LSTM."""
    return long_short_term(call, read_weights)


def long_short_term(call: OnnxCall, read: ReadWeights) -> Results:
    """Import an LSTM. Gates: i, o, f, c; peepholes P [directions, 3 * hidden]: i, o, f. read: reads a
    direction."""
    coupled = call.attr_bool("input_forget")  # the forget gate is 1 less the input gate

    def make_step(d: Direction, number: int) -> Step:
        peepholes = weights_of(call, 7, "P", number)

        def add_peephole(x: Value, gate: int, cell: Value) -> Value:
            return x if peepholes is None else call.add("add", x, call.add("mul", cell, d.rows(peepholes, gate)))

        def step(x: Value, state: State) -> State:
            hidden, cell = state
            sums = call.add("add", x, d.state_sums(hidden))
            if peepholes is None:
                gates = d.activate(0, d.columns(sums, 0, 3))
                i, o, f = (d.columns(gates, g) for g in range(3))
            else:
                i, f = (d.activate(0, add_peephole(d.columns(sums, g), p, cell)) for g, p in ((0, 0), (2, 2)))
            f = call.add("sub", call.scalar(1.0, i), i) if coupled else f
            update = call.add("mul", i, d.activate(1, d.columns(sums, 3)))
            cell = call.add("add", call.add("mul", f, cell), update)
            if peepholes is not None:
                o = d.activate(0, add_peephole(d.columns(sums, 1), 1, cell))
            return call.add("mul", o, d.activations[2].of(call, cell)), cell

        return step

    return _recurrent(call, 4, ("Sigmoid", "Tanh", "Tanh"), 2, lambda d: d.input_bias + d.state_bias, make_step, read)


@round_once
@known_at_build("W", "R", "B")
def gru(call: OnnxCall) -> Results:
    """Import GRU: gates z, r, h."""
    linear_before_reset = call.attr_bool("linear_before_reset")

    def bias(d: Direction) -> Array:
        """Return the bias; h's state part stays with the state's sum if the reset gate multiplies that."""
        made = d.input_bias + d.state_bias
        if linear_before_reset:
            made[2 * d.hidden :] = d.input_bias[2 * d.hidden :]
        return made

    def make_step(d: Direction, number: int) -> Step:
        del number
        gates, candidate = d.rows(d.weights.of_state, 0, 2), d.rows(d.weights.of_state, 2)
        candidate_bias = d.rows(d.state_bias, 2)

        def step(x: Value, state: State) -> State:
            (hidden,) = state
            sums = call.add("add", d.columns(x, 0, 2), call.add("matmul", hidden, gates, transpose_b=True))
            both = d.activate(0, sums)
            update, reset = d.columns(both, 0), d.columns(both, 1)
            if linear_before_reset:
                made = call.add("matmul", hidden, candidate, candidate_bias, transpose_b=True)
                made = call.add("mul", reset, made)
            else:
                made = call.add("matmul", call.add("mul", reset, hidden), candidate, transpose_b=True)
            new = d.activate(1, call.add("add", d.columns(x, 2), made))
            return (call.add("add", new, call.add("mul", update, call.add("sub", hidden, new))),)

        return step

    return _recurrent(call, 3, ("Sigmoid", "Tanh"), 1, bias, make_step)


@round_once
@known_at_build("W", "R", "B")
def rnn(call: OnnxCall) -> Results:
    """Import RNN: one gate."""

    def make_step(d: Direction, number: int) -> Step:
        del number

        def step(x: Value, state: State) -> State:
            return (d.activate(0, call.add("add", x, d.state_sums(state[0]))),)

        return step

    return _recurrent(call, 1, ("Tanh",), 1, lambda d: d.input_bias + d.state_bias, make_step)


def _recurrent(
    call: OnnxCall,
    gates: int,
    defaults: tuple[str, ...],
    states: int,
    bias_of: Callable[[Direction], Array],
    make_step: Callable[[Direction, int], Step],
    read: ReadWeights = read_weights,
) -> Results:
    """Import all directions of a recurrent operator; return Y and the last value of each state."""
    x = call.input(0, rank=3)
    batch_first = call.attr_bool("layout")
    if batch_first:
        x = call.transpose(x, (1, 0, 2))
    steps, batch, width = x.shape
    names = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    direction = call.attr_str("direction", "forward")
    if direction not in names:
        raise call.fail(f"direction {direction!r}; there are {', '.join(names)}")
    reversed_of = names[direction]
    if not steps or (steps * len(reversed_of) > MOST_STEPS and not call.emitter.loops):
        raise call.unsupported(f"{steps} time steps in {len(reversed_of)} directions", f"1 to {MOST_STEPS}")
    valid = _valid_steps(call, steps, batch)
    sequences: list[Value] = []
    last: list[State] = []
    for number, backwards in enumerate(reversed_of):
        d = read_direction(call, read(call, number), number, gates, width, defaults)
        if valid is not None and d.weights.times_state is not None:
            raise call.unsupported("sequences of different lengths", "all as long as the input")
        state = tuple(_initial(call, 5 + i, number, batch, d, batch_first) for i in range(states))
        flat = call.reshape(x, (steps * batch, width))
        sums = d.input_sums(flat, bias_of(d).astype(DTYPES[x.dtype]))
        sequence, state = iterate(
            call, make_step(d, number), sums, state, StepOrder(call.required[0], backwards, valid)
        )
        sequences.append(sequence)
        last.append(state)
    results: list[Value | None] = [join(call, sequences, 1) if call.required[0] else None]
    for i in range(states):
        if len(call.required) > i + 1 and call.required[i + 1]:
            parts = [call.reshape(state[i], (1, *state[i].shape)) for state in last]
            results.append(join(call, parts, 0))
        else:
            results.append(None)
    if batch_first:
        perms = ((2, 0, 1, 3), (1, 0, 2), (1, 0, 2))
        results = [None if r is None else call.transpose(r, perm) for r, perm in zip(results, perms, strict=False)]
    return tuple(results)


def _valid_steps(call: OnnxCall, steps: int, batch: int) -> Value | None:
    """Return which time steps are within each sequence, [steps, batch, 1], of bool; None if all are.

    Raises: MavcgError for known lengths that are not 1 to `steps`, and for another number of them.
    """
    lengths = call.maybe(4)
    if lengths is None:
        return None
    if lengths.shape != (batch,) or lengths.dtype != "i32":
        raise call.fail(f"its input sequence_lens is {lengths.type} where i32[{batch}] is needed")
    known = lengths.array
    if known is not None and ((known < 1) | (known > steps)).any():
        raise call.fail(f"sequence_lens {known.tolist()} of sequences of {steps} time steps; give 1 to {steps}")
    if known is not None and (known == steps).all():
        return None
    times = constant(np.arange(steps, dtype=np.int32)[:, None])
    return call.reshape(call.add("less", times, call.reshape(lengths, (1, batch))), (steps, batch, 1))


def _initial(call: OnnxCall, i: int, number: int, batch: int, d: Direction, batch_first: bool) -> Value:
    """Return the initial value of a state, [batch, hidden]; zeros if it is absent."""
    value = call.maybe(i)
    if value is None:
        return constant(np.zeros((batch, d.hidden), DTYPES[call.input(0).dtype]))
    value = call.input(i, rank=3)
    if batch_first:
        value = call.transpose(value, (1, 0, 2))
    if value.shape[1:] != (batch, d.hidden) or number >= value.shape[0]:
        raise call.fail(f"{call.input_name(i)} is {value.type} where [directions, {batch}, {d.hidden}] is needed")
    return element(call, value, 0, number)


HANDLERS: Mapping[str, Handler] = {"LSTM": lstm, "GRU": gru, "RNN": rnn}
