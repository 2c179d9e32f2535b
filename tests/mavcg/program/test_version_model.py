"""Versions that gain nothing by the model of a core: dropped, or kept with the reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.assembly.version_tuning import VersionTuning
from mavcg.cost.model_error import ASSUMED_ERROR, model_error
from mavcg.passes.asm.tuning_reports import FunctionReport, LoopReport
from mavcg.profiles.load import load_core, load_cores
from mavcg.program.version_choice import FunctionChoice, Gain, VersionChoice
from mavcg.program.version_model import drop_by_model, fetch_cycles

A55, A72, A75 = (load_core(name) for name in ("cortex-a55", "cortex-a72", "cortex-a75"))
CORES = {"a55": A55, "a72": A72, "a75": A75}


def modelled(generic: float | None, own: float | None, is_hottest: bool = True) -> VersionTuning:
    return VersionTuning((), "OP", generic, own, None, is_hottest)


def choice_of(label: str, generic_bytes: int = 10, own_bytes: int = 20) -> FunctionChoice:
    versions = (VersionChoice("generic", "generic", generic_bytes), VersionChoice(label, label, own_bytes))
    return FunctionChoice("f", versions)


def test_a_version_that_is_slower_goes_and_it_is_said_by_how_much() -> None:
    """The same loss, on a core whose model is held against silicon more closely, and on another."""
    more = "1.33 OP/cycle where generic has 1.41, 6.0% more time (model)"
    for label, word in (("a55", "over"), ("a72", "within")):
        (version,) = drop_by_model(choice_of(label), {label: modelled(1.41, 1.33)}, CORES, {}).versions[1:]
        assert version.body == "generic" and version.bytes == 10
        assert version.dropped == f"{more}, {word} the model's error of {model_error(CORES[label]).fraction:.1%}"
        assert version.verdict is not None and version.verdict.is_slower and version.verdict.is_dropped


@pytest.mark.parametrize("label", CORES)
def test_a_gain_counts_if_it_is_larger_than_the_models_error(label: str) -> None:
    error = model_error(CORES[label]).fraction
    for gain, is_kept in ((0.0, False), (error - 0.001, False), (error + 0.001, True)):
        tuning = modelled(1.0, 1 / (1 - gain))
        (version,) = drop_by_model(choice_of(label), {label: tuning}, CORES, {}).versions[1:]
        assert (version.body == label) == is_kept == (not version.dropped)


def test_a_core_without_published_figures_has_an_error_that_is_said_to_be_assumed() -> None:
    (version,) = drop_by_model(choice_of("a75"), {"a75": modelled(1.0, 1.0)}, CORES, {}).versions[1:]
    assert A75.model_error is None and model_error(A75).is_assumed and model_error(A75).fraction == ASSUMED_ERROR
    assert version.dropped.endswith("0.0% less time (model), within the error of 10.0% assumed for its model")


def test_the_assumed_error_is_one_that_most_cores_keep() -> None:
    errors = [model_error(core) for core in load_cores().values()]
    known = [error.fraction for error in errors if not error.is_assumed]
    assert sum(error <= ASSUMED_ERROR for error in known) >= 3 * len(known) // 4 and len(known) > 20


@pytest.mark.parametrize(
    ("tuning", "gains", "dropping", "words"),
    [
        (modelled(2.0, 1.0), {("f", "a55"): Gain(0.2, "measured")}, True, "overruled: +20.0% (measured)"),
        (modelled(1.0, 1.0), {("f", "a55"): Gain(0.2, "measured")}, True, "overruled: +20.0% (measured)"),
        (modelled(2.0, 1.0), {}, False, "kept as requested"),
        (modelled(2.0, 1.0, False), {}, True, "the model cannot time a loop that is hotter"),
        (modelled(1.0, 2.0), {}, True, "50.0% less time (model)"),
        (modelled(None, 2.0), {}, True, ""),
        (modelled(2.0, None), {}, True, ""),
    ],
)
def test_what_the_model_does_not_drop(
    tuning: VersionTuning, gains: dict[tuple[str, str], Gain], dropping: bool, words: str
) -> None:
    (kept,) = drop_by_model(choice_of("a55"), {"a55": tuning}, CORES, gains, dropping).versions[1:]

    assert kept.body == "a55" and not kept.dropped
    assert words in kept.verdict.why if kept.verdict and words else kept.verdict is None


def test_a_machine_pass_counts_with_what_it_made_of_a_version() -> None:
    tuned = VersionTuning((), "FLOP", 4.0, 2.0, 7.0)
    (version,) = drop_by_model(choice_of("a55"), {"a55": tuned}, CORES, {}).versions[1:]
    assert version.body == "a55"


def test_split_loads_stay_where_silicon_gained_and_the_model_shows_nothing() -> None:
    loops = (LoopReport(".L1", 7, 1.0, 1.0, 1, 1, splits=2),)
    tuned = VersionTuning((FunctionReport("f", loops),), "FLOP", 4.0, 4.0, 4.0)
    (a55,) = drop_by_model(choice_of("a55"), {"a55": tuned}, CORES, {}).versions[1:]
    (a75,) = drop_by_model(choice_of("a75"), {"a75": tuned}, CORES, {}).versions[1:]
    assert a55.dropped and not a75.dropped
    assert a75.verdict is not None and "by measurement" in a75.verdict.why


def test_a_version_of_more_code_than_its_loops_save_is_not_faster() -> None:
    """14 kB for an A55 in place of 6 kB, in a function that is run through once; and in one whose loops are long."""
    gain = VersionTuning((), "FLOP", 1.0, 1.3, None, True, loop_cycles=2000.0)
    (cold,) = drop_by_model(choice_of("a55", 6000, 14000), {"a55": gain}, CORES, {}).versions[1:]
    assert cold.body == "generic"
    assert "23.1% less time (model), but its 14000 bytes where generic has 6000 take" in cold.dropped
    long = VersionTuning((), "FLOP", 1.0, 1.3, None, True, loop_cycles=200000.0)
    (hot,) = drop_by_model(choice_of("a55", 6000, 14000), {"a55": long}, CORES, {}).versions[1:]
    (small,) = drop_by_model(choice_of("a55", 300, 700), {"a55": gain}, CORES, {}).versions[1:]
    assert (hot.body, small.body) == ("a55", "a55")


def test_a_larger_instruction_cache_keeps_more_of_a_function() -> None:
    """An A76 has 64 KB by its manual; of an A55 32 KB are assumed."""
    a76 = load_core("cortex-a76")
    assert {fact.key: fact.value for fact in a76.facts}["caches.l1i_bytes"] == 65536
    assert 2 * fetch_cycles(16384, a76) == fetch_cycles(16384, A55) > 0


@given(st.integers(0, 1 << 20), st.integers(0, 1 << 20))
def test_more_code_takes_no_less_to_fetch(one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert 0 <= fetch_cycles(small, A55) <= fetch_cycles(large, A55)
