"""The solver against the heuristic, against itself, and against loops whose optimum is known."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Op, Schedule
from mavcg.passes.asm.schedule.exact_modulo import improve_schedule, solve_interval
from mavcg.passes.asm.schedule.modulo import STAGES, schedule_loop, sequential_interval, with_emission_order
from mavcg.passes.asm.schedule.resource_table import resource_table
from tests.conftest import examples
from tests.passes.asm.loops import LIKE_A53, LIKE_A55, complaints, edges_of, op, outer_product

pytest.importorskip("ortools", reason="ortools, the solver of exact scheduling, is not installed")

CLASSES = ("fmla_q", "fmadd_s", "ldr_d", "ldr_x", "ldr_q", "ins", "alu", "div_x")
REGISTERS = ("r0", "r1", "r2", "r3", "r4", "r5")
OPS = st.builds(op, st.sampled_from(CLASSES), st.sampled_from(REGISTERS), st.sampled_from(REGISTERS))
CLOSE = [op("alu", "x2 nzcv", "x2"), op("branch", "", "nzcv")]


@settings(max_examples=examples(25, 4))
@given(st.lists(OPS, min_size=1, max_size=7), st.sampled_from([LIKE_A55, LIKE_A53]))
def test_solver_and_heuristic_agree_on_small_loops(body: list[Op], timing: Timing) -> None:
    """Every interval below the heuristic's is impossible, and its own is possible."""
    ops = [*body, *CLOSE]
    last = len(ops) - 1
    edges = edges_of(ops, timing)
    held = with_emission_order(edges, last)
    heuristic = schedule_loop(ops, edges, timing, last)
    bound = heuristic.interval if heuristic else sequential_interval(ops, edges, timing, last)
    for interval in range(1, bound):
        assert solve_interval(resource_table(ops, timing), held, last, interval, STAGES, 2.0)[:2] == (None, True)
    cycles, certain, _ = solve_interval(resource_table(ops, timing), held, last, bound, STAGES, 2.0)
    assert certain and cycles is not None
    assert complaints(Schedule(bound, cycles, "cp-sat"), ops, edges, timing, last) == []


@pytest.mark.long
def test_the_split_8x8_loop_in_16_cycles() -> None:
    """Not in one stage, which has not the latencies in it; in two, with every slot taken; the same each time."""
    ops = outer_product(8, 8)
    last = len(ops) - 1
    edges = edges_of(ops, LIKE_A55)
    resources, held = resource_table(ops, LIKE_A55), with_emission_order(edges, last)
    assert solve_interval(resources, held, last, 16, 1, 4.0)[:2] == (None, True)
    cycles, certain, work = solve_interval(resources, held, last, 16, 2, 4.0)
    assert certain and cycles is not None
    assert complaints(Schedule(16, cycles, "cp-sat"), ops, edges, LIKE_A55, last) == []
    assert solve_interval(resources, held, last, 16, 2, 4.0) == (cycles, True, work)


@pytest.mark.long
def test_the_solver_proves_what_the_heuristic_found() -> None:
    """A 4x4 loop: 7 cycles would hold its ops, but its loads, waits and registers need 9."""
    ops = outer_product(4, 4, scratch=2)
    last = len(ops) - 1
    edges = edges_of(ops, LIKE_A55)
    heuristic = schedule_loop(ops, edges, LIKE_A55, last)
    assert heuristic is not None and heuristic.interval == 9 and not heuristic.optimal
    proved = schedule_loop(ops, edges, LIKE_A55, last, exact_seconds=8)
    assert proved is not None and proved.interval == 9 and proved.optimal


def test_a_worse_schedule_is_replaced() -> None:
    ops = outer_product(4, 4, scratch=2)
    last = len(ops) - 1
    edges = edges_of(ops, LIKE_A55)
    scheduled = schedule_loop(ops, edges, LIKE_A55, last)
    assert scheduled is not None
    worse = replace(scheduled, interval=11, cycles=tuple(cycle + (cycle == 8) * 2 for cycle in scheduled.cycles))
    better = improve_schedule(
        worse, resource_table(ops, LIKE_A55), with_emission_order(edges, last), last, range(7, 12), STAGES, 8.0
    )
    assert better is not None and (better.interval, better.by) == (9, "cp-sat")
    assert complaints(better, ops, edges, LIKE_A55, last) == []


def test_too_little_work_leaves_what_was_found() -> None:
    ops = outer_product(8, 8)
    last = len(ops) - 1
    resources, held = resource_table(ops, LIKE_A53), with_emission_order(edges_of(ops, LIKE_A53), last)
    cycles, certain, _ = solve_interval(resources, held, last, 21, STAGES, 0.01)
    assert cycles is None and not certain
    assert improve_schedule(None, resources, held, last, range(20, 22), STAGES, 0.01) is None
