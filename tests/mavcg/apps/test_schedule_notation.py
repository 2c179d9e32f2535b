"""Schedules as text: the paper's, nested blocks, every fault with its column; what is written is read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.apps.application import ScheduleBlock, firings
from mavcg.apps.schedule_notation import ScheduleTextError, parse_schedule, write_schedule


def steps(text: str) -> list[str]:
    return list(firings(parse_schedule(text)))


def test_the_papers_schedule() -> None:
    """schedule'_1 of section 6.5.2, with the paper's sign and an x; its braces may be left out."""
    expected = ["l1", "l2", *["l3", "l4", "l5"] * 32]

    assert steps("{{l1}, {l2}, [{l3}, {l4}, {l5}] × 32}") == expected
    assert steps("{l1}, {l2}, [{l3}, {l4}, {l5}] x 32") == expected
    assert steps("l1 l2 [l3 l4 l5]x32") == expected
    assert steps("{{l1}, {l2}, {l3}, {l4}, {l5}}") == ["l1", "l2", "l3", "l4", "l5"]


def test_blocks_in_blocks() -> None:
    assert steps("[a, [b] x 2, c] x 2, [d]") == ["a", "b", "b", "c"] * 2 + ["d"]
    assert steps("[a] 3 b") == ["a", "a", "a", "b"]


def test_names_of_models() -> None:
    names = ["input image", "conv/Relu;conv/BiasAdd", "12", "x", "model/features.0/Conv", "x3", "a, b", "[c]"]

    assert steps(", ".join(f"{{{name}}}" for name in names)) == names
    assert steps("[{x}] x 2, conv/Relu;conv/BiasAdd") == ["x", "x", "conv/Relu;conv/BiasAdd"]


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "column 1: is empty"),
        (" ,,", "column 4: is empty"),
        ("[a", "column 3: a bracket is open"),
        ("a]", "column 2: ']': does not close a bracket"),
        ("[] x 3", "column 1: '[': holds no steps"),
        ("[a] x", "column 6: is not a number of repetitions"),
        ("[a] x 0", "column 7: '0': is not a number"),
        ("[a] x b", "column 7: 'b': is not a number"),
        ("a x 3", "column 3: 'x': repeats nothing"),
        ("a 3", "column 3: '3': repeats nothing"),
        ("{}", "is not the name of a layer"),
        ("{a", "column 1: '{': is not a step"),
        ("a}", "column 2: '}': is not a step"),
        ("[[a] x 1001] x 1000", "more than 1,000,000 steps"),
        ("[a] x 99999999999999999999", "is not a number of repetitions from 1 to 1,000,000"),
        ("[" * 60 + "a" + "]" * 60, "is in more than 50 brackets"),
    ],
)
def test_faults_of_the_notation_are_refused_with_a_reason(text: str, words: str) -> None:
    with pytest.raises(ScheduleTextError) as error:
        parse_schedule(text)

    assert words in str(error.value)


def test_a_name_that_cannot_be_written() -> None:
    with pytest.raises(ScheduleTextError, match="rename it"):
        write_schedule(ScheduleBlock(("a}b",)))


NAMES = st.one_of(
    st.sampled_from(["x", "7", "x7", "×", "l1", "input image", "a,b", "[c]"]),
    st.text(st.characters(exclude_characters="{}", exclude_categories=["Cs"]), min_size=1, max_size=6).map(
        lambda s: s.strip() or "l"
    ),
)
BLOCKS = st.recursive(
    NAMES,
    lambda inner: st.builds(ScheduleBlock, st.lists(inner, min_size=1, max_size=4).map(tuple), st.integers(1, 4)),
    max_leaves=12,
)


@given(st.lists(BLOCKS, min_size=1, max_size=4), st.integers(1, 3))
def test_what_is_written_is_read_back(entries: list[str | ScheduleBlock], times: int) -> None:
    block = ScheduleBlock(tuple(entries), times)

    assert steps(write_schedule(block)) == list(firings(block))


@given(st.text("ab{}[]x×3, ", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert steps(text)
    except ScheduleTextError as error:
        assert str(error).startswith("column ")
