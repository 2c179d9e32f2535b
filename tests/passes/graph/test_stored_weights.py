"""Weights rounded to f16 and bf16: the pass, and the rounding against that by definition."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.graph import Graph
from mavcg.passes.graph.stored_weights import round_to_stored, with_stored_weights

BF16_MAX = 255 * 2.0**120


def stored_half(graph: Graph) -> Graph:
    return with_stored_weights(graph, {node.output for node in graph.nodes}, "f16")


stored_half.__doc__ = with_stored_weights.__doc__


def test_the_example_of_the_docstring_holds(h: Any) -> None:
    for before, after in h.examples(stored_half):
        assert str(stored_half(before)) == str(after)
        h.same(before, after, relative=1e-3)


def test_other_readers_of_the_weights_keep_the_exact_ones(h: Any) -> None:
    graph = h.graph("""
        input %x: f32[2,2]
        const %w: f32[2,2] = {1.0, 0.1, 0.3, 0.7}
        %a = matmul(%x, %w)
        %y = matmul(%a, %w)
        return %y
    """)
    after = with_stored_weights(graph, {"y"}, "bf16")
    first, second = after.nodes
    assert first.inputs[1] == "w" and first.attr("weights") == "" and second.attr("weights") == "bf16"
    np.testing.assert_array_equal(after.constants["w"], graph.constants["w"])
    h.same(graph, after, relative=2e-2)


def nearest_bf16(x: np.float32) -> np.float32:
    """The nearest f32 whose lower 16 bits are 0, by comparing the distances of both neighbours; even between two."""
    low = (np.asarray(x, np.float32).view(np.uint32) >> 16 << 16).view(np.float32)
    high = (low.view(np.uint32) + np.uint32(0x10000)).view(np.float32)
    if not np.isfinite(high):
        return np.float32(low)
    below, above = abs(float(x) - float(low)), abs(float(high) - float(x))
    even_low = not int(low.view(np.uint32)) >> 16 & 1
    return np.float32(low if below < above or (below == above and even_low) else high)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_bf16_is_the_nearest(number: float) -> None:
    x = np.float32(number)
    assert round_to_stored(np.array([x]), "bf16")[0] == nearest_bf16(x)


@pytest.mark.parametrize("stored", ["f16", "bf16"])
def test_special_numbers_stay_and_large_ones_become_the_largest(stored: str) -> None:
    most = 65504.0 if stored == "f16" else BF16_MAX
    found = round_to_stored(np.array([np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, -0.0], np.float32), stored)
    np.testing.assert_array_equal(found, np.array([np.inf, -np.inf, np.nan, most, -most, 0.0], np.float32))
    assert np.signbit(found[-1])
