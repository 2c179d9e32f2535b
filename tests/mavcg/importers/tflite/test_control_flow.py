"""IF and WHILE of TFLite files, unrolled and as loops, by the reference and by kernels, against LiteRT."""

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
from mavcg.graph.reference import run
from mavcg.importers.limits import UnsupportedOp
from mavcg.importers.tflite_file import import_tflite
from tests.conftest import examples
from tests.mavcg.importers.tflite.conftest import Writer, litert
from tests.mavcg.importers.tflite.control_flow_models import (
    COUNTED,
    SHAPE,
    X,
    add,
    branches,
    counted_loop,
    counting,
    if_,
    joined,
    less,
    updated,
    while_,
)
from tests.mavcg.model.lowered_runs import computed


def agrees(data: bytes, *arrays: Array, folder: Path | None = None, unrolled: bool = False) -> Graph:
    """Compare a file with LiteRT by the reference and by kernels; return the graph with loops."""
    if folder is None:
        with TemporaryDirectory() as made:
            return agrees(data, *arrays, folder=Path(made), unrolled=unrolled)
    (folder / "m.tflite").write_bytes(data)
    want = litert(data, arrays)
    kept = import_tflite(folder / "m.tflite", loops=True)
    results = [run(kept, *arrays), computed(kept, dict(zip(kept.inputs, arrays, strict=True)))]
    if unrolled:
        results.append(run(import_tflite(folder / "m.tflite"), *arrays))
    for have in results:
        for mine, theirs in zip(have, want, strict=True):
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
            np.testing.assert_allclose(mine, theirs, 1e-5, 1e-5)
    return kept


def loops_of(graph: Graph) -> int:
    return len({n.attr("loop") for n in graph.nodes if n.op == "loop_state"})


@pytest.mark.parametrize(("limit", "loops"), [(0, 0), (1, 0), (7, 0), (8, 1), (40, 1)])
def test_a_while_of_a_known_number_of_iterations(tmp_path: Path, limit: int, loops: int) -> None:
    """Few iterations are unrolled; the counter, which nothing else reads, is in no graph."""
    kept = agrees(counted_loop(Writer(), limit), X, folder=tmp_path, unrolled=True)
    assert loops_of(kept) == loops
    assert not any(n.op == "loop_state" and (n.attr("condition") or n.attr("number")) for n in kept.nodes)


@pytest.mark.parametrize("write", [updated, joined])
def test_the_time_steps_of_a_recurrent_layer(tmp_path: Path, write: Callable[..., int]) -> None:
    """A cell that converters do not fuse becomes a loop over rows, in whose body nothing is copied.

    It has rows by a Gather of the counter, two conditions, and an output whose rows are replaced.
    """
    steps, weights = 12, np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)

    def goes_on(w: Writer, states: Sequence[int]) -> list[int]:
        limits = [less(w, states[0], w.constant(steps)), less(w, states[1], w.constant(steps))]
        return [w.op("LOGICAL_AND", limits, "bool")]

    def body(w: Writer, states: Sequence[int]) -> list[int]:
        count, time, h, rows, x = states
        row = w.op("GATHER", [x, time], options="GatherOptions", shape=SHAPE)
        bias = w.constant(np.zeros(3, np.float32))
        product = w.op("FULLY_CONNECTED", [h, w.constant(weights), bias], "f32", "FullyConnectedOptions", shape=SHAPE)
        h = w.op("TANH", [add(w, product, row)], shape=SHAPE)
        update = w.op("RESHAPE", [h, w.constant([1, *SHAPE])], "f32", "ReshapeOptions", shape=(1, *SHAPE))
        rows = write(w, rows, update, time, steps)
        one = w.constant(1)
        return [add(w, count, one, "i32", ()), add(w, time, one, "i32", ()), h, rows, x]

    w = Writer()
    x, h = w.input((steps, *SHAPE)), w.input(SHAPE)
    empty = w.constant(np.zeros((steps, *SHAPE), np.float32))
    kinds = [((), "i32"), ((), "i32"), (SHAPE, "f32"), ((steps, *SHAPE), "f32"), ((steps, *SHAPE), "f32")]
    made = while_(w, [w.constant(0), w.constant(0), h, empty, x], kinds, goes_on, body)
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((steps, *SHAPE), SHAPE)]
    kept = agrees(w.bytes(made[2], made[3]), *arrays, folder=tmp_path, unrolled=True)
    assert loops_of(kept) == 1
    ops = [n.op for n in kept.nodes]
    assert ops.count("loop_state") == ops.count("loop_slice") == ops.count("loop_stack") == 1
    assert not {"gather", "scatter", "less", "flat_index"}.intersection(ops)


