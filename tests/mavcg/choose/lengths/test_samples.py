"""Counts found from numbers at a sample of lengths."""

from itertools import product

import pytest

from mavcg.choose.lengths.axis_counts import distances, has_strides
from mavcg.choose.lengths.samples import fit_count, further_samples, kernel_samples, lengths_text, remedy_text
from mavcg.graph import Graph
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
    """The lengths 24 to 480 in steps of 24 have 4 remainders for windows at a stride of 32 in all."""
    dimension = Dimension("height", 1, 20, 24)
    assert kernel_samples([dimension], 32) == ({"height": 20}, {"height": 16})
    found = {sample["height"] for sample in further_samples([dimension], (1, 2, 4, 8, 16, 32))}
    assert {n * 24 % 32 for n in found} == {0, 8, 16, 24} and min(found) == 1
    assert lengths_text({"height": 3}, [dimension]) == "the length 72"


STRIDES = """graph g {
    input %x: f32[1,60,60,1]
    %a: f32[1,30,20,1] = max_pool2d(%x) kernel=[1,1] stride=[2,3]
    %b: f32[1,15,10,1] = max_pool2d(%a) kernel=[1,1] stride=[2,2]
    %c: f32[1,5,10,1] = max_pool2d(%b) kernel=[1,1] stride=[3,1]
    return %c
}
"""


def test_every_remainder_comes_again_after_strides_that_differ_by_axis() -> None:
    """The height has strides of 2, 2 and 3, the width of 3, 2 and 1: 18, the larger ones' product, is no period."""
    *_, period = every = distances(Graph.parse(STRIDES))
    assert period % 12 == 0
    assert {1, 2, 3, 4, 6, 8, 12} <= set(every)


def test_a_batch_of_images_with_strides_differs_by_one() -> None:
    """A batch that differed by the strides' period, too, would make the samples' tensors too large to be read."""
    graph, batch = Graph.parse(STRIDES), Graph.parse(STRIDES.replace("f32[1,", "f32[2,"))
    taller, wider = (Graph.parse(STRIDES.replace("60,60", each)) for each in ("61,60", "60,61"))
    assert not has_strides(graph, batch) and has_strides(graph, taller) and has_strides(graph, wider)
    dimensions = (Dimension("batch", 1, 3), Dimension("height", 9, 50))
    assert kernel_samples(dimensions, 36, ["batch"])[-1] == {"batch": 2, "height": 86}
    assert {sample["batch"] for sample in further_samples(dimensions, (1, 2, 36), ["batch"])} == {1, 2, 3}


def test_the_remedy_for_few_lengths_is_more_of_them() -> None:
    few, many = Dimension("height", 1, 2, 8), Dimension("width", 1, 4, 8)
    assert remedy_text([many], graphs_differ=True).startswith("give a list of lengths in its place, such as 8,32, for")
    assert remedy_text([few], graphs_differ=True).startswith(
        "try a greatest length of 32 for height, with which graphs differ less, or"
    )
    assert "or give a list of lengths in their place, such as 8,16 and 8,32, for" in remedy_text(
        [few, many], graphs_differ=True
    )
    assert remedy_text([few]).startswith("give a list of lengths in its place, such as 8,16, for")
