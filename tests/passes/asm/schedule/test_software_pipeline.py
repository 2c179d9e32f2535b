"""Software pipelines carried out on symbols: for every number of iterations, what the loop leaves."""

from __future__ import annotations

from random import Random

import pytest

from mavcg.passes.asm.analysis.dependences import loop_edges, with_effects
from mavcg.passes.asm.isa.op import Edge, Schedule
from mavcg.passes.asm.isa.syntax import Instr, parse_instr
from mavcg.passes.asm.schedule.modulo import branch_edges, schedule_loop, with_emission_order
from mavcg.passes.asm.schedule.software_pipeline import PipelinedLoop, emit_pipeline, inverted_branch, with_target
from mavcg.passes.asm.transforms.rename_registers import NoRegister, allocate
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from tests.passes.asm import terms

TEMPLATES = """
ldr q{v}, [x1], #16
ldr q{v}, [x2], #16
ldr q{v}, [x1, #32]
ldr d{v}, [x2, #8]
ldr x9, [x1, #24]
ins v{v}.d[1], x9
fmla v{a}.4s, v{v}.4s, v{v}.s[1]
fmla v{a}.4s, v{v}.4s, v{v}.4s
fmul v{v}.4s, v{v}.4s, v{v}.4s
fadd v{v}.4s, v{v}.4s, v{v}.4s
str q{v}, [x3], #16
str q{v}, [x3, #16]
add x10, x10, #1
mov x11, x10
fcmp s{v}, s{v}
csel x12, x10, x11, gt
fcsel s{v}, s{v}, s{v}, mi
""".strip().splitlines()
BRANCHES = (
    ("subs x0, x0, #1", "b.ne .Lloop"),
    ("subs x0, x0, #1", "bgt .Lloop"),
    ("sub x0, x0, #1", "cbnz x0, .Lloop"),
    ("sub w0, w0, #1", "tbz w0, #31, .Lloop"),
)


def random_body(pick: Random) -> tuple[Instr, ...]:
    def fill(template: str) -> Instr:
        while "{v}" in template:
            template = template.replace("{v}", str(pick.choice((16, 17, 18, 19))), 1)
        return parse_instr(template.replace("{a}", str(pick.choice((0, 1, 2, 3)))))

    body = [fill(pick.choice(TEMPLATES)) for _ in range(pick.randint(2, 12))]
    count, branch = pick.choice(BRANCHES)
    flags = any(i.mnemonic == "fcmp" for i in body) and count.startswith("subs")
    body.insert(len(body) if flags else pick.randint(0, len(body)), parse_instr(count))
    if count.startswith("subs") and body[-1] != parse_instr(count) and pick.random() < 0.5:
        body = [i for i in body if i.mnemonic != "csel" and i.mnemonic != "fcsel"]
    return (*body, parse_instr(branch))


def carried_out(new: PipelinedLoop, trips: int) -> tuple[Instr, ...]:
    """The instructions but for branches that are executed when the loop makes `trips` rounds.

    A branch that came from the loop's own goes on as often as the loop did; nothing else is assumed of it.
    """
    code: list[Instr | str] = []
    for label, instrs in new.parts:
        code += [label] if label else []
        code += instrs
    places = {label: at for at, label in enumerate(code) if isinstance(label, str)}
    kernel = next(label for label, _ in new.parts if label.endswith("_kernel"))
    ends = {"b.eq", "ble", "b.le", "cbz", "tbnz"}
    at, branches_taken, done = 0, 0, []
    while at < len(code):
        here = code[at]
        at += 1
        if isinstance(here, str):
            continue
        target = str(here.operands[-1]) if here.operands else ""
        if target not in places:
            done.append(here)
            continue
        if here.mnemonic == "b":
            at = places[target]
            continue
        branches_taken += 1
        goes_on = branches_taken < trips
        back = target == kernel
        assert back == (here.mnemonic not in ends), here
        if goes_on == back:
            at = places[target]
    assert branches_taken == trips
    return tuple(done)


def check(body: tuple[Instr, ...], schedule: Schedule) -> None:
    new = emit_pipeline(body, schedule, ".Lnew")
    labels = [label for label, _ in new.parts if label]
    assert len(set(labels)) == len(labels) and all(label.startswith(".Lnew") for label in labels)
    assert sorted(new.kernel) == list(range(len(body)))
    for trips in range(1, 7):
        old = terms.Symbols().run(body[:-1] * trips)
        after = terms.Symbols().run(carried_out(new, trips))
        registers = sorted(old.values.keys() | after.values.keys())
        assert old.left(registers) == after.left(registers), (trips, [str(i) for i in body], schedule)


