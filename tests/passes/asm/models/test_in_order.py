"""The in-order model against published pair costs, loops counted by hand, and properties of every schedule."""

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.hardware.instr_classes import lineage
from mavcg.hardware.timing import ForbiddenDistance, MissingFact, NoDualIssue, Timing
from mavcg.passes.asm.isa.op import Op, RegisterRead
from mavcg.passes.asm.models.in_order import Trace, last_issue_cycle, simulate, steady_cycles, steady_state
from mavcg.passes.asm.models.issue_constraints import touches_vectors
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from tests.conftest import examples

if TYPE_CHECKING:
    from tests.passes.asm.conftest import Write


def _pairs(write: "Write", other: list[Op]) -> list[Op]:
    """Issue as many fmla as other ops, all independent: each on an accumulator of its own."""
    found: list[Op] = []
    for number, op in enumerate(other):
        found += [write.fmla(f"v{number}", "v30", "v31"), op]
    return found


class TestPublishedPairCosts:
    """Cycles a pair. Sources: sonos/tract #2241 (A55), gemmlowp's neon-gemm-kernel-benchmark.cc (A53, A55 r1)."""

    def test_a55_issues_an_fmla_beside_a_d_load(self, write: "Write", a55: Timing) -> None:
        loop = _pairs(write, [write.ldr(f"d{16 + n}", "x0") for n in range(8)])
        assert steady_cycles(loop, a55) == 8  # tract #2241: 1.00 a pair

    def test_a55_does_not_issue_an_fmla_beside_a_lane_load(self, write: "Write", a55: Timing) -> None:
        loop = _pairs(write, [write.ld1_lane(f"v{16 + n}", "x0") for n in range(8)])
        assert float(steady_cycles(loop, a55) / 8) == pytest.approx(1.97, rel=0.03)  # tract #2241: measured

    def test_a55_issues_nothing_for_two_cycles_at_a_q_load(self, write: "Write", a55: Timing) -> None:
        loop = _pairs(write, [write.ldr(f"q{16 + n}", "x0") for n in range(8)])
        assert steady_cycles(loop, a55) == 8 * 3  # onnxruntime #10754: "would block the pipeline for 2 whole cycles"

    def test_a53_issues_nothing_for_two_cycles_at_a_q_load(self, write: "Write", a53: Timing) -> None:
        loop = [write.ldr(f"q{n}", "x0") for n in range(4)]
        assert steady_cycles(loop, a53) == 8  # insn_bench on an A53: 0.50 ldr q a cycle

    def test_a53_issues_no_fmla_beside_a_vector_load(self, write: "Write", a53: Timing) -> None:
        loop = _pairs(write, [write.ldr(f"d{16 + n}", "x0") for n in range(8)])
        assert steady_cycles(loop, a53) == 16

    def test_a53_issues_a_vector_load_beside_an_ins(self, write: "Write", a53: Timing) -> None:
        loop = [op for n in range(4) for op in (write.ldr(f"d{n}", "x0"), write.ins(f"v{n + 8}", "x5"))]
        assert steady_cycles(loop, a53) == 4

    def test_a53_issues_an_fmla_beside_a_general_load(self, write: "Write", a53: Timing) -> None:
        loop = _pairs(write, [write.ldr(f"x{10 + n}", "x0") for n in range(8)])
        assert steady_cycles(loop, a53) == 8

    @pytest.mark.parametrize("core", ["a53", "a55"])
    @pytest.mark.parametrize("op_class", ["fmla_q", "fmla_lane_q"])
    def test_one_q_form_fmla_a_cycle(
        self, write: "Write", core: str, op_class: str, request: pytest.FixtureRequest
    ) -> None:
        loop = [write.fmla(f"v{n}", "v30", "v31", op_class) for n in range(12)]
        assert steady_cycles(loop, request.getfixturevalue(core)) == 12


