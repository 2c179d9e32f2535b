"""Straight-line code: better order or none, loads split where enabled, registers renamed in loops alone."""

from dataclasses import replace

import pytest

from mavcg.hardware.core import LoadPolicy
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.passes.asm.straight_tuning import NewSegment, tune_segment
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

CORE = load_core("cortex-a55")
TIMING = load_timing(CORE)
ALL = LoadPolicy(split=True, unpair=True, schedule=True)
LIVE = frozenset({*(f"x{i}" for i in range(9)), *(f"v{i}" for i in range(16, 24)), "sp"})
STALLS = "ldr d16, [x1] | fmul v17.2s, v16.2s, v20.2s | ldr d18, [x2] | fmul v19.2s, v18.2s, v20.2s"


def _tuned(text: str, policy: LoadPolicy = ALL, renaming: bool = True) -> NewSegment | None:
    code = [parse_instr(line.strip()) for line in text.split("|")]
    return tune_segment(code, LIVE, LIVE, TIMING, policy, renaming)


@pytest.mark.parametrize("renaming", [False, True])
def test_loads_go_before_what_waits_for_the_first_of_them(renaming: bool) -> None:
    new = _tuned(STALLS, renaming=renaming)
    assert new is not None and new.cycles < new.cycles_before
    assert [i.mnemonic for i in new.instrs] == ["ldr", "ldr", "fmul", "fmul"]


def test_what_cannot_be_better_stays() -> None:
    assert _tuned("ldr d16, [x1] | ldr d17, [x2]") is None
    assert _tuned("fmul v16.4s, v17.4s, v18.4s | fmul v19.4s, v16.4s, v18.4s") is None
    assert _tuned("fmul v16.4s, v17.4s, v18.4s") is None


def test_without_leave_to_schedule_nothing_happens() -> None:
    assert _tuned(STALLS, LoadPolicy(split=True, unpair=True)) is None


def test_a_missing_fact_keeps_the_order() -> None:
    without = replace(TIMING, classes={n: row for n, row in TIMING.classes.items() if n != "ldr_d"})
    code = [parse_instr(line.strip()) for line in STALLS.split("|")]
    assert tune_segment(code, LIVE, LIVE, without, ALL, True) is None


def test_a_store_stays_before_a_load_that_may_read_it() -> None:
    new = _tuned("str d16, [x1] | ldr d17, [x2] | fmul v18.2s, v17.2s, v20.2s | add x3, x3, #1 | add x4, x4, #1")
    order = ["str", "ldr"] if new is None else [i.mnemonic for i in new.instrs if i.mnemonic in ("str", "ldr")]
    assert order == ["str", "ldr"]


def test_no_register_free_means_no_split() -> None:
    everything = frozenset({*(f"x{i}" for i in range(31)), *(f"v{i}" for i in range(32)), "sp"})
    text = " | ".join(f"ldr q{16 + i}, [x1, #{16 * i}] | fmul v{20 + i}.4s, v24.4s, v25.4s" for i in range(4))
    code = [parse_instr(line.strip()) for line in text.split("|")]
    new = tune_segment(code, everything, everything, TIMING, ALL, True)
    assert new is None or new.splits == 0
