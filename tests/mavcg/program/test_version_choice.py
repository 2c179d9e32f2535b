"""Which versions stay: equal ones are shared, those that gain too little go."""

from mavcg.hardware.core import GENERIC
from mavcg.program.version_choice import (
    FunctionChoice,
    Gain,
    Sizes,
    drop_useless,
    share_equal,
    with_failed_levels,
)
from mavcg.program.version_values import CompiledVersion, FailedLevel

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


def test_a_level_that_could_not_be_made_is_dropped_with_the_reason() -> None:
    failed = FailedLevel("f", "a75", "a75-base", "its a75-base version does not compile: no register is left")
    kept = with_failed_levels(choice("abcd"), [failed, FailedLevel("g", "m4", "m4-base", "another function's")])
    assert [(k.label, k.body, k.dropped) for k in kept.versions[4:]] == [("a75-base", GENERIC, failed.reason)]
    assert kept.versions[4].core_type == "a75"
    assert [k.label for k in kept.tried_versions(("a53", "a75", "a75-base", "m4"))] == [GENERIC, *CORES]
