"""TFLite files with WHILE and IF."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.mavcg.importers.tflite.conftest import Writer

SHAPE = (2, 3)
Make = Callable[[Writer, Sequence[int]], Sequence[int]]


def subgraph(w: Writer, make: Make, kinds: Sequence[tuple[tuple[int, ...], str]]) -> int:
    """Add a subgraph with inputs of these shapes and types, which `make` turns into its outputs."""
    return w.body(lambda body: list(make(body, [body.input(shape, dtype) for shape, dtype in kinds])))


def while_(w: Writer, states: Sequence[int], kinds: Sequence[Any], condition: Make, body: Make) -> list[int]:
    fields: dict[str, Any] = {
        "condSubgraphIndex": subgraph(w, condition, kinds),
        "bodySubgraphIndex": subgraph(w, body, kinds),
    }
    made = w.ops("WHILE", states, [dtype for _, dtype in kinds], "WhileOptions", **fields)
    for index, (shape, _) in zip(made, kinds, strict=True):
        w.graph.tensors[index].shape = list(shape)
    return made


def if_(w: Writer, flag: int, given: Sequence[int], kinds: Sequence[Any], then: Make, other: Make) -> list[int]:
    fields: dict[str, Any] = {
        "thenSubgraphIndex": subgraph(w, then, kinds),
        "elseSubgraphIndex": subgraph(w, other, kinds),
    }
    return w.ops("IF", [flag, *given], ["f32"], "IfOptions", shape=SHAPE, **fields)


def add(w: Writer, a: int, b: int, dtype: str = "f32", shape: tuple[int, ...] = SHAPE) -> int:
    return w.op("ADD", [a, b], dtype, "AddOptions", shape=shape)


def less(w: Writer, a: int, b: int, shape: tuple[int, ...] = ()) -> int:
    return w.op("LESS", [a, b], "bool", shape=shape)


COUNTED = [((), "i32"), (SHAPE, "f32")]


def counting(limit: int, step: Make) -> tuple[Make, Make]:
    """Condition and body of a loop over a counter and a state, which `step` changes."""

    def goes_on(w: Writer, states: Sequence[int]) -> list[int]:
        return [less(w, states[0], w.constant(limit))]

    def body(w: Writer, states: Sequence[int]) -> list[int]:
        return [add(w, states[0], w.constant(1), "i32", ()), *step(w, states)]

    return goes_on, body


X = np.array([[0.5, -1, 2], [0.25, 3, -0.5]], np.float32)


def doubled(w: Writer, states: Sequence[int]) -> list[int]:
    return [add(w, w.op("TANH", [states[1]], shape=SHAPE), states[1])]


def counted_loop(w: Writer, limit: int = 5) -> bytes:
    x = w.input(SHAPE)
    _, y = while_(w, [w.constant(0), x], COUNTED, *counting(limit, doubled))
    return w.bytes(add(w, y, x))


def updated(w: Writer, rows: int, update: int, time: int, steps: int) -> int:
    start = w.op("PACK", [time, w.constant(0), w.constant(0)], "i32", "PackOptions", shape=(3,), valuesCount=3)
    return w.op("DYNAMIC_UPDATE_SLICE", [rows, update, start], shape=(steps, *SHAPE))


def joined(w: Writer, rows: int, update: int, time: int, steps: int) -> int:
    """A row between those before it and after it, whose numbers only the iteration knows."""

    def entry(number: int, rest: int) -> int:
        first = w.op("RESHAPE", [number, w.constant([1])], "i32", "ReshapeOptions", shape=(1,))
        parts = [first, w.constant([rest, rest])]
        return w.op("CONCATENATION", parts, "i32", "ConcatenationOptions", axis=0, shape=(3,))

    head = w.op("SLICE", [rows, w.constant([0, 0, 0]), entry(time, -1)], shape=(1, *SHAPE))
    following = w.op("ADD", [time, w.constant(1)], "i32", "AddOptions")
    tail = w.op("SLICE", [rows, entry(following, 0), w.constant([-1, -1, -1])], shape=(1, *SHAPE))
    for part in (head, tail):
        w.graph.tensors[part].shapeSignature = [-1, *SHAPE]
    parts = [head, update, tail]
    return w.op("CONCATENATION", parts, "f32", "ConcatenationOptions", axis=0, shape=(steps, *SHAPE))


def branches(flag: Callable[[Writer], int]) -> tuple[bytes, int]:
    w = Writer()
    x = w.input(SHAPE)

    def then(b: Writer, given: Sequence[int]) -> list[int]:
        return [add(b, b.op("EXP", [given[0]], shape=SHAPE), given[0])]

    def other(b: Writer, given: Sequence[int]) -> list[int]:
        return [b.op("NEG", [given[0]], shape=SHAPE)]

    at = flag(w)
    (y,) = if_(w, at, [x], [(SHAPE, "f32")], then, other)
    return w.bytes(add(w, y, x)), at
