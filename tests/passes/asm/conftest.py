"""Hand-made cores with few, published facts, and a notation for ops: the pipeline models' tests need nothing else.

Sources of the facts: D. Mansell (Arm) in gemmlowp standalone/neon-gemm-kernel-benchmark.cc on what A53 and A55 r1 issue
together; insn_bench on an A53 (fmla: 8 cycles, 4 to an accumulator); sonos/tract #2241 on an A55 (pair costs);
SLOTHY cortex_a55.py, from Arm's Software Optimization Guide (q loads, ins, one q-form fmla a cycle).
"""

import pytest

from mavcg.hardware.instr_classes import CLASSES
from mavcg.hardware.timing import ClassTiming, ForbiddenDistance, NoDualIssue, Timing, UnitUse
from mavcg.passes.asm.isa.op import Op, RegisterRead


class Write:
    """Ops by mnemonic; registers as on whole ones (v0, x0)."""

    def fmla(self, acc: str, left: str, right: str, op_class: str = "fmla_lane_q") -> Op:
        reads = (RegisterRead(acc, "acc"), RegisterRead(left), RegisterRead(right))
        return Op(f"fmla {acc}.4s, {left}.4s, {right}.s[0]", op_class, reads, (acc,))

    def sdot(self, acc: str, left: str, right: str) -> Op:
        reads = (RegisterRead(acc, "acc"), RegisterRead(left), RegisterRead(right))
        return Op(f"sdot {acc}.4s, {left}.16b, {right}.4b[0]", "dot_lane_q", reads, (acc,))

    def ldr(self, register: str, base: str, step: int = 0) -> Op:
        """ldr d0, q0 or x0; with a step: post-indexed."""
        whole = f"v{register[1:]}" if register[0] in "dq" else register
        text = f"ldr {register}, [{base}]" + (f", #{step}" if step else "")
        writes = (whole, base) if step else (whole,)
        return Op(text, f"ldr_{register[0]}", (RegisterRead(base, "addr"),), writes, base if step else None)

    def ldp_q(self, first: str, second: str, base: str) -> Op:
        text = f"ldp q{first[1:]}, q{second[1:]}, [{base}]"
        return Op(text, "ldp_q", (RegisterRead(base, "addr"),), (first, second))

    def ld1_lane(self, register: str, base: str) -> Op:
        return Op(
            f"ld1 {{{register}.d}}[0], [{base}]",
            "ld1_lane",
            (RegisterRead(base, "addr"), RegisterRead(register, "acc")),
            (register,),
        )

    def ins(self, register: str, source: str) -> Op:
        return Op(
            f"ins {register}.d[1], {source}", "ins", (RegisterRead(register, "acc"), RegisterRead(source)), (register,)
        )

    def prfm(self, base: str) -> Op:
        return Op(f"prfm pldl1keep, [{base}, #448]", "prfm", (RegisterRead(base, "addr"),))

    def add(self, target: str, source: str) -> Op:
        return Op(f"add {target}, {source}, #32", "alu", (RegisterRead(source),), (target,))

    def subs(self, counter: str) -> Op:
        return Op(f"subs {counter}, {counter}, #1", "alu_flags", (RegisterRead(counter),), (counter, "nzcv"))

    def branch(self) -> Op:
        return Op("b.ne .Lloop", "branch_cond", (RegisterRead("nzcv"),))

    def nop(self) -> Op:
        return Op("nop", "nop")

    def plain(self, op_class: str, reads: tuple[str, ...] = (), writes: tuple[str, ...] = ()) -> Op:
        return Op(f"{op_class} {', '.join((*writes, *reads))}", op_class, tuple(RegisterRead(r) for r in reads), writes)


def timing_class(
    name: str, latency: int, *pools: str, blocks: int = 0, cycles: int = 1, per_cycle: float = 1.0
) -> ClassTiming:
    """One class; a unit use for each of the pools, where "load|store" is either."""
    uses = tuple(UnitUse(tuple(pool.split("|")), cycles) for pool in pools)
    return ClassTiming(name, latency, per_cycle, uses, blocks, "hand-made")


