"""The issue window of a list scheduler against cycles filled by hand and against every assignment of units."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from mavcg.hardware.timing import ClassTiming, Timing, UnitUse
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.schedule.list_schedule import IssueWindow
from mavcg.passes.asm.schedule.resource_table import resource_min_interval, resource_table
from tests.passes.asm.loops import LIKE_A53, cycle_complaints, op
from tests.passes.asm.schedule.either_unit import CLASSES, EITHER


def _fits_alone_after(ops: list[Op], placed: int, timing: Timing, cycles: int) -> list[list[int]]:
    """The cycles after the issue of one op in which each of the ops fits."""
    resources = resource_table(ops, timing)
    window = IssueWindow(resources)
    window.place(resources.pattern_of[placed])
    found: list[list[int]] = [[] for _ in ops]
    for cycle in range(cycles):
        for number, pattern in enumerate(resources.pattern_of):
            if window.fits(pattern):
                found[number].append(cycle)
        window.advance()
    return found


@given(
    classes=st.lists(st.sampled_from(CLASSES), min_size=1, max_size=8),
    steps=st.lists(st.integers(0, 3), min_size=8, max_size=8),
)
def test_what_fits_is_what_the_cycles_hold(classes: list[str], steps: list[int]) -> None:
    ops = [op(name) for name in classes]
    resources = resource_table(ops, EITHER)
    window = IssueWindow(resources)
    issued: list[tuple[int, Op]] = []
    cycle = 0
    for number, steps_before in zip(range(len(ops)), steps, strict=False):
        for _ in range(steps_before):
            window.advance()
            cycle += 1
        pattern = resources.pattern_of[number]
        fits = window.fits(pattern)
        assert fits == (not cycle_complaints([*issued, (cycle, ops[number])], EITHER))
        if fits:
            window.place(pattern)
            issued.append((cycle, ops[number]))
    window.reset()
    assert all(window.fits(pattern) for pattern in resources.pattern_of)


def test_a_class_borrows_the_rules_of_its_parent() -> None:
    ops = [op("fmla_lane_q"), op("fmla_q"), op("fmla_d"), op("ldr_d"), op("ldr_s")]
    *_, ldr_d, ldr_s = _fits_alone_after(ops, 2, LIKE_A53, 7)  # fmla_d stands under fmla_q
    assert ldr_d == ldr_s == [1, 2, 3, 5, 6]  # not on the fourth cycle after


def test_out_of_order_cores_count_micro_operations() -> None:
    timing = Timing(
        core="wide",
        order="out",
        width=3,
        pools={"load": 1, "alu": 4},
        classes={
            "ldp_x": ClassTiming("ldp_x", 4, 0.5, (UnitUse(("load",)), UnitUse(("load",)), UnitUse(("alu",)))),
            "alu": ClassTiming("alu", 1, 3, (UnitUse(("alu",)),)),
        },
    )
    ops = [op("ldp_x"), op("alu"), op("alu")]
    assert _fits_alone_after(ops, 0, timing, 2)[1] == [1]  # three of three in cycle 0
    assert resource_min_interval([op("ldp_x")], timing) == 2  # the second load waits for the load unit
    assert resource_min_interval(ops, timing) == 2


def test_uses_of_several_pools_are_served_as_a_whole() -> None:
    """One a or b, one b or c, one a or c, one of any: only three units."""
    either = {
        "alu": ClassTiming("alu", 1, 1, (UnitUse(("a", "b")),)),
        "csel": ClassTiming("csel", 1, 1, (UnitUse(("b", "c")),)),
        "shift": ClassTiming("shift", 1, 1, (UnitUse(("a", "c")),)),
        "div_x": ClassTiming("div_x", 1, 1, (UnitUse(("a",)),)),
    }
    timing = Timing("pools", "in", 9, {"a": 1, "b": 1, "c": 1}, either)
    for names in product(either, repeat=4):
        resources = resource_table([op(name) for name in names], timing)
        window = IssueWindow(resources)
        for index, pattern in enumerate(resources.pattern_of):
            held = [(0, op(names[other])) for other in range(index)]
            fits = window.fits(pattern)
            assert fits == (not cycle_complaints([*held, (0, op(names[index]))], timing))
            if not fits:
                break
            window.place(pattern)
