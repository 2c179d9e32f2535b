"""Handlers of TFLite's operators that keep tensors from one run to the next: SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM.

Source of their definitions: TensorFlow Lite's reference kernels (kernels/internal/reference/svdf.h, lstm_eval.cc).
"""

from collections.abc import Mapping

from mavcg.importers.movement import cut
from mavcg.importers.tflite_ops.call import Handler, Results, TfliteCall
from mavcg.importers.time_steps import State, StepOrder, iterate
from mavcg.importers.value import Value, constant

_FORGET, _CELL, _OUTPUT = 1, 2, 3  # gates in the order of the inputs, after the input gate
_STATE, _CELL_STATE = 18, 19


def svdf(call: TfliteCall) -> Results:
    """Import SVDF: each filter's feature of the input is kept for some runs, whose weighted sum it outputs."""
    _check_floats(call)
    x, features, times, state = call.operand(0, 2), call.operand(1, 2), call.operand(2, 2), call.input(4, 2)
    (rank,) = call.positive("Rank")
    filters, memory = times.shape
    if features.shape != (filters, x.shape[1]) or state.shape != (x.shape[0], memory * filters) or filters % rank:
        raise call.fail(f"rank {rank} of {features.type}, {times.type} and a state {state.type}, for {x.type}")
    batch = x.shape[0]
    kept = call.reshape(state, (batch, filters, memory))
    new = call.reshape(call.add("matmul", x, features, transpose_b=True), (batch, filters, 1))
    old = call.add("slice", kept, starts=(0, 0, 1), stops=(batch, filters, memory), steps=(1, 1, 1))
    kept = call.add("concat", old, new, axis=2) if memory > 1 else new
    call.nexts[4] = call.reshape(kept, state.shape)
    sums = call.add("reduce_sum", call.add("mul", kept, times), axes=(2,), keepdims=False)
    if rank > 1:
        sums = call.add("reduce_sum", call.reshape(sums, (batch, filters // rank, rank)), axes=(2,), keepdims=False)
    return call.activate(sums if call.maybe(3) is None else call.add("add", sums, call.operand(3)))


def sequence_lstm(call: TfliteCall) -> Results:
    """Import UNIDIRECTIONAL_SEQUENCE_LSTM, with peepholes, a projection, and coupled input and forget gates."""
    _check_floats(call)
    if any(call.maybe(i) is not None for i in range(20, 24)):
        raise call.unsupported("layer normalisation", "none")
    x = call.input(0, 3)
    if not call.option("TimeMajor", False):
        x = call.transpose(x, (1, 0, 2))
    steps, batch, width = x.shape
    coupled = call.maybe(1) is None
    gates = range(1 if coupled else 0, 4)
    weights = [call.operand(1 + gate, 2) for gate in gates]
    units = weights[0].shape[0]
    if any(w.shape != (units, width) for w in weights) or not steps:
        raise call.fail(f"weights {', '.join(str(w.type) for w in weights)} of the input {x.type}")
    bias = call.add("concat", *(call.operand(12 + gate, 1) for gate in gates), axis=0)
    of_state = call.add("concat", *(call.operand(5 + gate, 2) for gate in gates), axis=0)
    rows = call.reshape(x, (steps * batch, width))
    sums = call.add("matmul", rows, call.add("concat", *weights, axis=0), bias, transpose_b=True)

    def step(part: Value, state: State) -> State:
        hidden, cell = state
        both = call.add("add", part, call.add("matmul", hidden, of_state, transpose_b=True))

        def gate(number: int, seen: Value) -> Value:
            first = (number - gates.start) * units
            own = cut(call, both, {1: (first, first + units, 1)})
            peephole = call.maybe(9 + number) if number != _OUTPUT else call.maybe(11)
            if number == _CELL or peephole is None:
                return own
            position = 11 if number == _OUTPUT else 9 + number
            return call.add("add", own, call.add("mul", seen, call.operand(position, 1)))

        forget = call.add("sigmoid", gate(_FORGET, cell))
        given = call.add("sub", constant(1.0, "f32"), forget) if coupled else call.add("sigmoid", gate(0, cell))
        update = call.add("mul", given, call.activate(gate(_CELL, cell)))
        cell = _clip(call, call.add("add", call.add("mul", forget, cell), update), "CellClip")
        output = call.add("sigmoid", gate(_OUTPUT, cell))
        hidden = call.add("mul", output, call.activate(cell))
        if call.maybe(16) is not None:
            projection = None if call.maybe(17) is None else call.operand(17, 1)
            hidden = call.add("matmul", hidden, call.operand(16, 2), projection, transpose_b=True)
            hidden = _clip(call, hidden, "ProjClip")
        return hidden, cell

    first = (call.input(_STATE, 2), call.input(_CELL_STATE, 2))
    if first[0].shape[0] != batch or first[1].shape != (batch, units):
        types = " and ".join(str(state.type) for state in first)
        raise call.fail(f"states {types} of {units} units, for the input {call.input(0).type}")
    sequence, (call.nexts[_STATE], call.nexts[_CELL_STATE]) = iterate(call, step, sums, first, StepOrder())
    made = call.reshape(sequence, (steps, batch, first[0].shape[1]))
    return made if call.option("TimeMajor", False) else call.transpose(made, (1, 0, 2))


def _clip(call: TfliteCall, x: Value, name: str) -> Value:
    limit = float(call.option(name, 0.0))
    return call.add("clip", x, lo=-limit, hi=limit) if limit > 0 else x


def _check_floats(call: TfliteCall) -> None:
    if any(value is not None and not value.is_constant and value.dtype != "f32" for value in call.inputs):
        raise call.unsupported("8-bit arithmetic", "f32 inputs and states")


def batch_axis(op: str, options: Mapping[str, object]) -> int:
    """Return the axis of an operator's first input along which its sequences lie, as along axis 0 of its states."""
    return 1 if op == "UNIDIRECTIONAL_SEQUENCE_LSTM" and options.get("TimeMajor") else 0


HANDLERS: Mapping[str, Handler] = {"SVDF": svdf, "UNIDIRECTIONAL_SEQUENCE_LSTM": sequence_lstm}
KEEPERS = frozenset(HANDLERS)  # operators whose variable tensors are states
