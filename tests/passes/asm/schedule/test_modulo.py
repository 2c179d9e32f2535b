"""Software pipelines against a checker that runs them cycle by cycle, and against all pipelines of small loops."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Edge, Op, Schedule
from mavcg.passes.asm.schedule import iterative_modulo
from mavcg.passes.asm.schedule.modulo import (
    STAGES,
    edges_in_rhythm,
    kernel_order,
    min_initiation_interval,
    schedule_loop,
    sequential_interval,
)
from tests.conftest import examples
from tests.passes.asm.loops import LIKE_A53, LIKE_A55, complaints, cycle_complaints, edges_of, op, outer_product

CLASSES = ("fmla_q", "fmadd_s", "ldr_d", "ldr_x", "ldr_q", "ins", "alu")
REGISTERS = ("r0", "r1", "r2", "r3", "r4", "r5")
OPS = st.builds(op, st.sampled_from(CLASSES), st.sampled_from(REGISTERS), st.sampled_from(REGISTERS))
CLOSE = [op("alu", "x2 nzcv", "x2"), op("branch", "", "nzcv")]


def some_pipeline(
    ops: Sequence[Op], edges: Sequence[Edge], timing: Timing, last: int, interval: int
) -> Schedule | None:
    """Any schedule at this interval, found by trying every slot for every op and then the earliest stages."""
    for chosen in product(range(interval), repeat=last):
        slots = [*chosen, interval - 1]
        stages = _earliest_stages(slots, edges, last, interval)
        if stages is None:
            continue
        rounds = [(n * interval + slot, ops[index]) for n in range(8) for index, slot in enumerate(slots)]
        if not cycle_complaints(rounds, timing):
            cycles = tuple(stage * interval + slot for stage, slot in zip(stages, slots, strict=True))
            return Schedule(interval, cycles, "tried")
    return None


def _earliest_stages(slots: Sequence[int], edges: Sequence[Edge], last: int, interval: int) -> list[int] | None:
    stages = [0] * len(slots)
    for _ in range(STAGES * len(slots) + 1):
        before = list(stages)
        for edge in edges:
            gap = edge.latency + slots[edge.source] - slots[edge.target]
            least = stages[edge.source] - edge.distance - (-gap // interval)
            against = edge.source == last or edge.source > edge.target != last
            if gap == 0 and edge.latency == 0 and not edge.distance and against:
                least += 1  # the same slot of the same iteration, but emitted in the opposite order
            stages[edge.target] = max(stages[edge.target], least)
        if stages[last] or max(stages) >= STAGES:
            return None
        if stages == before:
            return stages
    return None


def shortest(ops: Sequence[Op], edges: Sequence[Edge], timing: Timing, last: int, bound: int) -> int | None:
    return next((at for at in range(1, bound) if some_pipeline(ops, edges, timing, last, at)), None)


@settings(max_examples=examples(40, 6))
@given(st.lists(OPS, max_size=10), st.sampled_from([LIKE_A55, LIKE_A53]))
def test_every_pipeline_is_sound(body: list[Op], timing: Timing) -> None:
    ops = [*body, *CLOSE]
    last = len(ops) - 1
    edges = edges_of(ops, timing)
    schedule = schedule_loop(ops, edges, timing, last)
    if schedule is not None:
        assert complaints(schedule, ops, edges, timing, last) == []
        assert min_initiation_interval(ops, edges, timing) <= schedule.interval
        assert schedule.interval < sequential_interval(ops, edges, timing, last)
        assert max(schedule.cycles) < STAGES * schedule.interval
        assert schedule == schedule_loop(ops, edges, timing, last)
        assert kernel_order(schedule, last)[-1] == last


@settings(max_examples=examples(25, 4))
@given(st.lists(OPS, min_size=1, max_size=4), st.sampled_from([LIKE_A55, LIKE_A53]))
def test_small_loops_get_the_shortest_interval(body: list[Op], timing: Timing) -> None:
    ops = [*body, *CLOSE]
    last = len(ops) - 1
    edges = edges_of(ops, timing)
    bound = min(sequential_interval(ops, edges, timing, last), 6)
    schedule = schedule_loop(ops, edges, timing, last)
    found = schedule.interval if schedule and schedule.interval < bound else None
    assert found == shortest(ops, edges, timing, last, bound)


def most_evictions(ops: int) -> float:
    """Count displacements; a search at effort 1 may make as many as iterative_modulo_schedule says."""
    return min(400_000 / (100 + ops), 200 * ops)


@pytest.fixture
def displacements(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The evictions of each attempt that is made from here on: what the search's effort is counted in."""
    counted: list[int] = []
    run = iterative_modulo._Attempt.run

    def counting(attempt: Any, most: int) -> Any:
        output = run(attempt, most)
        counted.append(output[1])
        return output

    monkeypatch.setattr(iterative_modulo._Attempt, "run", counting)
    return counted


