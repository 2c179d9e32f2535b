"""Layers in f32 where their errors are too large: as few as keep the limit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.model.calibration import RANDOM, calibration_sets
from mavcg.model.precision import layer_precisions, precision_json, precision_words
from mavcg.model.precision_choice import HalfChoice, choose_half_layers
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.model.stages import plan_model
from mavcg.profiles.load import cores_for
from mavcg.runtime.machines import cores_without_half


def quiet(message: str) -> None:
    pass


def network() -> Graph:
    """Products with small errors, and a sum of squares beyond the range of f16."""
    b = GraphBuilder("layers")
    rng = np.random.default_rng(1)
    x = b.input("x", TensorType("f32", (4, 32)))
    a = b.add("matmul", (x, b.constant(rng.standard_normal((32, 32)).astype(np.float32))), "product")
    large = b.add("mul", (a, b.constant(np.float32(200))), "large")
    squares = b.add("mul", (large, large), "squares")
    total = b.add("reduce_mean", (squares,), "total", axes=(1,), keepdims=True)
    norm = b.add("div", (large, b.add("sqrt", (total,), "root")), "norm")
    return b.finish((norm,))


def chosen(graph: Graph, limit: float | None) -> HalfChoice:
    return choose_half_layers(graph, limit, calibration_sets(graph, RANDOM), quiet)


def halves(graph: Graph) -> set[str]:
    return {n.origin for n in graph.nodes if n.op != "cast" and graph.types[n.output].dtype == "f16"}


def test_overflowing_nodes_have_infinite_errors_and_stay_f32() -> None:
    graph = network()
    unlimited = chosen(graph, None)
    errors = {graph.producers()[name].origin: error for name, error in unlimited.own.items()}
    assert {name for name, error in errors.items() if error == np.inf} == {"squares", "total", "root"}
    assert unlimited.error.overflows and "squares" in halves(unlimited.graph)
    limited = chosen(graph, 0.01)
    assert limited.error.relative is not None and limited.error.relative <= 0.01 and not limited.error.overflows
    assert halves(limited.graph) >= {"product", "large", "norm"} and not halves(limited.graph) & {"squares", "total"}


@pytest.mark.parametrize("limit", [1e-2, 1e-3, 1e-5, 0.0])
def test_every_limit_is_kept(limit: float) -> None:
    choice = chosen(network(), limit)
    assert choice.error.relative is not None and choice.error.relative <= limit
    if not limit:
        assert not halves(choice.graph)


def test_a_tighter_limit_leaves_fewer_layers_in_half() -> None:
    counts = [len(halves(chosen(network(), limit).graph)) for limit in (1e-2, 1e-4, 0)]
    assert counts[0] >= counts[1] >= counts[2] == 0


@pytest.mark.long
def test_the_limit_of_a_request_is_that_of_the_network(tiny_onnx: Path, tmp_path: Path) -> None:
    library = str(tmp_path / "libtiny.so")
    options = ModelOptions(cores=("cortex-a76",), precision="auto", max_error=0.5)
    request, _ = make_model_request(tiny_onnx, library, options)
    assert request.max_half_error == 0.5 and request.max_error == 1e-4
    plan = plan_model(request, "tiny", quiet)
    document = precision_json(plan, request.precision, request.cores)
    assert document["max_error"] == 0.5 and document["measured_error"] < 0.01
    assert set(document["layers"].values()) == {"f32"}  # conversions take longer than its small layers gain


def test_cores_without_half_precision_make_it_f32(tiny_onnx: Path, tmp_path: Path) -> None:
    names = ("cortex-a55", "cortex-a53")
    assert cores_without_half(cores_for(list(names))) == ("cortex-a53",)
    options = ModelOptions(cores=names, precision="auto")
    request, _ = make_model_request(tiny_onnx, str(tmp_path / "libtiny.so"), options)
    plan = plan_model(request, "tiny", quiet)
    document: dict[str, Any] = precision_json(plan, request.precision, request.cores)
    assert set(layer_precisions(plan).values()) == {"f32"} and document["without_half"] == ["cortex-a53"]
    assert "+fullfp16" not in plan.machines["generic"].llvm_features
    assert precision_words(document).endswith("no arithmetic of half precision on cortex-a53")
