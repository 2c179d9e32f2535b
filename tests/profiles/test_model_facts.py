"""Confidence and errors against silicon, as the cores' files state them and as bench.silicon recorded them."""

from pathlib import Path

import pytest

from bench.silicon.blind_table import BLIND_HEAD
from bench.silicon.core_facts import recorded, recorded_blind
from mavcg.errors import ProfileError
from mavcg.hardware.core import GRADES, Core, Fact, GroupErrors
from mavcg.profiles.core_files import check_model_facts
from mavcg.profiles.load import load_core, load_cores

ARM = [core for core in load_cores().values() if core.arch == "aarch64"]


def test_every_arm_core_has_a_grade() -> None:
    assert [core.name for core in ARM if core.confidence not in GRADES] == []
    assert load_core("cortex-a53").confidence == "measured by instruction"
    assert load_core("cortex-a78").confidence == "assumed"  # another core's timing
    assert all(core.confidence is None for core in load_cores().values() if core.arch == "x86_64")


# Groups of figures, by their names in the record.
KINDS = {
    "calls and loops": "published cycles of calls and loops",
    "changes in time": "published changes in time",
    "instructions": "published cycles an instruction",
}


def assert_errors(found: GroupErrors | None, core: str, kind: str) -> None:
    """Assert that errors are those of the record's row of a core and a group of figures."""
    row = next((row for row in recorded(core) if row[1] == kind), None)
    if row is None:
        assert found is None, core
        return
    error, figures, held_out_error, held_out_figures = row[2:]
    assert found is not None and (found.figures, found.held_out_figures) == (int(figures), int(held_out_figures or 0))
    assert found.mean_abs_error == pytest.approx(float(error) / 100, abs=1e-9), core
    assert (found.held_out_error is None) == (held_out_error == "")
    if found.held_out_error is not None:
        assert found.held_out_error == pytest.approx(float(held_out_error) / 100, abs=1e-9), core


@pytest.mark.parametrize("core", ARM, ids=lambda core: core.name)
def test_errors_are_those_of_the_record(core: Core) -> None:
    known = core.silicon.kinds if core.silicon is not None else {}
    for name, kind in KINDS.items():
        assert_errors(known.get(name), core.name, kind)
    calls = known.get("calls and loops")
    own = calls.mean_abs_error if calls is not None else None
    row = recorded_blind(core.name)
    blind = float(row[BLIND_HEAD.index("error")].rstrip("%")) / 100 if row else None
    # Projects that no fact was fitted to say more of code that is not known yet.
    assert core.model_error == (own if blind is None else pytest.approx(blind, abs=1e-9))
    if core.silicon is not None:
        assert core.silicon.blind_figures == (int(row[BLIND_HEAD.index("figures")]) if row else 0)


@pytest.mark.parametrize("core", ARM, ids=lambda core: core.name)
def test_the_errors_of_a_core_are_the_means_of_its_kernels(core: Core) -> None:
    if core.silicon is None:
        return
    kernels = [errors for name, errors in core.silicon.kinds.items() if name != "instructions"]
    parts = kernels or list(core.silicon.kinds.values())
    figures = sum(part.figures for part in parts)
    assert core.silicon.figures == figures
    assert core.silicon.mean_abs_error == pytest.approx(
        sum(part.mean_abs_error * part.figures for part in parts) / figures, abs=1e-6
    )


@pytest.mark.parametrize(
    ("key", "value", "unit", "message"),
    [
        ("confidence", "sure", "grade", 'value "sure" with unit grade is not a grade'),
        ("confidence", "assumed", "percent", "is not a grade"),
        ("error", -1, "percent", "not an error in percent"),
        ("held_out_error", 5, "cycles", "not an error in percent"),
        ("figures", True, "figures", "not a number of figures"),
        ("errors", 5, "percent", "no such key"),
        ("changes_held_out_figures", 5, "percent", "not a number of figures"),
    ],
)
def test_wrong_facts_are_refused(key: str, value: float | str, unit: str, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        check_model_facts(Path("cores/x.toml"), [Fact(f"model.{key}", value, unit, "somewhere")])
