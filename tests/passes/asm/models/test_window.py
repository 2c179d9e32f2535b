"""The model with a window: counted by hand, never below the bounds, and what a lane's load waits for."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.hardware.timing import ISSUE_QUEUE, REORDER_BUFFER, Timing
from mavcg.passes.asm.analysis.dependences import with_effects
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.passes.asm.models.estimate import block_cycles, estimate_block, repeated_cycles
from mavcg.passes.asm.models.issue_constraints import unit_uses
from mavcg.passes.asm.models.ports import straight_bounds
from mavcg.passes.asm.models.window import window_cycles, window_cycles_at
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from tests.conftest import examples

if TYPE_CHECKING:
    from tests.passes.asm.conftest import Write

A72 = load_timing(load_core("cortex-a72"))


def _ops(*lines: str) -> list[Op]:
    return [code.op for code in with_effects([parse_instr(line) for line in lines])]


def test_no_op_is_no_cycle(a57: Timing) -> None:
    assert window_cycles([], a57) == 0


def test_a_full_buffer_holds_back_what_follows(write: "Write", a57: Timing) -> None:
    """What is dispatched late waits until the first chain, which came before it, has left the buffer."""
    head = [write.fmla("v0", "v30", "v31") for _ in range(12)]
    latency = a57.latency("fmla_q", "fmla_q", "acc")
    filling = [write.nop() for _ in range(2 * REORDER_BUFFER)]
    short = window_cycles([*head, write.fmla("v1", "v29", "v31")], a57)
    late = window_cycles([*head, *filling, write.fmla("v1", "v29", "v31")], a57)
    assert short == 11 * latency + 1
    assert late > short + REORDER_BUFFER // a57.width


def test_a_queue_holds_back_other_units(write: "Write", a57: Timing) -> None:
    """Products that wait for one another fill the queue before their two units; the load behind them comes late."""
    units = a57.pools["vec0"] + a57.pools["vec1"]
    few = [write.fmla("v0", "v30", "v31") for _ in range(units * ISSUE_QUEUE // 2)]
    many = [write.fmla("v0", "v30", "v31") for _ in range(units * ISSUE_QUEUE * 4)]
    waits = a57.latency("fmla_q", "fmla_q", "acc")
    load = [write.ldr("q9", "x0"), write.fmla("v1", "v9", "v30")]
    assert window_cycles([*few, *load], a57) == max((len(few) - 1) * waits + 1, window_cycles(load, a57))
    assert window_cycles([*many, *load], a57) > (len(many) - units * ISSUE_QUEUE) * waits


def test_a_unit_is_chosen_at_dispatch() -> None:
    """Two products wait for a load: before one vector unit each, unless the sum between them went to the second one."""
    n1 = load_timing(load_core("neoverse-n1"))
    load, *products = "ldr q0, [x0]", "fmul v1.4s, v0.4s, v0.4s", "fmul v2.4s, v0.4s, v0.4s"
    apart = window_cycles(_ops(load, *products), n1)
    assert apart == n1.of("ldr_q").latency + 1
    assert window_cycles(_ops(load, products[0], "add v3.4s, v4.4s, v5.4s", products[1]), n1) == apart + 1


def test_a_lane_load_does_not_start_after_the_old_value() -> None:
    """Only its second micro-op merges: published cycles of dav1d's blend_w4 are half of those with such a wait."""
    chained = _ops(*["ld1 { v0.s }[0], [x1]", "mul v0.4s, v0.4s, v1.4s"] * 8)
    waiting = replace(A72, forwards={key: cycles for key, cycles in A72.forwards.items() if "ld1_lane" not in key})
    load, product = (A72.of(name).latency for name in ("ld1_lane", "mul_q"))
    assert window_cycles(chained, waiting) > 7 * (load + product)
    assert window_cycles(chained, A72) <= 8 * (load + 1) + 1


def test_a_half_of_a_register_does_not_wait_for_its_old_value() -> None:
    """An A72 renames 64-bit halves apart: iterations overlap with lanes of doublewords; those of words wait."""
    body = ["ld1 {{ v0.{t} }}[0], [x1]", "mul v0.8h, v0.8h, v1.8h", "add v0.8h, v0.8h, v2.8h"] * 8
    halves, words = (window_cycles(_ops(*(line.format(t=t) for line in body)), A72) for t in "ds")
    load, product, sum_ = (A72.of(name).latency for name in ("ld1_lane_d", "mul_q", "add_q"))
    assert halves < words - 7 * sum_
    assert halves >= load + product + 1 and words >= 8 * product
    assert A72.independent("ld1_lane_d", "acc") and not A72.independent("ld1_lane", "acc")
    assert not load_timing(load_core("cortex-a76")).independent("ld1_lane_d", "acc")


