"""The NumPy definitions against ONNX Runtime and onnx's own, and against plain loops where neither has the operator."""

from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.ops import OPS, make_node
from mavcg.graph.reference import DEFINITIONS, evaluate, run
from tests.mavcg.graph.reference.other_results import close, f32, normal, onnx_runtime, ours


def test_every_operator_is_defined() -> None:
    assert set(DEFINITIONS) == set(OPS) - {"loop_slice", "loop_next", "loop_stack"}  # which run_loop defines


@pytest.mark.parametrize("to", ["u8", "i8"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantize_and_back(to: str, axis: int | None) -> None:
    dtype = np.uint8 if to == "u8" else np.int8
    x = np.concatenate([normal(4, 20) * 50, np.arange(-10, 10, dtype=np.float32).reshape(4, 5) / 2], axis=1)
    shape = () if axis is None else (x.shape[axis],)
    scale = np.asarray(np.abs(np.random.default_rng(1).standard_normal(shape)) + 0.25).astype(np.float32)
    zero = np.random.default_rng(2).integers(0, 100, shape).astype(dtype)
    along: dict[str, Any] = {} if axis is None else {"axis": axis}
    q = onnx_runtime("QuantizeLinear", x, scale, zero, **along)
    close(ours("quantize", x, scale, zero, to=to, **along), q)
    close(ours("dequantize", q, scale, zero, **along), onnx_runtime("DequantizeLinear", q, scale, zero, **along))


def test_quantize_rounds_half_to_even_and_saturates() -> None:
    x = f32([0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, np.inf, -np.inf])
    computed = ours("quantize", x, f32(1), np.array(1, np.int8), to="i8")
    assert computed.tolist() == [1, 3, 3, 1, -1, 127, -128, 127, -128]


def test_wide_results_are_not_rounded() -> None:
    x = f32([1 / 3])
    assert ours("mul", x, x).dtype == np.float32
    wide = ours("mul", x, x, wide=True)
    assert wide.dtype == np.float64 and wide[0] == float(x[0]) ** 2
    assert ours("mul", wide, x, wide=True)[0] == float(x[0]) ** 3  # and may be read with others
    assert ours("mul", x, x)[0] == x[0] * x[0]
    assert ours("greater", wide, x, wide=True).dtype == np.bool_


def test_inputs_that_do_not_go_with_the_operator() -> None:
    with pytest.raises(MavcgError, match="shapes that do not broadcast"):
        ours("add", normal(2), normal(3))
    with pytest.raises(MavcgError, match="1 arrays for 2 inputs"):
        evaluate(make_node("add", ["a", "b"], ["y"]), [normal(2)])
    with pytest.raises(MavcgError, match="indices from 3 to 3"):
        ours("gather", normal(2), np.array([3]))


def small_graph() -> Graph:
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", (1, 4, 4, 2)))
    y = b.add("conv2d", [x, b.constant(normal(3, 3, 3, 2), "w")], act="relu")
    return b.finish([b.add("reduce_mean", [y], axes=(1, 2), keepdims=False), y, x])


def test_run_computes_every_output() -> None:
    graph, x = small_graph(), normal(1, 4, 4, 2)
    mean, conv, same = run(graph, x)
    np.testing.assert_array_equal(same, x)
    close(conv, np.maximum(ours("conv2d", x, graph.constants["w"]), 0))
    close(mean, conv.mean(axis=(1, 2)))
    assert [a.dtype for a in run(graph, x, wide=True)[:2]] == [np.float64] * 2


def test_run_wants_the_inputs_that_the_graph_has() -> None:
    with pytest.raises(MavcgError, match="0 inputs given; it has 1"):
        run(small_graph())
    with pytest.raises(MavcgError, match=r"input x is f32\[1,4,4,3\] where f32\[1,4,4,2\] is needed"):
        run(small_graph(), normal(1, 4, 4, 3))
