"""Nops in a kernel: where they hold a schedule that an in-order core would leave, and nowhere else."""

from dataclasses import replace

from mavcg.passes.asm.analysis.dependences import loop_edges, with_effects
from mavcg.passes.asm.isa.op import Schedule
from mavcg.passes.asm.isa.syntax import Instr, parse_instr
from mavcg.passes.asm.models.in_order import steady_cycles
from mavcg.passes.asm.schedule.modulo import kernel_order, schedule_loop
from mavcg.passes.asm.schedule.nop_padding import NOP, kernel_ops, pad_with_nops
from mavcg.passes.asm.schedule.software_pipeline import emit_pipeline
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

A53 = load_timing(load_core("cortex-a53"))
# Three multiply-adds a load, whose cycle comes four after the last one's; its other half and the count beside them.
BODY = """
ldr d0, [x1]
ldr x9, [x1, #8]
fmla v16.4s, v1.4s, v2.s[0]
fmla v17.4s, v1.4s, v2.s[1]
fmla v18.4s, v1.4s, v2.s[2]
subs x0, x0, #1
b.ne .Lloop
""".strip().splitlines()


def _parsed(lines: list[str]) -> tuple[Instr, ...]:
    return tuple(parse_instr(line) for line in lines)


def _cycles(body: tuple[Instr, ...], order: tuple[int, ...]) -> float:
    return float(steady_cycles(kernel_ops([c.op for c in with_effects(body)], order), A53))


def test_a_load_is_held_in_its_cycle() -> None:
    """Left alone, the load goes beside the branch, into the fourth cycle of a multiply-add or beside one."""
    body = _parsed(BODY)
    ops = [c.op for c in with_effects(body)]
    schedule = Schedule(4, (0, 1, 1, 2, 3, 2, 3), "test")
    order = kernel_order(schedule, len(ops) - 1)
    loose = steady_cycles([ops[i] for i in order], A53)
    new = pad_with_nops(order, ops, A53, schedule)
    if loose > 4:
        assert _cycles(body, new) == 4 and NOP in new
    assert _cycles(body, new) <= loose
    assert tuple(i for i in new if i != NOP) == order
    for at, op in enumerate(new):  # none is needless
        if op == NOP:
            assert _cycles(body, new[:at] + new[at + 1 :]) > _cycles(body, new)


def test_loops_that_drift_are_held_to_their_interval() -> None:
    """Kernels of several shapes: the result is never worse, and better for some."""
    gained = 0
    for products in range(2, 8):
        lines = [f"fmla v{16 + n}.4s, v1.4s, v0.s[{n % 4}]" for n in range(products)]
        body = _parsed(["ldr d0, [x1], #16", "ldr x9, [x1, #-8]", "ins v0.d[1], x9", *lines, *BODY[-2:]])
        code = with_effects(body)
        ops, edges = [c.op for c in code], loop_edges(code, A53)
        scheduled = schedule_loop(ops, edges, A53, len(ops) - 1, effort=0.1)
        if scheduled is None:
            continue
        order = kernel_order(scheduled, len(ops) - 1)
        new = pad_with_nops(order, ops, A53, scheduled)
        assert _cycles(body, new) <= _cycles(body, order)
        gained += _cycles(body, new) < _cycles(body, order)
        assert tuple(i for i in new if i != NOP) == order
    assert gained >= 1


def test_a_core_whose_nop_is_not_known_gets_none() -> None:
    body = _parsed(BODY)
    ops = [c.op for c in with_effects(body)]
    core = replace(A53, classes={name: row for name, row in A53.classes.items() if name != "nop"})
    schedule = Schedule(4, (0, 1, 1, 2, 3, 2, 3), "test")
    order = kernel_order(schedule, len(ops) - 1)
    assert pad_with_nops(order, ops, core, schedule) == order


def test_nops_are_in_the_kernel_alone() -> None:
    body = _parsed(BODY)
    schedule = Schedule(4, (4, 1, 1, 2, 3, 2, 3), "test")
    order = (NOP, *kernel_order(schedule, len(body) - 1))
    parts = emit_pipeline(body, schedule, ".Ln", order).parts
    assert {label: sum(str(i).strip() == "nop" for i in part) for label, part in parts if part} == {
        "": 0,
        ".Ln_kernel": 1,
        ".Ln_out2": 0,
    }
