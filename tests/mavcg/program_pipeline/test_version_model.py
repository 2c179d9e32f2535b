"""Versions that the model of a core says are slower than generic: dropped, or kept with the reason."""

import pytest

from mavcg.assembly.tuning import VersionTuning
from mavcg.profiles.load import load_core
from mavcg.program_pipeline.version_choice import FunctionChoice, Gain, VersionChoice, drop_slower

A55, A72, A75 = (load_core(name) for name in ("cortex-a55", "cortex-a72", "cortex-a75"))
CORES = {"a55": A55, "a72": A72, "a75": A75}


def modelled(generic: float | None, own: float | None, is_hottest: bool = True) -> VersionTuning:
    return VersionTuning((), "OP", generic, own, None, is_hottest)


def test_a_version_that_is_slower_by_more_than_the_models_error_goes() -> None:
    """The same loss, on a core whose model is held against silicon more closely, and on another."""
    choice = FunctionChoice(
        "f", (VersionChoice("generic", "generic", 10), VersionChoice("a55", "a55", 20), VersionChoice("a72", "a72", 20))
    )
    both = {"a55": modelled(1.41, 1.30), "a72": modelled(1.41, 1.30)}

    a55, a72 = drop_slower(choice, both, CORES, {}).versions[1:]

    assert A55.model_error is not None and A72.model_error is not None
    assert A55.model_error < 0.085 < A72.model_error  # as held against published figures of silicon
    assert a55.body == "generic" and a55.bytes == 10
    more = "1.30 OP/cycle where generic has 1.41, 8.5% more time (model)"
    assert a55.dropped == f"{more}, over the model's error of {A55.model_error:.1%}"
    assert a72.body == "a72" and not a72.dropped
    assert a72.slower is not None and a72.slower.why.endswith(f"within the model's error of {A72.model_error:.1%}")


def test_where_the_models_error_is_not_known_nothing_goes_and_it_is_said() -> None:
    choice = FunctionChoice("f", (VersionChoice("generic", "generic", 10), VersionChoice("a75", "a75", 20)))

    (kept,) = drop_slower(choice, {"a75": modelled(4.0, 0.1)}, CORES, {}).versions[1:]

    assert A75.model_error is None and kept.body == "a75" and kept.slower is not None
    assert "the model's error on this core is not known: nothing is dropped by it" in kept.slower.why


@pytest.mark.parametrize(
    ("tuning", "gains", "dropping", "words"),
    [
        (modelled(2.0, 1.0), {("f", "a55"): Gain(0.2, "measured")}, True, "overruled: +20.0% (measured)"),
        (modelled(2.0, 1.0), {}, False, "kept as requested"),
        (modelled(2.0, 1.0, False), {}, True, "the model cannot time a loop that is hotter"),
        (modelled(1.0, 2.0), {}, True, ""),
        (modelled(None, 2.0), {}, True, ""),
        (modelled(2.0, None), {}, True, ""),
    ],
)
def test_what_the_model_does_not_drop(
    tuning: VersionTuning, gains: dict[tuple[str, str], Gain], dropping: bool, words: str
) -> None:
    choice = FunctionChoice("f", (VersionChoice("generic", "generic", 10), VersionChoice("a55", "a55", 20)))

    (kept,) = drop_slower(choice, {"a55": tuning}, CORES, gains, dropping).versions[1:]

    assert kept.body == "a55" and not kept.dropped
    assert words in kept.slower.why if kept.slower and words else kept.slower is None


def test_a_machine_pass_counts_with_what_it_made_of_a_version() -> None:
    choice = FunctionChoice("f", (VersionChoice("generic", "generic", 10), VersionChoice("a55", "a55", 20)))
    tuned = VersionTuning((), "FLOP", 4.0, 2.0, 7.0)
    assert drop_slower(choice, {"a55": tuned}, CORES, {}) == choice
