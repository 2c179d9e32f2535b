"""Counts against Python's own arithmetic, and what is proven of them against all lengths."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph.counts import (
    Count,
    CountSum,
    Dimension,
    Length,
    bounds_of,
    cycle_of,
    extent_of,
    in_elements,
    lengths_in,
    product_of,
    quotient_of,
    sum_of,
    text_of,
    value_at,
)

A, B = Length("a"), Length("b")
DIMENSIONS = (Dimension("a", 1, 5), Dimension("b", 2, 4))
ALL = [{"a": a, "b": b} for a, b in product(range(1, 6), range(2, 5))]

leaves = st.one_of(st.integers(0, 9), st.sampled_from([A, B]))
counts = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(sum_of, inner, inner),
        st.builds(sum_of, inner, st.integers(-9, -1)),
        st.builds(product_of, inner, inner),
        st.builds(quotient_of, inner, st.integers(1, 4)),
        st.builds(cycle_of, inner, st.lists(st.integers(0, 3), min_size=1, max_size=3)),
    ),
    max_leaves=8,
)


@given(counts)
def test_text_values_and_extents_agree(count: Count) -> None:
    values = [value_at(count, lengths) for lengths in ALL]
    written = text_of(count).replace("/", "//")
    assert values == [eval(written, {}, lengths) for lengths in ALL]
    try:
        bounds = bounds_of(count, DIMENSIONS)
    except MavcgError:
        return
    assert bounds[0] <= min(values) and max(values) <= bounds[1]
    try:
        extent = extent_of(count, DIMENSIONS)
    except MavcgError:
        return
    assert extent == (values[0], values[-1]) == (min(values), max(values))
    assert (values == [values[0]] * len(ALL)) or lengths_in(count)


@given(counts, st.sampled_from([1, 2, 6, 32]), st.sampled_from([1, 4, 9]))
def test_counts_of_steps_by_their_lengths(count: Count, a_step: int, b_step: int) -> None:
    """The text in elements has the same value, divided exactly where it is divided."""
    dimensions = (Dimension("a", 1, 5, a_step), Dimension("b", 2, 4, b_step))
    shown = in_elements(count, dimensions)
    for lengths in ALL:
        elements = {dimension.name: lengths[dimension.name] * dimension.step for dimension in dimensions}
        assert value_at(shown, elements) == value_at(count, lengths)


@given(counts, st.integers(1, 40), st.integers(-9, 40), st.integers(1, 12))
def test_quotients_of_multiples_are_exact(count: Count, factor: int, more: int, divisor: int) -> None:
    made = quotient_of(sum_of(product_of(factor, count), more), divisor)
    assert [value_at(made, each) for each in ALL] == [
        (factor * value_at(count, each) + more) // divisor for each in ALL
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (quotient_of(sum_of(A, 2), 2), "(a + 2) / 2"),
        (quotient_of(sum_of(product_of(32, A), 1), 2), "16 * a"),
        (quotient_of(sum_of(product_of(6, A), product_of(4, B), 3), 4), "(2 * b + 3 * a + 1) / 2"),
        (in_elements(product_of(16, A), [Dimension("a", 1, 5, 32)]), "a / 2"),
        (in_elements(sum_of(product_of(24, A), 1), [Dimension("a", 1, 5, 32)]), "(3 * a) / 4 + 1"),
        (in_elements(product_of(4, 32, A, 8, B), [Dimension("a", 1, 5, 32), Dimension("b", 1, 5, 32)]), "a * b"),
        (product_of(B, 4, A, 2), "8 * a * b"),
        (sum_of(B, -3, A, 1), "a + b - 2"),
        (product_of(quotient_of(A, 2), B), "(a / 2) * b"),
        (sum_of(A, cycle_of(B, (0, 1, 2))), "(b % 3 == 1) + 2 * (b % 3 == 2) + a"),
        (product_of(cycle_of(sum_of(A, 1), (1, 0)), 4), "4 * (((a + 1) % 2 == 0))"),
        (cycle_of(A, (2, 2)), "2"),
        (cycle_of(4, (0, 1)), "0"),
        (sum_of(1, 2), "3"),
        (product_of(0, A), "0"),
        (product_of(), "1"),
    ],
)
def test_counts_are_simplified_and_written(count: Count, text: str) -> None:
    assert text_of(count) == text
    assert text_of(count, lambda name: f"n[{'ab'.index(name)}]") == text.replace("a", "n[0]").replace("b", "n[1]")


def test_equal_counts_are_equal_values() -> None:
    assert sum_of(A, B, 2) == sum_of(sum_of(2, B), A) and product_of(A, B) == product_of(B, A)
    assert sum_of(A, 0) == quotient_of(A, 1) == A and isinstance(sum_of(A, 1), CountSum)


def test_what_could_shrink_or_overflow_is_refused() -> None:
    for count, words in (
        (product_of(sum_of(A, -2), B), "-1 at the least lengths"),
        (quotient_of(sum_of(A, -2), 2), "-1 at the least lengths"),
        (cycle_of(A, (0, 1)), "does not grow with the lengths"),
        (Length("c"), "does not have"),
        (product_of(1 << 60, A), "at most"),
    ):
        with pytest.raises(MavcgError, match=words):
            extent_of(count, DIMENSIONS)
