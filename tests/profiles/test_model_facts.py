"""Confidence and errors against silicon, as the cores' files state them and as bench.silicon recorded them."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

import pytest

from mavcg.errors import ProfileError
from mavcg.hardware.core import GRADES, Core, Fact, GroupErrors
from mavcg.profiles.load import load_core, load_cores
from mavcg.profiles.model_facts import check_model_facts

RECORD = Path(__file__).parents[2] / "bench/results/silicon.json"
ARM = [core for core in load_cores().values() if core.arch == "aarch64"]


def test_every_arm_core_has_a_grade() -> None:
    assert [core.name for core in ARM if core.confidence not in GRADES] == []
    assert load_core("cortex-a53").confidence == "measured by instruction"
    assert load_core("cortex-a78").confidence == "assumed"  # another core's timing
    assert all(core.confidence is None for core in load_cores().values() if core.arch == "x86_64")


KINDS = {"calls and loops": ("cycles", "loop"), "changes in time": ("ratio",), "instructions": ("instruction",)}
ROWS = [row for row in json.loads(RECORD.read_text())["rows"] if "modelled" in row]


def assert_errors(found: GroupErrors | None, core: str, kinds: Sequence[str]) -> None:
    """Assert that errors are the means over the record's rows of a core and these kinds."""
    rows = [row for row in ROWS if row["core"] == core and row["kind"] in kinds]
    errors = [abs(row["modelled"] / row["silicon"] - 1) for row in rows]
    held = [error for error, row in zip(errors, rows, strict=True) if row.get("held_out")]
    if not errors:
        assert found is None, core
        return
    assert found is not None and (found.figures, found.held_out_figures) == (len(errors), len(held)), core
    assert found.mean_abs_error == pytest.approx(statistics.fmean(errors), abs=6e-4), core
    assert (found.held_out_error is None) == (not held)
    if found.held_out_error is not None:
        assert found.held_out_error == pytest.approx(statistics.fmean(held), abs=6e-4), core


@pytest.mark.parametrize("core", ARM, ids=lambda core: core.name)
def test_errors_are_those_of_the_record(core: Core) -> None:
    known = core.silicon.kinds if core.silicon is not None else {}
    for name, kinds in KINDS.items():
        assert_errors(known.get(name), core.name, kinds)
    kernels = [kind for name in KINDS if name != "instructions" and name in known for kind in KINDS[name]]
    assert_errors(core.silicon, core.name, kernels or KINDS["instructions"])
    calls = known.get("calls and loops")
    assert core.model_error == (calls.mean_abs_error if calls is not None else None)


@pytest.mark.parametrize(
    ("key", "value", "unit", "message"),
    [
        ("confidence", "sure", "grade", "value 'sure' with unit grade is not a grade"),
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
