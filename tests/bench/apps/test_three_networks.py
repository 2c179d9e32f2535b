"""The bench of three networks: each variant is an application that can be read, and the table of its rows."""

from pathlib import Path

import pytest

from bench.apps.three_networks import NETWORKS, VARIANTS, application_text, sizes_of
from bench.records import record_of
from bench.tables.catalogue import TABLES
from mavcg.apps.application_file import read_application_file
from tests.bench.made_records import HEAD
from tests.mavcg.apps.small_networks import write_network

pytest.importorskip("onnx")


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_is_a_file_of_an_application(variant: str, tmp_path: Path) -> None:
    models = {name: write_network(tmp_path / f"{name}.onnx", 4, 8, seed) for seed, name in enumerate(NETWORKS)}
    path = tmp_path / "app.toml"
    path.write_text(application_text(variant, models))
    file = read_application_file(path)
    assert [entry.name for entry in file.networks] == list(NETWORKS)
    assert (file.weights_resident == 7_000_000) == ("paged" in variant)
    assert {entry.weights for entry in file.networks} == {variant.split(",")[0].removeprefix("f32")}


def test_the_table_has_sizes_and_ratios() -> None:
    timed = [{"threads": n, "median_ms": 10.0 / n, "ratio": 1.25, "low": 1.2, "high": 1.3} for n in (1, 2)]
    sizes = {"weight_bytes": 13_000_000, "resident_bytes": 7_000_000, "arena_bytes": 5_000_000, "stored_layers": 3}
    title, show = TABLES["three_networks"]
    record = record_of(title, HEAD, show({"rows": [{"variant": "f16", **sizes, "error": 0.0012, "timed": timed}]}))
    assert record.cell("f16", "in memory with buffers") == "12.00"
    assert record.cell("f16", "over f32, 2 threads") == "1.250 (1.20 to 1.30)"
    assert record.cell("f16", "error") == "0.0012"


def test_the_error_is_that_of_networks_with_layers_in_fewer_bits() -> None:
    stored = [{"layers": ["a", "b"], "measured_error": 0.004}, {"layers": [], "measured_error": None}, None]
    note = {"weight_bytes": 3, "arena_bytes": 2, "networks": [{"stored_weights": each} for each in stored]}
    whole = {"weight_bytes": 3, "resident_bytes": 3, "arena_bytes": 2, "stored_layers": 2, "error": 0.004}
    assert sizes_of(note | {"weights_resident": None}) == whole
    assert sizes_of(note | {"weights_resident": {"resident_bytes": 1}}) == whole | {"resident_bytes": 1}
