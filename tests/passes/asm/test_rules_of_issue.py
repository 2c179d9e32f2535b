"""The in-order model's rules of issue on kernels of our own: q loads that block, halves beside products, A53 rhythm.

Cycles are counted by hand from the rules. Published figures of Arm's kernels are held against these kernels nowhere:
`python -m bench.silicon` holds each against the loop that it was published for, from a clone of its source.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from mavcg.hardware.timing import ForbiddenDistance, Timing
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.in_order import simulate, steady_cycles
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

if TYPE_CHECKING:
    from tests.passes.asm.conftest import Write

_PRODUCTS = 48  # multiply-accumulates an iteration: 8 rows x 3 vectors of columns x 2 steps of K


@dataclass(frozen=True)
class _Panel:
    """One 128-bit vector of a packed panel: loaded anew after product `last` and needed by product `first`."""

    register: str
    last: int
    first: int
    base: str


# Rows in a0 and a1 (v0 v1, then v5 v6), columns in three of v2 v3 v4 v7; accumulators are v8 to v31.
_STEPS = ((("v0", "v1"), ("v2", "v3", "v4")), (("v5", "v6"), ("v7", "v2", "v3")))
_PANELS = (
    _Panel("v2", 7, 32, "x1"),
    _Panel("v3", 15, 40, "x1"),
    _Panel("v0", 19, 48, "x0"),
    _Panel("v2", 39, 48, "x1"),
    _Panel("v1", 23, 52, "x0"),
    _Panel("v3", 47, 56, "x1"),
    _Panel("v4", 23, 64, "x1"),
    _Panel("v7", 31, 72, "x1"),
    _Panel("v5", 43, 72, "x0"),
    _Panel("v6", 47, 76, "x0"),
)


def _products(product: Callable[[str, str, str], Op]) -> list[Op]:
    """The 48 products of an 8x12 tile and two steps of K, one vector of columns after another."""
    return [
        product(f"v{8 + 8 * vector + row}", columns[vector], rows[row // 4])
        for rows, columns in _STEPS
        for vector in range(3)
        for row in range(8)
    ]


def _overhead(write: "Write") -> list[Op]:
    pointers = [write.add("x0", "x0"), write.add("x1", "x1")]
    return [write.prfm("x0"), write.prfm("x1"), write.prfm("x1"), *pointers]


def _for_a55(write: "Write", product: Callable[[str, str, str], Op]) -> list[Op]:
    """One product a cycle, and beside it a half of a load, the ins that joins two, or the loop's overhead."""
    beside: dict[int, Op] = {}

    def put(op: Op, earliest: int) -> int:
        cycle = next(cycle for cycle in range(earliest, earliest + _PRODUCTS) if cycle % _PRODUCTS not in beside)
        beside[cycle % _PRODUCTS] = op
        return cycle

    beside[44], beside[47] = write.subs("x9"), write.branch()
    for number, panel in enumerate(_PANELS):
        low = put(write.ldr(f"d{panel.register[1:]}", panel.base), panel.last)
        high = put(write.ldr(f"x{10 + number}", panel.base), panel.last)
        joined = put(write.ins(panel.register, f"x{10 + number}"), max(low + 3, high + 4))
        assert joined + 2 <= panel.first
    for op in _overhead(write):
        put(op, 0)
    return [op for cycle, one in enumerate(_products(product)) for op in (one, *filter(None, [beside.get(cycle)]))]


