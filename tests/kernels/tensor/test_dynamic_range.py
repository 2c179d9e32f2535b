"""Scale and zero point of a tensor's range: those of the definition, whatever its shape, strides and pieces."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.graph import Graph, TensorType
from mavcg.graph.counts import Length
from mavcg.graph.ops import make_node
from mavcg.graph.reference import evaluate
from mavcg.kernels.builder.nest import Nest
from mavcg.kernels.tensor.dynamic_range import Extremes
from mavcg.specs.kernel import Operand, Step, View
from tests.conftest import examples
from tests.kernels.conftest import Compiled, host_machines, run_node_on

onnx = pytest.importorskip("onnx")
reference = pytest.importorskip("onnx.reference")


@pytest.mark.parametrize("shape", [(), (1,), (7,), (16,), (33,), (3, 5), (4096,), (4097,), (3, 70, 41), (2, 0)])
def test_shapes(assert_node: Any, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)
    assert_node("dynamic_range", [x])


@pytest.mark.parametrize("strides", [(1000, 20, 1), (4000, 900, 40), (5000, 90, 3)])
def test_within_other_buffers(assert_node: Any, strides: tuple[int, ...]) -> None:
    x = np.random.default_rng(7).normal(size=(3, 4, 19)).astype(np.float32)
    assert_node("dynamic_range", [x], views={"x0": View("f32", x.shape, strides)})


@pytest.mark.parametrize(
    ("values", "scale", "point"),
    [
        ([0.0, -0.0], 1.0, 0),
        ([5.0, 1.0], 5 / 255, 0),
        ([-5.0, -1.0], 5 / 255, 255),
        ([-1.0, 2.0], 3 / 255, 85),
        ([1e-45, 0.0], 1.0, 0),
        ([np.nan, 1.0], np.nan, 0),
        ([np.inf, -1.0], np.inf, 0),
    ],
)
def test_ends(assert_node: Any, values: list[float], scale: float, point: int) -> None:
    for count in (2, 40):
        x = np.resize(np.array(values, np.float32), count)
        (computed, *_) = assert_node("dynamic_range", [x], compare=False)
        np.testing.assert_array_equal(computed, np.array([scale, point], np.float32))


@settings(max_examples=examples(25, 6))
@given(st.integers(1, 20000), st.integers(0, 99), st.integers(1, 4), st.sampled_from([1e-3, 1.0, 1e6]))
def test_as_onnx_defines_it(count: int, seed: int, parts: int, size: float) -> None:
    """Beside ONNX's own definition, of any number of elements, computed in several parts."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(loc=rng.normal(), size=count) * size).astype(np.float32)
    node = make_node("dynamic_range", ("x",), ("y",))
    types = {"x": TensorType("f32", x.shape), "y": TensorType("f32", (2,))}
    graph = Graph("test", ("x",), ("y",), (node,), types)
    made = onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"])
    _, scale, zero = reference.ReferenceEvaluator(made).run(None, {"x": x})
    for machine in host_machines():
        (computed,) = run_node_on(machine, node, graph, {"x": x}, parts=parts, optimised=False)
        np.testing.assert_array_equal(computed, evaluate(node, [x])[0])
        np.testing.assert_allclose(computed[0], scale, rtol=2e-7)
        assert abs(computed[1] - float(zero)) <= 1


@pytest.mark.parametrize("nest", [Nest((40 * 211,), ((1,),)), Nest((40, 19), ((31, 1),)), Nest((40,), ((3,),))])
def test_a_length_that_a_run_sets(nest: Nest) -> None:
    """Pairs of the first of 40 indices: what lies behind them, or between lines, is not read; other pairs are zeros."""
    spec = Extremes(nest, nest.shape[0] // 40)
    step = Step(spec, (Operand("x"), Operand("pairs", written=True), Operand(count=Length("n"))))
    x = np.full(1 + sum((n - 1) * s for n, s in zip(nest.shape, nest.strides[0], strict=True)), 1e9, np.float32)
    compiled, word = Compiled([step], host_machines()[0], optimised=False), np.zeros(1, np.uint32)
    rng = np.random.default_rng(0)
    for length in (0, 1, 2, 19, 20, 39, 40):
        shape = (length * spec.per_index, *nest.shape[1:])
        own = x.copy()
        inside = np.lib.stride_tricks.as_strided(own, shape, [4 * stride for stride in nest.strides[0]])
        inside[...] = rng.normal(3, 1, shape)
        pairs = np.full((spec.rows, 2), np.nan, np.float32)
        word[0] = length
        pointers = [int(array.ctypes.data) for array in (own, pairs, word)]
        compiled.run(step, pointers, [(0, 1), (1, spec.rows)])
        assert pairs[:, 0].min() == min(0.0, inside.min(initial=0.0))
        assert pairs[:, 1].max() == inside.max(initial=0.0)