@pytest.mark.long
@pytest.mark.parametrize("loops", [6, pytest.param(20, marks=pytest.mark.long)])
def test_random_loops_scheduled_for_a_core(loops: int) -> None:
    timing = load_timing(load_core("cortex-a55"))
    pick = Random(11)
    stages, tried = set(), 0
    while tried < loops:
        body = random_body(pick)
        live = frozenset({"x0", "x1", "x2", "x3", "x10", "v0", "v1", "v2", "v3", "sp"})
        code = with_effects(body)
        for c in reversed(code):
            live = (live - (c.effects.writes() - c.effects.reads())) | c.effects.reads()
        live |= {"x0", "x1", "x2", "x3", "x10", "v0", "v1", "v2", "v3", "sp"}
        try:
            body = allocate(code, live, live)
        except NoRegister:
            continue
        code = with_effects(body)
        ops, edges = [c.op for c in code], loop_edges(code, timing)
        schedule = schedule_loop(ops, edges, timing, len(ops) - 1)
        if schedule is None:
            continue
        tried += 1
        check(body, schedule)
        stages.add(max(schedule.cycles) // schedule.interval + 1)
    assert {1, 2} <= stages


def settled(cycles: list[int], needed: list[Edge], interval: int, last: int, end: int) -> list[int] | None:
    """The earliest cycles from these on that keep the edges; None where the branch had to move or the end is passed."""
    found, changed = list(cycles), True
    while changed:
        changed = False
        for e in needed:
            low = found[e.source] + e.latency - interval * e.distance
            if found[e.target] < low:
                found[e.target], changed = low, True
                if e.target == last or low >= end:
                    return None
    return found if max(found) < end else None


def any_schedule(needed: list[Edge], last: int, interval: int, stages: int, pick: Random) -> Schedule | None:
    """A schedule that keeps the edges and no more, with ops as late as chance has it."""
    end = stages * interval
    cycles = settled([0] * last + [interval - 1], needed, interval, last, end)
    if cycles is None:
        return None
    for _ in range(12):
        later = list(cycles)
        later[pick.randrange(last)] += pick.randint(1, interval)
        cycles = settled(later, needed, interval, last, end) or cycles
    return Schedule(interval, tuple(cycles), "heuristic")


def test_any_schedule_that_keeps_the_edges() -> None:
    timing = load_timing(load_core("cortex-a55"))
    pick = Random(12)
    stages = dict.fromkeys((1, 2, 3, 4), 0)
    for _ in range(600):
        if min(stages.values()) == 25:
            break
        body = random_body(pick)
        last, code = len(body) - 1, with_effects(body)
        needed = [*with_emission_order(loop_edges(code, timing), last), *branch_edges(len(body), last)]
        for _ in range(6):
            schedule = any_schedule(needed, last, pick.randint(3, 40), pick.randint(1, 4), pick)
            number = max(schedule.cycles) // schedule.interval + 1 if schedule is not None else 0
            if schedule is not None and stages[number] < 25:
                check(body, schedule)
                stages[number] += 1
    assert all(count >= 10 for count in stages.values()), stages


def test_three_stages(golden: object) -> None:
    body = tuple(
        map(
            parse_instr,
            (
                "ldr q16, [x1], #16",
                "fadd v16.4s, v16.4s, v0.4s",
                "str q16, [x2], #16",
                "subs x0, x0, #1",
                "b.ne .Lloop",
            ),
        )
    )
    new = emit_pipeline(body, Schedule(4, (0, 4, 8, 2, 3), "heuristic"), ".Lx")
    text = ""
    for label, instrs in new.parts:
        text += (f"{label}:\n" if label else "") + "".join(f"\t{i}\n" for i in instrs)
    assert golden == text
    assert new.stages == 3


@pytest.mark.parametrize(
    ("branch", "other"),
    [
        ("b.ne .L1", "b.eq"),
        ("bne .L1", "b.eq"),
        ("b.hs .L1", "b.lo"),
        ("b.cs .L1", "b.cc"),
        ("b.cc .L1", "b.cs"),
        ("b.lo .L1", "b.hs"),
        ("b.gt .L1", "b.le"),
        ("b.ge .L1", "b.lt"),
        ("b.hi .L1", "b.ls"),
        ("b.mi .L1", "b.pl"),
        ("b.vs .L1", "b.vc"),
        ("cbz x0, .L1", "cbnz"),
        ("cbnz w0, .L1", "cbz"),
        ("tbz x0, #3, .L1", "tbnz"),
        ("tbnz w0, #31, .L1", "tbz"),
    ],
)
def test_branches_turned_around(branch: str, other: str) -> None:
    instr = parse_instr(branch)
    assert inverted_branch(instr).mnemonic == other
    assert str(with_target(instr, ".L2").operands[-1]) == ".L2"
    assert with_target(instr, ".L2").operands[:-1] == instr.operands[:-1]
