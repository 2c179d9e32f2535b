"""Each analysis of the machine passes on a small example: golden texts, the code and what the analysis returns."""

from collections.abc import Callable, Iterable

import pytest

from mavcg.passes.asm.analysis.aliasing import block_accesses, may_overlap
from mavcg.passes.asm.analysis.blocks import Function, functions_of
from mavcg.passes.asm.analysis.dependences import with_effects
from mavcg.passes.asm.analysis.identical import names_symbol, without_label
from mavcg.passes.asm.analysis.labels import debug_labels
from mavcg.passes.asm.analysis.liveness import liveness
from mavcg.passes.asm.analysis.loop_nest import block_frequencies, loop_counter, loops_of
from mavcg.passes.asm.analysis.segments import segments_of
from mavcg.passes.asm.isa.effects import Effects
from mavcg.passes.asm.isa.encoding import at_offset
from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.op import Edge
from mavcg.passes.asm.isa.operation_count import count_operations
from mavcg.passes.asm.isa.source import Statement, parse_source
from mavcg.passes.asm.isa.syntax import Mem, Reg, parse_instr
from mavcg.passes.asm.schedule.slack import distances_by_stages, start_ranges

LOOP = """\
\t.text
\t.globl f
\t.type f, %function
f:
    mov x9, #4
.Louter:
    mov x8, x1
.Linner:
    ldr q0, [x0], #16
    fmla v8.4s, v0.4s, v1.s[0]
    subs x8, x8, #1
    b.ne .Linner
    str q8, [x2], #16
    subs x9, x9, #1
    b.ne .Louter
    ret
\t.size f, .-f
"""
CALLS = """\
f:
    ldr x1, [x0]
    add x2, x1, #1
    dmb ish
    ldr x3, [x0, #8]
    add x2, x2, x3
    bl g
    str x2, [x0]
    ret
"""
ACCESSES = """\
str q0, [x1]
ldr q1, [x1, #16]
ldr q2, [x1, #8]
add x2, x1, #32
ldr q3, [x2, #-16]
ldr q4, [x3]
add x1, x1, #16
"""
DEBUGGED = """\
\t.text
f:
.Ltmp0:
\t.loc 1 2 3
.LBB0_1:
    subs x0, x0, #1
.Ltmp1:
    b.ne .LBB0_1
    ret
\t.section .debug_info,"",@progbits
\t.xword .Ltmp0
\t.word .Ltmp1-.Ltmp0
"""
INSTRUCTIONS = """\
add x0, x1, w2, uxtw #2
adds x0, x0, #1
b.ne .L1
fmla v0.4s, v1.4s, v2.s[3]
sdot v3.4s, v4.16b, v5.4b[0]
ldr q0, [x1], #16
stp d8, d9, [sp, #-16]!
ld1 { v0.s }[1], [x3]
cntb x0
"""
COUNTERS = (
    "subs x8, x8, #1\nb.ne loop",
    "subs x8, x8, #8\nb.hi loop",
    "add x8, x8, #2\ncmp x8, x9\nb.lo loop",
    "sub x8, x8, #4\ncbnz x8, loop",
    "adds x8, x8, x9\nb.ne loop",
)
FROZEN = (
    "adr x0, table + 8\ntable:\n    ret",
    "b #8\n    ret",
    "b .+8\n    ret",
    "ldr x0, table\n    ret\ntable:",
)
VERSION = """\
\t.p2align\t2
\t.type\tf.cortex-a55,@function
"f.cortex-a55":                         // @f.cortex-a55
\tbl\t"helper.cortex-a55"
\tadd\tx0, x0, #16   // the next one
\tret
"""


def first_function(text: str) -> tuple[Function, tuple[Statement, ...]]:
    statements = parse_source(text if text.startswith("\t") else f"\t.text\n\t.globl f\n{text}")
    return functions_of(statements)[0], statements


def lines_of(items: Iterable[str]) -> str:
    return "".join(f"{item}\n" for item in items)


def registers(names: Iterable[str]) -> str:
    return " ".join(sorted(names, key=lambda name: (name[0], int(name[1:]) if name[1:].isdigit() else -1))) or "-"


def shown_blocks() -> str:
    function, _ = first_function(LOOP)
    return lines_of(
        f"block {i}: labels {', '.join(b.labels) or '-'}; {len(b.lines)} instructions; goes to {list(b.successors)}"
        + ("; leaves" if b.leaves else "")
        + ("; in a loop" if b.in_loop else "")
        + ("; a loop by itself" if b.loops_to_itself(i) else "")
        for i, b in enumerate(function.blocks)
    )


def shown_loop_nest() -> str:
    function, statements = first_function(LOOP)
    loops = (
        f"loop of blocks {sorted(loop.blocks)}: {loop.trips or 'unknown'} iterations"
        for loop in loops_of(function, statements)
    )
    runs = (f"block {i} runs {n} times" for i, n in enumerate(block_frequencies(function, statements)))
    return lines_of([*loops, *runs])


def shown_liveness() -> str:
    function, _ = first_function(LOOP)
    live = liveness(function)
    preserved = live.at_end[-1]
    return lines_of(
        f"block {i}: live at its top beside those at the return: {registers(top - preserved)}"
        for i, top in enumerate(live.at_top)
    )


def shown_segments() -> str:
    function, statements = first_function(CALLS)
    found = []
    for block in function.blocks:
        for segment in segments_of(block, statements):
            codes = [statements[line.statement].code for line in block.lines[segment.first : segment.stop]]
            found.append("segment: " + "; ".join(codes))
    return lines_of(found)


