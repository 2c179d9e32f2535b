"""The record of a GPU's measurement is made from the file of `bench.accelerators.gpu --measure` alone."""

import json
from pathlib import Path
from typing import Any

import pytest

import bench.record
from bench import records
from bench.accelerators.gpu_record import write_record


def measured() -> dict[str, Any]:
    """Return a measurement of two layers a type, with the keys of `bench.accelerators.gpu --measure` alone."""
    library = {"f32": ("cudnn_f32_ms", "cudnn_tf32_ms"), "f16": ("cudnn_f16_ms", "cudnn_f16_nhwc_ms"), "i8": ()}
    rows = []
    for kind, keys in library.items():
        for number, name in enumerate(("conv1", "conv2"), 1):
            resources = {"registers": 100, "stack_bytes": 0, "spilled_bytes": 0}
            kernel = {"ms": 0.02 * number, "predicted_ms": 0.01 * number, "resources": resources}
            row = {"network": "vgg16", "layer": name, "type": kind, "macs": 10**8, "bytes": 10**6, "kernels": [kernel]}
            rows.append(row | dict.fromkeys(keys, 0.04 * number))
    return {
        "gpu": {"name": "A GPU", "arch": "sm_90", "sms": 132, "clock_mhz": 1980.0},
        "cpus": 16,
        "torch": "2",
        "cudnn": 9,
        "ceilings": {"copy_gb_per_s": 2000.0, "f32_gmac_per_s": 25000.0},
        "rows": rows,
        "errors": [],
        "checked": 12,
        "wrong": 0,
        "counters": {},
    }


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bench.record, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(bench.record, "ROWS", tmp_path)
    return tmp_path


def test_a_measurement_alone_makes_the_record(results: Path) -> None:
    write_record(measured())
    record = json.loads((results / "gpu.json").read_text())
    assert records.read(results / "results/gpu.json").cell("f32", "type") == "f32"
    assert (record["checked"], record["wrong"], record["machine"]["cpus"]) == (12, 0, 16)
    beside = record["summary"]["f32"]["library"][0]
    assert beside["faster"] == 2
    assert beside["time_over_library"] == pytest.approx(0.5)


def test_roofline_is_the_larger_of_bytes_and_arithmetic(results: Path) -> None:
    write_record(measured())
    rows = json.loads((results / "gpu.json").read_text())["rows"]
    assert rows[0]["roofline_ms"] == pytest.approx(10**8 / 25000.0 / 1e6)  # 4 us of products, 0.5 us of bytes
