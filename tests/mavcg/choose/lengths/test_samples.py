"""Counts found from numbers at a sample of lengths."""

from itertools import product

import pytest

from mavcg.choose.lengths.samples import fit_count, further_samples, kernel_samples, lengths_text
from mavcg.graph.counts import Count, Dimension, Length, product_of, quotient_of, sum_of, value_at

A, B = Length("a"), Length("b")
DIMENSIONS = (Dimension("a", 1, 5), Dimension("b", 2, 4))
ALL = [{"a": a, "b": b} for a, b in product(range(1, 6), range(2, 5))]


@pytest.mark.parametrize("count", [7, A, B, product_of(6, A), product_of(A, B), product_of(8, A, B)])
def test_counts_are_found_from_samples(count: Count) -> None:
    samples = [{"a": 5, "b": 4}, {"a": 4, "b": 4}, {"a": 5, "b": 3}]
    assert fit_count([value_at(count, lengths) for lengths in samples], samples, DIMENSIONS) == count


@pytest.mark.parametrize("count", [sum_of(A, 1), quotient_of(A, 2), sum_of(A, B), product_of(A, A)])
def test_other_forms_are_not_found(count: Count) -> None:
    assert fit_count([value_at(count, lengths) for lengths in ALL], ALL, DIMENSIONS) is None


def test_samples_of_a_dimension_with_a_step_are_in_its_steps() -> None:
    """Of 24 to 480 in steps of 24, windows at a stride of 32 in all have 4 remainders."""
    dimension = Dimension("height", 1, 20, 24)
    assert kernel_samples([dimension], 32) == ({"height": 20}, {"height": 16})
    found = {sample["height"] for sample in further_samples([dimension], (1, 2, 4, 8, 16, 32))}
    assert {n * 24 % 32 for n in found} == {0, 8, 16, 24} and min(found) == 1
    assert lengths_text({"height": 3}, [dimension]) == "the length 72"
