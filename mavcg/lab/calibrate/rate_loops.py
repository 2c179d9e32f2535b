"""Loops of independent instructions: rates of classes, the width of issue, blocked slots, and pairs in turn."""

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement

from mavcg.lab.calibrate.loops import CONSTANT_VECTORS, DOUBLES, FREE_GENERAL, FREE_VECTORS, ONES, ZEROES, TimedLoop
from mavcg.lab.calibrate.templates import CONDITION, GENERAL, Template, domain_of

_COPIES = 144
_PAIRS = 24
_BESIDE = 8  # additions after an instruction that may block the issue
# A class for each way through a core: the pairs among them are timed.
PAIRED = (
    "alu",
    "alu_shifted",
    "mul_x",
    "branch_test",
    "ldr_x",
    "ldr_d",
    "ldr_q",
    "str_x",
    "str_q",
    "fadd_s",
    "fmla_d",
    "fmla_q",
    "fmul_q",
    "add_q",
    "mul_q",
    "perm_q",
    "shift_q",
    "ins",
    "umov",
    "fmov_from_gpr",
)
_WIDE = (  # bodies that use as many different units as there are
    ("nop",),
    ("alu", "fadd_d", "ldr_x"),
    ("alu", "ldr_x", "alu", "fadd_d", "branch_test", "alu", "ldr_x", "fadd_d"),
    ("alu", "alu", "alu", "fadd_d", "fadd_d", "ldr_x", "ldr_x", "nop"),
)


def rate_loop(name: str, template: Template) -> TimedLoop:
    """Return the loop of copies of one class; cycles are of one copy."""
    return _loop(f"rate {name}", [template] * _COPIES, _COPIES)


def blocking_loop(name: str, templates: Mapping[str, Template]) -> TimedLoop:
    """Return the loop of an instruction and additions after it."""
    group = [templates[name], *[templates["alu"]] * _BESIDE]
    return _loop(f"blocks {name}", group * 12, 12)


def pair_loops(templates: Mapping[str, Template]) -> dict[tuple[str, str], TimedLoop]:
    """Return the loops of two classes in turn, by the classes."""
    present = [name for name in PAIRED if name in templates]
    return {
        (one, two): _loop(f"pair {one} {two}", [templates[one], templates[two]] * _PAIRS, _PAIRS)
        for one, two in combinations_with_replacement(present, 2)
        if one != two
    }


def wide_loops(templates: Mapping[str, Template]) -> list[TimedLoop]:
    """Return the loops whose rate is the width of issue, on one core or another; cycles are of one instruction."""
    found = []
    for names in _WIDE:
        if all(name in templates for name in names):
            copies = [templates[name] for name in names] * (_COPIES // len(names))
            found.append(_loop(f"width {' '.join(names)}", copies, len(copies)))
    return found


def _loop(name: str, copies: Sequence[Template], counted: int) -> TimedLoop:
    values = ONES
    if any(copy.loads or copy.stores for copy in copies):
        values = ZEROES
    elif any("f64" in copy.op_class for copy in copies):
        values = DOUBLES
    next_registers = {GENERAL: 0, "v": 0}
    lines = tuple(_independent(copy, next_registers) for copy in copies)
    return TimedLoop(name, lines, counted, values, iterations=16)


def _independent(template: Template, next_registers: dict[str, int]) -> str:
    """Return the text of a copy that waits for no other copy. next_registers: by domain; counted up."""
    renamed: dict[str, str] = {}
    many = bool(template.lists) or template.text.startswith("ldp")
    for domain, written in template.writes:
        if domain == CONDITION:
            continue
        if template.producer == "writeback":
            renamed[written] = "x1"  # a pointer that stays: 0 is added
            continue
        free = FREE_GENERAL if domain == GENERAL else FREE_VECTORS
        free = free[:: 2 if domain == GENERAL else 4] if many else free
        renamed[written] = free[next_registers[domain] % len(free)]
        next_registers[domain] += 1
    for names in template.lists:
        if names[0] in renamed:
            first = int(renamed[names[0]][1:])
            renamed |= {name: f"v{first + n}" for n, name in enumerate(names)}
    if template.text.startswith("ldp"):
        bank, first = renamed[template.writes[0][1]][0], int(renamed[template.writes[0][1]][1:])
        renamed[f"{bank}1"] = f"{bank}{first + 1}"
    constants = {GENERAL: iter(("x2", "x3", "x4", "x5")), "v": iter(CONSTANT_VECTORS)}
    for register, role in template.reads:
        if register not in renamed and register != CONDITION:
            renamed[register] = "x1" if role == "addr" else next(constants[domain_of(register)])
    return template.with_registers(renamed)
