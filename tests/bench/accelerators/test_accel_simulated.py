"""Figures 7 and 8 of DNNVM: what fusion saves, against the separate nodes' program on the same target."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import records
from bench.accelerators.accel_simulated import figure_rows
from mavcg.accelerators.target import find_target

# Each map is read and written once, without the rows that two tiles of the pooling both read.
IDEAL_BYTES = {7: 28 * 28 * (32 + 3 * 256), 8: 56 * 56 * (2 * 64 + 5 * 256)}
ROOT = Path(__file__).parents[3]


def test_the_page_says_of_fusion_what_the_record_has() -> None:
    """Speed-ups of whole programs; of the paper's four networks the one that gains most."""
    (table,) = records.read(ROOT / "bench/results/accel_simulated.json").tables
    gains = {row[0]: row[table.head.index("speed-up")] for row in table.rows}
    page = " ".join((ROOT / "docs/accelerators.md").read_text().split())

    papers = {name: float(gains[f"{name}, zu2"]) for name in ("vgg16", "resnet50", "resnet152", "googlenet")}
    most = max(papers, key=lambda name: papers[name])
    assert most == "resnet50" and f"four networks ResNet-50 gains most ({papers[most]:.2f})" in page
    assert f"(VGG-16: {papers['vgg16']:.2f} times as fast on zu2)" in page
    assert f"(MobileNet v2: {float(gains['mobilenet_v2, zu2']):.2f} times)" in page
    assert f"GoogLeNet gains {papers['googlenet']:.2f} on zu2 and {float(gains['googlenet, zu9']):.2f} on zu9" in page


def saved(entry: dict[str, Any]) -> float:
    separate, fused = (entry[title]["program"]["feature_bytes"] for title in ("separate", "fused"))
    return float(round(100 * (1 - fused / separate), 2))


@pytest.mark.long
def test_saved_bytes_are_of_the_unfused_program_of_the_same_run() -> None:
    zu2 = find_target("zu2")
    roomy = replace(zu2, name="roomy", input_bytes=2 * zu2.input_bytes, output_bytes=2 * zu2.output_bytes)
    for target in (zu2, roomy):
        for entry in figure_rows(target):
            assert entry["saved_percent"] == saved(entry)
            for title in ("separate", "fused"):
                whole, parts = entry[title]["program"], entry[title]["parts"]
                assert whole["feature_bytes"] == sum(part["feature_bytes"] for part in parts)
                assert whole["ms"] <= sum(part["ms"] for part in parts) + 0.001 * len(parts)


def test_the_pools_tiles_read_shared_rows_again() -> None:

    figure_7, figure_8 = figure_rows(find_target("zu2"))
    assert figure_7["separate"]["program"]["feature_bytes"] > IDEAL_BYTES[7]
    assert figure_8["separate"]["program"]["feature_bytes"] >= IDEAL_BYTES[8]
