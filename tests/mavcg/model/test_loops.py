"""Recurrent operators, Scan and Loop as loops of the program: one body, and the same bits as unrolled."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.choose.predict.predict import predict
from mavcg.graph import Graph
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx
from mavcg.model.estimating import read_source
from mavcg.passes.graph.pipeline import optimise
from mavcg.profiles.load import load_board
from tests.conftest import examples
from tests.mavcg.importers.recurrent_models import GATES, model, with_lengths
from tests.mavcg.memory.random_loops import random_loops

onnxruntime = pytest.importorskip("onnxruntime")
from tests.mavcg.model.lowered_runs import PACKING, computed  # noqa: E402

STEPS = 9


def same_bits(path: Path, arrays: Any) -> Graph:
    """Check a file's loops against the unrolled graph, bit by bit, and against onnxruntime; return the graph."""
    graph, unrolled = import_onnx(path, loops=True), import_onnx(path)
    have, flat = computed(graph, arrays), computed(unrolled, arrays)
    want = onnxruntime.InferenceSession(str(path)).run(None, arrays)
    for mine, same, theirs in zip(have, flat, want, strict=True):
        np.testing.assert_array_equal(mine, same)
        np.testing.assert_allclose(mine, theirs, 1e-4, 1e-5)
    return graph


@pytest.mark.sample(6)
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("states", [False, True])
def test_a_recurrent_operator_is_one_loop_in_each_direction(
    tmp_path: Path, op: str, direction: str, states: bool
) -> None:
    arrays = model(tmp_path / "m.onnx", op, STEPS, states, direction=direction)
    graph = same_bits(tmp_path / "m.onnx", arrays)
    loops = {node.attr("loop") for node in graph.nodes if node.op == "loop_state"}
    assert len(loops) == (2 if direction == "bidirectional" else 1)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("LSTM", {"peepholes": True, "states": True}),
        ("LSTM", {"clip": 0.5, "bias": False}),
        ("GRU", {"linear_before_reset": 1, "direction": "bidirectional"}),
    ],
)
def test_forms_of_recurrent_operators(tmp_path: Path, op: str, attributes: dict[str, Any]) -> None:
    same_bits(tmp_path / "m.onnx", model(tmp_path / "m.onnx", op, STEPS, **attributes))


@pytest.mark.parametrize("op", GATES)
def test_sequences_of_different_lengths(tmp_path: Path, op: str) -> None:
    arrays = model(tmp_path / "m.onnx", op, STEPS, direction="bidirectional")
    with_lengths(tmp_path / "m.onnx", None)
    same_bits(tmp_path / "m.onnx", arrays | {"lengths": np.array([4, STEPS], np.int32)})


def test_a_layer_of_any_length_has_one_body(tmp_path: Path) -> None:
    """As many steps and kernels for 1,000 time steps as for 10; the states are updated in place."""
    programs = []
    for steps in (10, 1000):
        model(tmp_path / "m.onnx", "LSTM", steps, direction="bidirectional")
        graph = optimise(import_onnx(tmp_path / "m.onnx", loops=True))
        programs.append(plan_lowered(lower_graph(graph, PACKING)).program)
    short, long = programs
    assert [step.op for step in short.steps] == [step.op for step in long.steps]
    assert [loop.trips for loop in long.loops] == [1000, 1000]
    (body,) = {loop.end - loop.begin for loop in long.loops}
    assert body <= 9  # the sums, three gates, the candidate, cell, its tanh, hidden state and the copy of that


def test_few_iterations_are_unrolled(tmp_path: Path) -> None:
    model(tmp_path / "m.onnx", "GRU", 7)
    assert import_onnx(tmp_path / "m.onnx", loops=True) == import_onnx(tmp_path / "m.onnx")


@settings(max_examples=examples(200, 6))
@given(st.integers(0, 10**9))
def test_random_loops_agree_with_the_definition(seed: int) -> None:
    graph = random_loops(seed)
    rng = np.random.default_rng(seed)
    arrays = {name: rng.standard_normal(graph.shape(name)).astype(np.float32) for name in graph.inputs}
    for have, want in zip(computed(graph, arrays), run(graph, *arrays.values()), strict=True):
        np.testing.assert_allclose(have, want, 1e-5, 1e-5)


def test_predicted_times_are_of_all_iterations(tmp_path: Path) -> None:
    """A layer of twice as many time steps takes about twice as long; its steps are as many."""
    board = load_board("exynos9820")
    times, steps = [], []
    for length in (100, 200):
        model(tmp_path / "m.onnx", "GRU", length)
        predicted = predict(read_source(tmp_path / "m.onnx", board, {}, lambda message: None))
        times.append(predicted.chosen.ms)
        steps.append(len(predicted.layers))
    assert 1.9 < times[1] / times[0] < 2.1 and steps[0] == steps[1]