class TestByHand:
    def test_an_accumulator_chain_takes_its_forwarding_latency(self, write: "Write", a53: Timing) -> None:
        assert steady_cycles([write.fmla("v0", "v1", "v2")], a53) == 4  # insn_bench: 4.02, not 8.04

    def test_a_result_read_as_an_operand_takes_the_full_latency(self, write: "Write", a53: Timing) -> None:
        assert steady_cycles([write.fmla("v0", "v0", "v2")], a53) == 8  # insn_bench: 8.04

    def test_pointer_chasing_costs_the_load_latency(self, write: "Write", a55: Timing) -> None:
        assert steady_cycles([write.plain("ldr_x", ("x0",), ("x0",))], a55) == 3

    def test_a_whole_loop(self, write: "Write", a55: Timing) -> None:
        # cycle 0: ldr d0, subs; 3: fmla (v0 after 3), b.ne; next iteration from cycle 4.
        loop = [write.ldr("d0", "x0"), write.subs("x9"), write.fmla("v8", "v0", "v1"), write.branch()]
        trace = simulate(loop, a55, 2)
        assert [(issue.cycle, issue.slot) for issue in trace.issues] == [
            (0, 0),
            (0, 1),
            (3, 0),
            (3, 1),
            (4, 0),
            (4, 1),
            (7, 0),
            (7, 1),
        ]
        assert trace.issues[2].waits[0].why == "waits for v0 from `ldr d0, [x0]`"
        assert (trace.issues[2].stall_cycles, trace.issues[2].waits[0].by) == (2, 0)
        assert steady_cycles(loop, a55) == 4

    def test_fractions_come_out_exactly(self, write: "Write", a55: Timing) -> None:
        loop = [write.add(f"x{n}", "x9") for n in range(3)]
        assert steady_cycles(loop, a55) == Fraction(3, 2)
        steady = steady_state(loop, a55)
        assert (steady.period, steady.cycles) == (2, 3)

    def test_the_pointer_of_a_post_indexed_load_follows_its_own_latency(self, write: "Write", a55: Timing) -> None:
        chain = [write.ldr("d0", "x0", step=8)]
        assert steady_cycles(chain, a55) == 1  # class writeback borrows from alu: 1
        # insn_bench on an A53: 3.0 cycles from a post-indexed address to the next.
        assert steady_cycles(chain, a55.with_forward("writeback", "*", "addr", 3)) == 3

    def test_a_write_waits_for_an_earlier_longer_one(self, write: "Write", a53: Timing) -> None:
        ops = [write.fmla("v0", "v1", "v2"), write.ldr("d0", "x0")]
        trace = simulate(ops, a53)
        assert trace.issues[1].cycle == 8 - 3 + 1
        assert trace.issues[1].waits[-1].kind == "write order"
        assert "v0 is still being written by `fmla" in trace.issues[1].waits[-1].why

    def test_a_unit_stays_busy(self, write: "Write", a55: Timing) -> None:
        ops = [write.plain("div_x", (), ("x0",)), write.plain("div_x", (), ("x1",))]
        trace = simulate(ops, a55)
        assert trace.issues[1].cycle == 12
        assert trace.issues[1].waits[0].why == "div unit busy"

    def test_one_that_blocks_issues_alone(self, write: "Write", a55: Timing) -> None:
        ops = [write.add("x1", "x2"), write.ldr("q0", "x0"), write.add("x3", "x4")]
        trace = simulate(ops, a55)
        assert [issue.cycle for issue in trace.issues] == [0, 1, 3]
        assert trace.issues[1].waits[0].kind == "alone"
        assert trace.issues[2].waits[0].why == "blocked by `ldr q0, [x0]`"

    def test_blocking_for_one_cycle_only_forbids_company(self, write: "Write", a55: Timing) -> None:
        ops = [write.ld1_lane("v0", "x0"), write.add("x3", "x4")]
        assert [issue.cycle for issue in simulate(ops, a55).issues] == [0, 1]

    def test_a_blocking_address_update_makes_the_load_block(self, write: "Write", a55: Timing) -> None:
        slow = replace(a55.of("writeback"), name="writeback", blocks=2)
        core = replace(a55, classes={**a55.classes, "writeback": slow})
        assert steady_cycles([write.ldr("d0", "x0", step=8)], core) == 2
        assert steady_cycles([write.ldr("d0", "x0")], core) == 1

    def test_rules_reach_classes_that_borrow(self, write: "Write", a55: Timing) -> None:
        assert lineage("branch_cond") == ("branch_cond", "branch")
        rule = NoDualIssue(frozenset({"branch"}), frozenset({"alu"}), "made up")
        ops = [write.branch(), write.add("x1", "x2")]
        assert [issue.cycle for issue in simulate(ops, a55).issues] == [0, 0]
        trace = simulate(ops, replace(a55, no_dual_issue=(rule,)))
        assert trace.issues[1].cycle == 1
        assert trace.issues[1].waits[0].why == "never beside `b.ne .Lloop`"

    def test_spacing_forbids_one_cycle_only(self, write: "Write", a53: Timing) -> None:
        # ncnn docs/developer-guide/arm-a53-a55-dual-issue.md: no vector load in the 4th cycle of each fmla.
        core = replace(
            a53, forbidden_distances=(ForbiddenDistance(frozenset({"fmla_lane_q"}), frozenset({"ldr_d"}), 3, "ncnn"),)
        )
        fill = [write.plain("alu", ("x1",), ("x1",)) for _ in range(3)]  # cycles 0, 1, 2: a chain
        ops = [write.fmla("v0", "v1", "v2"), *fill, write.add("x2", "x2"), write.nop(), write.ldr("d5", "x0")]
        trace = simulate(ops, core)
        assert trace.issues[-2].cycle == 3
        assert trace.issues[-1].cycle == 4
        assert [wait.kind for wait in trace.issues[-1].waits] in ([], ["issue distance"])

    def test_spacing_is_named(self, write: "Write", a53: Timing) -> None:
        core = replace(
            a53,
            forbidden_distances=(ForbiddenDistance(frozenset({"fmla_lane_q"}), frozenset({"ldr_d"}), 1, "made up"),),
        )
        trace = simulate([write.fmla("v0", "v1", "v2"), write.ldr("d5", "x0")], core)
        waits = [(wait.kind, wait.cycles) for wait in trace.issues[1].waits]
        assert waits == [("no dual issue", 1), ("issue distance", 1)]
        assert trace.issues[1].waits[1].why == "never 1 cycle after `fmla v0.4s, v1.4s, v2.s[0]`"

    def test_an_op_with_more_choice_goes_to_another_unit(self, write: "Write", a55: Timing) -> None:
        # Multiplies only go to the second unit; an add beside one may take either, in whichever order they come.
        uses = {"alu": ("one", "two"), "mul_x": ("two",)}
        classes = {
            name: replace(a55.of(name), units=tuple(replace(use, any_of=pools) for use in a55.of(name).units))
            for name, pools in uses.items()
        }
        core = replace(a55, pools={"two": 1, "one": 1}, classes=classes)
        mul = write.plain("mul_x", ("x1",), ("x2",))
        for ops in ([mul, write.add("x3", "x4")], [write.add("x3", "x4"), mul]):
            assert [issue.cycle for issue in simulate(ops, core).issues] == [0, 0]

    def test_no_ops_take_no_time(self, a55: Timing) -> None:
        assert steady_cycles([], a55) == 0
        assert simulate([], a55, 3).issues == ()

    def test_what_no_profile_knows_is_an_error(self, write: "Write", a55: Timing) -> None:
        with pytest.raises(MissingFact, match="instr.fdiv_q"):
            steady_cycles([write.plain("fdiv_q", ("v1",), ("v0",))], a55)

    def test_a_use_of_more_units_than_there_are_is_an_error(self, write: "Write", a55: Timing) -> None:
        with pytest.raises(MavcgError, match="needs more units at once"):
            steady_cycles([write.fmla("v0", "v1", "v2")], replace(a55, pools={**a55.pools, "vec": 1}))


