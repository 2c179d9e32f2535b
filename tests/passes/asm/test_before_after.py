"""Each transform and schedule step of the machine passes on a small example: golden texts, before and after."""

from collections.abc import Callable, Iterable, Sequence

import pytest

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.blocks import functions_of
from mavcg.passes.asm.analysis.dependences import block_edges, loop_edges, with_effects
from mavcg.passes.asm.isa.op import Schedule
from mavcg.passes.asm.isa.source import parse_source
from mavcg.passes.asm.isa.syntax import Instr, parse_instr
from mavcg.passes.asm.schedule.issue_order import kernel_issue_order
from mavcg.passes.asm.schedule.list_schedule import list_schedule
from mavcg.passes.asm.schedule.modulo import kernel_order, schedule_loop
from mavcg.passes.asm.schedule.nop_padding import NOP, NOP_INSTR, pad_with_nops
from mavcg.passes.asm.schedule.software_pipeline import emit_pipeline, with_target
from mavcg.passes.asm.transforms.broadcast import multiply_by_element
from mavcg.passes.asm.transforms.dispatcher_text import dispatcher_text
from mavcg.passes.asm.transforms.fold_addresses import fold_addresses
from mavcg.passes.asm.transforms.function_copies import function_extent, rename_function, version_text
from mavcg.passes.asm.transforms.lane_loads import join_scalar_loads
from mavcg.passes.asm.transforms.remove_definitions import remove_functions
from mavcg.passes.asm.transforms.rename_registers import allocate
from mavcg.passes.asm.transforms.reroll import reroll, sink_pointer_updates
from mavcg.passes.asm.transforms.split_loads import split_loads
from mavcg.passes.asm.transforms.unroll import unroll
from mavcg.passes.asm.transforms.vector_spill import spill_to_vectors
from mavcg.passes.ir.dispatch import RuntimeNames
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

NOTHING = frozenset[str]()
Parts = Sequence[tuple[str, Iterable[Instr | str]]]


def parse(text: str) -> tuple[Instr, ...]:
    return tuple(parse_instr(line) for line in text.strip().splitlines())


def shown(instrs: Iterable[Instr | str]) -> str:
    return "".join("    " + " ".join(str(instr).split()) + "\n" for instr in instrs)


def shown_parts(parts: Parts) -> str:
    return "".join((f"{label}:\n" if label else "") + shown(instrs) for label, instrs in parts)


BROADCAST = """
ld1r { v30.4s }, [x12]
fmla v23.4s, v26.4s, v30.4s
fmla v22.4s, v27.4s, v30.4s
"""
ADDRESSES = """
add x15, x11, #256
prfm pldl1keep, [x15]
mov x2, x11
ldr q0, [x2], #16
ldr q1, [x2]
"""
SCALARS = """
ldr s24, [x11]
ldp s25, s26, [x11, #4]
ldr s27, [x11, #12]
fmla v0.4s, v28.4s, v24.s[0]
fmla v1.4s, v28.4s, v25.s[0]
fmla v2.4s, v28.4s, v26.s[0]
fmla v3.4s, v28.4s, v27.s[0]
"""
TWO_STEPS = """
ldr q0, [x1]
fmla v8.4s, v0.4s, v16.4s
ldr q2, [x1, #16]
fmla v8.4s, v2.4s, v16.4s
add x1, x1, #32
subs x0, x0, #2
b.ne loop
"""
EARLY_UPDATE = """
ldr q0, [x1], #32
ldr q2, [x1, #-16]
fmla v8.4s, v0.4s, v16.4s
fmla v9.4s, v2.4s, v16.4s
subs x0, x0, #1
b.ne loop
"""
LOADS = """
ldr q0, [x1, #16]
ldp q2, q3, [x2], #32
"""
COUNTED = """
ldr q0, [x1]
add x1, x1, #16
fmla v8.4s, v0.4s, v16.4s
subs x0, x0, #1
b.ne loop
"""
REUSED = """
ldr q0, [x1]
fmla v8.4s, v0.4s, v16.4s
ldr q0, [x1, #16]
fmla v9.4s, v0.4s, v16.4s
"""
CHAINS = """
ldr x1, [x0]
add x2, x1, #1
ldr x3, [x4]
add x5, x3, #1
"""
SPLIT_STEP = """
ldr d0, [x1]
ldr x9, [x1, #8]
ins v0.d[1], x9
fmla v8.4s, v0.4s, v16.4s
add x1, x1, #16
subs x0, x0, #1
b.ne loop
"""
FUNCTION = """\
f:
    cbz x0, .Lend
1:
    subs x0, x0, #1
    b.ne 1b
.Lend:
    b f
"""
COMPILED = """\
\t.text
\t.globl\tdot
\t.type\tdot, @function
dot:
\tcall\tleaf
\tret
\t.size\tdot, .-dot
\t.type\tleaf, @function
leaf:
\tret
\t.size\tleaf, .-leaf
\t.globl\tcold
\t.type\tcold, @function
cold:
\tcall\tdot
\tjmp\tleaf
\t.size\tcold, .-cold
"""


