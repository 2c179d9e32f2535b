"""Direct convolutions by plain loops, and the order of their terms."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.kernels.primitives.common import Image
from mavcg.kernels.primitives.direct import PRIMITIVES
from mavcg.kernels.primitives.terms import Loop, Order, Terms, ordered_weights, terms_of
from mavcg.primitive import Layout, Primitive, Scenario

# Around vectors of 4, 8 and 16, blocks of 8 and 16, tiles and chunks; one to each primitive in turn.
EDGES = (
    Scenario(5, 4, 9, 1, 2, 17),
    Scenario(9, 5, 11, 2, 3, 8),
    Scenario(17, 3, 7, 1, 2, 20),
    Scenario(32, 2, 8, 1, 1, 32, 0, 2),
    Scenario(3, 9, 17, 3, 3, 5, 2, 1, 2),
)


# Every other one of a table of layouts in and out at once, so that each layout is there; the others take their time.
IN_TURN = [
    pytest.param(i, p, id=p.name, marks=[pytest.mark.long] if (i + i // 4) % 2 else [])
    for i, p in enumerate(PRIMITIVES)
]


@pytest.mark.parametrize(("number", "primitive"), IN_TURN)
def test_agrees_with_the_definition(check_primitive: Callable[..., None], number: int, primitive: Primitive) -> None:
    check_primitive(primitive, [EDGES[number % len(EDGES)]])


@pytest.mark.long
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_agrees_on_many_scenarios(check_primitive: Callable[..., None], primitive: Primitive) -> None:
    check_primitive(primitive, 200)


def test_bits_are_the_same_on_all_cores(same_bits: Callable[..., None]) -> None:
    same_bits(next(p for p in PRIMITIVES if p.name == "direct_channels_hwc_chwc"), EDGES[1])


@pytest.mark.long
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_bits_are_the_same_emulated(same_bits: Callable[..., None], primitive: Primitive) -> None:
    same_bits(primitive, EDGES[1], emulated=True)


def test_channels_that_leave_vectors_empty_are_refused() -> None:
    by_name = {primitive.name: primitive for primitive in PRIMITIVES}
    depthwise, halves = Scenario(32, 8, 8, 1, 3, 32, 1, 32), Scenario(24, 8, 8, 1, 3, 24, 1, 2)

    assert not by_name["direct_pixel_hwc_hwc"].applies(depthwise)
    assert by_name["direct_columns_chw_chw"].applies(depthwise)
    assert by_name["direct_pixel_hwc_hwc"].applies(halves)
    assert not by_name["direct_pixel_hwc_chwc"].applies(halves), "blocks of 16 channels straddle groups of 12"


def offsets(terms: tuple[Terms, ...], at: int = 0) -> Iterator[int]:
    """Where the inputs of the terms lie, in bytes, as the loops go."""
    for part in terms:
        if isinstance(part, Loop):
            for turn in range(part.count):
                yield from offsets(part.body, at + part.at + turn * part.step)
        else:
            yield from (at + offset for offset in part.offsets)


@given(
    layout=st.sampled_from(list(Layout)), order=st.sampled_from(list(Order)), channels=st.integers(1, 21),
    kernel=st.integers(1, 5), dilation=st.integers(1, 3), phases=st.integers(1, 4), unroll=st.integers(1, 30),
)  # fmt: skip
def test_weights_are_in_the_order_of_the_loops(
    layout: Layout, order: Order, channels: int, kernel: int, dilation: int, phases: int, unroll: int
) -> None:
    if (layout is Layout.CHWC) != (order is Order.BLOCKS):
        return
    side = (kernel - 1) * dilation + 3
    x = Image(channels, side, side, layout, 4 if layout is Layout.CHWC else 1)
    if layout in (Layout.CHW, Layout.HCW):
        x = Image(channels, side, side, layout, phases=phases)
    terms = terms_of(x, kernel, dilation, channels, order, unroll)
    # As weights: each one's place in the image.
    wanted = np.array([
        [[x.channel(c) + ky * dilation * x.row_step + x.column(kx * dilation) for kx in range(kernel)]
         for ky in range(kernel)] for c in range(channels)
    ])[None]  # fmt: skip

    assert list(offsets(terms)) == (4 * ordered_weights(wanted, order, x.block))[0].tolist()
    assert sum(part.terms for part in terms) == channels * kernel * kernel
