"""The port-bound model against answers counted by hand, a maximum flow, and every cycle of small graphs."""

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.hardware.timing import ClassTiming, MissingFact, Timing, UnitUse
from mavcg.passes.asm.isa.op import Op, RegisterRead
from mavcg.passes.asm.models.ports import micro_ops, port_bounds
from mavcg.passes.asm.models.recurrences import critical_recurrence
from tests.conftest import examples

if TYPE_CHECKING:
    from tests.passes.asm.conftest import Write


class TestByHand:
    def test_dispatch(self, write: "Write", a57: Timing) -> None:
        ops = [write.nop(), write.ins("v0", "x0"), write.ldr("d0", "x1", step=8)]
        assert [micro_ops(op, a57) for op in ops] == [1, 2, 2]  # a nop takes a slot; an update of the address one more
        found = port_bounds(ops, a57).dispatch
        assert found.cycles == Fraction(5, 3)
        assert found.why == "5 micro-ops, 3 a cycle"

    def test_units_with_a_choice_share(self, write: "Write", a57: Timing) -> None:
        # Three adds and one multiply on two vector pipes, of which only the first multiplies: two cycles on each.
        ops = [write.plain("mul_q", ("v1",), ("v0",))]
        ops += [write.plain("add_q", ("v1",), (f"v{n}",)) for n in (2, 3, 4)]
        bounds = port_bounds(ops, a57)
        assert bounds.units.cycles == 2
        assert bounds.units.ops == (0, 1, 2, 3)
        assert bounds.units.why == "vec0, vec1: 4 cycles of work on 2 units"
        assert bounds.busy("vec0") == bounds.busy("vec1") == 2
        assert bounds.pressure[0] == {"vec0": 1}

    def test_units_without_a_choice_do_not(self, write: "Write", a57: Timing) -> None:
        ops = [write.plain("mul_q", ("v1",), (f"v{n}",)) for n in range(3)] + [write.plain("add_q", ("v1",), ("v9",))]
        bounds = port_bounds(ops, a57)
        assert bounds.units.cycles == 3
        assert bounds.units.ops == (0, 1, 2)
        assert bounds.busy("vec0") == 3
        assert bounds.busy("vec1") == 1
        assert bounds.pressure[3] == {"vec1": 1}

    def test_a_unit_kept_busy_for_long(self, write: "Write", a57: Timing) -> None:
        ops = [write.plain("str_q", ("v0", "x0"))]
        bounds = port_bounds(ops, a57)
        assert bounds.largest is bounds.units
        assert bounds.units.cycles == 2
        assert bounds.units.why == "store: 2 cycles of work on 1 unit"

    def test_work_is_per_unit_of_a_pool(self, write: "Write", a57: Timing) -> None:
        bounds = port_bounds([write.add(f"x{n}", "x9") for n in range(5)], a57)
        assert bounds.units.cycles == Fraction(5, 2)
        assert bounds.busy("alu") == Fraction(5, 2)
        assert bounds.pressure[0] == {"alu": Fraction(1, 2)}

    def test_a_recurrence_with_forwarding(self, write: "Write", a57: Timing) -> None:
        recurrence = critical_recurrence([write.fmla("v0", "v1", "v2"), write.fmla("v0", "v1", "v3")], a57)
        assert recurrence.cycles == 8  # twice the four cycles to an accumulator
        assert recurrence.ops == (0, 1)
        assert recurrence.why.count("v0 from `fmla") == 2
        assert recurrence.why.endswith("around once in 1 iteration")

    def test_a_recurrence_over_two_iterations_counts_half(self, write: "Write", a57: Timing) -> None:
        # Each op reads what the other wrote an iteration ago: 1 + 9 cycles around two iterations.
        ops = [write.plain("alu", ("v1",), ("v0",)), write.plain("fmla_q", ("v0",), ("v1",))]
        swapped = [ops[1], ops[0]]
        assert critical_recurrence(ops, a57).cycles == 10  # v0 is read in the iteration that wrote it
        assert critical_recurrence(swapped, a57).cycles == 10
        distances = [
            Op("one", "alu", (RegisterRead("v1"),), ("v0",)),
            Op("copy", "alu", (RegisterRead("v2"),), ("v1",)),
            Op("two", "fmla_q", (RegisterRead("v0"),), ("v2",)),
        ]
        # one reads v1 and copy reads v2 of the iteration before; two reads v0 of its own: 1 + 9 + 1 over two.
        recurrence = critical_recurrence(distances, a57)
        assert recurrence.cycles == Fraction(11, 2)
        assert recurrence.why.endswith("around once in 2 iterations")

    def test_renaming_frees_a_register_that_is_written_anew(self, write: "Write", a57: Timing) -> None:
        ops = [write.ldr("q0", "x0"), write.fmla("v8", "v0", "v1"), write.ldr("q0", "x1"), write.fmla("v9", "v0", "v1")]
        assert critical_recurrence(ops, a57).cycles == 4  # only the accumulators

    def test_the_updated_address_follows_its_own_latency(self, write: "Write", a57: Timing) -> None:
        assert critical_recurrence([write.ldr("d0", "x0", step=8)], a57).cycles == 1

    def test_no_recurrence(self, write: "Write", a57: Timing) -> None:
        recurrence = critical_recurrence([write.ldr("d0", "x0")], a57)
        assert recurrence.cycles == 0
        assert (recurrence.ops, recurrence.why) == ((), "no result feeds the next iteration")

    def test_no_ops(self, a57: Timing) -> None:
        assert port_bounds([], a57).largest.cycles == 0

    def test_a_q_load_split_in_three_costs_an_out_of_order_core(self, write: "Write", a57: Timing) -> None:
        whole = [write.ldr("q0", "x0")]
        halves = [write.ldr("d0", "x0"), write.ldr("x8", "x0"), write.ins("v0", "x8")]
        assert port_bounds(whole, a57).largest.cycles < port_bounds(halves, a57).largest.cycles

    def test_what_no_profile_knows_is_an_error(self, write: "Write", a57: Timing) -> None:
        with pytest.raises(MissingFact, match="instr.fdiv_q"):
            port_bounds([write.plain("fdiv_q", ("v1",), ("v0",))], a57)

    def test_a_unit_that_is_not_there_is_an_error(self, write: "Write", a57: Timing) -> None:
        with pytest.raises(MavcgError, match="needs a unit that the core does not have"):
            port_bounds([write.plain("str_q", ("v0",))], replace(a57, pools={"load": 1}))