def timing(core: str) -> Timing:
    return load_timing(load_core(core))


def after_broadcast() -> str:
    return shown(multiply_by_element(parse(BROADCAST), frozenset({"v22", "v23"})))


def after_fold_addresses() -> str:
    return shown(fold_addresses(parse(ADDRESSES), frozenset({"x11", "v0", "v1"})))


def after_lane_loads() -> str:
    return shown(join_scalar_loads(parse(SCALARS), frozenset({"v0", "v1", "v2", "v3"})))


def after_reroll() -> str:
    live = frozenset({"x0", "x1", "v8", "v16"})
    result = reroll(parse(TWO_STEPS), live, live)
    assert result is not None
    return shown(result.body)


def after_sink_pointer_updates() -> str:
    result = sink_pointer_updates(parse(EARLY_UPDATE), frozenset({"x0", "x1", "v8", "v9", "v16"}))
    assert result is not None
    return shown(result)


def after_split_loads() -> str:
    return shown(split_loads(parse(LOADS), True, True).instrs)


def after_unroll() -> str:
    live = frozenset({"x0", "x1", "v8", "v16"})
    result = unroll(parse(COUNTED), 2, "x9", live, live, "loop", "end")
    assert result is not None
    body = (*result.body[:-1], with_target(result.body[-1], "two"))
    return shown_parts((("", result.before), ("two", body), ("", result.after), ("loop", parse(COUNTED)), ("end", ())))


def after_rename_registers() -> str:
    live = frozenset({"x1", "v8", "v9", "v16"})
    return shown(allocate(with_effects(parse(REUSED)), live, live))


def after_vector_spill() -> str:
    live = frozenset(f"x{i}" for i in range(31)) | {f"v{i}" for i in range(8, 16)}
    spill = spill_to_vectors(frozenset({"x0", "x1", "v0"}), live, live)
    return shown_parts((("", spill.before), ("loop", ["..."]), ("", spill.after)))


def after_list_schedule() -> str:
    code = parse(CHAINS)
    effects = with_effects(code)
    a55 = timing("cortex-a55")
    placed = list_schedule([c.op for c in effects], block_edges(effects, a55), a55)
    return "".join(f"    cycle {cycle}: {' '.join(str(code[op]).split())}\n" for op, cycle in placed)


def after_software_pipeline() -> str:
    """The schedule that the heuristic finds, then its code."""
    body = parse(SPLIT_STEP)
    effects = with_effects(body)
    a55 = timing("cortex-a55")
    ops = [c.op for c in effects]
    schedule = schedule_loop(ops, loop_edges(effects, a55), a55, len(ops) - 1)
    assert schedule is not None
    issues = sorted(zip(schedule.cycles, ops, strict=True), key=lambda issue: issue[0])
    rows = (f"cycle {cycle}: {op.text}" for cycle, op in issues)
    return f"every {schedule.interval} cycles\n{shown(rows)}" + shown_parts(emit_pipeline(body, schedule, ".L").parts)


# An A53 issues no vector load beside a multiply-add, nor four cycles after one.
PADDED = """
ldr d0, [x1], #16
ldr x9, [x1, #-8]
ins v0.d[1], x9
PRODUCTS
subs x0, x0, #1
b.ne loop
""".replace("PRODUCTS", "\n".join(f"fmla v{16 + n}.4s, v1.4s, v0.s[{n % 4}]" for n in range(4)))


