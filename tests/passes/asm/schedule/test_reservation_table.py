"""The reservation table against cycles filled by hand and against trying every assignment of units in a cycle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.passes.asm.schedule.reservation_table import ReservationTable
from mavcg.passes.asm.schedule.resource_table import resource_min_interval, resource_table
from tests.passes.asm.loops import LIKE_A53, LIKE_A55, cycle_complaints, op
from tests.passes.asm.schedule.either_unit import CLASSES, EITHER


@given(
    classes=st.lists(st.sampled_from(CLASSES), min_size=1, max_size=8),
    cycles=st.lists(st.integers(0, 9), min_size=8, max_size=8),
    interval=st.sampled_from([1, 2, 3, 4, 7]),
)
def test_what_fits_is_what_the_cycles_hold(classes: list[str], cycles: list[int], interval: int) -> None:
    ops = [op(name) for name in classes]
    table = ReservationTable(resource_table(ops, EITHER), interval)
    placed: list[tuple[int, int]] = []
    for index, cycle in enumerate(cycles[: len(ops)]):
        if any(one.op_class in ("dup_gpr", "div_x") for one in ops) and interval < 7:
            return  # a unit that is busy into the next round may be another one each time: counted, not tried
        together = [*placed, (index, cycle)]
        issued = [(at + n * interval, ops[one]) for n in range(12) for one, at in together]
        fits = table.fits(index, cycle)
        assert fits == (not cycle_complaints(issued, EITHER))
        assert fits == bool(table.open_slots(index) >> cycle % interval & 1)
        if fits:
            table.place(index, cycle)
            placed.append((index, cycle))


@given(
    classes=st.lists(st.sampled_from(CLASSES), min_size=2, max_size=12),
    slots=st.lists(st.integers(0, 6), min_size=12, max_size=12),
    interval=st.integers(2, 7),
)
def test_an_op_fits_once_conflicting_ops_are_removed(classes: list[str], slots: list[int], interval: int) -> None:
    ops = [op(name) for name in classes]
    table = ReservationTable(resource_table(ops, EITHER), interval)
    for index, slot in enumerate(slots[1 : len(ops)], start=1):
        if table.fits(index, slot):
            table.place(index, slot)
    if table.impossible(0):
        return
    gone = table.conflicts(0, slots[0], [1.0] * len(ops))
    assert bool(gone) != table.fits(0, slots[0])
    before = table.open_slots(0)
    for other in gone:
        table.remove(other)
    assert table.fits(0, slots[0])
    for other in gone:
        assert table.fits(other, slots[other])
        table.place(other, slots[other])
    assert table.open_slots(0) == before


def test_the_cheaper_op_is_displaced() -> None:
    ops = [op("alu"), op("ldr_d"), op("ldr_x"), op("ins")]
    table = ReservationTable(resource_table(ops, LIKE_A55), 4)
    table.place(1, 2)
    table.place(3, 6)
    assert table.conflicts(0, 2, [1, 5, 1, 3]) == [3]
    assert table.conflicts(0, 2, [1, 2, 1, 3]) == [1]
    assert table.conflicts(2, 2, [1, 5, 1, 3]) == [1]  # the one load unit


def test_a_q_load_keeps_its_two_cycles_alone() -> None:
    ops = [op("ldr_q"), op("ldr_q"), op("alu")]
    table = ReservationTable(resource_table(ops, LIKE_A55), 5)
    table.place(0, 4)
    assert [cycle for cycle in range(5) if table.fits(2, cycle)] == [1, 2, 3]  # 4 and, around, 0 are taken
    assert [cycle for cycle in range(5) if table.fits(1, cycle)] == [1, 2]
    assert ReservationTable(resource_table(ops, LIKE_A55), 1).impossible(0)


@pytest.mark.parametrize(("multiplies", "loads", "least"), [(16, 4, 21), (15, 5, 20), (1, 1, 2), (4, 0, 4), (0, 3, 3)])
def test_classes_without_dual_issue_need_cycles_of_their_own(multiplies: int, loads: int, least: int) -> None:
    ops = [op("fmla_q")] * multiplies + [op("ldr_d"), op("ins")] * loads
    assert resource_min_interval(ops, LIKE_A53) == least