def _for_a53(write: "Write") -> list[Op]:
    """Blocks of one cycle for a vector load (beside an earlier load's ins) and three for products."""
    products = _products(write.fmla)
    blocks = _PRODUCTS // 3
    joins: dict[int, Op] = {}
    lows: dict[int, Op] = {}
    highs: dict[int, Op] = {}
    for number, panel in enumerate(_PANELS):
        block = next(b for b in range(panel.last // 3 + 1, blocks * 2) if b % blocks not in lows)
        lows[block % blocks] = write.ldr(f"d{panel.register[1:]}", panel.base)
        highs[(block - 1) % blocks] = write.ldr(f"x{10 + number}", panel.base)
        joins[(block + 1) % blocks] = write.ins(panel.register, f"x{10 + number}")
        assert 3 * (block + 1) < panel.first
    rest = _overhead(write)
    body: list[Op] = []
    for block in range(blocks):
        body += [joins.get(block, write.nop()), lows.get(block, write.nop())]
        one, two, three = products[3 * block : 3 * block + 3]
        body += [one, highs.get(block) or (rest.pop() if rest else write.nop()), two]
        body += [write.subs("x9"), three, write.branch()] if block == blocks - 1 else [write.nop(), three, write.nop()]
    assert not rest
    return body


def _mix(body: list[Op]) -> dict[str, int]:
    return {name: sum(op.op_class == name for op in body) for name in {op.op_class for op in body}}


_MIX = {"ldr_d": 10, "ldr_x": 10, "ins": 10, "prfm": 3, "alu": 2, "alu_flags": 1, "branch_cond": 1}


@pytest.mark.parametrize("load_to_ins", [2, 3, 4])
def test_sgemm_8x12_on_a55(write: "Write", a55: Timing, load_to_ins: int) -> None:
    body = _for_a55(write, write.fmla)
    assert _mix(body) == {**_MIX, "fmla_lane_q": 48}
    cycles = steady_cycles(body, a55.with_forward("ldr_x", "ins", "", load_to_ins))
    assert cycles == 48


def test_s8_dot_8x12_on_a55(write: "Write", a55: Timing) -> None:
    body = _for_a55(write, write.sdot)
    assert _mix(body) == {**_MIX, "dot_lane_q": 48}
    cycles = steady_cycles(body, a55)
    assert cycles == 48


def test_sgemm_8x12_on_a53(write: "Write", a53: Timing) -> None:
    body = _for_a53(write)
    assert {**_mix(body), "nop": 0} == {**_MIX, "fmla_lane_q": 48, "nop": 0}
    cycles = steady_cycles(body, a53)
    assert cycles == 64  # blocks of four cycles


def test_blocks_of_four_meet_the_rule_of_the_fourth_cycle(write: "Write", a53: Timing) -> None:
    # ncnn docs/developer-guide/arm-a53-a55-dual-issue.md. A block's load comes four cycles after the last one's, and
    # so four after none of the products: why Arm's kernel holds that distance with nops.
    rule = ForbiddenDistance(frozenset({"fmla_lane_q"}), frozenset({"ldr_d"}), 4, "ncnn")
    core = replace(a53, forbidden_distances=(rule,))
    assert steady_cycles(_for_a53(write), core) == 64
    without_nops = [op for op in _for_a53(write) if op.op_class != "nop"]
    assert steady_cycles(without_nops, a53) < 64 < steady_cycles(without_nops, core)


def test_the_a55_order_suits_no_a53(write: "Write", a53: Timing) -> None:
    # Every d load and every ins breaks the row of products: gemmlowp keeps a kernel for each of the two cores.
    assert steady_cycles(_for_a55(write, write.fmla), a53) > 64


def _ld128_6x8(write: "Write") -> list[Op]:
    """6 rows of 4 steps of K each in one q register (v0 to v5), columns by pairs of q registers for each step."""
    body = [write.ldr(f"q{row}", f"x{row}") for row in range(6)]
    for step in range(4):
        left, right = f"v{6 + 2 * step}", f"v{7 + 2 * step}"
        body += [write.fmla(f"v{14 + row}", left, f"v{row}") for row in range(6)]
        body += [write.fmla(f"v{20 + row}", right, f"v{row}") for row in range(6)]
        body.append(write.ldp_q(left, right, "x6"))
    body.insert(-4, write.subs("x9"))
    body.insert(-3, write.branch())
    return body


def test_sgemm_6x8_with_q_loads_on_a55(write: "Write", a55: Timing) -> None:
    body = _ld128_6x8(write)
    assert _mix(body) == {"ldr_q": 6, "ldp_q": 4, "fmla_lane_q": 48, "alu_flags": 1, "branch_cond": 1}
    cycles = steady_cycles(body, a55)
    assert cycles == 48 + 6 * 2 + 4 * 4
    assert float(48 * 8 / cycles) == pytest.approx(5.05, abs=0.01)


def _outer_product_8x8(write: "Write", split: bool, unroll: int = 1) -> list[Op]:
    """Loads first, then 16 products, as a compiler may leave it; split: q loads as halves, where they stood."""
    body: list[Op] = []
    for _ in range(unroll):
        for number in (0, 2, 1, 3):
            vector, base = f"v{number}", f"x{number // 2}"
            if split:
                body += [write.ldr(f"d{number}", base), write.ldr("x8", base), write.ins(vector, "x8")]
            else:
                body.append(write.ldr(f"q{number}", base))
        body += [
            write.fmla(f"v{16 + 8 * column + row}", f"v{2 + column}", f"v{row // 4}")
            for column in range(2)
            for row in range(8)
        ]
    return [*body, write.subs("x9"), write.branch()]


def test_naive_8x8_with_q_loads_on_a55(write: "Write", a55: Timing) -> None:
    cycles = steady_cycles(_outer_product_8x8(write, split=False), a55)
    assert cycles == 16 + 4 * 2 + 1
    assert float(16 * 8 / cycles) == pytest.approx(5.12, abs=0.005)


def test_a_split_that_is_not_rescheduled_is_slower(write: "Write", a55: Timing) -> None:
    # Counted before by another model of the same rules, with 4 cycles from an ldr x to its ins: 3.51 FLOP a cycle.
    core = a55.with_forward("ldr_x", "ins", "", 4)
    naive = steady_cycles(_outer_product_8x8(write, split=False, unroll=2), core)
    split = steady_cycles(_outer_product_8x8(write, split=True, unroll=2), core)
    assert float(2 * 16 * 8 / split) == pytest.approx(3.51, rel=0.03)
    assert split > naive


def test_stalls_of_the_unscheduled_split_are_waits_for_the_halves(write: "Write", a55: Timing) -> None:
    trace = simulate(_outer_product_8x8(write, split=True), a55, 4)
    stalled = [issue for issue in trace.iteration(3) if issue.stall_cycles]
    assert [trace.ops[issue.op].op_class for issue in stalled] == ["ins"] * 4
    assert {issue.waits[-1].why for issue in stalled} == {
        "waits for x8 from `ldr x8, [x0]`",
        "waits for x8 from `ldr x8, [x1]`",
    }


class TestWithTheRealProfiles:
    """The same figures from profiles/cores, where facts come from measurements and LLVM with their sources."""

    @pytest.fixture
    def real_a55(self) -> Timing:
        return load_timing(load_core("cortex-a55"))

    @pytest.fixture
    def real_a53(self) -> Timing:
        return load_timing(load_core("cortex-a53"))

    def test_pair_costs_on_a55(self, write: "Write", real_a55: Timing) -> None:
        def pairs(other: Callable[[int], Op]) -> list[Op]:
            return [op for n in range(8) for op in (write.fmla(f"v{n}", "v30", "v31"), other(16 + n))]

        d_loads = steady_cycles(pairs(lambda n: write.ldr(f"d{n}", "x0")), real_a55)
        lane_loads = steady_cycles(pairs(lambda n: write.ld1_lane(f"v{n}", "x0")), real_a55)
        q_loads = steady_cycles(pairs(lambda n: write.ldr(f"q{n}", "x0")), real_a55)
        assert d_loads == 8  # sonos/tract #2241: 1.00 a pair
        assert float(lane_loads / 8) == pytest.approx(1.97, rel=0.03)  # and 1.97
        assert q_loads == 8 * 3

    def test_pair_costs_on_a53(self, write: "Write", real_a53: Timing) -> None:
        fmla = [write.fmla(f"v{n}", "v30", "v31") for n in range(8)]
        beside = {
            "d": [write.ldr(f"d{16 + n}", "x0") for n in range(8)],
            "x": [write.ldr(f"x{10 + n}", "x0") for n in range(8)],
        }
        cycles = {
            name: steady_cycles([op for pair in zip(fmla, loads, strict=True) for op in pair], real_a53)
            for name, loads in beside.items()
        }
        assert cycles["d"] >= 16  # a cycle each, and none four after an fmla
        assert cycles["x"] == 8
        joins = [op for n in range(4) for op in (write.ins(f"v{n + 8}", "x5"), write.ldr(f"d{n}", "x0"))]
        assert steady_cycles(joins, real_a53) == 4
        assert steady_cycles([write.ldr(f"q{n}", "x0") for n in range(4)], real_a53) == 8

    def test_kernels_of_split_loads(self, write: "Write", real_a55: Timing, real_a53: Timing) -> None:
        bodies = (
            (_for_a55(write, write.fmla), real_a55),
            (_for_a55(write, write.sdot), real_a55),
            (_for_a53(write), real_a53),
        )
        cycles = [steady_cycles(body, timing) for body, timing in bodies]
        assert cycles == [49, 49, 64]  # the A55's order was made for a load that is a cycle quicker

    def test_q_load_kernels(self, write: "Write", real_a55: Timing) -> None:
        assert steady_cycles(_ld128_6x8(write), real_a55) == 76
        assert steady_cycles(_outer_product_8x8(write, split=False), real_a55) == 25
        # Counted before by another model of the same rules, with 4 cycles from an ldr x to its ins.
        core = real_a55.with_forward("ldr_x", "ins", "", 4)
        split = steady_cycles(_outer_product_8x8(write, split=True, unroll=2), core)
        assert float(2 * 16 * 8 / split) == pytest.approx(3.51, rel=0.05)