@pytest.mark.parametrize(
    ("unroll", "interval", "ops_in_all"), [(1, 16, 32), (2, 32, 60), (4, 64, 116)], ids=["x1", "x2", "x4"]
)
def test_a_split_8x8_loop_fills_every_slot(
    unroll: int, interval: int, ops_in_all: int, displacements: list[int]
) -> None:
    """One multiply a cycle, all else in the other slot: the most that the core can do, in two stages."""
    ops = outer_product(8, 8, unroll, scratch=min(8, 4 * unroll))
    last = len(ops) - 1
    assert len(ops) == ops_in_all
    edges = edges_of(ops, LIKE_A55)
    schedule = schedule_loop(ops, edges, LIKE_A55, last)
    assert sum(displacements) < 0.6 * most_evictions(len(ops))
    assert schedule is not None
    assert complaints(schedule, ops, edges, LIKE_A55, last) == []
    assert (schedule.interval, max(schedule.cycles) // interval, schedule.optimal) == (interval, 1, True)


def test_an_8x12_loop_of_160_ops() -> None:
    ops = outer_product(8, 12, 4, scratch=10)
    last = len(ops) - 1
    edges = edges_of(ops, LIKE_A55)
    schedule = schedule_loop(ops, edges, LIKE_A55, last)
    assert schedule is not None and schedule.interval == 96
    assert complaints(schedule, ops, edges, LIKE_A55, last) == []


def test_a_split_8x8_loop_without_dual_issue_of_loads_and_multiplies() -> None:
    """Per 32 multiplies 41 cycles: 8 loads need a cycle of their own each, 4 after one that has no multiply either."""
    ops = outer_product(8, 8, 2, scratch=8)
    last = len(ops) - 1
    edges = edges_of(ops, LIKE_A53)
    assert min_initiation_interval(ops, edges, LIKE_A53) == 41
    schedule = schedule_loop(ops, edges, LIKE_A53, last)
    assert schedule is not None and schedule.interval == 41
    assert complaints(schedule, ops, edges, LIKE_A53, last) == []


def test_with_registers_renamed_a_single_8x8_body_needs_the_same_21() -> None:
    """Without the edges by which a load waits for the last reader of its register's old value."""
    ops = outer_product(8, 8)
    last = len(ops) - 1
    fills = ("ldr_d", "ldr_x", "ins")
    edges = [
        edge
        for edge in edges_of(ops, LIKE_A53)
        if not (edge.distance and ops[edge.target].op_class in fills and ops[edge.source].op_class != "alu")
    ]
    schedule = schedule_loop(ops, edges, LIKE_A53, last)
    assert schedule is not None and schedule.interval == 21
    assert complaints(schedule, ops, edges, LIKE_A53, last) == []


@pytest.mark.parametrize("scratch", [1, 4])
def test_a_search_that_finds_no_optimum_ends(scratch: int, displacements: list[int]) -> None:
    """Effort is bounded by counted steps: the bound is out of reach here, and no clock ends the search."""
    ops = outer_product(8, 8, scratch=scratch)
    last = len(ops) - 1
    schedule = schedule_loop(ops, edges_of(ops, LIKE_A53), LIKE_A53, last)
    most = most_evictions(len(ops))
    assert 0.9 * most < sum(displacements) <= most + 4 * len(ops)  # short searches for fewer stages come on top
    assert schedule is not None and not schedule.optimal


class TestMinimumInterval:
    def test_width(self) -> None:
        assert min_initiation_interval([op("alu", f"r{i}") for i in range(7)], [], LIKE_A55) == 4

    def test_units(self) -> None:
        assert min_initiation_interval([op("ldr_d", "a"), op("ldr_x", "b"), op("ldr_d", "c")], [], LIKE_A55) == 3

    def test_blocks(self) -> None:
        assert min_initiation_interval([op("ldr_q", "a"), op("ldr_q", "b"), op("alu", "c")], [], LIKE_A55) == 5

    def test_busy_units(self) -> None:
        assert min_initiation_interval([op("div_x", f"r{i}") for i in range(3)], [], LIKE_A55) == 9

    def test_recurrence(self) -> None:
        """A chain of two latencies of 4 around the back edge, once and over two iterations."""
        ops = [op("fmla_q", "a", "b"), op("fmla_q", "b", "a")]
        assert min_initiation_interval(ops, edges_of(ops, LIKE_A55), LIKE_A55) == 8
        assert min_initiation_interval(ops, [Edge(0, 1, 4), Edge(1, 0, 4, 2)], LIKE_A55) == 4
        assert min_initiation_interval(ops, [Edge(0, 1, 4), Edge(1, 0, 5, 2)], LIKE_A55) == 5

    def test_a_cycle_of_edges_within_an_iteration(self) -> None:
        with pytest.raises(ValueError, match="cycle"):
            min_initiation_interval([op("alu"), op("alu")], [Edge(0, 1, 1), Edge(1, 0, 0)], LIKE_A55)


def test_what_cannot_overlap_is_left_alone() -> None:
    """Each iteration's load takes its address from the one before: nothing to gain."""
    ops = [op("ldr_x", "x0", "x0"), *CLOSE]
    assert schedule_loop(ops, edges_of(ops, LIKE_A55), LIKE_A55, 2) is None


def test_a_latency_is_hidden_in_a_second_stage() -> None:
    """Load, add, multiply take 3 + 4 cycles in a row; the sum alone would allow one iteration every 4.

    With 4, t would have to be read and written anew in one slot, by two ops that each need both fp units.
    """
    ops = [op("ldr_d", "a", "x0"), op("fadd_q", "t", "a"), op("fmla_q", "b", "b/acc", "t"), *CLOSE]
    edges = edges_of(ops, LIKE_A55)
    schedule = schedule_loop(ops, edges, LIKE_A55, 4)
    assert schedule is not None
    assert complaints(schedule, ops, edges, LIKE_A55, 4) == []
    assert (schedule.interval, max(schedule.cycles) // 5) == (5, 1)
    assert min_initiation_interval(ops, edges, LIKE_A55) == 4
    assert sequential_interval(ops, edges, LIKE_A55, 4) == 8


def test_what_the_branch_waits_for_stays_in_the_first_stage() -> None:
    """The next iteration starts when this one's branch is known: load, compare, branch take their 5 cycles."""
    ops = [op("ldr_x", "a", "x0"), op("alu", "nzcv", "a"), *(op("alu", f"r{i}", f"r{i}") for i in range(9))]
    ops.append(op("branch", "", "nzcv"))
    edges = edges_of(ops, LIKE_A55)
    assert schedule_loop(ops, edges, LIKE_A55, 11) is None  # 6 cycles for 12 ops, however they stand
    assert sequential_interval(ops, edges, LIKE_A55, 11) == 6


def test_a_write_may_share_the_cycle_only_after_the_read() -> None:
    """Edges of latency 0 against program order: the target may not come first in the emitted cycle."""
    ops = [op("alu", "a"), op("alu", "b", "a"), op("ldr_d", "d"), op("fadd_q", "e", "d"), op("fadd_q", "f", "e")]
    ops += CLOSE
    last = len(ops) - 1
    edges = [*edges_of(ops, LIKE_A55), Edge(2, 0, 0), Edge(4, 3, 0, 1)]
    schedule = schedule_loop(ops, edges, LIKE_A55, last)
    assert schedule is not None
    assert complaints(schedule, ops, edges, LIKE_A55, last) == []


@pytest.mark.parametrize(("cycles", "wrong"), [((0, 0, 0, 1), True), ((1, 0, 0, 1), False), ((2, 0, 0, 1), False)])
def test_the_checker_sees_the_order_within_a_cycle(cycles: tuple[int, ...], wrong: bool) -> None:
    ops = [op("alu", "a"), op("alu", "b"), op("ins", "nzcv"), op("branch")]
    faults = complaints(Schedule(2, cycles, "hand"), ops, [Edge(1, 0, 0)], replace(LIKE_A55, width=3), 3)
    assert bool(faults) == wrong
    assert all("out of order" in text for text in faults)


def test_edges_that_leave_the_branch_within_its_iteration_are_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        schedule_loop([op("alu", "a"), *CLOSE], [Edge(2, 0, 0)], LIKE_A55, 2)


def test_a_split_load_keeps_the_rhythm_of_a_core_with_a_forbidden_distance() -> None:
    ops = [op("ldr_d", "v0", "x0"), op("ldr_x", "x1", "x0"), op("ins", "v0", "v0/acc", "x1"), op("alu", "x2", "x1")]
    edges = [Edge(0, 2, 3), Edge(1, 2, 3), Edge(1, 3, 3), Edge(2, 1, 0, 1)]
    assert edges_in_rhythm(ops, edges, LIKE_A55) == edges
    assert edges_in_rhythm(ops, edges, LIKE_A53) == [Edge(0, 2, 3), Edge(1, 2, 4), Edge(1, 3, 3), Edge(2, 1, 0, 1)]


def test_a_disputed_latency_is_kept_where_it_costs_no_cycle() -> None:
    """Eight products hide a load of 6 cycles as well as a shorter one; a recurrence through the load does not."""
    products = [op("fmla_q", f"v{n}", f"v{n}/acc", "v30", "v31") for n in range(8)]
    ops = [*products, op("ldr_x", "x1", "x0"), op("ins", "v29", "v29/acc", "x1"), *CLOSE]
    last = len(ops) - 1
    edges = edges_of(ops, LIKE_A55)
    cautious = edges_of(ops, replace(LIKE_A55, forwards={**LIKE_A55.forwards, ("ldr_x", "ins", ""): 6}))
    bold, careful = (schedule_loop(ops, edges, LIKE_A55, last, below=20, cautious=known) for known in ((), cautious))
    assert bold is not None and careful is not None
    assert careful.interval == bold.interval
    assert complaints(careful, ops, cautious, LIKE_A55, last) == []
    through = [Edge(9, 8, 4, 1)]
    bold, careful = (
        schedule_loop(ops, [*edges, *through], LIKE_A55, last, below=20, cautious=known)
        for known in ((), [*cautious, *through])
    )
    assert bold is not None and bold == careful
