"""SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM, whose variable tensors become states: sequences of runs against LiteRT's."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.importers.limits import UnsupportedOp
from mavcg.importers.tflite_file import import_tflite
from tests.mavcg.importers.tflite.conftest import Checker, Writer
from tests.mavcg.importers.tflite.stateful_runs import litert_runs, our_runs

RANDOM = np.random.default_rng(11)


def weights(*shape: int, random: np.random.Generator = RANDOM) -> Any:
    return (random.standard_normal(shape) * 0.5).astype(np.float32)


def variable(w: Writer, shape: Sequence[int], dtype: str = "f32", **more: Any) -> int:
    index = w.tensor(shape, dtype, **more)
    w.graph.tensors[index].isVariable = True
    return index


def agree(check: Checker, data: bytes, shape: Sequence[int], folder: Path) -> Graph:
    """Four runs of a file, unrolled and in loops."""
    graph = check.load(data)
    sequence = [RANDOM.standard_normal(shape).astype(np.float32) for _ in range(4)]
    theirs = litert_runs(data, sequence)
    (folder / "m.tflite").write_bytes(data)
    for made in (graph, import_tflite(folder / "m.tflite", loops=True)):
        for mine, wanted in zip(our_runs(made, sequence), theirs, strict=True):
            assert mine.shape == wanted.shape
            np.testing.assert_allclose(mine, wanted, 1e-4, 1e-5)
    return graph


def svdf_file(
    batch: int, memory: int, rank: int, bias: bool, activation: int = 0, random: np.random.Generator = RANDOM
) -> bytes:
    w = Writer()
    units, width = 5, 3
    x = w.input((batch, width))
    known = [w.constant(weights(units * rank, n, random=random)) for n in (width, memory)]
    state = variable(w, (batch, memory * units * rank))
    inputs = [x, *known, w.constant(weights(units, random=random)) if bias else -1, state]
    fields = {"rank": rank, "fusedActivationFunction": activation}
    return w.bytes(w.op("SVDF", inputs, "f32", "SVDFOptions", shape=(batch, units), **fields))


@pytest.mark.parametrize(
    ("batch", "memory", "rank", "bias", "activation"),
    [(1, 4, 1, True, 1), (2, 3, 2, False, 0), (2, 1, 1, True, 0)],
)
def test_svdf(check: Checker, tmp_path: Path, batch: int, memory: int, rank: int, bias: bool, activation: int) -> None:
    graph = agree(check, svdf_file(batch, memory, rank, bias, activation), (batch, 3), tmp_path)
    assert len(graph.states) == 1 and len(graph.inputs) == 2 and len(graph.outputs) == 2


def lstm_file(
    steps: int = 4,
    time_major: bool = False,
    coupled: bool = False,
    peepholes: bool = False,
    projection: int = 0,
    batch: int = 2,
    random: np.random.Generator = RANDOM,
    **fields: Any,
) -> bytes:
    w = Writer()
    width, units = 3, 5
    out = projection or units
    x = w.input((steps, batch, width) if time_major else (batch, steps, width))
    absent = {0} if coupled else set[int]()

    def gates(*shape: int, numbers: Sequence[int] = range(4), wanted: bool = True) -> list[int]:
        return [w.constant(weights(*shape, random=random)) if wanted and n not in absent else -1 for n in numbers]

    inputs = [x, *gates(units, width), *gates(units, out), *gates(units, numbers=(0, 1, 3), wanted=peepholes)]
    inputs += gates(units)
    ends = [w.constant(weights(*shape, random=random)) for shape in ((out, units), (out,))]
    inputs += ends if projection else [-1, -1]
    inputs += [variable(w, (batch, out)), variable(w, (batch, units)), -1, -1, -1, -1]
    shape = (steps, batch, out) if time_major else (batch, steps, out)
    fields = {"fusedActivationFunction": 4, "timeMajor": time_major, **fields}
    name = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    return w.bytes(w.op(name, inputs, "f32", "UnidirectionalSequenceLSTMOptions", shape=shape, **fields))


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"steps": 11, "time_major": True},
        {"coupled": True, "peepholes": True, "steps": 9},
        {"peepholes": True, "projection": 4, "cellClip": 0.4, "projClip": 0.3},
        {"steps": 1, "fusedActivationFunction": 1},
    ],
)
def test_a_sequence_lstm(check: Checker, tmp_path: Path, form: dict[str, Any]) -> None:
    steps, major = form.get("steps", 4), form.get("time_major", False)
    graph = agree(check, lstm_file(**form), (steps, 2, 3) if major else (2, steps, 3), tmp_path)
    assert len(graph.states) == 2


@pytest.mark.parametrize("form", [{}, {"steps": 11, "time_major": True}])
def test_states_of_as_many_sequences_as_are_given(tmp_path: Path, form: dict[str, Any]) -> None:
    """The file is for two sequences. LiteRT takes no other number, so the reference is the file for three."""
    files = [lstm_file(**form, batch=batch, random=np.random.default_rng(5)) for batch in (2, 3)]
    steps, major = form.get("steps", 4), form.get("time_major", False)
    shape = (steps, 3, 3) if major else (3, steps, 3)
    (tmp_path / "m.tflite").write_bytes(files[0])
    sequence = [RANDOM.standard_normal(shape).astype(np.float32) for _ in range(3)]
    for loops in (False, True):
        made = import_tflite(tmp_path / "m.tflite", {"t0": shape}, loops=loops)
        for mine, wanted in zip(our_runs(made, sequence), litert_runs(files[1], sequence), strict=True):
            np.testing.assert_allclose(mine, wanted, 1e-4, 1e-5)


def test_a_file_whose_states_are_of_other_sequences_is_refused(check: Checker) -> None:
    """LiteRT refuses it too: two sequences would be read as one sequence of two time steps."""
    w = Writer()
    x = w.input((4, 2, 3))
    inputs = [x, *(w.constant(weights(5, n)) for n in (3, 3, 3, 3, 5, 5, 5, 5)), -1, -1, -1]
    inputs += [*(w.constant(weights(5)) for _ in range(4)), -1, -1]
    inputs += [variable(w, (2, 5)), variable(w, (2, 5)), -1, -1, -1, -1]
    fields = {"fusedActivationFunction": 4, "timeMajor": False}
    name = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    y = w.op(name, inputs, "f32", "UnidirectionalSequenceLSTMOptions", shape=(4, 2, 5), **fields)
    with pytest.raises(MavcgError, match=r"states f32\[2,5\] and f32\[2,5\] of 5 units, for the input f32\[4,2,3\]"):
        check.load(w.bytes(y))


def test_a_long_sequence_is_a_loop(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(lstm_file(steps=300))
    made = import_tflite(tmp_path / "m.tflite", loops=True)
    assert sum(node.op == "loop_state" for node in made.nodes) == 2 and len(made.nodes) < 40


def test_what_is_refused(check: Checker) -> None:
    w = Writer()
    x = w.input((1, 3), "i8", 0.1)
    known = [w.constant(np.ones((5, 3)), "i8", 0.1), w.constant(np.ones((5, 4)), "i16", 0.1), -1]
    state = variable(w, (1, 20), "i16", scale=0.1)
    data = w.bytes(w.op("SVDF", [x, *known, state], ("i8", 0.1), "SVDFOptions", shape=(1, 5), rank=1))
    with pytest.raises(UnsupportedOp, match=r"\(SVDF\): 8-bit arithmetic; supported: f32 inputs and states"):
        check.load(data)
    w = Writer()
    w.input((1, 3))
    other = w.op("ADD", [0, variable(w, (1, 3))], options="AddOptions", shape=(1, 3))
    with pytest.raises(MavcgError, match="keeps its value from one run to the next"):
        check.load(w.bytes(other))
