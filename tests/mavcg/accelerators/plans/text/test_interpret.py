"""Plans that are run: the layer comes out, bit by bit in whole numbers, and the bytes are those of the model."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.accelerators.plans.grid import search_pruned as search
from mavcg.accelerators.plans.loop_order import traffic_with_halo
from mavcg.accelerators.plans.text.emit import emit_plan, emit_pool
from mavcg.accelerators.plans.text.interpret import CountedTraffic, count_plan, run_plan
from mavcg.accelerators.plans.text.parser import parse_plan
from mavcg.accelerators.plans.text.plan import TextPlan
from mavcg.accelerators.plans.text.verify import verify_plan
from mavcg.cost.layer import ConvLayer, Dataflow, ItemBytes, Tile, Tiling
from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.graph.ops import make_node
from mavcg.graph.reference import DEFINITIONS
from tests.conftest import examples

Arrays = Callable[..., tuple[Array, Array]]
Convolved = Callable[[ConvLayer, Array, Array], Array]


@given(data=st.data())
@settings(max_examples=examples(70, 9))
def test_a_plan_computes_its_layer_and_moves_what_the_model_says(
    data: st.DataObject, cases: Any, roomy: Any, roomy_shared: Any, arrays: Arrays, convolved: Convolved
) -> None:
    layer, tiling = data.draw(cases)
    plan = emit_plan(layer, tiling, data.draw(st.sampled_from([roomy, roomy_shared])))
    assert count_plan(plan).traffic == traffic_with_halo(layer, tiling)
    x, w = arrays(layer)
    ran = run_plan(plan, x, w)
    assert ran.output.dtype == np.int32
    np.testing.assert_array_equal(ran.output, convolved(layer, x, w))
    assert ran.moved == count_plan(plan)


@pytest.mark.parametrize("dataflow", list(Dataflow))
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int64"])
def test_element_types(dtype: str, dataflow: Dataflow, roomy: Any, arrays: Arrays, convolved: Convolved) -> None:
    layer = ConvLayer("t", 5, 6, 7, 4, 3, 2, 13, 6, (2, 2), (1, 0, 1, 1), groups=2, items=ItemBytes(1, 1, 1, 4))
    layer = replace(layer, ow=(6 + 1 - 2) // 2 + 1)
    x, w = arrays(layer, np.int64)
    x, w = (np.abs(a) if dtype == "uint8" else a for a in (x, w))
    ran = run_plan(emit_plan(layer, Tiling(Tile(2, 4, 3, 2, 2, 1), dataflow), roomy), x.astype(dtype), w.astype(dtype))
    np.testing.assert_array_equal(ran.output, convolved(layer, x, w))
    # Sums have the arrays' type, but never fewer bytes than the plan's partial sums.
    assert ran.output.dtype == {"int8": "int32", "uint8": "uint32"}.get(dtype, dtype)


def test_sums_beyond_float64_are_exact_and_those_beyond_32_bits_wrap_round(roomy: Any, arrays: Arrays) -> None:
    layer = ConvLayer("t", 2, 3, 4, 4, 3, 3, 6, 6)
    plan = emit_plan(layer, Tiling(Tile(1, 2, 3, 4, 3, 3), Dataflow.INPUT), roomy)
    for dtype, largest in ((np.int64, 2**30), (np.int32, 2**24), (np.int32, 2**31 - 1)):
        x, w = arrays(layer, dtype, largest)
        whole_x, whole_w = x.astype(object), w.astype(object)  # Python's numbers: any size
        half = 1 << (8 * np.dtype(dtype).itemsize - 1)
        output = run_plan(plan, x, w).output
        for oc, oh, ow in np.ndindex(2, 4, 4):
            wanted = int((whole_w[oc] * whole_x[0, :, oh : oh + 3, ow : ow + 3]).sum())
            assert output[0, oc, oh, ow] == (wanted + half) % (2 * half) - half


def test_bytes_by_direction(roomy: Any) -> None:
    """Two passes over the input channels, weights stationary: each output goes out, comes back, goes out."""
    layer = ConvLayer("t", 4, 6, 8, 8, 1, 1, 8, 8, items=ItemBytes(1, 2, 1, 4))
    plan = emit_plan(layer, Tiling(Tile(4, 3, 4, 8, 1, 1), Dataflow.WEIGHT), roomy)
    assert count_plan(plan) == CountedTraffic(6 * 64, 24 * 2, 4 * 64 * 4, 4 * 64 * (4 + 1))


def test_relu(roomy: Any, arrays: Arrays, convolved: Convolved) -> None:
    layer = ConvLayer("t", 4, 6, 8, 8, 3, 3, 8, 8, pads=(1, 1, 1, 1))
    x, w = arrays(layer)
    plan = emit_plan(layer, Tiling(Tile(2, 3, 4, 8, 3, 3), Dataflow.WEIGHT), roomy, relu=True)
    np.testing.assert_array_equal(run_plan(plan, x, w).output, np.maximum(convolved(layer, x, w), 0))


@given(data=st.data())
@settings(max_examples=examples(30, 6))
def test_pooling(data: st.DataObject, cases: Any, roomy: Any) -> None:
    layer, tiling = data.draw(cases)
    span = [(layer.kh - 1) * layer.dilation[0], (layer.kw - 1) * layer.dilation[1]] * 2
    if any(pad > most for pad, most in zip(layer.pads, span, strict=True)):
        return  # a window of padding alone: the reference has no average of it
    layer = replace(layer, oc=1, ic=1, items=ItemBytes())
    tile = replace(tiling.tile, oc=data.draw(st.integers(1, layer.groups)), ic=1, kh=layer.kh, kw=layer.kw)
    x = np.random.default_rng(3).standard_normal((1, layer.groups, layer.ih, layer.iw)).astype(np.float32)
    window: dict[str, Any] = {"kernel": (layer.kh, layer.kw), "stride": layer.stride, "pads": layer.pads}
    for op, maximum in (("max_pool2d", True), ("avg_pool2d", False)):
        node = make_node(op, ["x"], ["y"], "", dilation=layer.dilation, **window)
        wanted = DEFINITIONS[op](node, [x.transpose(0, 2, 3, 1)]).transpose(0, 3, 1, 2)
        ran = run_plan(emit_pool(layer, tile, roomy, maximum), x, None)
        np.testing.assert_allclose(ran.output, wanted[:, :, : layer.oh, : layer.ow], rtol=1e-5, atol=1e-6)
        assert ran.moved.output_stored_bytes == layer.output_elements * 4


def test_two_memories_of_a_kind_hold_two_tiles() -> None:
    """A hand-written plan that loads the next tile before it needs it."""
    plan = parse_plan("""[info]\nINPUT(1,1,2,2)\nWEIGHT(1,1,1,1)\nOUTPUT(1,1,2,2)\n[var]\nIN_MEM_0(2)\nIN_MEM_1(2)