def kernel_before_padding() -> tuple[tuple[Instr, ...], Schedule, tuple[int, ...]]:
    body = parse(PADDED)
    effects = with_effects(body)
    a53 = timing("cortex-a53")
    ops = [c.op for c in effects]
    schedule = schedule_loop(ops, loop_edges(effects, a53), a53, len(ops) - 1, effort=0.1)
    assert schedule is not None
    return body, schedule, kernel_order(schedule, len(ops) - 1)


def before_nop_padding() -> str:
    body, schedule, order = kernel_before_padding()
    rows = (f"cycle {schedule.cycles[at] % schedule.interval}: {body[at]}" for at in order)
    return f"every {schedule.interval} cycles\n{shown(rows)}"


def after_nop_padding() -> str:
    body, schedule, order = kernel_before_padding()
    padded = pad_with_nops(order, [c.op for c in with_effects(body)], timing("cortex-a53"), schedule)
    return shown(NOP_INSTR if at == NOP else body[at] for at in padded)


PAIRS = """
ldr d0, [x1]
fmla v16.4s, v1.4s, v2.4s
ldr d3, [x1, #8]
fmla v17.4s, v1.4s, v2.4s
"""


def after_issue_order() -> str:
    """A 128-bit multiply-add issues in the first slot of a cycle of an A55 only."""
    body = parse(PAIRS)
    effects = with_effects(body)
    a55 = timing("cortex-a55")
    schedule = Schedule(2, (0, 0, 1, 1), "test")
    order = kernel_issue_order((0, 1, 2, 3), [c.op for c in effects], loop_edges(effects, a55), a55, schedule)
    return shown(body[at] for at in order)


def after_function_copies() -> str:
    statements = parse_source("\t.globl f\n\t.type f, %function\n" + FUNCTION)
    (function,) = functions_of(statements)
    own = [statements[at] for at in function_extent(statements, function)]
    return version_text(rename_function(own, "f", "f.cortex-a55", "$v_1"), "f.cortex-a55", False)


def after_remove_definitions() -> str:
    return remove_functions(COMPILED, {"dot": "dot", "leaf": "leaf.v"}, (), "v")


def after_dispatcher_text() -> str:
    names = RuntimeNames("mavcg_rseq_offset", "mavcg_core_of_cpu", "mavcg_select", 8192)
    return dispatcher_text("f", ["f.generic", "f.cortex-a55"], names)


PASSES: dict[str, tuple[str, Callable[[], str]]] = {
    "broadcast": (shown(parse(BROADCAST)), after_broadcast),
    "fold_addresses": (shown(parse(ADDRESSES)), after_fold_addresses),
    "lane_loads": (shown(parse(SCALARS)), after_lane_loads),
    "reroll": (shown(parse(TWO_STEPS)), after_reroll),
    "sink_pointer_updates": (shown(parse(EARLY_UPDATE)), after_sink_pointer_updates),
    "split_loads": (shown(parse(LOADS)), after_split_loads),
    "unroll": (shown_parts((("loop", parse(COUNTED)),)), after_unroll),
    "rename_registers": (shown(parse(REUSED)), after_rename_registers),
    "vector_spill": (shown_parts((("loop", ["..."]),)), after_vector_spill),
    "list_schedule": (shown(parse(CHAINS)), after_list_schedule),
    "software_pipeline": (shown_parts((("loop", parse(SPLIT_STEP)),)), after_software_pipeline),
    "nop_padding": (before_nop_padding(), after_nop_padding),
    "issue_order": (shown(parse(PAIRS)), after_issue_order),
    "function_copies": (FUNCTION, after_function_copies),
    "remove_definitions": (COMPILED, after_remove_definitions),
    "dispatcher_text": ("(f.generic and f.cortex-a55 exist)\n", after_dispatcher_text),
}


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_before_and_after(name: str, golden: object) -> None:
    before, after = PASSES[name]
    assert golden == f"before:\n{before}\nafter:\n{after()}"
