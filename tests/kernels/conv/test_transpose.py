"""Transposed convolution against its definition: strides, dilations, pads that crop, groups, strided views."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.kernels.gemm.tile import phases
from mavcg.specs.kernel import View

CASES = [
    ((1, 4, 5, 3), (2, 2, 2, 3), {"stride": (2, 2)}),
    ((1, 4, 9, 8), (20, 3, 3, 8), {"stride": (2, 2), "pads": (1, 1, 1, 1), "output_pads": (1, 1)}),
    ((2, 3, 7, 4), (17, 4, 4, 4), {"stride": (2, 2), "pads": (1, 1, 1, 1), "act": "relu"}),
    ((1, 5, 6, 6), (8, 3, 2, 3), {"stride": (1, 3), "groups": 2}),
    ((1, 5, 3, 2), (3, 3, 3, 2), {"dilation": (2, 3), "stride": (2, 2), "pads": (2, 0, 1, 3)}),
    ((1, 4, 4, 5), (6, 1, 1, 5), {"stride": (3, 2), "output_pads": (2, 1)}),
    ((1, 3, 20, 4), (9, 3, 3, 4), {"stride": (1, 1), "pads": (2, 2, 2, 2)}),
    ((1, 2, 2, 3), (4, 2, 9, 3), {"stride": (4, 8), "pads": (1, 9, 0, 2)}),
    ((1, 6, 1, 4), (4, 3, 1, 4), {"stride": (2, 1)}),
]


def arrays(x: tuple[int, ...], w: tuple[int, ...], bias: bool = True) -> list[Any]:
    rng = np.random.default_rng(sum(x) + sum(w))
    made = [rng.standard_normal(shape).astype(np.float32) for shape in (x, w, w[:1])]
    return made if bias else [*made[:2], None]


@pytest.mark.parametrize("x, w, more", CASES)
def test_forms(assert_node: Any, x: tuple[int, ...], w: tuple[int, ...], more: dict[str, Any]) -> None:
    """Filters packed when the library is built; the same bytes whatever the vectors' length."""
    assert_node("conv_transpose2d", arrays(x, w), rtol=1e-5, atol=2e-5, constants=(1, 2), **more)


@pytest.mark.parametrize("x, w, more", CASES[1:6])
def test_filters_of_run_time(assert_node: Any, x: tuple[int, ...], w: tuple[int, ...], more: dict[str, Any]) -> None:
    assert_node("conv_transpose2d", arrays(x, w, bias="groups" not in more), rtol=1e-5, atol=2e-5, **more)


def test_inside_other_buffers(assert_node: Any) -> None:
    """Image and result within concatenations; the result's lines further apart than they are long."""
    views = {"x0": View("f32", (2, 4, 5, 3), (200, 40, 7, 1)), "y": View("f32", (2, 8, 10, 18), (4000, 500, 50, 1))}
    assert_node(
        "conv_transpose2d",
        arrays((2, 4, 5, 3), (18, 2, 2, 3)),
        rtol=1e-5,
        atol=2e-5,
        constants=(1, 2),
        views=views,
        stride=(2, 2),
    )


def test_one_phase_is_the_filter_turned_round() -> None:
    w = np.arange(2 * 3 * 2 * 1, dtype=np.float32).reshape(2, 3, 2, 1)
    np.testing.assert_array_equal(phases(w, (1, 1), (1, 1))[0, 0], w[:, ::-1, ::-1])


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
def test_every_tap_is_in_one_phase(kernel: int, stride: int, dilation: int) -> None:
    w = np.arange(1, kernel * 2 + 1, dtype=np.float32).reshape(1, kernel, 2, 1)
    by_phase = phases(w, (stride, 1), (dilation, 1))
    assert sorted(by_phase[by_phase != 0]) == sorted(w.ravel())


@settings(max_examples=8)
@given(st.data())
def test_transposed_convolutions_of_any_shape_agree_with_the_definition(data: st.DataObject) -> None:
    from mavcg.graph import Graph, type_of
    from mavcg.graph.ops import infer, make_node
    from mavcg.graph.reference import evaluate
    from tests.kernels.conftest import host_machines, run_node_on

    def pick(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    groups = pick(1, 2)
    in_ch, out_ch, kernel = pick(1, 6), pick(1, 20), (pick(1, 4), pick(1, 4))
    stride, dilation = (pick(1, 3), pick(1, 3)), (pick(1, 2), pick(1, 3))
    x, w, _ = arrays((pick(1, 2), pick(1, 5), pick(1, 9), groups * in_ch), (groups * out_ch, *kernel, in_ch))
    spans = [(x.shape[1 + i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 for i in (0, 1)]
    pads = [pick(0, min(4, (spans[i % 2] - 1) // 2)) for i in range(4)]
    attrs = {"stride": stride, "dilation": dilation, "pads": tuple(pads), "groups": groups}
    node = make_node("conv_transpose2d", ("x", "w", ""), ("y",), "tested", **attrs)
    types = {"x": type_of(x), "w": type_of(w)}
    types["y"] = infer(node, types)[0]
    graph = Graph("test", ("x",), ("y",), (node,), types, {"w": w})
    (expected,) = evaluate(node, [x, w, None], wide=True)
    (computed,) = run_node_on(host_machines()[-1], node, graph, {"x": x}, None, pick(1, 3))
    np.testing.assert_allclose(computed, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    "attrs",
    [
        {"stride": (700, 600)},
        {"dilation": (300, 400), "stride": (2, 2)},
        {"dilation": (999, 999), "pads": (400, 900, 500, 950)},
    ],
)
def test_weights_of_huge_phases_stay_as_they_are(attrs: dict[str, Any]) -> None:
    """A weight per phase, and absent taps, would take gigabytes."""
    from mavcg.graph import Graph, type_of
    from mavcg.graph.ops import infer, make_node
    from mavcg.graph.reference import evaluate
    from mavcg.kernels.registry import lower
    from mavcg.specs.kernel import Packing, dense_view
    from tests.kernels.conftest import host_machines, run_node_on

    x, w, bias = arrays((1, 2, 3, 4), (6, 2, 3, 4))
    node = make_node("conv_transpose2d", ("x", "w", "b"), ("y",), "tested", **attrs)
    types = {"x": type_of(x), "w": type_of(w), "b": type_of(bias)}
    types["y"] = infer(node, types)[0]
    graph = Graph("test", ("x",), ("y",), (node,), types, {"w": w, "b": bias})

    (step,) = lower(node, graph, {n: dense_view(t) for n, t in types.items()}, Packing(16))
    constant_bytes = [operand.constant.nbytes for operand in step.operands if operand.constant is not None]
    assert sum(constant_bytes) + step.spec.scratch_bytes < 100_000
    (expected,) = evaluate(node, [x, w, bias], wide=True)
    (computed,) = run_node_on(host_machines()[-1], node, graph, {"x": x}, None, 2)
    np.testing.assert_allclose(computed, expected, rtol=1e-5, atol=2e-5)