@pytest.mark.parametrize("limit", [-5.0, 3.0, 1000.0])
def test_a_while_whose_condition_runs(tmp_path: Path, limit: float) -> None:
    """Newton's square root until the change is small; a sum decides, and the first condition may be false."""

    def goes_on(w: Writer, states: Sequence[int]) -> list[int]:
        axes = w.constant([0, 1])
        return [less(w, w.op("SUM", [states[1], axes], "f32", "ReducerOptions"), w.constant(limit))]

    def body(w: Writer, states: Sequence[int]) -> list[int]:
        twice = add(w, states[1], w.op("ABS", [states[1]], shape=SHAPE))
        return [add(w, states[0], w.constant(1), "i32", ()), add(w, twice, w.constant(1.0))]

    w = Writer()
    count, y = while_(w, [w.constant(0), w.input(SHAPE)], COUNTED, goes_on, body)
    data = w.bytes(count, y)
    assert loops_of(agrees(data, X, folder=tmp_path)) == 1
    with pytest.raises(UnsupportedOp, match=r"\(WHILE\): its condition is known only when the model runs; supported"):
        import_tflite(tmp_path / "m.tflite")


def test_a_state_that_grows_is_unrolled(tmp_path: Path) -> None:
    def longer(w: Writer, states: Sequence[int]) -> list[int]:
        return [w.op("CONCATENATION", [states[1], states[1]], "f32", "ConcatenationOptions", axis=0, shape=(4, 3))]

    w = Writer()
    _, y = while_(w, [w.constant(0), w.input(SHAPE)], COUNTED, *counting(3, longer))
    w.graph.tensors[y].shape = []
    assert loops_of(agrees(w.bytes(y), X, folder=tmp_path, unrolled=True)) == 0


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("go", [True, False])
def test_branches(tmp_path: Path, shape: tuple[int, ...], go: bool) -> None:
    data, _ = branches(lambda w: w.input(shape, "bool"))
    assert loops_of(agrees(data, X, np.full(shape, go), folder=tmp_path)) == 2
    with pytest.raises(UnsupportedOp, match=r"\(IF\): its condition is known only when the model runs; supported"):
        import_tflite(tmp_path / "m.tflite")
    data, _ = branches(lambda w: w.constant(np.full(shape, go)))
    kept = agrees(data, X, folder=tmp_path, unrolled=True)
    assert loops_of(kept) == 0 and [n.op for n in kept.nodes] == (["exp", "add", "add"] if go else ["neg", "add"])


def test_8_bit_states(tmp_path: Path) -> None:
    """Integers pass as they are stored; the body's arithmetic is that of its own scales."""
    w = Writer()
    q: Any = ("i8", 0.05, 3)

    def goes_on(b: Writer) -> list[int]:
        count, _ = b.input((), "i32"), b.input(SHAPE, *q)
        return [less(b, count, b.constant(9))]

    def body(b: Writer) -> list[int]:
        count, x = b.input((), "i32"), b.input(SHAPE, *q)
        known = b.constant(np.array([10, 4, -7], np.int8), scale=0.02, zero=1)
        return [add(b, count, b.constant(1), "i32", ()), b.op("ADD", [x, known], q, "AddOptions", shape=SHAPE)]

    x = w.input(SHAPE, *q)
    fields: dict[str, Any] = {"condSubgraphIndex": w.body(goes_on), "bodySubgraphIndex": w.body(body)}
    _, y = w.ops("WHILE", [w.constant(0), x], ["i32", q], "WhileOptions", shape=SHAPE, **fields)
    w.graph.tensors[w.graph.operators[-1].outputs[0]].shape = []
    data, array = w.bytes(y), np.arange(6, dtype=np.int8).reshape(SHAPE) * 11
    (want,) = litert(data, [array])
    (tmp_path / "m.tflite").write_bytes(data)
    kept = import_tflite(tmp_path / "m.tflite", loops=True)
    assert loops_of(kept) == 1
    for (have,) in (run(kept, array), computed(kept, {kept.inputs[0]: array})):
        assert np.abs(have.astype(int) - want).max() <= 1


# Random bodies


