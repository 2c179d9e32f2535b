"""`mavcg calibrate`: what it refuses, and the document of a simulated core."""

import platform
from pathlib import Path
from typing import Any

import pytest

from mavcg.lab.calibrate.altered_core import RequestedFact, values_of
from mavcg.lab.calibrate.calibrated_model import CalibratedModel
from mavcg.lab.calibrate.calibration import CoreCalibration
from mavcg.lab.commands.calibrate import simulated_json
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--runner", "simulate:cortex-a54"), "cortex-a54"),
        (("--runner", "simulate:skylake"), "is x86_64"),
        (("--runner", "simulate:cortex-a55", "--core", "cortex-a55"), "names the core already"),
        (("--runner", "simulate:cortex-a55", "--facts", "none.toml"), "none.toml"),
        (("--runner", "adb", "--facts", "none.toml"), "alters a simulated core"),
        (("--runner", "adb"), "MAVCG_PROFILES: is not set"),
        (("--runner", "carrier-pigeon"), "MAVCG_PROFILES: is not set"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    mavcg: Any, words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAVCG_PROFILES", raising=False)
    done = mavcg("calibrate", *words)
    assert done.status == 2 and message in " ".join(done.stderr.split())


@pytest.mark.skipif(platform.machine() == "aarch64", reason="the loops run on this machine")
def test_this_machine_is_not_measured_if_it_is_no_arm(
    mavcg: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))
    done = mavcg("calibrate", "--runner", "local")
    assert done.status == 2 and "the loops are AArch64's" in " ".join(done.stderr.split())
    assert not list(tmp_path.rglob("*.toml"))


def test_the_document_has_found_facts_and_true_ones_by_the_names_of_the_file() -> None:
    core = load_core("cortex-a55")
    timing = load_timing(core)
    found = {"instr.alu.latency": 2.0, "forward.mla_q->mla_q.acc": 2.0, "forward.mla_q->mla_lane_q.acc": 2.0}
    calibration = CoreCalibration(core.name, found, values_of(core, timing), (), CalibratedModel(core, timing))
    requested = (
        RequestedFact("instr.alu.latency", ("instr.alu.latency",), 2.0),
        RequestedFact("forward.mla_q->mla_q mla_lane_q.acc", tuple(found)[1:], 2.0),
        RequestedFact("instr.str_x.latency", ("instr.str_x.latency",), 3.0),
    )
    truth = {fact.name: fact.value for fact in requested}
    assert simulated_json(calibration, requested, truth) == {
        "core": "cortex-a55",
        "found": {name: 2.0 for name in list(truth)[:2]},
        "truth": truth,
        "not_found": ["instr.str_x.latency"],
    }
