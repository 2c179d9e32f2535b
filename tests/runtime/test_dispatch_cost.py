"""The figure that the README names: dispatch costs at most 2 ns over a direct call where rseq is there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench/dispatch.py"


@pytest.mark.long
def test_dispatch_costs_at_most_two_nanoseconds(tmp_path: Path) -> None:
    out = tmp_path / "dispatch.json"
    for _ in range(3):  # another program on the machine may spoil a run, but not make it look better
        subprocess.run([sys.executable, BENCH, "--rounds", "100", "--json", out], check=True, capture_output=True)
        with_rseq, without = json.loads(out.read_text())["runs"]
        if not with_rseq["rseq"]:
            pytest.skip("this libc does not use rseq (glibc 2.35 and later does)")
        if with_rseq["ways"]["dispatched"]["over_direct_ns"] <= 2:
            break
    else:
        pytest.fail(f"three runs; the last: {with_rseq}")

    ways = with_rseq["ways"]
    assert ways["dispatched"]["median_ns"] < ways["system_call"]["median_ns"] < ways["trapping_register"]["median_ns"]
    assert not without["rseq"]