_CLASSES = ("alu", "mul_x", "fmla_q", "add_q", "ldr_x", "str_x")
_POOLS = ("p0", "p1", "p2", "p3")
_USE = st.builds(
    UnitUse, st.sets(st.sampled_from(_POOLS), min_size=1).map(lambda pools: tuple(sorted(pools))), st.integers(1, 5)
)


@st.composite
def machines(draw: st.DrawFn) -> Timing:
    """Out-of-order cores with four pools and classes with every kind of use."""
    rows = {
        name: ClassTiming(name, draw(st.integers(1, 6)), 1.0, tuple(draw(st.lists(_USE, max_size=3))))
        for name in _CLASSES
    }
    return Timing("drawn", "out", draw(st.integers(1, 4)), {p: draw(st.integers(1, 3)) for p in _POOLS}, rows)


def _flow_fits(uses: list[UnitUse], rooms: dict[str, int], scale: int) -> bool:
    """True if all work fits into the rooms (both times `scale`), by plain depth-first augmentation."""
    load: list[dict[str, int]] = [dict.fromkeys(use.any_of, 0) for use in uses]
    used = dict.fromkeys(rooms, 0)

    def push(use: int, amount: int, seen: set[str]) -> int:
        for pool in uses[use].any_of:
            if pool in seen:
                continue
            seen.add(pool)
            if (free := rooms[pool] - used[pool]) > 0:
                part = min(free, amount)
                used[pool] += part
                load[use][pool] += part
                return part
            for other in range(len(uses)):
                if other != use and load[other].get(pool, 0) > 0:
                    part = push(other, min(amount, load[other][pool]), seen)
                    if part:
                        load[other][pool] -= part
                        load[use][pool] += part
                        return part
        return 0

    for number, use in enumerate(uses):
        left = use.cycles * scale
        while left:
            part = push(number, left, set())
            if not part:
                return False
            left -= part
    return True


