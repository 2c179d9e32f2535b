"""Operators without an instruction become operations that the accelerator has, and compute the same."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from mavcg.accelerators.float_reference import evaluate_f32
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.xgraph import accelerator_share
from mavcg.graph import Array, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference.evaluate import run

SHAPE = (1, 6, 5, 8)


def numbers(*shape: int) -> Array:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def prelu(low: float, high: float) -> Callable[[GraphBuilder, str], str]:
    slopes = np.linspace(low, high, SHAPE[3], dtype=np.float32)
    return lambda b, x: b.add("prelu", (x, b.constant(slopes)))


def fused(act: str, *args: float) -> Callable[[GraphBuilder, str], str]:
    def add(b: GraphBuilder, x: str) -> str:
        return b.add("conv2d", (x, b.constant(numbers(4, 1, 1, 8)), b.constant(numbers(4))), act=act, act_args=args)

    return add


def squeezed(op: str) -> Callable[[GraphBuilder, str], str]:
    return lambda b, x: b.add(op, (b.add("reduce_mean", (x,), axes=(1, 2), keepdims=True), x))


def padded(b: GraphBuilder, x: str) -> str:
    return b.add("pad", (x,), before=(0, 0, 0, 1), after=(0, 0, 0, 3))


def shuffled(b: GraphBuilder, x: str) -> str:
    split = b.add("reshape", (x,), shape=(1, 6, 5, 4, 2))
    return b.add("reshape", (b.add("transpose", (split,), perm=(0, 1, 2, 4, 3)),), shape=SHAPE)


def linear(axis: int) -> Callable[[GraphBuilder, str], str]:
    """Linear upsampling by 2 along an axis: samples at pixels' centres."""
    length = SHAPE[axis]
    at = np.clip((np.arange(2 * length) + 0.5) / 2 - 0.5, 0, length - 1)
    low = np.floor(at).astype(np.int32)
    index = np.stack([low, np.minimum(low + 1, length - 1)], axis=1)
    weight = np.stack([1 - (at - low), at - low], axis=1).astype(np.float32)
    return lambda b, x: b.add("resample", (x, b.constant(index), b.constant(weight)), axis=axis)


CASES: Mapping[str, Callable[[GraphBuilder, str], str]] = {
    "hard swish": lambda b, x: b.add("hard_swish", (x,)),
    "hard sigmoid": lambda b, x: b.add("hard_sigmoid", (x,), alpha=0.2, beta=0.5),
    "hard swish after a convolution": fused("hard_swish"),
    "hard sigmoid after a convolution": fused("hard_sigmoid", 0.25, 0.4),
    "slopes of 0 to 1": prelu(0.0, 1.0),
    "slopes below 0 and above 1": prelu(-0.5, 1.5),
    "squeeze and excitation": squeezed("mul"),
    "difference from a value for each channel": squeezed("sub"),
    "zeros beside the channels": padded,
    "channel shuffle": shuffled,
    "linear upsampling of rows": linear(1),
    "linear upsampling of columns": linear(2),
    "scale of one channel": lambda b, x: b.add(
        "mul", (b.add("conv2d", (x, b.constant(numbers(1, 1, 1, 8)))), b.constant(numbers(1)))
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_without_the_cpu_the_result_is_the_same(case: str) -> None:
    b = GraphBuilder("net")
    graph = b.finish((CASES[case](b, b.input("x", TensorType("f32", SHAPE))),))
    x = 3 * numbers(*SHAPE)

    xgraph = xgraph_of(graph)

    assert not xgraph.hosts
    (expected,) = run(graph, x)
    np.testing.assert_allclose(evaluate_f32(xgraph, {"x": x})[xgraph.outputs[0]], expected, rtol=1e-5, atol=1e-5)


def test_what_differs_stays_with_the_cpu() -> None:
    b = GraphBuilder("net")
    x = b.add("relu", (b.input("x", TensorType("f32", SHAPE)),))
    thirds = np.array([[0, 1]] * 12, np.int32), np.array([[1 / 3, 2 / 3]] * 12, np.float32)
    resampled = b.add("resample", (x, b.constant(thirds[0]), b.constant(thirds[1])), axis=1)
    edge = b.add("pad", (x,), before=(0, 0, 0, 1), after=(0, 0, 0, 0), mode="edge")
    rows = b.add("prelu", (x, b.constant(numbers(6, 1, 1))))

    xgraph = xgraph_of(b.finish((resampled, edge, rows)))

    assert {node.op for node in xgraph.nodes if node.kind == "host"} == {"resample", "pad", "prelu"}


def test_operators_on_vectors_behind_the_cpu_stay_there() -> None:
    b = GraphBuilder("net")
    mean = b.add("reduce_mean", (b.input("x", TensorType("f32", SHAPE)),), axes=(1, 2), keepdims=False)
    one, other = (b.add("matmul", (mean, b.constant(scale * numbers(8, 5)))) for scale in (1, 3))
    scaled = b.add("mul", (b.add("sub", (one, other)), b.constant(numbers(5))))
    graph = b.finish((b.add("clip", (scaled,), lo=-1.0, hi=1.0),))

    xgraph = xgraph_of(graph)

    assert [node.op for node in xgraph.nodes if node.kind == "host"] == ["matmul", "matmul", "sub", "mul", "clip"]
    x = numbers(*SHAPE)
    (expected,) = run(graph, x)
    np.testing.assert_allclose(evaluate_f32(xgraph, {"x": x})[xgraph.outputs[0]], expected, rtol=1e-5, atol=1e-5)


def test_the_share_counts_the_models_convolutions() -> None:
    b = GraphBuilder("net")
    x = b.input("x", TensorType("f32", SHAPE))
    ours = b.add("conv2d", (x, b.constant(numbers(8, 1, 1, 8))), act="hard_swish")
    volume = b.add("reshape", (ours,), shape=(1, 6, 5, 8, 1))
    sine = b.add("reshape", (b.add("sin", (volume,)),), shape=SHAPE)

    assert accelerator_share(xgraph_of(b.finish((sine,)))) == 1.0
