"""`mavcg build` on a kernel of the demo that gets slower when LLVM is told the core, by the core's model."""

import json
from pathlib import Path
from typing import Any

import pytest

GEMM_S8 = Path(__file__).parents[3] / "examples/edge_app/ops/gemm_s8.c"


@pytest.mark.long
def test_a_version_that_the_model_says_is_slower_is_not_shipped(mavcg: Any, tmp_path: Path) -> None:
    """gemm_s8 for the A55 does less work a cycle than the generic version, by more than the model is off."""
    build = ["build", "--source", GEMM_S8, "--flag=-ffp-contract=off", "--hot", "gemm_s8", "--tune", "off"]
    build += ["--cores", "cortex-a55,cortex-a75", "-o", tmp_path / "lib.so", "--json"]

    report = json.loads(mavcg(*build).stdout)
    kept = json.loads(mavcg(*build, "--keep-slower").stdout)

    slower = next(each for each in report["slower_by_model"] if each["core"] == "cortex-a55")
    assert (slower["function"], slower["core"], slower["dropped"]) == ("gemm_s8", "cortex-a55", True)
    assert slower["more_time"] > slower["model_error"] > 0 and slower["own"] < slower["generic"]
    for document, dropped in ((report, True), (kept, False)):
        versions = {v["core"]: v for v in document["functions"][0]["versions"]}
        assert bool(versions["cortex-a55"]["dropped"]) == dropped
    again = next(each for each in kept["slower_by_model"] if each["core"] == "cortex-a55")
    assert again["why"].endswith("kept as requested") and again["more_time"] == slower["more_time"]
