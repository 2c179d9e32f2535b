"""Variables of TFLite files become states: sequences of runs against LiteRT's, which keeps them in its interpreter."""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph
from tests.conftest import examples
from tests.mavcg.importers.tflite.conftest import Checker, Writer
from tests.mavcg.importers.tflite.stateful_runs import litert_runs, our_runs


def handle(w: Writer, name: str) -> int:
    return w.op("VAR_HANDLE", [], "resource", "VarHandleOptions", sharedName=name, container="")


def read(w: Writer, variable: int, shape: Sequence[int], out: Any = "f32") -> int:
    return w.op("READ_VARIABLE", [variable], out, "ReadVariableOptions", shape=tuple(shape))


def assign(w: Writer, variable: int, value: int) -> None:
    w.ops("ASSIGN_VARIABLE", [variable, value], [], "AssignVariableOptions")


def first_values(w: Writer, values: dict[str, Array], **quantised: Any) -> None:
    """A CALL_ONCE whose subgraph assigns these values."""

    def initialise(body: Writer) -> list[int]:
        for name, value in values.items():
            assign(body, handle(body, name), body.constant(value, **quantised))
        return []

    w.ops("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=w.body(initialise))


def add(w: Writer, a: int, b: int, shape: Sequence[int]) -> int:
    return w.op("ADD", [a, b], options="AddOptions", shape=tuple(shape))


def agree(check: Checker, data: bytes, shape: Sequence[int], count: int = 4, seed: int = 0) -> Graph:
    graph = check.load(data)
    rng = np.random.default_rng(seed)
    sequence = [rng.integers(-8, 9, shape).astype(np.float32) for _ in range(count)]
    for ours, theirs in zip(our_runs(graph, sequence), litert_runs(data, sequence), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return graph


def test_a_sum_from_a_first_value(writer: Any, check: Any) -> None:
    x = writer.input((3,))
    first_values(writer, {"sum": np.array([1, 2, 3], np.float32)})
    variable = handle(writer, "sum")
    total = add(writer, read(writer, variable, (3,)), x, (3,))
    assign(writer, variable, total)
    graph = agree(check, writer.bytes(total), (3,))
    (state,) = graph.states
    assert (graph.inputs[1:], graph.outputs[1:]) == ((state.input,), (state.output,)) == (("sum",), ("sum:next",))
    assert state.initial is not None and state.initial.tolist() == [1, 2, 3]


def test_first_values_keep_their_bits(writer: Any, check: Any) -> None:
    """-0.0 equals zero and is not zero, and NaN is neither."""
    x = writer.input((3,))
    first = np.array([-0.0, 0.0, np.nan], np.float32)
    first_values(writer, {"odd": first, "zero": np.zeros(3, np.float32)})
    odd, zero = handle(writer, "odd"), handle(writer, "zero")
    y = add(writer, read(writer, odd, (3,)), read(writer, zero, (3,)), (3,))
    assign(writer, odd, x)
    assign(writer, zero, x)
    states = {state.input: state.initial for state in check.load(writer.bytes(y)).states}
    assert states["zero"] is None and states["odd"] is not None and states["odd"].tobytes() == first.tobytes()


def test_a_rolling_window_in_8_bits(writer: Any, check: Any) -> None:
    """Streaming wake-word models have such windows; the first value has the bits that the file has."""
    scale = {"scale": 0.5, "zero": -128}
    x = writer.input((1, 1, 4), "i8", 0.5, -128)
    first_values(writer, {"window": np.full((1, 3, 4), -128, np.int8)}, **scale)
    variable = handle(writer, "window")
    quantised = ("i8", 0.5, -128)
    past = read(writer, variable, (1, 3, 4), quantised)
    whole = writer.op("CONCATENATION", [past, x], quantised, "ConcatenationOptions", axis=1, shape=(1, 4, 4))
    ends = [writer.constant(list(e)) for e in ((0, 1, 0), (0, 4, 0), (1, 1, 1))]
    masks = {"beginMask": 5, "endMask": 5}
    kept = writer.op("STRIDED_SLICE", [whole, *ends], quantised, "StridedSliceOptions", shape=(1, 3, 4), **masks)
    assign(writer, variable, kept)
    data = writer.bytes(whole)
    graph = check.load(data)
    assert graph.states[0].initial is not None and (graph.states[0].initial == -128).all()
    rng = np.random.default_rng(0)
    sequence = [rng.integers(-128, 128, (1, 1, 4)).astype(np.int8) for _ in range(6)]
    assert [a.tolist() for a in our_runs(graph, sequence)] == [b.tolist() for b in litert_runs(data, sequence)]


def test_what_is_no_state(writer: Any, check: Any) -> None:
    """A variable that is assigned before it is read, one that is only read, and one that is only assigned."""
    x = writer.input((2,))
    first_values(writer, {"constant": np.array([5, 7], np.float32), "unused": np.ones(2, np.float32)})
    scratch, constant, unused = (handle(writer, name) for name in ("scratch", "constant", "unused"))
    assign(writer, scratch, add(writer, x, x, (2,)))
    assign(writer, unused, x)
    y = add(writer, read(writer, scratch, (2,)), read(writer, constant, (2,)), (2,))
    graph = agree(check, writer.bytes(y), (2,))
    assert graph.states == () and graph.inputs == ("t0",) and len(graph.outputs) == 1


def test_delay_lines_and_values_that_are_outputs(writer: Any, check: Any) -> None:
    """A variable that takes the input, one that takes the other's old value, and one that takes a constant."""
    x = writer.input((2,))
    first_values(writer, {name: np.array([i, -i], np.float32) for i, name in enumerate(("a", "b", "c"))})
    a, b, c = (handle(writer, name) for name in ("a", "b", "c"))
    last, older, flag = read(writer, a, (2,)), read(writer, b, (2,)), read(writer, c, (2,))
    assign(writer, b, last)
    assign(writer, a, x)
    assign(writer, c, writer.constant([9.0, 9.0]))
    y = add(writer, add(writer, older, last, (2,)), flag, (2,))
    assert len(agree(check, writer.bytes(y), (2,), 5).states) == 3


def random_program(seed: int) -> bytes:
    """Reads, sums and assignments of up to three variables in any order, by one or several handles each."""
    pick, w, shape = Random(seed), Writer(), (2,)
    values = [w.input(shape), w.constant([1.0, -2.0])]
    names = ["u", "v", "w"][: pick.randint(1, 3)]
    first_values(w, {name: np.array([pick.randint(-3, 3), 1], np.float32) for name in names})
    handles = {name: [handle(w, name) for _ in range(pick.randint(1, 2))] for name in names}
    for _ in range(pick.randint(2, 9)):
        variable = pick.choice(handles[pick.choice(names)])
        kind = pick.choice(["read", "assign", "add"])
        if kind == "read":
            values.append(read(w, variable, shape))
        elif kind == "assign":
            assign(w, variable, pick.choice(values))
        else:
            values.append(add(w, pick.choice(values), pick.choice(values[-3:]), shape))
    return w.bytes(add(w, values[-1], values[0], shape))


@settings(max_examples=examples(300, 30))
@given(st.integers(0, 10**9))
def test_random_programs_with_variables_agree_with_litert(seed: int) -> None:
    with TemporaryDirectory() as folder:
        agree(Checker(Path(folder)), random_program(seed), (2,), 4, seed)


def test_a_variable_without_a_first_value_begins_with_zeros(writer: Any, check: Any) -> None:
    x = writer.input((2,))
    variable = handle(writer, "sum")
    total = add(writer, read(writer, variable, (2,)), x, (2,))
    assign(writer, variable, total)
    graph = check.load(writer.bytes(total))
    sums = our_runs(graph, [np.ones(2, np.float32)] * 3)
    assert [s.tolist() for s in sums] == [[1, 1], [2, 2], [3, 3]] and graph.states[0].initial is None


def changed_shape(w: Writer) -> int:
    x = w.input((3,))
    first_values(w, {"v": np.ones(2, np.float32)})
    variable = handle(w, "v")
    y = read(w, variable, (2,))
    assign(w, variable, x)
    return y


def unknown_shape(w: Writer) -> int:
    x = w.input((2,))
    variable = handle(w, "v")
    y = read(w, variable, (-1,))
    w.graph.tensors[y].shapeSignature = [-1]
    assign(w, variable, x)
    return y


def late_call(w: Writer) -> int:
    x = w.input((2,))
    variable = handle(w, "v")
    y = add(w, read(w, variable, (2,)), x, (2,))
    assign(w, variable, y)
    first_values(w, {"v": np.ones(2, np.float32)})
    return y


def missing_subgraph(w: Writer) -> int:
    x = w.input((2,))
    w.ops("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=7)
    return add(w, x, x, (2,))


def foreign_handle(w: Writer) -> int:
    x = w.input((2,))
    y = add(w, x, x, (2,))
    assign(w, y, x)
    return y


def read_at_first(w: Writer) -> int:
    """The first value of a variable is computed from that of another one, which no one has set."""

    def initialise(body: Writer) -> list[int]:
        v = handle(body, "v")
        assign(body, v, read(body, v, (2,)))
        return []

    x = w.input((2,))
    w.ops("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=w.body(initialise))
    return add(w, x, x, (2,))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed_shape, r"\(ASSIGN_VARIABLE\): assigns f32\[3\] to a variable of f32\[2\]; supported: one type"),
        (unknown_shape, r"\(READ_VARIABLE\): tensor 2 't2' of float32\[-1\] has no first value"),
        (late_call, r"\(CALL_ONCE\): supported: before all operators on variables"),
        (missing_subgraph, r"\(CALL_ONCE\): runs subgraph 7, which the file does not have"),
        (foreign_handle, r"\(ASSIGN_VARIABLE\): supported: a variable that a VAR_HANDLE of the same subgraph names"),
        (read_at_first, "variable 'v': its first value is not known when the library is built"),
    ],
)
def test_what_is_refused(writer: Any, check: Any, make: Callable[[Writer], int], message: str) -> None:
    with pytest.raises(MavcgError, match=message):
        check.load(writer.bytes(make(writer)))
