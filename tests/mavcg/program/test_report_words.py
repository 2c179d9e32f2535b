"""Names in reports are short, and no two read the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.program.report_words import shorten


@pytest.mark.parametrize("length", [1, 43, 44, 45, 46, 200])
def test_long_names_lose_their_middle(length: int) -> None:
    name = "".join(chr(ord("a") + i % 26) for i in range(length))
    cut = shorten(name)
    assert len(cut) <= 44 and (cut == name) == (length <= 44)
    assert name.startswith(cut.partition("...")[0]) and name.endswith(cut.rpartition("...")[2])


def test_instances_of_a_template_stay_distinguishable() -> None:
    names = [
        f"void nn::detail::GemmKernel<nn::Tile<{m}, 8, float>, nn::Packed<nn::Row, nn::Padded>>::run(float const*)"
        for m in (4, 6, 16)
    ]
    shown_names = [shorten(name, names) for name in names]
    assert len(set(shown_names)) == 3 and all(f"<{m}, 8" in n for m, n in zip((4, 6, 16), shown_names, strict=True))
    assert len({shorten(name) for name in names}) == 1 and max(map(len, shown_names)) < 70


@given(st.lists(st.text("ab", min_size=1, max_size=70), min_size=1, max_size=8, unique=True))
def test_no_two_names_of_a_report_read_the_same(middles: list[str]) -> None:
    names = [f"{'x' * 30}{middle}{'y' * 30}" for middle in middles]
    assert len({shorten(name, names) for name in names}) == len(names)
