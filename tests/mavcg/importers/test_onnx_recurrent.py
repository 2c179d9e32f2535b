"""LSTM, GRU and RNN against onnxruntime: directions, initial states, peepholes, clipping, both layouts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from tests.mavcg.importers.recurrent_models import GATES, model, with_lengths  # noqa: E402


def check(path: Path, arrays: Any) -> None:
    graph = import_onnx(path)
    have = run(graph, *(arrays[name] for name in graph.inputs))
    want = onnxruntime.InferenceSession(str(path)).run(None, arrays)
    for mine, theirs in zip(have, want, strict=True):
        assert mine.shape == theirs.shape
        assert np.abs(mine - theirs).max() <= 1e-5 * max(1.0, np.abs(theirs).max())


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("states", [False, True])
def test_directions_and_states(tmp_path: Path, op: str, direction: str, states: bool) -> None:
    check(tmp_path / "m.onnx", model(tmp_path / "m.onnx", op, direction=direction, states=states))


NUMBERS = {"activation_alpha": [0.3, 0.7, 0.2], "activation_beta": [0.4, 0.6]}  # a function takes those that it has


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("LSTM", {"peepholes": True, "states": True}),
        ("LSTM", {"clip": 0.5}),
        ("LSTM", {"bias": False}),
        ("LSTM", {"activations": ["Sigmoid", "Relu", "Tanh"]}),
        ("LSTM", {"steps": 1, "states": True}),
        ("GRU", {"linear_before_reset": 1, "states": True}),
        ("GRU", {"clip": 0.5, "bias": False}),
        ("GRU", {"steps": 1}),
        ("LSTM", {"activations": ["HardSigmoid", "ScaledTanh", "Softsign"], **NUMBERS}),
        ("LSTM", {"activations": ["Affine", "Elu", "LeakyRelu"], **NUMBERS}),
        ("LSTM", {"activations": ["HardSigmoid", "Elu", "LeakyRelu"]}),
        ("LSTM", {"input_forget": 1, "states": True}),
        ("LSTM", {"input_forget": 1, "peepholes": True}),
        ("GRU", {"activations": ["HardSigmoid", "Elu", "Sigmoid", "LeakyRelu"], "direction": "bidirectional"}),
        ("GRU", {"activations": ["Sigmoid", "Softplus"]}),
        ("RNN", {"activations": ["ThresholdedRelu"], "activation_alpha": [0.3]}),
        ("RNN", {"activations": ["Affine"], "activation_alpha": [0.3], "activation_beta": [0.1]}),
        ("RNN", {"activations": ["Relu"]}),
        ("RNN", {"direction": "bidirectional", "activations": ["Tanh", "Sigmoid"]}),
    ],
)
def test_attributes(tmp_path: Path, op: str, attributes: dict[str, Any]) -> None:
    check(tmp_path / "m.onnx", model(tmp_path / "m.onnx", op, **attributes))


@pytest.mark.parametrize("op", GATES)
def test_batch_first(tmp_path: Path, op: str) -> None:
    """onnxruntime has no such layout: the other one, transposed, is the reference."""
    arrays = model(tmp_path / "a.onnx", op, states=True, layout=1)
    turned = {name: array.transpose(1, 0, 2) for name, array in arrays.items()}
    model(tmp_path / "b.onnx", op, states=True)
    graph = import_onnx(tmp_path / "a.onnx")
    have = run(graph, *(arrays[name] for name in graph.inputs))
    want = onnxruntime.InferenceSession(str(tmp_path / "b.onnx")).run(None, turned)
    for mine, theirs, perm in zip(have, want, ((2, 0, 1, 3), (1, 0, 2), (1, 0, 2)), strict=False):
        assert np.abs(mine - theirs.transpose(perm)).max() <= 1e-5


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("steps", [5, 9])
def test_sequences_of_different_lengths(tmp_path: Path, op: str, known: bool, steps: int) -> None:
    for lengths in ([steps, 1], [3, 4], [2, steps]):
        for direction, states in (("bidirectional", True), ("reverse", False)):
            path = tmp_path / "m.onnx"
            arrays = model(path, op, steps, states, direction=direction)
            with_lengths(path, lengths if known else None)
            arrays |= {} if known else {"lengths": np.array(lengths, np.int32)}
            want = onnxruntime.InferenceSession(str(path)).run(None, arrays)
            for loops in (False, True):
                graph = import_onnx(path, loops=loops)
                have = run(graph, *(arrays[name] for name in graph.inputs))
                for mine, theirs in zip(have, want, strict=True):
                    np.testing.assert_allclose(mine, theirs, 1e-5, 1e-5)


def test_lengths_that_are_no_lengths(tmp_path: Path) -> None:
    for lengths in ([0, 5], [6, 1]):
        model(tmp_path / "m.onnx", "GRU")
        with_lengths(tmp_path / "m.onnx", lengths)
        with pytest.raises(
            MavcgError, match=r"'r' \(GRU\): sequence_lens \[.*\] of sequences of 5 time steps; give 1 to 5"
        ):
            import_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        (
            {"activations": ["Sigmoid", "Cubic", "Tanh"]},
            "activations Sigmoid, Cubic, Tanh; supported: 3 of sigmoid, ta",
        ),
        (
            {"activations": ["Sigmoid", "Tanh", "Affine"]},
            "affine without numbers; supported: with its activation_alpha",
        ),
        ({"activations": ["Sigmoid", "Tanh"]}, "activations Sigmoid, Tanh; supported: 3 of sigmoid"),
        ({"direction": "sideways"}, "direction 'sideways'; there are forward, reverse, bidirectional"),
        ({"steps": 1025}, "1025 time steps in 1 directions; supported: 1 to 1024"),
    ],
)
def test_what_is_refused(tmp_path: Path, attributes: dict[str, Any], words: str) -> None:
    model(tmp_path / "m.onnx", "LSTM", **attributes)
    with pytest.raises(MavcgError) as refused:
        import_onnx(tmp_path / "m.onnx")
    assert "node 'r' (LSTM)" in str(refused.value) and words in str(refused.value)
