"""The model with a window: counted by hand, never below the bounds, and what a lane's load waits for."""

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.dependences import as_op, with_effects
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.passes.asm.models.estimate import block_cycles, estimate_block
from mavcg.passes.asm.models.issue_constraints import unit_uses
from mavcg.passes.asm.models.ports import straight_bounds
from mavcg.passes.asm.models.window import ISSUE_QUEUE, REORDER_BUFFER, window_cycles
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from tests.conftest import examples

if TYPE_CHECKING:
    from tests.passes.asm.conftest import Write

A72 = load_timing(load_core("cortex-a72"))


def _ops(*lines: str) -> list[Op]:
    return [as_op(code) for code in with_effects([parse_instr(line) for line in lines])]


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


def test_a_lane_load_does_not_start_after_the_old_value() -> None:
    """Only its second micro-op merges: published cycles of dav1d's blend_w4 are half of those with such a wait."""
    chained = _ops(*["ld1 { v0.s }[0], [x1]", "mul v0.4s, v0.4s, v1.4s"] * 8)
    waiting = replace(A72, forwards={key: cycles for key, cycles in A72.forwards.items() if "ld1_lane" not in key})
    load, product = (A72.of(name).latency for name in ("ld1_lane", "mul_q"))
    assert window_cycles(chained, waiting) > 7 * (load + product)
    assert window_cycles(chained, A72) <= 8 * (load + 1) + 1


_LINES = st.sampled_from([
    "fmla v{a}.4s, v{b}.4s, v{c}.4s", "mul v{a}.8h, v{b}.8h, v{c}.8h", "ldr q{a}, [x{b}]", "str q{a}, [x{b}], #16",
    "ld1 {{ v{a}.s }}[1], [x{b}]", "add x{a}, x{b}, x{c}", "udiv x{a}, x{b}, x{c}", "ldp x{a}, x9, [x{b}]",
])  # fmt: skip


@settings(max_examples=examples(300, 40))
@given(st.lists(st.tuples(_LINES, *[st.integers(0, 7)] * 3), max_size=60), st.sampled_from(("a72", "a76", "x1", "m3")))
def test_at_least_the_bounds(drawn: list[tuple[str, int, int, int]], name: str) -> None:
    timing = load_timing(load_core({"m3": "exynos-m3"}.get(name, f"cortex-{name}")))
    ops = _ops(*(line.format(a=a, b=b, c=c) for line, a, b, c in drawn))
    within = window_cycles(ops, timing)
    units, dispatch = straight_bounds(ops, timing)
    longest = max((use.cycles for op in ops for use in unit_uses(op, timing)), default=1)
    assert within + longest > units.cycles and within + 1 > dispatch.cycles  # it counts until the last op has issued
    assert block_cycles(ops, timing) == estimate_block(ops, timing).cycles >= within
