"""Weights that lie in memory as f16 or bf16: which layers have them, their error, and a library on this machine."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg
from mavcg.choose.predict.predict import predict
from mavcg.cli.build_options import BuildOptions
from mavcg.cli.build_tables import split_weights
from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.kernels.conv.spec import Conv2d
from mavcg.model import weight_choice
from mavcg.model.calibration import RANDOM, calibration_sets
from mavcg.model.estimating import HalfOptions, read_source
from mavcg.model.model import build_model
from mavcg.model.model_request import ModelRequest
from mavcg.model.precision import precision_json
from mavcg.model.precision_error import MeasuredError, exact_runs
from mavcg.model.report import stored_words
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.model.stages import plan_model
from mavcg.model.weight_choice import choose_stored_weights
from mavcg.passes.graph.stored_weights import round_to_stored
from mavcg.profiles.load import load_board

onnx = pytest.importorskip("onnx")


def classifier(path: Path, features: int, classes: int) -> Path:
    """A convolution of an image, and two products of which the first is by far the larger."""
    rng, node = np.random.default_rng(0), onnx.helper.make_node

    def array(name: str, *shape: int) -> Any:
        size = np.sqrt(2 / np.prod(shape[1:]))
        return onnx.numpy_helper.from_array((rng.standard_normal(shape) * size).astype(np.float32), name)

    nodes = [
        node("Conv", ["x", "w1"], ["a"], "conv", kernel_shape=[3, 3], strides=[2, 2]),
        node("Flatten", ["a"], ["b"], "flat"),
        node("Gemm", ["b", "w2", "b2"], ["c"], "fc6", transB=1),
        node("Relu", ["c"], ["d"], "relu"),
        node("Gemm", ["d", "w3"], ["y"], "fc7", transB=1),
    ]
    arrays = [
        array("w1", 8, 3, 3, 3),
        array("w2", features, 8 * 7 * 7),
        array("b2", features),
        array("w3", classes, features),
    ]
    value, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes, "classifier", [value("x", kind, [1, 3, 16, 16])], [value("y", kind, [1, classes])], arrays
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def request_of(model: Path, stored: str | None, **options: Any) -> ModelRequest:
    given: dict[str, Any] = {"board": "exynos9820", "tune": "off", "stored_weights": stored, **options}
    return make_model_request(model, str(model.with_suffix(".so")), ModelOptions(**given))[0]


def planned(model: Path, stored: str | None, **options: Any) -> tuple[dict[str, Any], int]:
    """Entry "precision" of the JSON document, and the bytes of all constants."""
    request = request_of(model, stored, **options)
    plan = plan_model(request, "classifier", lambda message: None)
    return precision_json(plan, request.precision, request.cores), plan.program.constants_bytes


@pytest.mark.long
def test_layers_that_wait_for_memory_have_half_the_bytes(tmp_path: Path) -> None:
    model = classifier(tmp_path / "large.onnx", 2048, 100)
    _, whole = planned(model, None)
    for stored, error in (("f16", 5e-4), ("bf16", 4e-3)):
        document, half = planned(model, stored)
        weights = document["weights"]
        assert weights["type"] == stored and "fc6" in weights["layers"] and "conv" not in weights["layers"]
        assert half < 0.6 * whole and abs(whole - half - weights["saved_bytes"]) < 0.01 * whole  # a panel is padded
        assert error / 30 < document["measured_error"] < error and set(document["layers"].values()) == {"f32"}
        assert stored_words(weights).startswith(f"weights in {stored} of fc6")


@pytest.mark.long
@pytest.mark.parametrize(("stored", "precision"), [("bf16", None), (None, "auto"), ("f16", "auto")])
def test_predictions_have_the_kernels_of_the_build(stored: str | None, precision: str | None, tmp_path: Path) -> None:
    model, board = classifier(tmp_path / "large.onnx", 2048, 100), load_board("exynos9820")
    options = (HalfOptions(), HalfOptions(precision, stored))
    plain, half = (read_source(model, board, {}, quiet, given) for given in options)
    plan = plan_model(request_of(model, stored, precision=precision), "classifier", quiet)
    assert set(half.specs) == set(plan.specs) != set(plain.specs)
    if precision is None:
        assert {spec.stored for spec in half.specs if isinstance(spec, Conv2d)} == {stored}
    before, after = (predict(source).chosen.ms for source in (plain, half))
    assert after < 0.8 * before


def quiet(message: str) -> None:
    """Ignore a message of progress."""


def test_small_layers_keep_their_weights(tmp_path: Path) -> None:
    document, _ = planned(classifier(tmp_path / "small.onnx", 16, 8), "f16")
    assert document["weights"]["layers"] == [] and document["measured_error"] is None
    assert stored_words(document["weights"]).startswith("weights in f16 of no layer")
    assert stored_words(None) == ""


def test_layers_in_half_precision_are_left_alone(tmp_path: Path) -> None:
    document, _ = planned(classifier(tmp_path / "half.onnx", 512, 100), "bf16", precision="f16")
    assert document["weights"]["layers"] == [] and set(document["layers"].values()) == {"f16"}


def products(count: int) -> Graph:
    b = GraphBuilder("products")
    rng, y = np.random.default_rng(1), b.input("x", TensorType("f32", (1, 40)))
    for number in range(count):
        y = b.add("matmul", (y, b.constant(rng.standard_normal((40, 40)).astype(np.float32))), f"fc{number}")
    return b.finish((y,))


@pytest.mark.parametrize("error", [0.0, None])  # None: nobody has measured the model itself, which has none
def test_as_many_layers_as_keep_the_limit_the_largest_gains_first(error: float | None) -> None:
    graph = products(5)
    runs = exact_runs(graph, calibration_sets(graph, RANDOM))
    gains = {node.output: float(number) for number, node in enumerate(graph.nodes)}
    counts = []
    for limit in (None, 1.0, 3e-3, 1e-3, 1e-9):
        choice = choose_stored_weights(graph, MeasuredError(error), "bf16", gains, limit, runs)
        in_order = sorted(gains, key=lambda name: -gains[name])
        assert list(choice.outputs) == [name for name in in_order if name in choice.outputs]
        if limit is not None and choice.outputs:
            assert choice.error.relative is not None and choice.error.relative <= limit
        assert sum(node.attr("weights") == "bf16" for node in choice.graph.nodes) == len(choice.outputs)
        counts.append(len(choice.outputs))
    assert counts[:2] == [5, 5] and counts == sorted(counts, reverse=True) and counts[-1] == 0


def test_where_the_error_cannot_be_measured_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = products(5)
    measured: list[Graph] = []
    monkeypatch.setattr(weight_choice, "measure_error", lambda changed, _: measured.append(changed))
    gains = dict.fromkeys((node.output for node in graph.nodes), 1.0)
    unmeasured = choose_stored_weights(graph, MeasuredError(None), "bf16", gains, 1.0, ())
    assert unmeasured.outputs == () and unmeasured.graph is graph and measured == []


def test_a_large_layer_beyond_the_limit_is_left_out_alone() -> None:
    """The largest gain has weights that f16 makes infinite; the others are stored all the same."""
    b = GraphBuilder("products")
    rng, y = np.random.default_rng(1), b.input("x", TensorType("f32", (1, 40)))
    for number, scale in enumerate((1.0, 1e6, 1e-6)):
        weights = rng.standard_normal((40, 40)).astype(np.float32) * np.float32(scale)
        y = b.add("matmul", (y, b.constant(weights)), f"fc{number}")
    graph = b.finish((y,))
    first, large, last = (node.output for node in graph.nodes)
    gains = {first: 1.0, large: 3.0, last: 2.0}
    choice = choose_stored_weights(
        graph, MeasuredError(0.0), "f16", gains, 0.1, exact_runs(graph, calibration_sets(graph, RANDOM))
    )
    assert choice.outputs == (last, first)
    assert choice.error.relative is not None and 0 < choice.error.relative <= 0.1


@pytest.mark.long
def test_a_library_computes_with_the_rounded_weights(tmp_path: Path) -> None:
    model = classifier(tmp_path / "large.onnx", 2048, 100)
    result = build_model(request_of(model, "bf16", board="host"))
    layers = result.note["precision"]["weights"]["layers"]
    assert "fc6" in layers
    x = np.random.default_rng(5).standard_normal((1, 3, 16, 16)).astype(np.float32)
    with mavcg.load(result.output) as loaded:
        (found,) = loaded.run(x)
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(model).graph.initializer}
    names = {"fc6": "w2", "fc7": "w3"}
    rounded = {names[layer]: round_to_stored(weights[names[layer]], "bf16") for layer in layers}
    np.testing.assert_allclose(found, by_hand(x, {**weights, **rounded}), rtol=1e-4, atol=1e-4)
    assert np.abs(found - by_hand(x, weights)).max() > 1e-4


def by_hand(x: Any, weights: Any) -> Any:
    """The classifier in double precision."""
    windows = np.lib.stride_tricks.sliding_window_view(x[0].astype(np.float64), (3, 3), (1, 2))[:, ::2, ::2]
    maps = np.einsum("cyxij,ocij->oyx", windows, weights["w1"])
    hidden = np.maximum(weights["w2"].astype(np.float64) @ maps.reshape(-1) + weights["b2"], 0)
    return (weights["w3"].astype(np.float64) @ hidden)[None]


def test_the_option_takes_a_file_and_a_type(tmp_path: Path) -> None:
    assert split_weights(BuildOptions()) == (None, None)
    assert split_weights(BuildOptions(weights=["bf16", "alexnet.caffemodel"])) == (Path("alexnet.caffemodel"), "bf16")
    for values, message in ((["f16", "bf16"], "--weights bf16: is given beside f16"), (["a", "b"], "--weights b: ")):
        with pytest.raises(MavcgError, match=message):
            split_weights(BuildOptions(weights=values))
    with pytest.raises(MavcgError, match="stored_weights = 'f8': give f16 or bf16"):
        request_of(tmp_path / "x.onnx", "f8")