def _in_order(
    core: str,
    fmla_latency: int,
    no_dual_issue: tuple[NoDualIssue, ...],
    forbidden_distances: tuple[ForbiddenDistance, ...],
) -> Timing:
    rows = (
        timing_class("alu", 1, "alu"),
        timing_class("alu_shifted", 2, "alu"),
        timing_class("nop", 0),
        timing_class("mul_x", 4, "mul"),
        timing_class("div_x", 12, "div", cycles=12),
        timing_class("branch", 1, "branch"),
        timing_class("ldr_x", 3, "load"),
        timing_class("ldr_d", 3, "load"),
        timing_class("ldr_q", 4, "load", blocks=2, cycles=2),
        timing_class("ldp_q", 6, "load", blocks=4, cycles=4),
        timing_class("ld1_lane", 4, "load", blocks=1),
        timing_class("prfm", 0, "load"),
        timing_class("str_x", 0, "store"),
        timing_class("fmla_q", fmla_latency, "vec", "vec"),
        timing_class("fmla_d", fmla_latency, "vec"),
        timing_class("fmla_lane_q", fmla_latency, "vec", "vec"),
        timing_class("dot_q", fmla_latency, "vec", "vec"),
        timing_class("dot_lane_q", fmla_latency, "vec", "vec"),
        timing_class("ins", 2, "ins"),
    )
    assert all(row.name in CLASSES for row in rows)
    pools = {"load": 1, "store": 1, "alu": 2, "mul": 1, "div": 1, "branch": 1, "vec": 2, "ins": 1}
    forwards = {("fmla_q", "fmla_q", "acc"): 4, ("fmla_lane_q", "fmla_lane_q", "acc"): 4}
    classes = {row.name: row for row in rows}
    return Timing(core, "in", 2, pools, classes, forwards, no_dual_issue, forbidden_distances)


@pytest.fixture(scope="session")
def write() -> Write:
    return Write()


@pytest.fixture(scope="session")
def a55() -> Timing:
    """Cortex-A55 r1: an fmla issues beside a 64-bit load and beside an ins."""
    return _in_order("hand-made-a55", 4, (), ())


@pytest.fixture(scope="session")
def a53() -> Timing:
    """Cortex-A53: a vector load and an ins stand in cycles without an fmla, and none in the 4th after one."""
    fmla = frozenset({"fmla_q", "fmla_lane_q"})
    vector_loads = frozenset({"ldr_d", "ldr_q", "ld1_lane", "ins"})
    return _in_order("hand-made-a53", 8, (NoDualIssue(fmla, vector_loads, "gemmlowp, D. Mansell"),), ())


@pytest.fixture(scope="session")
def a57() -> Timing:
    """An out-of-order core with three micro-operations a cycle, two vector pipes, a load and a store pipe."""
    rows = (
        timing_class("alu", 1, "alu"),
        timing_class("branch", 1, "branch"),
        timing_class("ldr_x", 4, "load"),
        timing_class("ldr_d", 5, "load"),
        timing_class("ldr_q", 5, "load"),
        timing_class("str_q", 1, "store", cycles=2),
        timing_class("fmla_q", 9, "vec0|vec1"),
        timing_class("fmla_lane_q", 9, "vec0|vec1"),
        timing_class("add_q", 3, "vec0|vec1"),
        timing_class("mul_q", 5, "vec0"),
        timing_class("ins", 8, "load", "vec0|vec1"),
        timing_class("nop", 0),
    )
    pools = {"load": 1, "store": 1, "alu": 2, "branch": 1, "vec0": 1, "vec1": 1}
    forwards = {("fmla_q", "fmla_q", "acc"): 4, ("fmla_lane_q", "fmla_lane_q", "acc"): 4}
    return Timing("hand-made-a57", "out", 3, pools, {row.name: row for row in rows}, forwards)
