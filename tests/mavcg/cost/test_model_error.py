"""The error of a core's model: of blind projects first, of other figures of kernels, or assumed."""

from mavcg.cost.model_error import ASSUMED_ERROR, ModelError, model_error
from mavcg.hardware.cost_fit import IN_ORDER, OUT_OF_ORDER_AARCH64
from mavcg.profiles.cost_fits import fit_of_kind
from mavcg.profiles.load import load_core, load_cores


def test_projects_that_no_fact_was_fitted_to_come_first() -> None:
    a73 = load_core("cortex-a73")
    assert a73.silicon is not None and a73.silicon.blind_error is not None
    assert a73.silicon.blind_error != a73.silicon.kinds["calls and loops"].mean_abs_error
    assert model_error(a73) == ModelError(a73.silicon.blind_error)


def test_other_figures_of_kernels_come_next() -> None:
    a510, a725 = load_core("cortex-a510"), load_core("cortex-a725")
    assert a510.silicon is not None and a725.silicon is not None
    assert model_error(a510) == ModelError(a510.silicon.kinds["calls and loops"].mean_abs_error)
    assert model_error(a725) == ModelError(a725.silicon.kinds["changes in time"].mean_abs_error)


def test_a_core_without_figures_of_kernels_has_an_assumed_error() -> None:
    a75, unknown = load_core("cortex-a75-r0"), model_error(None)
    assert a75.silicon is not None and list(a75.silicon.kinds) == ["instructions"]
    assert model_error(a75) == unknown == ModelError(ASSUMED_ERROR, is_assumed=True)
    assert str(unknown) == "the error of 10.0% assumed for its model"


def test_the_safety_factors_of_selections_cover_the_error_of_every_core() -> None:
    """Alternatives of a selection count for this many times their predicted time, so that its margin is no smaller."""
    worst = max(model_error(core).fraction for core in load_cores().values())
    factors = [fit_of_kind(kind).safety for kind in (IN_ORDER, OUT_OF_ORDER_AARCH64)]
    assert all(1 / factor <= 1 - worst for fit in factors for factor in (fit.modelled, fit.bands))
