"""Confidence and errors against silicon, as the cores' files state them and as bench.silicon recorded them."""

import json
import statistics
from pathlib import Path

import pytest

from mavcg.errors import ProfileError
from mavcg.hardware.core import GRADES, Fact
from mavcg.profiles.load import load_core, load_cores
from mavcg.profiles.model_facts import check_model_facts

RECORD = Path(__file__).parents[2] / "bench/results/silicon.json"
ARM = [core for core in load_cores().values() if core.arch == "aarch64"]


def test_every_arm_core_has_a_grade() -> None:
    assert [core.name for core in ARM if core.confidence not in GRADES] == []
    assert load_core("cortex-a53").confidence == "measured by instruction"
    assert load_core("cortex-a78").confidence == "assumed"  # another core's timing
    assert all(core.confidence is None for core in load_cores().values() if core.arch == "x86_64")


def test_errors_are_those_of_the_record() -> None:
    rows = json.loads(RECORD.read_text())["rows"]
    for core in ARM:
        errors = {"all": [], "held": []}  # type: dict[str, list[float]]
        for row in rows:
            if row["core"] == core.name and row["kind"] in ("cycles", "loop") and "modelled" in row:
                error = abs(row["modelled"] / row["silicon"] - 1)
                errors["all"].append(error)
                if row.get("held_out"):
                    errors["held"].append(error)
        if not errors["all"]:
            assert core.silicon is None, core.name
            continue
        assert core.silicon is not None, core.name
        assert core.silicon.figures == len(errors["all"])
        assert core.silicon.mean_abs_error == pytest.approx(statistics.fmean(errors["all"]), abs=6e-4), core.name
        held = core.silicon.held_out_error
        assert (held is None) == (not errors["held"])
        if held is not None:
            assert held == pytest.approx(statistics.fmean(errors["held"]), abs=6e-4), core.name


@pytest.mark.parametrize(
    ("key", "value", "unit", "message"),
    [
        ("confidence", "sure", "grade", "'sure' grade is no grade"),
        ("confidence", "assumed", "percent", "is no grade"),
        ("error", -1, "percent", "not an error in percent"),
        ("held_out_error", 5, "cycles", "not an error in percent"),
        ("figures", True, "figures", "not a number of figures"),
        ("errors", 5, "percent", "no such key"),
    ],
)
def test_wrong_facts_are_refused(key: str, value: float | str, unit: str, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        check_model_facts(Path("cores/x.toml"), [Fact(f"model.{key}", value, unit, "somewhere")])
