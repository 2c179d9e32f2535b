"""Pooling against the NumPy definition: edges, uneven pads, dilation, counted pads, 8-bit numbers, strided views."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mavcg.graph import DTYPES, Graph, Node, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import evaluate
from mavcg.kernels.tensor.pool import AHEAD_BYTES, Pool, prefetched_offsets
from mavcg.profiles.load import load_core
from mavcg.runtime.machines import machines_for
from mavcg.specs.kernel import View, dense_view
from mavcg.toolchain.target import parse_target


def one_node(op: str, shape: tuple[int, ...], dtype: str, **attrs: Any) -> tuple[Graph, Node]:
    b = GraphBuilder("test")
    graph = b.finish([b.add(op, [b.input("x", TensorType(dtype, shape))], **attrs)])
    return graph, graph.nodes[-1]


FORMS = [
    ((1, 8, 8, 8), {"kernel": (2, 2), "stride": (2, 2)}),
    ((1, 9, 7, 3), {"kernel": (3, 3), "stride": (2, 2), "pads": (1, 1, 1, 1)}),
    ((2, 7, 7, 40), {"kernel": (3, 2), "stride": (1, 1), "pads": (0, 1, 2, 0)}),
    ((1, 12, 11, 37), {"kernel": (3, 3), "stride": (1, 2), "dilation": (2, 3), "pads": (2, 1, 1, 2)}),
    ((1, 5, 5, 130), {"kernel": (5, 5), "stride": (1, 1)}),
    ((1, 6, 6, 1), {"kernel": (3, 3), "stride": (3, 3), "pads": (0, 0, 2, 2)}),
]


@pytest.mark.spread
@pytest.mark.parametrize("shape, attrs", FORMS)
@pytest.mark.parametrize("dtype", ["f32", "i8", "u8"])
def test_maximum(run_node: Any, shape: tuple[int, ...], attrs: dict[str, Any], dtype: str) -> None:
    graph, node = one_node("max_pool2d", shape, dtype, **attrs)
    values = (np.random.default_rng(1).standard_normal(shape) * 60).astype(DTYPES[dtype])
    (expected,) = evaluate(node, [values])
    (computed,) = run_node(node, graph, {"x": values}, None, 3)
    np.testing.assert_array_equal(computed, expected)


@pytest.mark.spread
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("shape, attrs", FORMS)
def test_average(run_node: Any, shape: tuple[int, ...], attrs: dict[str, Any], counted: bool) -> None:
    pads = attrs.get("pads", (0, 0, 0, 0))
    graph, node = one_node("avg_pool2d", shape, "f32", **attrs, count_pads=pads if counted else (0, 0, 0, 0))
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    (expected,) = evaluate(node, [values], wide=True)
    (computed,) = run_node(node, graph, {"x": values}, None, 2)
    np.testing.assert_allclose(computed, expected, rtol=2e-6, atol=2e-6)


def test_in_and_out_of_concatenations(run_node: Any) -> None:
    graph, node = one_node("max_pool2d", (2, 6, 6, 9), "f32", kernel=(3, 3), stride=(1, 1), pads=(1, 1, 1, 1))
    values = np.random.default_rng(1).standard_normal((2, 6, 6, 9)).astype(np.float32)
    view = View("f32", (2, 6, 6, 9), (6 * 6 * 30, 6 * 30, 30, 1))
    (expected,) = evaluate(node, [values])
    (computed,) = run_node(node, graph, {"x": values}, {"x": view, node.output: view}, 2)
    np.testing.assert_array_equal(computed, expected)


@pytest.mark.parametrize("channels", [1, 5, 16, 70])
def test_nan_inside_a_window_is_passed_on(assert_node: Any, channels: int) -> None:
    """Wherever in the window it lies: first, last, or between larger and smaller numbers."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 9, 10, channels)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    x[rng.random(x.shape) < 0.1] = np.inf
    x[rng.random(x.shape) < 0.1] = -np.inf

    computed, *_ = assert_node("max_pool2d", (x,), kernel=(3, 3), stride=(2, 2), pads=(1, 1, 1, 1))

    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
    np.testing.assert_array_equal(np.isnan(computed), np.isnan(windows).any((-1, -2)))
    assert 0 < np.isnan(computed).sum() < computed.size


ARM = machines_for([load_core("cortex-a55")], parse_target("aarch64-linux-gnu"))["cortex-a55"]
X86 = machines_for([load_core("znver3")], parse_target("x86_64-linux-gnu"))["znver3"]


def pool_of(channels: int, kernel: int, stride: int, dilation: int = 1) -> Pool:
    x, out = (dense_view(TensorType("f32", (1, 40, width, channels))) for width in (90, 30))
    return Pool("max", x, out, (kernel, kernel), (stride, stride), (dilation, dilation), (0,) * 4, (0,) * 4)


@pytest.mark.parametrize("kernel, stride, dilation", [(3, 2, 1), (2, 2, 1), (3, 1, 1), (2, 3, 1), (3, 2, 2)])
def test_each_input_of_a_row_is_prefetched_once_well_ahead_of_its_window(
    kernel: int, stride: int, dilation: int
) -> None:
    spec = pool_of(64, kernel, stride, dilation)
    pixel, row = 64 * 4, 90 * 64 * 4
    rows = range(0, kernel * dilation, dilation)
    taps = {y * row + x * pixel for y in rows for x in rows}
    prefetched = [o + n * stride * pixel for n in range(20) for o in prefetched_offsets(spec, ARM)]
    assert len(prefetched) == len(set(prefetched))
    read = {tap + n * stride * pixel for n in range(20) for tap in taps}
    ahead = min(o % row for o in prefetched)
    assert {o for o in read if ahead <= o % row < 20 * stride * pixel} <= set(prefetched)
    assert ahead >= AHEAD_BYTES


def test_windows_of_many_channels_or_whole_rows_and_on_x86_prefetch_nothing() -> None:
    assert prefetched_offsets(pool_of(512, 3, 2), ARM)
    whole = replace(pool_of(64, 30, 30), out=dense_view(TensorType("f32", (1, 1, 1, 64))))
    assert not prefetched_offsets(whole, ARM)
    assert not prefetched_offsets(pool_of(2048, 3, 2), ARM)
    assert not prefetched_offsets(pool_of(64, 3, 2), X86)
