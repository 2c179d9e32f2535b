"""List scheduling: orders keep the edges, are never slower than the input, and small ones are the best there are."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Edge, Op
from mavcg.passes.asm.schedule.list_schedule import list_schedule
from tests.conftest import examples
from tests.passes.asm.loops import LIKE_A53, LIKE_A55, cycle_complaints, edges_of, op, outer_product

CLASSES = ("fmla_q", "fmadd_s", "ldr_d", "ldr_x", "ldr_q", "ins", "alu", "div_x")
REGISTERS = ("r0", "r1", "r2", "r3", "r4")
OPS = st.builds(op, st.sampled_from(CLASSES), st.sampled_from(REGISTERS), st.sampled_from(REGISTERS))


def order_by_list(ops: list[Op], edges: list[Edge], timing: Timing) -> tuple[int, ...]:
    return tuple(index for index, _ in list_schedule(ops, edges, timing))


def issue_times(order: tuple[int, ...], ops: list[Op], edges: list[Edge], timing: Timing) -> list[tuple[int, Op]]:
    """Return the issue cycle of each op on a core that issues strictly in this order, by trial of each cycle."""
    times: dict[int, int] = {}
    now = 0
    issued: list[tuple[int, Op]] = []
    for index in order:
        now = max([now, *(times[edge.source] + edge.latency for edge in edges if edge.target == index)])
        while cycle_complaints([*issued, (now, ops[index])], timing):
            now += 1
        issued.append((now, ops[index]))
        times[index] = now
    return issued


@settings(max_examples=examples(80, 10))
@given(st.lists(OPS, max_size=14), st.sampled_from([LIKE_A55, LIKE_A53]))
def test_orders_keep_the_edges_and_are_no_slower(ops: list[Op], timing: Timing) -> None:
    edges = edges_of(ops, timing, loop=False)
    order = order_by_list(ops, edges, timing)
    assert sorted(order) == list(range(len(ops)))
    place = {index: at for at, index in enumerate(order)}
    assert all(place[edge.source] < place[edge.target] for edge in edges)
    if ops:
        before = issue_times(tuple(range(len(ops))), ops, edges, timing)[-1][0]
        after = issue_times(order, ops, edges, timing)[-1][0]
        assert after <= list_schedule(ops, edges, timing)[-1][1] <= before
    assert order == order_by_list(ops, edges, timing)


@settings(max_examples=examples(25, 4))
@given(st.lists(OPS, min_size=1, max_size=5), st.sampled_from([LIKE_A55, LIKE_A53]))
def test_short_code_gets_the_best_order(ops: list[Op], timing: Timing) -> None:
    edges = edges_of(ops, timing, loop=False)

    def keeps(order: tuple[int, ...]) -> bool:
        return all(order.index(edge.source) < order.index(edge.target) for edge in edges)

    orders = [order for order in permutations(range(len(ops))) if keeps(order)]
    best = min(issue_times(order, ops, edges, timing)[-1][0] for order in orders)
    assert list_schedule(ops, edges, timing)[-1][1] == best


def test_loads_move_under_the_multiplies() -> None:
    """Two chains of load and multiply: the second load goes where the first one's consumer would wait."""
    ops = [op("ldr_d", "a"), op("fmadd_s", "x", "a"), op("ldr_d", "b"), op("fmadd_s", "y", "b")]
    assert order_by_list(ops, edges_of(ops, LIKE_A55, loop=False), LIKE_A55) == (0, 2, 1, 3)


def test_fences_hold() -> None:
    """Nothing passes op 1, though it touches no register."""
    ops = [op("alu", "a"), op("alu"), op("ldr_d", "b"), op("fmla_q", "c", "b")]
    edges = [Edge(0, 1, 0), Edge(1, 2, 0), Edge(1, 3, 0), Edge(2, 3, 3)]
    assert order_by_list(ops, edges, LIKE_A55) == (0, 1, 2, 3)


def test_a_draw_keeps_the_input() -> None:
    ops = [op("ldr_d", "a"), op("ldr_d", "b"), op("ldr_d", "c")]
    assert order_by_list(ops, [], LIKE_A55) == (0, 1, 2)


def test_edges_that_no_order_keeps() -> None:
    with pytest.raises(ValueError, match="cycle"):
        order_by_list([op("alu"), op("alu")], [Edge(0, 1, 0), Edge(1, 0, 0)], LIKE_A55)
    with pytest.raises(ValueError, match="distance"):
        order_by_list([op("alu")], [Edge(0, 0, 1, 1)], LIKE_A55)


def test_a_split_body_without_overlap() -> None:
    """8x8: 16 multiplies wait at least for a load of 4, an insert of 2 and their issue."""
    ops = outer_product(8, 8)[:-1]
    edges = edges_of(ops, LIKE_A55, loop=False)
    first = issue_times(tuple(range(len(ops))), ops, edges, LIKE_A55)[-1][0]
    assert list_schedule(ops, edges, LIKE_A55)[-1][1] <= 24 < first
