"""Files of cores and boards that a calibration writes, read again as mavcg reads them."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.lab.calibrate.altered_core import alter_core, values_of
from mavcg.lab.calibrate.calibrated_model import CalibratedModel
from mavcg.lab.calibrate.calibration import CoreCalibration, with_own_rows
from mavcg.lab.calibrate.core_file import board_file_text, changed_facts, cluster_table, core_file_text, toml_text
from mavcg.profiles.audit import audit
from mavcg.profiles.folders import files
from mavcg.profiles.load import load_board, load_core
from mavcg.profiles.schema import read_toml
from mavcg.profiles.timing import load_timing

FACTS = {
    "cortex-a55": {
        "instr.fadd_q.latency": 5.0,
        "instr.ldr_q.blocks": 3.0,
        "instr.mul_d.per_cycle": 1.0,
        "forward.alu->mul_x": 3.0,
        "branches.mispredict": 9.0,
    },
    "cortex-a76": {"instr.fmla_q.latency": 3.0, "instr.add_q.per_cycle": 1.0, "window.in_flight": 96.0},
}
LEVELS = {"caches.l1d_bytes": 65536.0, "caches.l2_bytes": 524288.0, "caches.l2_latency": 9.0, "caches.memory_ns": 131.5}


def calibration(name: str, facts: dict[str, float]) -> CoreCalibration:
    core, timing = load_core(name), with_own_rows(load_timing(load_core(name)))
    other, found = alter_core(core, timing, facts)
    known = values_of(core, timing)
    return CoreCalibration(
        name, {**{key: known[key] for key in ("instr.alu.latency",)}, **facts}, known, (), CalibratedModel(other, found)
    )


@pytest.mark.parametrize("name", sorted(FACTS))
def test_a_written_core_has_the_found_facts_and_its_other_ones(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load_timing(load_core(name))
    found = calibration(name, FACTS[name])
    assert set(changed_facts(found)) == set(FACTS[name])
    text = core_file_text(read_toml(files("cores")[name]), found, before, "measured: here")
    (tmp_path / "cores").mkdir()
    (tmp_path / "cores" / f"{name}.toml").write_text(text)
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))
    core = load_core(name)
    timing = with_own_rows(load_timing(core))
    assert core.model_error is None  # errors against silicon were those of other facts
    expected = found.model.timing
    plain = {key: replace(row, source="") for key, row in timing.classes.items()}
    assert plain == {key: replace(row, source="") for key, row in expected.classes.items()}
    assert timing.forwards == expected.forwards
    values = values_of(core, timing)
    assert {key: values[key] for key in FACTS[name]} == FACTS[name]
    assert not [finding for finding in audit() if name in str(finding)]


def test_a_written_board_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = [
        cluster_table(calibration("cortex-a55", {}), "0-3", 1_800_000, {"caches.l1d_bytes": 32768.0}, "measured: here"),
        cluster_table(calibration("cortex-a76", {}), "4-7", 2_400_000, LEVELS, "measured: here"),
    ]
    text = board_file_text("measured-x", "a board", "aarch64-linux-gnu.2.17", "measured: here", clusters, 3 << 20)
    (tmp_path / "boards").mkdir()
    (tmp_path / "boards" / "measured-x.toml").write_text(text)
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))
    board = load_board("measured-x")
    little, big = board.clusters
    assert (little.core, little.cpus, little.max_khz, little.l2_bytes) == ("cortex-a55", (0, 1, 2, 3), 1_800_000, 0)
    assert (big.l1d_bytes, big.l2_bytes, dict(big.caches)) == (65536, 524288, {"l2_latency": 9.0, "memory_ns": 131.5})
    assert board.l3_bytes == 3 << 20


@pytest.mark.parametrize("path", [files("cores")["cortex-a55"], files("boards")["rk3588"]], ids=lambda path: path.stem)
def test_toml_is_written_as_it_was_read(path: Path) -> None:
    table = read_toml(path)
    assert tomllib.loads(toml_text(table)) == table