class TestUnitsAgainstAMaximumFlow:
    @given(timing=machines(), names=st.lists(st.sampled_from(_CLASSES), min_size=1, max_size=6))
    @settings(max_examples=examples(150, 6))
    def test_the_bound_is_the_least_time_that_fits(self, timing: Timing, names: list[str]) -> None:
        ops = [Op(name, name) for name in names]
        uses = [use for name in names for use in timing.of(name).units]
        bounds = port_bounds(ops, timing)
        bound = bounds.units.cycles
        scale = bound.denominator * 1000
        rooms = {pool: int(count * bound * scale) for pool, count in timing.pools.items()}
        assert _flow_fits(uses, rooms, scale)
        if bound:
            less = {pool: int(count * (bound - Fraction(1, 500)) * scale) for pool, count in timing.pools.items()}
            assert not _flow_fits(uses, less, scale)

    @given(timing=machines(), names=st.lists(st.sampled_from(_CLASSES), min_size=1, max_size=8))
    @settings(max_examples=examples(150, 6))
    def test_pressure_is_the_work_and_overloads_nothing(self, timing: Timing, names: list[str]) -> None:
        bounds = port_bounds([Op(name, name) for name in names], timing)
        for name, shares in zip(names, bounds.pressure, strict=True):
            units = timing.of(name).units
            assert sum(share * timing.pools[pool] for pool, share in shares.items()) == sum(u.cycles for u in units)
            assert set(shares) <= {pool for use in units for pool in use.any_of}
        busiest = max(bounds.busy(pool) for pool in timing.pools)
        assert busiest == bounds.units.cycles


_REGISTERS = st.sampled_from(["x0", "x1", "x2", "x3"])
_SMALL = st.lists(
    st.builds(
        lambda name, reads, write: Op(name, name, tuple(RegisterRead(register) for register in reads), (write,)),
        st.sampled_from(_CLASSES),
        st.lists(_REGISTERS, max_size=2),
        _REGISTERS,
    ),
    min_size=1,
    max_size=7,
)


def _largest_ratio(ops: list[Op], timing: Timing) -> Fraction:
    """Return the largest ratio over all simple cycles, enumerated one by one."""
    edges: dict[int, list[tuple[int, int, int]]] = {}
    for index, op in enumerate(ops):
        for read in op.reads:
            for back in range(1, len(ops) + 1):  # the nearest writer before it, over the loop's edge
                source = (index - back) % len(ops)
                if read.register in ops[source].writes:
                    distance = 0 if source < index else 1
                    edges.setdefault(source, []).append((index, timing.of(ops[source].op_class).latency, distance))
                    break
    best = Fraction(0)

    def walk(first: int, node: int, latency: int, distance: int, seen: frozenset[int]) -> None:
        nonlocal best
        for target, cycles, iterations in edges.get(node, []):
            if target == first:
                best = max(best, Fraction(latency + cycles, distance + iterations))
            elif target > first and target not in seen:
                walk(first, target, latency + cycles, distance + iterations, seen | {target})

    for first in range(len(ops)):
        walk(first, first, 0, 0, frozenset({first}))
    return best


@given(timing=machines(), ops=_SMALL)
@settings(max_examples=examples(300, 10))
def test_the_recurrence_is_the_worst_of_all_cycles(timing: Timing, ops: list[Op]) -> None:
    recurrence = critical_recurrence(ops, timing)
    assert recurrence.cycles == _largest_ratio(ops, timing)
    assert (recurrence.ops == ()) == (recurrence.cycles == 0)