def random_values(pick: Random, w: Writer, given: Sequence[int], nodes: int) -> int:
    """Add some operators on tensors of SHAPE, and return the last one's result."""
    values = list(given)
    for _ in range(nodes):
        kind = pick.choice(["TANH", "NEG", "ADD", "SUB", "MAXIMUM", "TRANSPOSED", "CONSTANT"])
        x, other = pick.choice(values[-3:]), pick.choice(values)
        if kind in ("TANH", "NEG"):
            values.append(w.op(kind, [x], shape=SHAPE))
        elif kind == "TRANSPOSED":
            turned = w.op("RESHAPE", [x, w.constant([3, 2])], "f32", "ReshapeOptions", shape=(3, 2))
            values.append(w.op("TRANSPOSE", [turned, w.constant([1, 0])], shape=SHAPE))
        elif kind == "CONSTANT":
            values.append(add(w, x, w.constant(np.linspace(-1, 1, 3, dtype=np.float32))))
        else:
            options = {"ADD": "AddOptions", "SUB": "SubOptions"}.get(kind, "")
            values.append(w.op(kind, [x, other], options=options, shape=SHAPE))
    return values[-1]


def random_flow(pick: Random, w: Writer, x: int, y: int) -> list[int]:
    """Add a WHILE or an IF on two tensors."""
    kinds = [(SHAPE, "f32"), (SHAPE, "f32")]

    def some(b: Writer, given: Sequence[int]) -> list[int]:
        return [random_values(pick, b, given, pick.randint(0, 4))]

    kind = pick.choice(["count", "data", "branch"])
    if kind == "branch":
        flag = less(w, w.op("SUM", [x, w.constant([0, 1])], "f32", "ReducerOptions"), w.constant(pick.uniform(-2, 2)))
        return if_(w, flag, [x, y], kinds, some, some)
    limit = pick.choice([0, 1, 3, 8, 10])

    def goes_on(b: Writer, states: Sequence[int]) -> list[int]:
        counted = less(b, states[0], b.constant(limit))
        if kind == "count":
            return [counted]
        total = b.op("SUM", [states[1], b.constant([0, 1])], "f32", "ReducerOptions")
        return [b.op("LOGICAL_AND", [counted, less(b, total, b.constant(1.5))], "bool")]

    def body(b: Writer, states: Sequence[int]) -> list[int]:
        count, *own = states
        nexts = [random_values(pick, b, own, pick.randint(0, 4)) for _ in own]
        if pick.random() < 0.3:
            nexts.reverse()
        return [add(b, count, b.constant(1), "i32", ()), *nexts]

    return while_(w, [w.constant(0), x, y], [((), "i32"), *kinds], goes_on, body)[1:]


@settings(max_examples=examples(300, 8))
@given(st.integers(0, 10**9))
def test_random_control_flow(seed: int) -> None:
    pick, w = Random(seed), Writer()
    values = [w.input(SHAPE), w.input(SHAPE)]
    for _ in range(pick.randint(1, 3)):
        values.append(random_values(pick, w, values, pick.randint(0, 3)))
        values += random_flow(pick, w, values[-1], pick.choice(values))
    results = [random_values(pick, w, values, 2), add(w, values[-1], values[0])]
    rng = np.random.default_rng(seed)
    agrees(w.bytes(*results), *(rng.uniform(-1, 1, SHAPE).astype(np.float32) for _ in range(2)))


# Refusals


def test_what_is_refused(check: Any) -> None:
    def refused(w: Writer, outputs: Sequence[int], words: str, kind: type[MavcgError] = MavcgError) -> None:
        check.path.write_bytes(w.bytes(*outputs))
        with pytest.raises(kind, match=words) as caught:
            import_tflite(check.path, loops=True)
        assert "\n" not in str(caught.value)

    w = Writer()
    made = while_(w, [w.constant(0), w.input(SHAPE)], COUNTED, *counting(2000, lambda b, s: [b.op("CUSTOM", [s[1]])]))
    w.model.operatorCodes[-1].customCode = "Odd"
    refused(w, made, r"\(WHILE\): 2000 iterations that cannot be a loop; supported: at most 1024", UnsupportedOp)

    w = Writer()
    fields: dict[str, Any] = {"condSubgraphIndex": 7, "bodySubgraphIndex": 0}
    refused(w, w.ops("WHILE", [w.input(SHAPE)], ["f32"], "WhileOptions", **fields), r"runs subgraph 7, which the file")

    w = Writer()
    itself: dict[str, Any] = {"thenSubgraphIndex": 1, "elseSubgraphIndex": 1}

    def again(b: Writer) -> list[int]:
        return b.ops("IF", [b.input((), "bool")], ["f32"], "IfOptions", **itself)

    w.body(again)
    refused(
        w, w.ops("IF", [w.constant(np.array(True))], ["f32"], "IfOptions", **itself), "0 values|nested more than 32"
    )

    w = Writer()
    made = while_(w, [w.input(SHAPE)], [(SHAPE, "f32")], lambda b, s: [s[0]], lambda b, s: s)
    refused(w, made, r"\(WHILE\): a condition of f32\[2,3\]; one bool is needed")
