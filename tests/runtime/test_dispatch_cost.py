"""What bench/dispatch.py records: every way of dispatch, with rseq and without. What they cost is not asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench/dispatch.py"


@pytest.mark.long
def test_every_way_is_timed_with_and_without_rseq(tmp_path: Path) -> None:
    out = tmp_path / "dispatch.json"
    subprocess.run([sys.executable, BENCH, "--rounds", "20", "--json", out], check=True, capture_output=True)
    with_rseq, without = json.loads(out.read_text())["runs"]

    ways = ["direct", "direct_generated", "dispatched", "generated", "runtime_select", "system_call"]
    for run in (with_rseq, without):
        assert set(run["ways"]) == {*ways, "trapping_register"}
        assert all(run["ways"][way]["median_ns"] > 0 for way in ways)
        assert run["ways"]["direct"]["over_direct_ns"] == 0
    assert not without["rseq"]
