"""Estimates of loops and blocks: figures, what they are put down to, and details per op."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.hardware.timing import MissingFact, Timing
from mavcg.passes.asm.isa.op import Op, RegisterRead
from mavcg.passes.asm.models.estimate import IN_ORDER, PORT_BOUND, estimate_block, estimate_loop
from mavcg.passes.asm.models.in_order import simulate, steady_cycles
from mavcg.passes.asm.models.ports import port_bounds
from tests.conftest import examples

if TYPE_CHECKING:
    from tests.passes.asm.conftest import Write


class TestInOrderLoops:
    def test_full_units_are_named(self, write: "Write", a55: Timing) -> None:
        estimated = estimate_loop([write.fmla(f"v{n}", "v30", "v31") for n in range(8)], a55)
        assert (estimated.model, estimated.cycles, estimated.bound_by) == (IN_ORDER, 8.0, "units")
        assert estimated.because == "vec: 16 cycles of work on 2 units"
        assert [detail.cycle for detail in estimated.ops] == list(range(8))
        assert {detail.stall_cycles for detail in estimated.ops} == {0.0}
        assert {detail.lost_slots for detail in estimated.ops} == {1.0}

    def test_full_slots_are_named(self, write: "Write", a55: Timing) -> None:
        estimated = estimate_loop([write.add(f"x{n}", "x9") for n in range(3)] + [write.nop()], a55)
        assert (estimated.cycles, estimated.bound_by) == (2.0, "dispatch")
        assert estimated.because == "4 instructions, 2 a cycle"

    def test_ops_that_block_count_as_issue_slots(self, write: "Write", a55: Timing) -> None:
        estimated = estimate_loop([write.ldr(f"q{n}", "x0") for n in range(4)] + [write.nop()] * 2, a55)
        assert (estimated.cycles, estimated.bound_by) == (9.0, "dispatch")
        assert estimated.because == "2 instructions, 2 a cycle, beside 8 cycles for 4 that issue alone"

    def test_units_idle_while_an_op_blocks(self, write: "Write", a55: Timing) -> None:
        body = [write.fmla(f"v{n}", "v30", "v31") for n in range(4)] + [write.ldr("q9", "x0")]
        estimated = estimate_loop(body, a55)
        assert (estimated.cycles, estimated.bound_by) == (6.0, "units")
        assert estimated.because == "vec: 8 cycles of work on 2 units, beside 2 cycles for 1 that issue alone"

    def test_a_chain_is_named(self, write: "Write", a55: Timing) -> None:
        estimated = estimate_loop([write.fmla("v0", "v1", "v2")], a55)
        assert (estimated.cycles, estimated.bound_by) == (4.0, "recurrence")
        assert estimated.ops[0].stall_cycles == 3
        assert estimated.ops[0].lost_slots == 7
        assert estimated.ops[0].why == "waits for v0 from `fmla v0.4s, v1.4s, v2.s[0]`"

    def test_a_poor_order_is_named(self, write: "Write", a55: Timing) -> None:
        body = [write.ldr("d0", "x0"), write.subs("x9"), write.fmla("v8", "v0", "v1"), write.branch()]
        estimated = estimate_loop(body, a55)
        assert (estimated.cycles, estimated.bound_by) == (4.0, "recurrence")  # the accumulator needs as long
        body[2] = write.plain("fmla_q", ("v0",), ("v8",))
        estimated = estimate_loop(body, a55)
        assert (estimated.cycles, estimated.bound_by) == (4.0, "register")
        assert estimated.because == "4 of 8 issue slots lost, most of them: waits for v0 from `ldr d0, [x0]`"
        assert [(detail.cycle, detail.slot) for detail in estimated.ops] == [(0, 0), (0, 1), (3, 0), (3, 1)]
        assert [detail.stall_cycles for detail in estimated.ops] == [0, 0, 2, 0]

    def test_pairs_that_the_core_refuses_are_named(self, write: "Write", a53: Timing) -> None:
        body = [op for n in range(4) for op in (write.fmla(f"v{n}", "v30", "v31"), write.ldr(f"d{16 + n}", "x0"))]
        estimated = estimate_loop(body, a53)
        assert (estimated.cycles, estimated.bound_by) == (8.0, "no dual issue")
        assert "never beside" in estimated.because

    def test_a_schedule_that_repeats_after_two_iterations_is_shown_whole(self, write: "Write", a55: Timing) -> None:
        estimated = estimate_loop([write.add(f"x{n}", "x9") for n in range(3)], a55)
        assert (estimated.cycles, estimated.period_cycles, len(estimated.issues)) == (1.5, 3, 6)
        assert estimated.issues[0].cycle == 0
        assert {issue.iteration for issue in estimated.issues} == {0, 1}

    def test_no_ops(self, a55: Timing, a57: Timing) -> None:
        for timing in (a55, a57):
            assert estimate_loop([], timing).cycles == 0
            assert estimate_block([], timing).cycles == 0

    def test_missing_facts_pass_through(self, write: "Write", a55: Timing, a57: Timing) -> None:
        for timing in (a55, a57):
            for estimate in (estimate_loop, estimate_block):
                with pytest.raises(MissingFact, match="fsqrt_q"):
                    estimate([write.plain("fsqrt_q", ("v0",), ("v1",))], timing)


class TestPortBoundLoops:
    def test_the_largest_bound_counts(self, write: "Write", a57: Timing) -> None:
        body = [write.fmla(f"v{n}", "v30", "v31") for n in range(8)]
        estimated = estimate_loop(body, a57)
        # Two fmla a cycle would take 4; each chain takes 4 as well: units are named first.
        assert (estimated.model, estimated.cycles, estimated.bound_by) == (PORT_BOUND, 4.0, "units")
        assert estimated.bounds == {"dispatch": 8 / 3, "units": 4.0, "recurrence": 4.0}
        assert estimated.pools["vec0"] == estimated.pools["vec1"] == 4
        assert sum(detail.pressure["vec0"] + detail.pressure["vec1"] for detail in estimated.ops) == 8

    def test_recurrence(self, write: "Write", a57: Timing) -> None:
        estimated = estimate_loop([write.fmla("v0", "v30", "v31"), write.ldr("q9", "x0")], a57)
        assert (estimated.cycles, estimated.bound_by) == (4.0, "recurrence")
        assert estimated.ops[0].why.startswith("v0 from `fmla")
        assert estimated.ops[1].why == ""


class TestBlocks:
    def test_in_order(self, write: "Write", a55: Timing) -> None:
        estimated = estimate_block([write.ldr("d0", "x0"), write.fmla("v8", "v0", "v1")], a55)
        assert estimated.cycles == 4  # issues at 0 and 3
        assert not estimated.is_loop

    def test_out_of_order_chains_count(self, write: "Write", a57: Timing) -> None:
        estimated = estimate_block([write.ldr("d0", "x0"), write.fmla("v8", "v0", "v1")], a57)
        assert (estimated.cycles, estimated.bound_by) == (6.0, "critical path")
        assert estimated.because.startswith("from `ldr d0, [x0]` to `fmla v8")
        assert estimated.bounds == {"critical path": 6.0, "dispatch": 2 / 3, "units": 1.0, "window": 6.0}

    def test_out_of_order_units_count(self, write: "Write", a57: Timing) -> None:
        estimated = estimate_block([write.ldr(f"q{n}", "x0") for n in range(9)], a57)
        assert (estimated.cycles, estimated.bound_by) == (9.0, "units")

    def test_an_address_update_waits_for_no_data(self, a57: Timing) -> None:
        # Two stores, each of a product: the second's address comes from the first's update, not after its data.
        first = Op("fmla", "fmla_q", (RegisterRead("v1"),), ("v0",))
        store = Op(
            "str q0, [x0], #16", "str_q", (RegisterRead("v0", "data"), RegisterRead("x0", "addr")), ("x0",), "x0"
        )
        load = Op("ldr q2, [x0]", "ldr_q", (RegisterRead("x0", "addr"),), ("v2",))
        product = a57.classes["fmla_q"]
        others = {name: replace(product, name=name, latency=1) for name in ("writeback", "str_q")}
        timing = replace(a57, classes={**a57.classes, **others})
        estimated = estimate_block([first, store, load], timing)
        assert (
            estimated.bounds["critical path"] == timing.of("fmla_q").latency + 1
        )  # to the store; the load is long gone

    def test_what_an_earlier_iteration_made_is_there_already(self, write: "Write", a57: Timing) -> None:
        body = [write.fmla("v0", "v1", "v2")]
        assert estimate_block(body, a57).cycles == 1
        assert estimate_loop(body, a57).cycles == 4


_OPS = st.lists(
    st.builds(
        lambda name, reads, write: Op(name, name, tuple(RegisterRead(register) for register in reads), (write,)),
        st.sampled_from(["alu", "ldr_x", "ldr_q", "fmla_q", "fmla_lane_q", "ins"]),
        st.lists(st.sampled_from(["a", "b", "c"]), max_size=2),
        st.sampled_from(["a", "b", "c", "d"]),
    ),
    min_size=1,
    max_size=10,
)


class TestProperties:
    @given(ops=_OPS)
    @settings(max_examples=examples(100, 5))
    def test_every_empty_slot_has_its_op(self, ops: list[Op], a53: Timing) -> None:
        estimated = estimate_loop(ops, a53)
        assert estimated.cycles == float(steady_cycles(ops, a53))
        lost = sum(detail.lost_slots for detail in estimated.ops)
        assert len(ops) + lost == pytest.approx(estimated.cycles * a53.width)

    @given(ops=_OPS)
    @settings(max_examples=examples(100, 5))
    def test_in_order_is_never_below_the_bounds(self, ops: list[Op], a55: Timing) -> None:
        bounds = port_bounds(ops, a55)
        assert steady_cycles(ops, a55) >= max(bounds.units.cycles, bounds.recurrence.cycles)

    @given(ops=_OPS)
    @settings(max_examples=examples(50, 6))
    def test_a_block_is_one_run_of_the_simulation(self, ops: list[Op], a53: Timing) -> None:
        assert estimate_block(ops, a53).cycles == simulate(ops, a53).issues[-1].cycle + 1