_VECTORS = st.sampled_from([f"v{n}" for n in range(6)])
_GENERALS = st.sampled_from([f"x{n}" for n in range(5)])


@st.composite
def bodies(draw: st.DrawFn, most: int = 14) -> list[Op]:
    """Loop bodies of loads, vector and integer ops on few registers, so that they depend on one another."""
    kinds = st.sampled_from("fmla_lane_q fmla_d ldr_d ldr_x ldr_q ins alu mul_x div_x post".split())
    ops: list[Op] = []
    for number in range(draw(st.integers(1, most))):
        kind, vector, general = draw(kinds), draw(_VECTORS), draw(_GENERALS)
        reads: tuple[RegisterRead, ...]
        writes: tuple[str, ...]
        if kind in ("fmla_lane_q", "fmla_d"):
            reads, writes = (
                (RegisterRead(vector, "acc"), RegisterRead(draw(_VECTORS)), RegisterRead(draw(_VECTORS))),
                (vector,),
            )
        elif kind in ("ldr_d", "ldr_q", "ldr_x"):
            reads, writes = (RegisterRead(general, "addr"),), (vector if kind != "ldr_x" else draw(_GENERALS),)
        elif kind == "post":
            ops.append(Op(f"{number} ldr d", "ldr_d", (RegisterRead(general, "addr"),), (vector, general), general))
            continue
        elif kind == "ins":
            reads, writes = (RegisterRead(vector, "acc"), RegisterRead(general)), (vector,)
        else:
            reads, writes = (RegisterRead(general), RegisterRead(draw(_GENERALS))), (draw(_GENERALS),)
        ops.append(Op(f"{number} {kind}", kind, reads, writes))
    return ops


