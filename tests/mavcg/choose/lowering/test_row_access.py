"""Test the bytes that a unit of rows touches against the addresses of its elements."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.choose.lowering.row_access import unit_access
from mavcg.kernels.tensor.pad import PadBorder
from mavcg.specs.kernel import View
from tests.conftest import examples

SIDES = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5)


@settings(max_examples=examples(60, 15))
@given(SIDES)
def test_a_unit_of_a_border_covers_its_elements(sides: list[tuple[int, int, int]]) -> None:
    """Borders have any rank: one of (batch, steps, channels) once ended a build for a board."""
    shape = tuple(inside + low + high for inside, low, high in sides)
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    before, after = (tuple(side[which] for side in sides) for which in (1, 2))
    spec = PadBorder(View("f32", shape, strides), before, after, 0)
    access = unit_access(spec)
    if not spec.elements:
        assert access is None
        return
    assert access is not None
    ((operand, interval),) = access.intervals
    assert (operand, access.units, access.rows_per_unit) == (0, spec.rows, 1)
    offsets = 4 * np.arange(math.prod(shape)).reshape(shape)
    inside = np.zeros(shape, bool)
    inside[tuple(slice(low, low + length) for length, low, _ in sides)] = True
    for unit in range(access.units):
        touched = np.moveaxis(np.where(inside, -1, offsets), spec.axis, 0)[unit]
        begin = interval.begin + unit * interval.step
        assert all(begin <= at < begin + interval.extent for at in touched[touched >= 0])
