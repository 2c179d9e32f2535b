"""Several sizes on the command line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.model.sizes import MAX_SIZES, parse_bounds, parse_shapes, parse_sizes, size_text


def test_ranges_and_lists_of_lengths() -> None:
    assert parse_sizes([]) == ({},)
    assert parse_sizes(["x=1..3x4"]) == ({"x": (1, 4)}, {"x": (2, 4)}, {"x": (3, 4)})
    assert [size["x"][0] for size in parse_sizes(["x=8,1,2..3,1x4"])] == [8, 1, 2, 3]
    assert [size["x"][0] for size in parse_sizes(["x=32..128:32,7x4"])] == [32, 64, 96, 128, 7]
    assert parse_sizes(["x=1..2x5,7"]) == tuple({"x": shape} for shape in [(1, 5), (1, 7), (2, 5), (2, 7)])


def test_inputs_with_several_sizes_go_together() -> None:
    sizes = parse_sizes(["x=1..2x3", "state=4", "y=5,6"])

    assert sizes == ({"x": (1, 3), "state": (4,), "y": (5,)}, {"x": (2, 3), "state": (4,), "y": (6,)})


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["x=3..1"], "the range 3..1 has no length"),
        (["x=1..x3"], "is not NAME=DIMENSIONS"),
        (["x=8:4"], "is not NAME=DIMENSIONS"),
        (["x=4..8:"], "is not NAME=DIMENSIONS"),
        (["x=4..9:4,1"], "the range 4..9:4 has the multiples of 4 as lengths"),
        (["x=1,,2"], "is not NAME=DIMENSIONS"),
        (["x=1..100000"], f"a library has at most {MAX_SIZES}"),
        (["x=1..16x1..16"], f"256 sizes; a library has at most {MAX_SIZES}"),
        (["x=1..2", "y=1..3"], "x has 2, y has 3; give each input the same number"),
        (["x=1", "x=1..2"], "x is given twice"),
    ],
)
def test_what_is_no_size(texts: list[str], words: str) -> None:
    with pytest.raises(MavcgError, match=words.replace(".", r"\.")):
        parse_sizes(texts)


def test_commands_of_one_size_refuse_several() -> None:
    with pytest.raises(MavcgError, match="names 2 sizes; only `mavcg build MODEL` takes several"):
        parse_shapes(["x=1,2"])
    with pytest.raises(MavcgError, match="a bounded dimension, which only `mavcg build MODEL` takes"):
        parse_shapes(["x=1..2"])


@given(st.lists(st.lists(st.integers(0, 999), min_size=1, max_size=3, unique=True), min_size=1, max_size=3))
def test_all_combinations_are_there(lengths: list[list[int]]) -> None:
    sizes = parse_sizes(["x=" + "x".join(",".join(map(str, each)) for each in lengths)])

    assert len({size_text(size) for size in sizes}) == len(sizes)
    for i, each in enumerate(lengths):
        assert {size["x"][i] for size in sizes} == set(each)


def test_a_range_alone_is_a_bounded_dimension() -> None:
    bounds = parse_bounds(["x=1x1..512x384", "mask=1x1..512"])
    assert bounds is not None and bounds.shapes == {"x": (1, (1, 512, 1), 384), "mask": (1, (1, 512, 1))}
    assert bounds.longest() == {"x": (1, 512, 384), "mask": (1, 512)}
    assert str(bounds) == "x=1x1..512x384 mask=1x1..512"
    both = parse_bounds(["x=1..8x1..512"])
    assert both is not None and both.shapes == {"x": ((1, 8, 1), (1, 512, 1))} and both.longest() == {"x": (8, 512)}
    assert parse_bounds(["x=1x3..3"]) is None and parse_bounds(["x=1,2x3"]) is None and parse_bounds([]) is None
    assert parse_bounds(["x=1..3,5x2"]) is None  # a list with a range in it is a list


def test_a_range_with_a_step_has_its_multiples() -> None:
    bounds = parse_bounds(["x=1x3x32..512:32x64..512:32", "y=1..8"])
    assert bounds is not None and bounds.shapes == {"x": (1, 3, (32, 512, 32), (64, 512, 32)), "y": ((1, 8, 1),)}
    assert bounds.longest() == {"x": (1, 3, 512, 512), "y": (8,)}
    assert str(bounds) == "x=1x3x32..512:32x64..512:32 y=1..8"
    assert parse_bounds(["x=1x32..32:32"]) is None
    nothing = parse_bounds(["x=1x0..8"])
    assert nothing is not None and nothing.shapes == {"x": (1, (0, 8, 1))}


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["x=3..1x4"], "the range 3..1 has no length"),
        (["x=1..2147483648"], "lengths are 0 to 2147483647"),
        (["x=1..4x2,3"], "beside a list"),
        (["x=1..512:32"], r"the range 1..512:32 has the multiples of 32 as lengths.*; write 32..512:32"),
        (["x=8..15:8"], "bounds have to be two of these; give others"),
        (["x=1..64:0"], "the multiples of 0 as lengths"),
        (["x=64..32:32"], "the range 64..32:32 has no length"),
    ],
)
def test_bounds_that_cannot_be_are_refused(texts: list[str], words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        parse_bounds(texts)
