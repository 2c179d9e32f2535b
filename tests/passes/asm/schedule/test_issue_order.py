"""The order of ops within a cycle, and its effect on in-order cores."""

from dataclasses import replace

from mavcg.passes.asm.isa.op import Edge, Op, RegisterRead, Schedule
from mavcg.passes.asm.models.in_order import simulate, steady_cycles
from mavcg.passes.asm.schedule.issue_order import block_issue_order, kernel_issue_order
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

A55 = load_timing(load_core("cortex-a55"))
LOAD = Op("ldr d0, [x0]", "ldr_d", (RegisterRead("x0", "addr"),), ("v0",))
FMLA = Op(
    "fmla v16.4s, v1.4s, v2.4s",
    "fmla_q",
    (RegisterRead("v16", "acc"), RegisterRead("v1"), RegisterRead("v2")),
    ("v16",),
)
OTHER = replace(
    FMLA, text="fmla v17.4s, v1.4s, v2.4s", reads=(RegisterRead("v17", "acc"), *FMLA.reads[1:]), writes=("v17",)
)
LOADS = [replace(LOAD, text=f"ldr d{i}, [x0]", writes=(f"v{i}",)) for i in range(4)]
FMLAS = [
    replace(FMLA, reads=(RegisterRead(f"v{i}", "acc"), RegisterRead("v8"), RegisterRead("v9")), writes=(f"v{i}",))
    for i in range(16, 20)
]
STORE = Op("str q16, [x1]", "str_q", (RegisterRead("v16", "data"), RegisterRead("x1", "addr")))


def test_a_q_form_behind_a_load_waits_for_the_next_cycle() -> None:
    """SLOTHY's A55 model, from Arm's guide: a q form issues in the first slot only."""
    assert [issue.cycle for issue in simulate([FMLA, LOAD], A55).issues] == [0, 0]
    late = simulate([LOAD, FMLA], A55).issues
    assert [issue.cycle for issue in late] == [0, 1]
    assert late[1].waits[0].kind == "first" and "first slot only" in late[1].waits[0].why
    # Where two loads and two multiplies meet, a cycle each has only one of them.
    assert steady_cycles([op for pair in zip(FMLAS, LOADS, strict=True) for op in pair], A55) == 4
    assert steady_cycles([*LOADS[:2], *FMLAS[:2], *LOADS[2:], *FMLAS[2:]], A55) == 6


def test_the_first_slot_is_given_to_whom_it_belongs() -> None:
    ops = [LOAD, FMLA, LOAD, OTHER]
    placed = [(0, 0), (1, 0), (2, 1), (3, 1)]
    assert block_issue_order(placed, ops, [], A55) == (1, 0, 3, 2)
    schedule = Schedule(2, (0, 2, 1, 3), "heuristic")
    assert kernel_issue_order((1, 0, 3, 2), ops, [], A55, schedule) == (1, 0, 3, 2)
    assert kernel_issue_order((0, 1, 2, 3), ops, [], A55, schedule) == (1, 0, 3, 2)


def test_a_register_is_read_before_it_is_written_anew() -> None:
    """The store of v16 stands before the multiply that changes it: in one cycle, it has to stay there."""
    ops, reads_first = [STORE, FMLA], [Edge(0, 1, 0)]
    assert block_issue_order([(0, 0), (1, 0)], ops, reads_first, A55) == (0, 1)
    assert block_issue_order([(0, 0), (1, 0)], ops, [], A55) == (1, 0)
    across = [Edge(0, 1, 0, distance=1)]  # the next iteration's multiply, in this one's slot
    schedule = Schedule(2, (2, 0), "heuristic")
    assert kernel_issue_order((0, 1), ops, across, A55, schedule) == (0, 1)
    assert kernel_issue_order((0, 1), ops, across, A55, replace(schedule, cycles=(0, 0))) == (1, 0)


def test_the_last_slot_is_given_to_what_ends_its_cycle() -> None:
    """An A53 issues nothing after a 64-bit multiplication in the same cycle."""
    a53 = load_timing(load_core("cortex-a53"))
    multiply = Op("mul x3, x4, x5", "mul_x_plain", (RegisterRead("x4"), RegisterRead("x5")), ("x3",))
    add = Op("add x6, x7, x8", "alu", (RegisterRead("x7"), RegisterRead("x8")), ("x6",))
    assert [issue.cycle for issue in simulate([add, multiply], a53).issues] == [0, 0]
    late = simulate([multiply, add], a53).issues
    assert [issue.cycle for issue in late] == [0, 2] and late[1].waits[0].kind == "blocked"
    assert block_issue_order([(0, 0), (1, 0)], [multiply, add], [], a53) == (1, 0)
    assert block_issue_order([(0, 0), (1, 0)], [multiply, add], [Edge(0, 1, 0)], a53) == (0, 1)
    schedule = Schedule(2, (0, 0), "heuristic")
    assert kernel_issue_order((0, 1), [multiply, add], [], a53, schedule) == (1, 0)


def test_cores_without_such_classes_keep_the_order() -> None:
    a53 = load_timing(load_core("cortex-a53"))
    assert block_issue_order([(0, 0), (1, 0)], [LOAD, FMLA], [], a53) == (0, 1)
