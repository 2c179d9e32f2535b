"""`mavcg quantise` without predictions: which layers are in 8 bits, their errors beside NumPy's, and refusals."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mavcg.errors import MavcgError
from mavcg.hosts.host import find_board
from mavcg.importers.load import import_model
from mavcg.importers.onnx_file import import_model as import_onnx_model
from mavcg.model.quantise.errors import layer_errors
from mavcg.model.quantise.layers import layers_of, with_following
from mavcg.model.quantise.onnxruntime_models import Quantiser, folded_model
from mavcg.model.quantise.quantise import QuantisedModel, QuantiseQuestion, quantise
from mavcg.model.quantise.samples import Sample, read_samples
from mavcg.passes.graph.pipeline import optimise
from tests.mavcg.model.quantise.networks import WEIGHTED, predict, write_network, write_samples


def quantised(folder: Path, board: str = "rk3588", max_error: float = 0.5, point: int | None = None) -> QuantisedModel:
    question = QuantiseQuestion(folder / "network.onnx", folder / "samples", find_board(board), max_error, 2, point)
    return quantise(question, predict, folder, lambda message: None)


def eight_bit_layers(model: bytes, shapes: dict[str, tuple[int, ...]]) -> list[str]:
    """Layers that mavcg computes in 8 bits in a model."""
    graph = optimise(import_onnx_model(onnx.load_from_string(model), Path("m.onnx"), shapes))
    return [n.origin for n in graph.nodes if n.op in ("qconv2d", "qmatmul")]


@pytest.mark.parametrize(("board", "batch", "opset"), [("rk3588", 1, 17), ("host", "n", 11)])
def test_layers_that_pay_are_in_8_bits(tmp_path: Path, board: str, batch: int | str, opset: int) -> None:
    write_network(tmp_path, batch, opset)
    write_samples(tmp_path)
    made = quantised(tmp_path, board)
    assert [layer.name for layer in made.layers if layer.pays] == ["first", "wide", "product"]
    assert all(layer.error is not None and 0 < layer.error < 0.05 for layer in made.layers)
    assert [point.layers for point in made.points if len(point.layers) in (0, 3, 4)] == [
        (),
        WEIGHTED,
        ("first", "wide", "product"),
    ]
    assert made.points[made.chosen].ms == min(point.ms for point in made.points) == 10.0
    assert all(0 < point.error < 0.1 for point in made.points if point.layers)
    assert eight_bit_layers(made.model, {"x": (1, 3, 12, 12)}) == ["first", "wide", "product"]
    if board == "host":
        assert quantised(tmp_path, board).model == made.model


def test_the_error_of_a_layer_is_that_of_its_definition(tmp_path: Path) -> None:
    """A product by NumPy in double, with the scales that the quantiser chose."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((8, 5)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 5))],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    xs = rng.standard_normal((6, 1, 8)).astype(np.float32)
    samples: list[Sample] = [{"x": x} for x in xs]
    folded = folded_model(path, tmp_path)
    whole = Quantiser(path, folded, samples, False, tmp_path).quantise(["y"])
    (found,) = layer_errors(folded, whole, ["y"], samples, "product", lambda message: None).values()

    values = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in whole.graph.initializer}

    def of_tensor(name: str, array: np.ndarray) -> np.ndarray:
        scale, zero = values[f"{name}_scale"], values[f"{name}_zero_point"]
        return (np.clip(np.rint(array / scale) + zero, -128, 127) - zero) * scale

    exact, eight_bit_weights = xs.astype(np.float64) @ weights, values["w_quantized"] * values["w_scale"]
    assert np.abs(eight_bit_weights - weights).max() <= values["w_scale"].max() / 1.9
    computed = of_tensor("y", of_tensor("x", xs.astype(np.float64)) @ eight_bit_weights)
    assert found == pytest.approx(np.sqrt(((computed - exact) ** 2).sum() / (exact**2).sum()), rel=0.02)


def test_operators_follow_where_all_that_they_read_is_in_8_bits(tmp_path: Path) -> None:
    model = folded_model(write_network(tmp_path), tmp_path)
    assert [node.name for node in layers_of(model)] == list(WEIGHTED)
    ops = {node.name: node.op_type for node in model.graph.node}
    assert [ops[name] for name in with_following(model, ["wide"])] == ["Conv"]
    every = [ops[name] for name in with_following(model, WEIGHTED)]
    assert every == [op for op in ops.values() if op != "Softmax"] and len(every) == 9


def not_npy(folder: Path) -> None:
    (folder / "samples" / "0.npy").write_bytes(b"no array")


def other_shape(folder: Path) -> None:
    np.save(folder / "samples" / "3.npy", np.zeros((1, 3, 12, 11), np.float32))


def other_type(folder: Path) -> None:
    np.save(folder / "samples" / "3.npy", np.zeros((1, 3, 12, 12)))


def not_finite(folder: Path) -> None:
    np.save(folder / "samples" / "3.npy", np.full((1, 3, 12, 12), np.nan, np.float32))


def other_name(folder: Path) -> None:
    np.savez(folder / "samples" / "3.npz", z=np.zeros((1, 3, 12, 12), np.float32))


def empty(folder: Path) -> None:
    for path in (folder / "samples").iterdir():
        path.unlink()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (not_npy, "0.npy: no array could be read"),
        (other_shape, "sample 3: x is float32.1, 3, 12, 11.; the model takes float32.1, 3, 12, 12."),
        (other_type, "sample 3: x is float64"),
        (not_finite, "sample 3: x has numbers that are not finite"),
        (other_name, "has arrays for z; the model's inputs are x"),
        (empty, "has no .npy or .npz file"),
    ],
)
def test_bad_samples_are_named(tmp_path: Path, change: Callable[[Path], None], words: str) -> None:
    write_network(tmp_path)
    write_samples(tmp_path)
    change(tmp_path)
    with pytest.raises(MavcgError, match=words):
        quantised(tmp_path)


def test_a_model_in_8_bits_has_nothing_to_quantise(tmp_path: Path) -> None:
    write_network(tmp_path)
    write_samples(tmp_path)
    path = tmp_path / "network.onnx"
    samples = read_samples(tmp_path / "samples", ["x"])
    whole = Quantiser(path, folded_model(path, tmp_path), samples, False, tmp_path).quantise(WEIGHTED)
    assert eight_bit_layers(whole.SerializeToString(), {}) == list(WEIGHTED)
    onnx.save(whole, path)
    with pytest.raises(MavcgError, match="no convolution or product with weights in f32"):
        quantised(tmp_path)


def test_without_onnxruntime_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_network(tmp_path)
    write_samples(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime.quantization", None)
    with pytest.raises(MavcgError, match=r"pip install 'mavcg\[quantise\]'"):
        quantised(tmp_path)


def test_a_sample_of_two_inputs_is_an_npz_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", a=np.zeros(2), b=np.ones(3))
    (sample,) = read_samples(tmp_path, ["a", "b"])
    assert sample["a"].shape == (2,) and sample["b"].shape == (3,)
    assert import_model(write_network(tmp_path), {}).inputs == ("x",)