def test_sizes_of_the_window_are_the_core_s() -> None:
    """With fewer micro-operations in flight, a chain at the head holds back more of what follows."""
    ops = _ops(*["fdiv v0.4s, v0.4s, v1.4s"] * 3, *["add x2, x3, x4"] * 90, "ldr x5, [x6]", "add x7, x5, x5")
    wide, narrow = (replace(A72, in_flight=size) for size in (200, 20))
    assert window_cycles(ops, wide) < window_cycles(ops, narrow)
    assert (A72.in_flight, A72.issue_queue) == (44, 8) and A72.key() != wide.key()


@pytest.mark.parametrize(
    "core", ["neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2", "cortex-x4", "cortex-a725"]
)
def test_lanes_of_one_register_are_merged_one_after_another(core: str) -> None:
    """A lane's load is a load and a vector micro-operation of two cycles; other registers' lanes merge side by side."""
    timing = load_timing(load_core(core))
    one = _ops(*[f"ld1 {{ v0.b }}[{n % 16}], [x1]" for n in range(24)])
    many = _ops(*[f"ld1 {{ v{n}.b }}[0], [x1]" for n in range(24)])
    assert window_cycles(one, timing) == 23 * 2 + 1
    assert window_cycles(many, timing) < window_cycles(one, timing)
    assert window_cycles(_ops("add v0.4s, v1.4s, v2.4s", "ld1 { v0.s }[0], [x1]"), timing) == 1


_SUMS = ["fmla v0.4s, v1.4s, v2.4s", "add x0, x0, x1", "ldr q1, [x2]"]


@settings(max_examples=examples(60, 8))
@given(st.lists(st.sampled_from(_SUMS), min_size=1, max_size=9))
def test_calls_in_a_row_overlap_but_no_more_than_the_window_allows(lines: list[str]) -> None:
    ops = _ops(*lines)
    once, four = block_cycles(ops, A72), repeated_cycles(ops, A72, 4)
    assert repeated_cycles(ops, A72, 1) == once
    first, second = window_cycles_at([*ops, *ops], A72, (len(ops), 2 * len(ops)))
    assert (first, second) == (window_cycles(ops, A72), window_cycles([*ops, *ops], A72))
    assert four == (first + 3 * (second - first)) / 4 and four <= once + A72.of("fmla_q").latency
    a55 = load_timing(load_core("cortex-a55"))
    assert repeated_cycles(ops, a55, 2) == block_cycles([*ops, *ops], a55) / 2


_LINES = st.sampled_from(
    [
        "fmla v{a}.4s, v{b}.4s, v{c}.4s",
        "mul v{a}.8h, v{b}.8h, v{c}.8h",
        "ldr q{a}, [x{b}]",
        "str q{a}, [x{b}], #16",
        "ld1 {{ v{a}.s }}[1], [x{b}]",
        "add x{a}, x{b}, x{c}",
        "udiv x{a}, x{b}, x{c}",
        "ldp x{a}, x9, [x{b}]",
    ]
)


@settings(max_examples=examples(300, 13))
@given(st.lists(st.tuples(_LINES, *[st.integers(0, 7)] * 3), max_size=60), st.sampled_from(("a72", "a76", "x1", "m3")))
def test_at_least_the_bounds(drawn: list[tuple[str, int, int, int]], name: str) -> None:
    timing = load_timing(load_core({"m3": "exynos-m3"}.get(name, f"cortex-{name}")))
    ops = _ops(*(line.format(a=a, b=b, c=c) for line, a, b, c in drawn))
    within = window_cycles(ops, timing)
    units, dispatch = straight_bounds(ops, timing)
    longest = max((use.cycles for op in ops for use in unit_uses(op, timing)), default=1)
    assert within + longest > units.cycles and within + 1 > dispatch.cycles  # it counts until the last op has issued
    assert block_cycles(ops, timing) == estimate_block(ops, timing).cycles >= within