WT_MEM_0(1)\nOT_MEM_0(2)\nINPUT_0[0](1,1,1,2)\nINPUT_1[2](1,1,1,2)\nWEIGHT_0[0](1,1,1,1)
OUTPUT_0[0](1,1,1,2)\nOUTPUT_1[2](1,1,1,2)\n[text]\nLOAD WT_MEM_0 WEIGHT_0\nLOAD IN_MEM_0 INPUT_0\nLOAD IN_MEM_1 INPUT_1
CONV OUTPUT_0 INPUT_0 WEIGHT_0 1 (0,0,0,0)\nSTORE OUTPUT_0 OT_MEM_0
CONV OUTPUT_1 INPUT_1 WEIGHT_0 1 (0,0,0,0)\nSTORE OUTPUT_1 OT_MEM_0\n""")
    x = np.arange(4).reshape(1, 1, 2, 2)
    np.testing.assert_array_equal(run_plan(plan, x, np.full((1, 1, 1, 1), 3)).output, 3 * x)


def test_arrays_of_another_shape_or_kind_are_refused(figure: TextPlan) -> None:
    x, w = np.zeros((1, 128, 56, 56), np.int32), np.zeros((256, 128, 3, 3), np.int32)
    with pytest.raises(MavcgError, match=r"input of shape \(1, 128, 56, 55\); \[info\] requires \(1, 128, 56, 56\)"):
        run_plan(figure, x[..., 1:], w)
    with pytest.raises(MavcgError, match="weights of shape None"):
        run_plan(figure, x, None)
    with pytest.raises(MavcgError, match="arrays of complex64"):
        run_plan(figure, x.astype(np.complex64), w.astype(np.complex64))


@pytest.mark.long
def test_figure_7_1_is_computed(figure: TextPlan, arrays: Arrays, convolved: Convolved) -> None:
    layer = ConvLayer("", 256, 128, 56, 56, 3, 3, 56, 56, pads=(1, 1, 1, 1))
    x, w = arrays(layer, np.int32, 99)
    np.testing.assert_array_equal(run_plan(figure, x, w).output, convolved(layer, x.astype(float), w.astype(float)))


def _planned(setups: Any, paper_layers: Any, letters: str = "AD") -> Any:
    for letter in letters:
        for layers in paper_layers.values():
            for layer in {layer.key: layer for layer in layers}.values():
                yield layer, setups[letter], search(layer, setups[letter]).tiling


def test_bytes_of_a_network_are_those_of_the_model(setups: Any, paper_layers: Any) -> None:
    """Alexnet, which has the largest stride and fully connected layers; the long test has all."""
    for layer, accelerator, tiling in _planned(setups, {"alexnet": paper_layers["alexnet"]}):
        assert count_plan(emit_plan(layer, tiling, accelerator)).traffic == traffic_with_halo(layer, tiling)


@pytest.mark.long
def test_bytes_of_the_five_networks_are_those_of_the_model(setups: Any, paper_layers: Any) -> None:
    """And all plans are right: the pruned search counts halo where it asks whether a tile fits."""
    for layer, accelerator, tiling in _planned(setups, paper_layers):
        plan = emit_plan(layer, tiling, accelerator)
        verify_plan(plan)
        assert count_plan(plan).traffic == traffic_with_halo(layer, tiling)


@pytest.mark.long
def test_the_five_networks_are_computed(setups: Any, paper_layers: Any, arrays: Arrays, convolved: Convolved) -> None:
    """Every layer whole, in whole numbers, but the maps of the largest are cut to their first 32 rows."""
    for layer, accelerator, _ in _planned(setups, paper_layers, "A"):
        rows = min(layer.oh, 32)
        height = min(layer.ih, layer.input_rows(rows))
        most = (height + layer.pads[0] + layer.pads[2] - layer.input_rows(1)) // layer.stride[0] + 1
        small = replace(layer, oh=min(rows, most), ih=height)
        x, w = arrays(small, np.int32, 100)
        ran = run_plan(emit_plan(small, search(small, accelerator).tiling, accelerator), x, w)
        np.testing.assert_array_equal(ran.output, convolved(small, x.astype(float), w.astype(float)))


def test_a_layer_that_fits_whole_is_moved_once(roomy: Any) -> None:
    layer = ConvLayer("t", 3, 4, 5, 5, 3, 3, 7, 7, groups=2)
    for dataflow in Dataflow:
        plan = emit_plan(layer, Tiling(Tile(*layer.loops.values()), dataflow), roomy)
        assert count_plan(plan) == CountedTraffic(8 * 49 * 4, 6 * 4 * 9 * 4, 0, 6 * 25 * 4)