def _check(trace: Trace, timing: Timing) -> None:
    """Every rule of the core, checked on issue cycles alone."""
    written: dict[str, tuple[int, str]] = {}
    cycles: dict[int, list[Op]] = {}
    previous = 0
    for issue in trace.issues:
        op = trace.ops[issue.op]
        assert issue.cycle >= previous
        previous = issue.cycle
        for read in op.reads:
            if read.register in written:
                when, producer = written[read.register]
                assert issue.cycle >= when + timing.latency(producer, op.op_class, read.role)
        for register in op.writes:
            own = "writeback" if register == op.writeback else op.op_class
            if register in written:
                when, producer = written[register]
                assert issue.cycle > when
                assert issue.cycle + timing.of(own).latency > when + timing.of(producer).latency
            written[register] = (issue.cycle, own)
        cycles.setdefault(issue.cycle, []).append(op)
        assert issue.slot == len(cycles[issue.cycle]) - 1
    for when, together in cycles.items():
        assert len(together) <= timing.width
        for op in together:
            if (blocks := timing.of(op.op_class).blocks) > 0:
                assert together == [op]
                assert not any(when < other < when + blocks for other in cycles)
        for rule in timing.no_dual_issue:
            for one in together:
                for other in together:
                    assert not (one.op_class in rule.these and other.op_class in rule.those)
    _check_units(cycles, timing)


def _check_units(cycles: dict[int, list[Op]], timing: Timing) -> None:
    """No pool serves more than its units; exact here, where every micro-operation names one pool."""
    for pool, count in timing.pools.items():
        busy: dict[int, int] = {}
        for when, together in cycles.items():
            for op in together:
                uses = timing.of(op.op_class).units + (timing.of("writeback").units if op.writeback else ())
                for use in uses:
                    if use.any_of == (pool,):
                        for cycle in range(when, when + use.cycles):
                            busy[cycle] = busy.get(cycle, 0) + 1
        assert max(busy.values(), default=0) <= count


class TestVectorQueue:
    """A core whose vector instructions may wait while integer ones behind them issue."""

    def test_integer_ops_pass_a_vector_op_that_waits(self, write: "Write", a55: Timing) -> None:
        chain = [write.fmla("v0", "v0", "v1"), write.fmla("v0", "v0", "v1")]
        adds = [Op(f"add x{n}, x9, x9", "alu", (RegisterRead("x9"),), (f"x{n}",)) for n in range(2)]
        waits = simulate([*chain, *adds], a55).issues
        passes = simulate([*chain, *adds], replace(a55, vector_queue=1)).issues
        second = waits[1].cycle  # after the first's result
        assert second > 2 and [issue.cycle for issue in waits[2:]] == [second, second + 1]
        assert [issue.cycle for issue in passes] == [0, second, 1, 1]

    def test_a_full_queue_holds_the_pipeline(self, write: "Write", a55: Timing) -> None:
        ops = [write.fmla("v0", "v0", "v1") for _ in range(3)]
        ops.append(Op("add x0, x9, x9", "alu", (RegisterRead("x9"),), ("x0",)))
        one, two = (simulate(ops, replace(a55, vector_queue=size)).issues for size in (1, 2))
        assert one[3].cycle == one[1].cycle > 2  # the third one's slot is there when the second has left the queue
        assert one[2].waits[-1].kind == "issue queue" and one[2].waits[-1].by == 1
        assert two[3].cycle <= 2 and [each.cycle for each in one[:3]] == [each.cycle for each in two[:3]]

    def test_one_that_reads_a_waiting_vector_waits(self, write: "Write", a55: Timing) -> None:
        ops = [write.fmla("v0", "v0", "v1"), write.fmla("v0", "v0", "v1")]
        ops.append(Op("umov x0, v0.d[0]", "umov", (RegisterRead("v0"),), ("x0",)))
        ops.append(Op("add x1, x0, x0", "alu", (RegisterRead("x0"),), ("x1",)))
        queued = replace(a55, vector_queue=2, classes={**a55.classes, "umov": replace(a55.of("ins"), name="umov")})
        cycles = [issue.cycle for issue in simulate(ops, queued).issues]
        assert cycles[2] >= cycles[1] + queued.latency("fmla_lane_q", "umov")
        assert cycles[3] >= cycles[2] + queued.latency("umov", "alu")

    @given(body=bodies(), size=st.integers(1, 4))
    @settings(max_examples=examples(150, 10))
    def test_operands_units_and_the_order_of_each_kind_are_kept(self, body: list[Op], size: int) -> None:
        timing = replace(load_timing(load_core("cortex-a510")), vector_queue=size)
        trace = simulate(body, timing, 4)
        last, written = {True: 0, False: 0}, dict[str, tuple[int, str]]()
        cycles: dict[int, list[Op]] = {}
        for issue in trace.issues:
            op = trace.ops[issue.op]
            assert issue.cycle >= last[touches_vectors(op)]
            last[touches_vectors(op)] = issue.cycle
            for read in op.reads:
                if read.register in written:
                    when, producer = written[read.register]
                    assert issue.cycle >= when + timing.latency(producer, op.op_class, read.role)
            written |= {
                register: (issue.cycle, "writeback" if register == op.writeback else op.op_class)
                for register in op.writes
            }
            cycles.setdefault(issue.cycle, []).append(op)
        _check_units(cycles, timing)
        assert max(issue.cycle for issue in simulate(body, timing).issues) == last_issue_cycle(body, timing)

    @given(body=bodies(), size=st.integers(1, 4))
    @settings(max_examples=examples(100, 8))
    def test_steady_cycles_are_those_of_a_long_run(self, body: list[Op], size: int) -> None:
        timing = replace(load_timing(load_core("cortex-a510")), vector_queue=size)
        steady = steady_state(body, timing)
        trace = simulate(body, timing, steady.start + 3 * steady.period)
        for number in range(steady.start, steady.start + 2 * steady.period):
            one, later = ([issue.cycle for issue in trace.iteration(n)] for n in (number, number + steady.period))
            assert {b - a for a, b in zip(one, later, strict=True)} == {steady.cycles}


