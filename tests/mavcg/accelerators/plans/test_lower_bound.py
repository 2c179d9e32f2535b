"""The floor of off-chip traffic, against every tiling of small layers and known figures of the networks."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.accelerators.plan_baselines import balanced_bytes, window_reuse
from mavcg.accelerators.plans.bounds import lower_bound_bytes, memory_bytes, most_windows
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.cost.layer import ConvLayer, Dataflow, ItemBytes, Tile, Tiling
from mavcg.cost.traffic import no_reload, traffic
from mavcg.graph.networks import network
from mavcg.hardware.accelerator import MemoryLevel
from tests.conftest import examples

SETUP_A = MemoryLevel("on-chip", 60.0, 256 * 1024, 128 * 1024, 256 * 1024)


# Floors of setup A in MiB: 2 * MACs / sqrt(R * S) and the outputs, or each operand once.
@pytest.mark.parametrize(("name", "mib"), [("vgg16", 640.1), ("resnet50", 182.6), ("yolov2", 437.6)])
def test_floors_of_setup_a(name: str, mib: float) -> None:
    layers = layers_of(network(name, paper_variant=True))
    assert sum(balanced_bytes(layer, memory_bytes(SETUP_A)) for layer in layers) / 2**20 == pytest.approx(mib, abs=0.05)


def test_all_parts_of_a_memory_count() -> None:
    assert memory_bytes(SETUP_A) == memory_bytes(MemoryLevel("one", 1.0, shared_bytes=640 * 1024)) == 640 * 1024


def test_bounds_are_those_worked_out_by_hand() -> None:
    layer = ConvLayer("l", oc=512, ic=512, oh=28, ow=28, kh=3, kw=3, ih=28, iw=28, pads=(1, 1, 1, 1))
    # 1 849 688 064 MAC, R = 9, 163 840 elements on chip; 401 408 of output.
    expected = 4 * (2 * 1_849_688_064 / (9 * 163_840) ** 0.5 + 401_408)
    assert balanced_bytes(layer, 640 * 1024) == pytest.approx(expected)
    rigorous = 4 * (2**0.5 * 1_849_688_064 / (9 * 163_840) ** 0.5 - 4 * 163_840)
    assert rigorous < no_reload(layer).total_bytes == lower_bound_bytes(layer, 640 * 1024)
    assert lower_bound_bytes(layer, 16 * 1024) == pytest.approx(
        4 * (2**0.5 * 1_849_688_064 / (9 * 4096) ** 0.5 - 4 * 4096)
    )


def test_a_large_memory_leaves_every_operand_once() -> None:
    layer = ConvLayer("l", oc=8, ic=4, oh=6, ow=6, kh=3, kw=3, ih=8, iw=8)
    once = no_reload(layer).total_bytes
    assert balanced_bytes(layer, 1 << 30) == lower_bound_bytes(layer, 1 << 30) == once


def test_reuse_of_windows() -> None:
    layer = ConvLayer("l", oc=1, ic=1, oh=1, ow=1, kh=3, kw=5, ih=3, iw=5, stride=(2, 1))
    assert (window_reuse(layer), most_windows(layer)) == (7.5, 10)
    sampled = replace(layer, kh=1, kw=1, stride=(2, 2))
    assert window_reuse(sampled) == most_windows(sampled) == 1
    # Taps two apart in windows two apart: an even row is met by all three taps.
    assert most_windows(replace(layer, stride=(2, 2), dilation=(2, 1))) == 3 * 3


def test_elements_of_one_byte_move_less() -> None:
    layer = ConvLayer("l", oc=512, ic=512, oh=28, ow=28, kh=3, kw=3, ih=28, iw=28, pads=(1, 1, 1, 1))
    bytes_1 = replace(layer, items=ItemBytes(1, 1, 1, 4))
    read_4 = balanced_bytes(layer, 1 << 16) - 4 * layer.output_elements
    assert balanced_bytes(bytes_1, 1 << 16) - layer.output_elements == pytest.approx(read_4 / 4)
    assert lower_bound_bytes(bytes_1, 1 << 16) < lower_bound_bytes(layer, 1 << 16)


def _least(layer: ConvLayer, on_chip_bytes: int) -> int | None:
    """Of every tile that fits at once, with the halo of its input, and every dataflow; None where nothing fits."""
    found = None
    for factors in product(*(range(1, length + 1) for length in layer.loops.values())):
        tile = Tile(*factors)
        rows = (tile.oh - 1) * layer.stride[0] + tile.kh
        columns = (tile.ow - 1) * layer.stride[1] + tile.kw
        held = tile.ic * rows * columns + tile.oc * tile.ic * tile.kh * tile.kw + tile.oc * tile.oh * tile.ow
        if held * 4 > on_chip_bytes:
            continue
        for dataflow in Dataflow:
            total = traffic(layer, Tiling(tile, dataflow)).total_bytes
            found = total if found is None else min(found, total)
    return found


@settings(max_examples=examples(40, 5))
@given(
    st.integers(1, 7),
    st.integers(1, 7),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(5, 60),
)
def test_no_tiling_moves_less(oc: int, ic: int, oh: int, ow: int, k: int, stride: int, elements: int) -> None:
    layer = ConvLayer("l", oc, ic, oh, ow, k, k, (oh - 1) * stride + k, (ow - 1) * stride + k, stride=(stride, stride))
    least = _least(layer, 4 * elements)
    assert least is None or least >= lower_bound_bytes(layer, 4 * elements)
