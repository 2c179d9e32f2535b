"""Which versions stay: equal ones are shared, useless ones go, growth is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from mavcg.hardware.core import GENERIC
from mavcg.program_pipeline.version_choice import (
    FunctionChoice,
    Gain,
    GrowthLimit,
    Sizes,
    drop_for_growth,
    drop_useless,
    share_equal,
)
from mavcg.program_pipeline.versions import CompiledVersion

CORES = ("a53", "a75", "m4")


def bodies(keys: str, function: str = "f") -> list[CompiledVersion]:
    labels = (GENERIC, *CORES)
    return [
        CompiledVersion(function, label, f"{function}.{label}", "", key, frozenset())
        for label, key in zip(labels, keys, strict=True)
    ]


def choice(keys: str, function: str = "f", code: int = 100) -> FunctionChoice:
    made = bodies(keys, function)
    return share_equal(made, {b.symbol: Sizes(code + i, code + 40) for i, b in enumerate(made)})


def test_versions_with_equal_code_share_the_first_body() -> None:
    shared = choice("xyxy")
    assert [k.body for k in shared.versions] == [GENERIC, "a53", GENERIC, "a53"]
    assert [k.bytes for k in shared.versions] == [100, 101, 100, 101]
    assert [k.shares_body_with for k in shared.versions] == [None, None, GENERIC, "a53"]
    assert shared.bodies == (GENERIC, "a53") and not shared.is_single


def test_all_equal_is_one_body() -> None:
    assert choice("xxxx").is_single


def test_a_version_under_the_least_gain_runs_generic_and_says_why() -> None:
    gains = {("f", "a53"): Gain(0.004, "measured on rk3399"), ("f", "m4"): Gain(0.2, "modelled")}
    kept = {k.label: k for k in drop_useless(choice("abcd"), gains, 0.01).versions}
    assert kept["a53"].body == GENERIC and kept["a53"].bytes == kept[GENERIC].bytes
    assert kept["a53"].dropped == "+0.4% over generic (measured on rk3399), under the required 1.0%"
    assert kept["a53"].shares_body_with is None  # dropped is not "came out equal"
    assert (kept["a75"].body, kept["m4"].body) == ("a75", "m4")  # unknown gains are kept


def test_a_slower_version_goes_even_when_any_gain_is_enough() -> None:
    kept = drop_useless(choice("abcd"), {("f", "a75"): Gain(-0.03, "measured")}, 0.0).versions
    assert [k.body for k in kept] == [GENERIC, "a53", GENERIC, "m4"]


def test_who_shares_a_dropped_cores_body_keeps_it() -> None:
    kept = drop_useless(choice("axxd"), {("f", "a53"): Gain(0.0, "measured")}, 0.01).versions
    assert [k.body for k in kept] == [GENERIC, GENERIC, "a53", "m4"]


def test_the_least_worth_a_byte_goes_first() -> None:
    both = [choice("abcd", "f"), choice("abcd", "g")]
    sizes = {(f, b): Sizes(100, 140) for f in "fg" for b in (GENERIC, *CORES)}
    worth = {("f", "a53"): 0.5, ("f", "a75"): 0.4, ("f", "m4"): 0.3, ("g", "a53"): 0.1, ("g", "m4"): 0.2}
    left = drop_for_growth(both, GrowthLimit(60.0, 1000, sizes, worth, 10))
    assert {c.function: c.bodies for c in left} == {"f": (GENERIC, "a53", "a75", "m4"), "g": (GENERIC, "m4")}
    dropped = {k.label: k.dropped for k in left[1].versions if k.dropped}
    assert dropped.keys() == {"a53", "a75"}
    assert all("140 bytes would exceed --max-growth 60 %" in why for why in dropped.values())


def test_a_shared_body_goes_for_all_who_share_it() -> None:
    left = drop_for_growth([choice("axxa")], GrowthLimit(10.0, 100, {("f", "a53"): Sizes(1, 50)}, {}, 0))
    assert [k.body for k in left[0].versions] == [GENERIC] * 4
    assert [bool(k.dropped) for k in left[0].versions] == [False, True, True, False]


KEYS = st.text("abcd", min_size=4, max_size=4)


@given(
    st.lists(KEYS, min_size=1, max_size=4),
    st.lists(st.integers(0, 400), min_size=16, max_size=16),
    st.dictionaries(st.tuples(st.sampled_from("0123"), st.sampled_from(CORES)), st.floats(0, 1)),
    st.integers(1, 4000),
    st.floats(0, 200),
)
def test_growth_stays_within_the_bound(
    keys: list[str], loaded: list[int], worth: dict[tuple[str, str], float], single_bytes: int, max_growth: float
) -> None:
    names = [str(i) for i in range(len(keys))]
    before = [choice(k, name) for k, name in zip(keys, names, strict=True)]
    labels = (GENERIC, *CORES)
    sizes = {(f, b): Sizes(1, loaded[4 * i + j]) for i, f in enumerate(names) for j, b in enumerate(labels)}
    limit = GrowthLimit(max_growth, single_bytes, sizes, worth, 30)

    def growth(choices: list[FunctionChoice]) -> int:
        bodies_ = sum(sizes[c.function, b].loaded for c in choices for b in c.bodies if b != GENERIC)
        return bodies_ + sum(30 for c in choices if not c.is_single)

    after = drop_for_growth(before, limit)
    assert growth(after) <= max_growth * single_bytes / 100
    assert growth(drop_for_growth(before, limit, growth(before) - 1)) < growth(before) or growth(before) == 0
    for old, new in zip(before, after, strict=True):
        assert [k.label for k in new.versions] == [k.label for k in old.versions]
        assert new.versions[0] == old.versions[0]  # generic is never dropped
        for was, kept in zip(old.versions, new.versions, strict=True):
            assert kept == was or (kept.body == GENERIC and kept.dropped)
    if growth(before) <= max_growth * single_bytes / 100:
        assert after == before