def test_two_writes_of_one_register_may_share_a_cycle_where_the_core_allows_it(write: "Write", a55: Timing) -> None:
    ops = [Op("add x0, x9, x9", "alu", (RegisterRead("x9"),), ("x0",)) for _ in range(4)]
    assert steady_cycles(ops, a55) == 4
    assert steady_cycles(ops, replace(a55, same_cycle_writes=True)) == 2
    slow = Op("mul x0, x9, x9", "mul_x", (RegisterRead("x9"),), ("x0",))
    cycles = [issue.cycle for issue in simulate([slow, ops[0]], replace(a55, same_cycle_writes=True)).issues]
    assert cycles[1] == cycles[0] + a55.of("mul_x").latency - a55.of("alu").latency  # not before the longer one


class TestProperties:
    @given(body=bodies(), in_order=st.sampled_from(["a55", "a53"]))
    @settings(max_examples=examples(150, 6))
    def test_no_rule_is_broken(self, body: list[Op], in_order: str, a55: Timing, a53: Timing) -> None:
        timing = {"a55": a55, "a53": a53}[in_order]
        _check(simulate(body, timing, 4), timing)

    @given(body=bodies())
    @settings(max_examples=examples(100, 5))
    def test_steady_cycles_are_those_of_a_long_run(self, body: list[Op], a53: Timing) -> None:
        steady = steady_state(body, a53)
        trace = simulate(body, a53, steady.start + 3 * steady.period)
        for number in range(steady.start, steady.start + 2 * steady.period):
            one = [issue.cycle for issue in trace.iteration(number)]
            later = [issue.cycle for issue in trace.iteration(number + steady.period)]
            assert {b - a for a, b in zip(one, later, strict=True)} == {steady.cycles}

    @given(body=bodies(), where=st.integers(0, 14))
    @settings(max_examples=examples(100, 5))
    def test_an_independent_op_never_makes_a_block_faster(self, body: list[Op], where: int, a55: Timing) -> None:
        longer = [*body[:where], Op("mul x28, x27, x27", "mul_x", (RegisterRead("x27"),), ("x28",)), *body[where:]]
        assert simulate(longer, a55).issues[-1].cycle >= simulate(body, a55).issues[-1].cycle

    @given(body=bodies(), in_order=st.sampled_from(["a55", "a53"]))
    @settings(max_examples=examples(100, 5))
    def test_causes_do_not_change_the_cycles(self, body: list[Op], in_order: str, a55: Timing, a53: Timing) -> None:
        timing = {"a55": a55, "a53": a53}[in_order]
        assert last_issue_cycle(body, timing) == simulate(body, timing).issues[-1].cycle

    @given(body=bodies())
    @settings(max_examples=examples(60, 8))
    def test_a_wait_adds_up(self, body: list[Op], a53: Timing) -> None:
        trace = simulate(body, a53, 2)
        cycle, used = 0, 0
        for issue in trace.issues:
            earliest = cycle if used < a53.width else cycle + 1
            assert issue.cycle == earliest + sum(wait.cycles for wait in issue.waits)
            assert issue.stall_cycles == max(0, issue.cycle - cycle - bool(used))
            assert all(wait.cycles > 0 and wait.why for wait in issue.waits)
            used = used + 1 if issue.cycle == cycle else 1
            cycle = issue.cycle
