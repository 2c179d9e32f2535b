"""Layers and tilings of every shape, and what they compute."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from mavcg.accelerators.plans.text.emit import emit_plan
from mavcg.accelerators.plans.text.plan import TextPlan
from mavcg.cost.layer import ConvLayer, Dataflow, ItemBytes, Tile, Tiling, trips
from mavcg.graph import Array
from mavcg.graph.ops import make_node
from mavcg.graph.reference import DEFINITIONS
from mavcg.hardware.accelerator import Accelerator, MemoryLevel

LARGE = 1 << 20
MOST_STEPS = 150  # of a case: more show nothing else


@st.composite
def _axis(draw: st.DrawFn) -> tuple[int, ...]:
    """in, out, taps, stride, dilation, pads before and after, all of which go together."""
    taps, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    span = (taps - 1) * dilation + 1
    length = draw(st.integers(max(1, span - before - after), 9))
    stride = draw(st.integers(1, 4))
    return length, (length + before + after - span) // stride + 1, taps, stride, dilation, before, after


@st.composite
def _case(draw: st.DrawFn) -> tuple[ConvLayer, Tiling]:
    ih, oh, kh, stride_h, dilation_h, above, below = draw(_axis())
    iw, ow, kw, stride_w, dilation_w, left, right = draw(_axis())
    layer = ConvLayer(
        draw(st.sampled_from(["", "conv1", "a/b.c", "what, [this] // \N{BLACK STAR}"])),
        oc=draw(st.integers(1, 4)),
        ic=draw(st.integers(1, 4)),
        oh=oh,
        ow=ow,
        kh=kh,
        kw=kw,
        ih=ih,
        iw=iw,
        stride=(stride_h, stride_w),
        pads=(above, left, below, right),
        dilation=(dilation_h, dilation_w),
        groups=draw(st.integers(1, 3)),
        items=draw(st.sampled_from([ItemBytes(), ItemBytes(1, 1, 1, 4), ItemBytes(2, 2, 2, 4)])),
    )
    sizes = [draw(st.integers(1, length)) for length in layer.loops.values()]
    whole = draw(st.permutations(range(6)))
    lengths = list(layer.loops.values())
    while layer.groups * prod(trips(layer, Tile(*sizes)).values()) > MOST_STEPS:
        at = whole.pop()
        sizes[at] = lengths[at]
    return layer, Tiling(Tile(*sizes), draw(st.sampled_from(Dataflow)))


@pytest.fixture(scope="session")
def cases() -> st.SearchStrategy[tuple[ConvLayer, Tiling]]:
    """Small layers with stride, pads, dilation, groups, and a tiling of each."""
    return _case()


@pytest.fixture(scope="session")
def roomy() -> Accelerator:
    """Memories that everything fits."""
    return Accelerator("roomy", 1.0, (MemoryLevel("m", 1.0, LARGE, LARGE, LARGE),), (1, 1), (("OC",), ("IC",)))


@pytest.fixture(scope="session")
def roomy_shared() -> Accelerator:
    """The same with one memory for all."""
    return Accelerator("shared", 1.0, (MemoryLevel("m", 1.0, shared_bytes=LARGE),), (1, 1), (("OC",), ("IC",)))


@pytest.fixture(scope="session")
def figure() -> TextPlan:
    """Figure 7.1's plan: an output of 56x56, three kinds of tile with ragged ends, setup B's memories."""
    layer = ConvLayer("", 256, 128, 56, 56, 3, 3, 56, 56, pads=(1, 1, 1, 1))
    level = MemoryLevel("on-chip", 60.0, 512 << 10, 256 << 10, 512 << 10)
    accelerator = Accelerator("setup B", 1.02, (level,), (16, 16), (("IC",), ("OC",)))
    return emit_plan(layer, Tiling(Tile(56, 65, 16, 56, 3, 3), Dataflow.WEIGHT), accelerator)


@pytest.fixture(scope="session")
def arrays() -> Callable[..., tuple[Array, Array]]:
    """Makes a layer's input and weights: whole numbers that float32 has too."""

    def make(layer: ConvLayer, dtype: Any = np.int32, largest: int = 9) -> tuple[Array, Array]:
        rng = np.random.default_rng(5)
        x = rng.integers(-largest, largest + 1, (1, layer.groups * layer.ic, layer.ih, layer.iw))
        w = rng.integers(-largest, largest + 1, (layer.groups * layer.oc, layer.ic, layer.kh, layer.kw))
        return x.astype(dtype), w.astype(dtype)

    return make


@pytest.fixture(scope="session")
def convolved() -> Callable[[ConvLayer, Array, Array], Array]:
    """A layer by the reference definition of conv2d."""

    def conv(layer: ConvLayer, x: Array, w: Array) -> Array:
        attrs: dict[str, Any] = {
            "stride": layer.stride,
            "pads": layer.pads,
            "dilation": layer.dilation,
            "groups": layer.groups,
        }
        node = make_node("conv2d", ["x", "w"], ["y"], "", **attrs)
        found = DEFINITIONS["conv2d"](node, [x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1), None, None])
        return found.transpose(0, 3, 1, 2)[:, :, : layer.oh, : layer.ow]

    return conv
