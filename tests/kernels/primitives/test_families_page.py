"""docs/primitive-families.md against the registry: the families, how many primitives they have, what they compute."""

import re
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from bench import records
from mavcg.cli.primitives import eight_bit_sample
from mavcg.kernels.primitives.registry import all_primitives, eight_bit_primitives
from mavcg.specs.primitive import Scenario

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "primitive-families.md").read_text()
ROWS = {
    row[0]: (int(row[1]), row[2]) for row in re.findall(r"^\| `(\w+)` \| (\d+) \|.*\| ([^|]+) \|$", PAGE, re.MULTILINE)
}
SCENARIOS = [
    Scenario(c=16, h=14, w=14, stride=stride, k=k, m=16, pad=k // 2, groups=groups)
    for stride, k, groups in product((1, 2), (1, 3, 5, 7), (1, 16))
]
EVERY = (*all_primitives(), *eight_bit_primitives())
COMPUTES: dict[str, Callable[[Scenario], bool]] = {
    "every layer": lambda s: True,
    "groups of 1": lambda s: s.groups == 1,
    "stride 1": lambda s: s.stride == 1,
    "stride 1, K of at least 3": lambda s: s.stride == 1 and s.k >= 3,
    "every layer that is not depthwise": lambda s: s.groups == 1,
    "as above, but K or a stride is above 1": lambda s: s.groups == 1 and (s.k > 1 or s.stride > 1),
    "depthwise layers": lambda s: s.groups == s.c,
    "K of 3, 5 and 7, stride, dilation and groups of 1": lambda s: s.k in (3, 5, 7) and s.stride == s.groups == 1,
}


def test_families_and_their_numbers() -> None:
    assert {family: number for family, (number, _) in ROWS.items()} == Counter(p.family for p in EVERY)


def test_the_page_of_what_works_counts_the_primitives_as_the_tool_does() -> None:
    page = " ".join((DOCS / "what-works.md").read_text().split())
    (checked,) = records.read(DOCS.parent / "bench/results/primitive_scenarios.json").tables
    eight, layouts = len(eight_bit_primitives()), {layout for p in EVERY for layout in (p.layout_in, p.layout_out)}

    assert len(layouts) == 4
    assert f"library of {len(EVERY)} primitives in four layouts" in page
    seen = sum(int(row[1]) for row in checked.rows)
    assert f"{len(EVERY) - eight} of f32 and {eight} of 8 bits. {seen} of them were checked" in page


@pytest.mark.parametrize("family", ROWS)
def test_layers_that_a_family_computes(family: str) -> None:
    same = [p for p in EVERY if p.family == family]
    computed = [s for s in SCENARIOS if any(p.applies(s) or p.applies(eight_bit_sample(s)) for p in same)]

    assert computed == [s for s in SCENARIOS if COMPUTES[ROWS[family][1]](s)]
