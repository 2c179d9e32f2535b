"""Direct convolutions by plain loops, and the order of their terms."""

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mavcg.kernels.primitives.common import Image
from mavcg.kernels.primitives.direct.family import PLAIN_PRIMITIVES
from mavcg.kernels.primitives.direct.terms import TermLoop, TermOrder, Terms, ordered_weights, terms_of
from mavcg.specs.primitive import AxisWindow, Layout, Scenario


def test_channels_that_leave_vectors_empty_are_refused() -> None:
    by_name = {primitive.name: primitive for primitive in PLAIN_PRIMITIVES}
    depthwise, halves = Scenario(32, 8, 8, 1, 3, 32, 1, 32), Scenario(24, 8, 8, 1, 3, 24, 1, 2)

    assert not by_name["direct_pixel_hwc_hwc"].applies(depthwise)
    assert by_name["direct_columns_chw_chw"].applies(depthwise)
    assert by_name["direct_pixel_hwc_hwc"].applies(halves)
    assert not by_name["direct_pixel_hwc_chwc"].applies(halves), "blocks of 16 channels straddle groups of 12"


def offsets(terms: tuple[Terms, ...], at: int = 0) -> Iterator[int]:
    """Yield the offsets of the terms' inputs in the order of the loops, in bytes."""
    for part in terms:
        if isinstance(part, TermLoop):
            for iteration in range(part.count):
                yield from offsets(part.body, at + part.at + iteration * part.step)
        else:
            yield from (at + offset for offset in part.offsets)


@given(
    layout=st.sampled_from(list(Layout)),
    order=st.sampled_from(list(TermOrder)),
    channels=st.integers(1, 21),
    kernel=st.integers(1, 5),
    dilation=st.integers(1, 3),
    across=st.builds(AxisWindow, st.integers(1, 5), dilation=st.integers(1, 3)),
    phases=st.integers(1, 4),
    unroll=st.integers(1, 30),
)
def test_weights_are_in_the_order_of_the_loops(
    layout: Layout,
    order: TermOrder,
    channels: int,
    kernel: int,
    dilation: int,
    across: AxisWindow,
    phases: int,
    unroll: int,
) -> None:
    if (layout is Layout.CHWC) != (order is TermOrder.BLOCKS):
        return
    height, width = (kernel - 1) * dilation + 3, (across.k - 1) * across.dilation + 3
    x = Image(channels, height, width, layout, 4 if layout is Layout.CHWC else 1)
    if layout in (Layout.CHW, Layout.HCW):
        x = Image(channels, height, width, layout, phases=phases)
    terms = terms_of(x, kernel, dilation, across, channels, order, unroll)
    # As weights: the offset of each in the image.
    expected = np.array(
        [
            [
                [x.channel(c) + ky * dilation * x.row_step + x.column(kx * across.dilation) for kx in range(across.k)]
                for ky in range(kernel)
            ]
            for c in range(channels)
        ]
    )[None]

    assert list(offsets(terms)) == (4 * ordered_weights(expected, order, x.block))[0].tolist()
    assert sum(part.terms for part in terms) == channels * kernel * across.k