def shown_aliasing() -> str:
    instrs = [parse_instr(line) for line in ACCESSES.splitlines()]
    code = with_effects(instrs)
    accesses = block_accesses([(c.instr, c.effects) for c in code])
    ranges = [
        f"{line}: {r.bytes} bytes from {r.root} + {r.offset}"
        for line, r in zip(ACCESSES.splitlines(), accesses.ranges, strict=True)
        if r is not None
    ]
    steps = [f"{register} grows by {step}" for register, step in accesses.steps.items() if register == "x1"]
    store = accesses.ranges[0]
    pairs = [
        f"the store and load {at} {'an iteration later' if later else 'of the same iteration'} "
        + ("may overlap" if may_overlap(store, accesses.ranges[at], accesses.steps, later) else "do not overlap")
        for at in (1, 2, 4, 5)
        for later in (0, 1)
    ]
    return lines_of([*ranges, *steps, *pairs])


def shown_debug_labels() -> str:
    return lines_of(sorted(debug_labels(parse_source(DEBUGGED))))


def shown_effects() -> str:
    def described(effect: Effects | None) -> str:
        if effect is None:
            return "unknown: a fence"
        memory = effect.memory
        touched = f"; {memory.bytes} bytes {'read' if memory.load else 'written'}" if memory is not None else ""
        flow = f"; {effect.flow} to {effect.target}" if effect.flow else ""
        return (
            f"{effect.op_class}; reads {registers(effect.reads())}; writes {registers(effect.writes())}{touched}{flow}"
        )

    return lines_of(f"{line}: {described(effects(parse_instr(line)))}" for line in INSTRUCTIONS.splitlines())


def shown_operation_count() -> str:
    counts = [(line, count_operations(parse_instr(line))) for line in INSTRUCTIONS.splitlines()]
    return lines_of(f"{line}: {c.flops} FLOP, {c.int_ops} integer operations, {c.macs} MAC" for line, c in counts)


def shown_trip_count() -> str:
    found = []
    for text in COUNTERS:
        counter = loop_counter(with_effects([parse_instr(line) for line in text.splitlines()]))
        if counter is None:
            found.append(f"{text.replace(chr(10), '; ')}: not a counted loop")
            continue
        direction = "up" if counter.up else "down"
        guard = f", guarded by {counter.guard}" if counter.guard else ""
        end = counter.end or "0"
        found.append(f"{text.replace(chr(10), '; ')}: {counter.register} {direction} by {counter.step} to {end}{guard}")
    return lines_of(found)


def shown_fixed_distances() -> str:
    reasons = [first_function(f"f:\n    {body}\n")[0].frozen for body in FROZEN]
    return lines_of(
        f"{body.splitlines()[0]}: {reason or 'may move'}" for body, reason in zip(FROZEN, reasons, strict=True)
    )


def shown_identical() -> str:
    neutral = without_label(VERSION, "cortex-a55")
    return f"{neutral}\nnames helper.*: {names_symbol(neutral, 'helper.*')}\n"


def shown_encoding() -> str:
    base = Reg("x1", "x")
    rows = []
    for text, offset, size in (
        ("ldr q0, [x0]", 65520, 16),
        ("ldr q0, [x0]", 65521, 16),
        ("ldur x0, [x0]", -256, 8),
        ("ldp q0, q1, [x0]", 1008, 32),
        ("ldp q0, q1, [x0]", 1024, 32),
        ("ld1 { v0.4s }, [x0]", 16, 16),
    ):
        moved = at_offset(parse_instr(text), Mem(base, offset), size)
        rows.append(f"{text} at x1 + {offset}: {' '.join(str(moved).split()) if moved else 'no encoding'}")
    return lines_of(rows)


SLACK = """\
0: load      -> 1 after 3 cycles
1: multiply  -> 2 after 4 cycles
2: add       -> 2 after 2 cycles, an iteration later
3: branch
"""


def shown_slack() -> str:
    edges = [Edge(0, 1, 3), Edge(1, 2, 4), Edge(2, 2, 2, 1)]
    distances = distances_by_stages(4, edges, 3, 3)(3)
    assert distances is not None
    earliest, latest = start_ranges(distances, 3, 3)
    return "one iteration every 3 cycles, 3 stages\n" + lines_of(
        f"op {op} issues in cycle {first} to {last}"
        for op, (first, last) in enumerate(zip(earliest, latest, strict=True))
    )


ANALYSES: dict[str, tuple[str, Callable[[], str]]] = {
    "blocks": (LOOP, shown_blocks),
    "loop_nest": (LOOP, shown_loop_nest),
    "liveness": (LOOP, shown_liveness),
    "segments": (CALLS, shown_segments),
    "aliasing": (ACCESSES, shown_aliasing),
    "debug_labels": (DEBUGGED, shown_debug_labels),
    "effects": (INSTRUCTIONS, shown_effects),
    "operation_count": (INSTRUCTIONS, shown_operation_count),
    "trip_count": ("\n".join(COUNTERS) + "\n", shown_trip_count),
    "fixed_distances": ("\n".join(FROZEN) + "\n", shown_fixed_distances),
    "identical": (VERSION, shown_identical),
    "encoding": ("", shown_encoding),
    "slack": (SLACK, shown_slack),
}


@pytest.mark.parametrize("name", ANALYSES)
def test_an_analysis_of_an_example(name: str, golden: object) -> None:
    before, result = ANALYSES[name]
    assert golden == f"{before}\nresult:\n{result()}"
