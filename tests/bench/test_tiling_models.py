"""Rows of the comparison of models: one small layer's plans, and what a record keeps."""

import json
from pathlib import Path

import pytest

import bench.record
import bench.tiling_models as tiling_models
from bench.jit import host_machine
from bench.tiling_models import MODELS, modelled, plans_of, record_rows, summary
from mavcg.cost.board_model import cores_of
from mavcg.kernels.builder.emit import kernel_name
from mavcg.toolchain.target import host_target
from tests.mavcg.choose.tiles.convs import conv


def test_what_all_terms_choose_is_never_dearer_by_all_terms_than_the_error_that_keeps_the_plain_tile() -> None:
    machine = host_machine()
    core = cores_of([machine.name], host_target())
    specs = [conv(7, 256, 512, 3, 16), conv(14, 64, 256, 1, 16)]
    row = modelled(specs, {kernel_name(spec): 2 for spec in specs}, core[machine.name], plans_of(specs, core))

    assert row["kernels"] == 2 and set(row["tiled_otherwise"]) == set(MODELS) - {"planned"}
    for label, ratio in row["modelled_over_planned"].items():
        assert ratio > 0.97, label
        assert ratio == 1 or row["tiled_otherwise"][label]


def test_a_record_keeps_rows_of_other_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, object] = {}
    monkeypatch.setattr(bench.record, "ROWS", tmp_path)
    monkeypatch.setattr("bench.rows.ROWS", tmp_path)
    monkeypatch.setattr(tiling_models, "write", lambda name, record: written.update(record))
    a, b = ({"network": name, "modelled_over_planned": {"roofline": 1.21}} for name in ("a", "b"))
    (tmp_path / "tiling_models.json").write_text(json.dumps({"rows": [a, b]}))
    timed = {**b, "times": {"roofline_over_planned": 1.1}}
    record_rows([timed], with_times=True)

    assert written["rows"] == [a, timed] and written["kind"] == "modelled"
    assert summary([a, timed]) == {"modelled": 1.21, "measured": 1.1}
