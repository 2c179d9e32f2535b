"""Growth is bounded: what gains least per byte goes first, and the bound holds whatever the versions are."""

from hypothesis import given
from hypothesis import strategies as st

from mavcg.hardware.core import GENERIC
from mavcg.program.version_choice import (
    FunctionChoice,
    Gain,
    ModelVerdict,
    Sizes,
    VersionChoice,
    share_equal,
)
from mavcg.program.version_growth import GrowthLimit, drop_for_growth, versions_worth
from mavcg.program.version_values import CompiledVersion

CORES = ("a53", "a75", "m4")


def choice(keys: str, function: str = "f") -> FunctionChoice:
    labels = (GENERIC, *CORES)
    made = [
        CompiledVersion(function, label, f"{function}.{label}", "", key, frozenset())
        for label, key in zip(labels, keys, strict=True)
    ]
    return share_equal(made, {b.symbol: Sizes(100 + i, 140) for i, b in enumerate(made)})


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


def test_a_small_file_may_grow_by_the_free_bytes_whatever_its_percentage() -> None:
    sizes = {("f", b): Sizes(100, 140) for b in (GENERIC, *CORES)}
    assert drop_for_growth([choice("abcd")], GrowthLimit(0.0, 100, sizes, {}, 10, free_bytes=430))[0].bodies == (
        GENERIC,
        *CORES,
    )
    assert len(drop_for_growth([choice("abcd")], GrowthLimit(0.0, 100, sizes, {}, 10, free_bytes=429))[0].bodies) == 3


def test_what_still_fits_behind_a_large_version_comes_back() -> None:
    """The large version gains more per byte than the small one, but has no room: the small one has."""
    sizes = {("f", GENERIC): Sizes(1, 100), ("f", "a53"): Sizes(1, 1000), ("f", "a75"): Sizes(1, 100)}
    sizes |= {("f", "m4"): Sizes(1, 100)}
    worth = {("f", "a53"): 0.9, ("f", "a75"): 0.01, ("f", "m4"): 0.02}
    (left,) = drop_for_growth([choice("abcd")], GrowthLimit(20.0, 1000, sizes, worth, 0))
    assert left.bodies == (GENERIC, "a75", "m4") and left.versions[1].dropped and not left.versions[2].dropped


def verdict(own: float, generic: float) -> ModelVerdict:
    return ModelVerdict(generic, own, "FLOP", 0.1, False, False, False, "")


def test_the_worth_is_the_share_times_the_gain_measured_or_else_modelled() -> None:
    versions = (
        VersionChoice(GENERIC, GENERIC, 10),
        VersionChoice("a53", "a53", 10, verdict=verdict(2.0, 1.0)),
        VersionChoice("a75", "a75", 10, verdict=verdict(2.0, 1.0)),
        VersionChoice("m4", "m4", 10, verdict=verdict(1.0, 1.0)),
        VersionChoice("a510", "a510", 10),
    )
    worth = versions_worth([FunctionChoice("f", versions)], {"f": 0.5}, {("f", "a75"): Gain(0.2, "measured")})
    # Half of the time saved, measured 20 %, kept for another reason: the model's error, and nothing known at all.
    assert worth == {("f", "a53"): 0.25, ("f", "a75"): 0.1, ("f", "m4"): 0.05, ("f", "a510"): 0.005}
