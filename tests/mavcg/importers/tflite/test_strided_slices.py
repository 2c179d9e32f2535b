"""STRIDED_SLICE with random bounds, strides and masks, against LiteRT."""

from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.conftest import examples

BOUND = st.one_of(st.integers(-7, 7), st.sampled_from([(1 << 31) - 1, -(1 << 31)]))


@st.composite
def strided_slices(draw: st.DrawFn) -> tuple[tuple[int, ...], list[list[int]], dict[str, int]]:
    """A shape, (begin, end, strides) and masks. What TensorFlow forbids is left out: LiteRT reads outside of x then."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    count = draw(st.integers(1, len(shape)))
    begin, end = ([draw(BOUND) for _ in range(count)] for _ in range(2))
    strides = [draw(st.sampled_from([1, 2, 3, -1, -2, -3])) for _ in range(count)]
    mask = st.integers(0, (1 << count) - 1)
    masks = {"beginMask": draw(mask), "endMask": draw(mask), "newAxisMask": draw(st.sampled_from([0, 0, 1]))}
    masks["ellipsisMask"] = draw(st.sampled_from([0, 1 << draw(st.integers(0, count - 1))]))
    if not masks["newAxisMask"] and not masks["ellipsisMask"]:
        masks["shrinkAxisMask"] = draw(mask)
        for i in range(count):
            if masks["shrinkAxisMask"] >> i & 1:
                begin[i], strides[i] = draw(st.integers(-shape[i], shape[i] - 1)), 1
    return tuple(shape), [begin, end, strides], masks


@settings(max_examples=examples(60, 15))
@example(case=((4,), [[-9], [-9], [-1]], {}))  # no element, unlike ONNX's Slice
@given(case=strided_slices())
def test_strided_slices_with_random_bounds(check: Any, new_writer: Any, case: Any) -> None:
    shape, bounds, masks = case
    writer = new_writer()
    x = writer.input(shape)
    y = writer.op(
        "STRIDED_SLICE",
        [x, *(writer.constant(np.array(b, np.int32)) for b in bounds)],
        options="StridedSliceOptions",
        **masks,
    )
    check.agrees(writer.bytes(y))
