"""The measured error of half precision: small, or said to be infinite."""

import numpy as np
import pytest

from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.model.calibration import RANDOM, calibration_sets
from mavcg.model.precision import half_graph, precision_words
from mavcg.model.precision_error import ExactRun, MeasuredError, error_json, exact_runs, measure_error, relative_error


def scaled(factor: float) -> Graph:
    b = GraphBuilder("scaled")
    x = b.input("x", TensorType("f32", (4, 50)))
    large = b.add("mul", (x, b.constant(np.float32(factor))), "large")
    return b.finish((b.add("mul", (large, b.constant(np.float32(1 / factor)))),))


def runs_of(graph: Graph) -> tuple[ExactRun, ...]:
    return exact_runs(graph, calibration_sets(graph, RANDOM))


def test_a_small_error_is_measured() -> None:
    graph = scaled(3.0)
    error = measure_error(half_graph(graph), runs_of(graph))
    assert error.relative is not None and 1e-5 < error.relative < 2e-3 and not error.overflows


def test_an_overflow_is_named() -> None:
    graph = scaled(1e5)
    error = measure_error(half_graph(graph), runs_of(graph))
    assert error_json(error)["measured_error"] is None and "(mul)" in error.overflows[0]
    words = precision_words({"requested": "f16", "layers": {"large": "f16"}, **error_json(error)})
    assert words.startswith("f16: 1 of 1 layers in f16; numbers of node") and "exceed the range" in words


def test_an_index_that_does_not_exist_leaves_the_error_open() -> None:
    b = GraphBuilder("indices")
    x, i = b.input("x", TensorType("f32", (1, 3))), b.input("i", TensorType("i64", (9, 1)))
    flat = b.add("flat_index", (i,), lengths=(1,), strides=(1,), offsets=(0,))
    graph = b.finish((b.add("gather", (b.add("relu", (x,)), flat), axis=0),))
    assert measure_error(half_graph(graph), runs_of(graph)) == MeasuredError(None)


@pytest.mark.parametrize(
    ("exact", "computed", "error"),
    [
        ([1.0, -4.0], [1.0, -3.0], 0.25),
        ([0.0, 0.0], [0.5, 0.0], 0.5),
        ([np.inf, 2.0], [7.0, 1.0], 0.5),
        ([np.nan], [1.0], 0.0),
        ([1.0], [np.nan], np.inf),
        ([1.0], [np.inf], np.inf),
    ],
)
def test_relative_error(exact: list[float], computed: list[float], error: float) -> None:
    assert relative_error(np.array(exact), np.array(computed, np.float16)) == error
