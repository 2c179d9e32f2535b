"""Loads before and after the split: golden texts, limits of offsets, and the same registers by emulation."""

from typing import TYPE_CHECKING

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.emulation import EmulatedCore, End, start_state
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.passes.asm.transforms.split_loads import SplitBody, split_loads

if TYPE_CHECKING:
    from tests.conftest import Golden

FORMS = """
ldr q0, [x1]
ldr q0, [x1, #16]
ldr q0, [sp, #32]
ldr q0, [x1, #-256]
ldr q0, [x1, #-17]
ldr q0, [x1, #255]
ldr q0, [x1, #247]
ldr q0, [x1, #248]
ldr q0, [x1, #240]
ldr q0, [x1, #256]
ldr q0, [x1, #32736]
ldr q0, [x1, #32752]
ldr q0, [x1, #32768]
ldr q0, [x1, #65520]
ldur q0, [x1, #-8]
ldr q0, [x1], #16
ldr q0, [x1], #-256
ldr q0, [x1], #255
ldr q0, [sp], #16
ldr q0, [x1, #16]!
ldr q0, [x1, #-256]!
ldr q0, [sp, #16]!
ldr q0, [x1, x2]
ldr q0, [x1, x2, lsl #4]
ldr q0, [x1, x2, lsl #0]
ldr q0, [x1, w2, uxtw]
ldr q0, [x1, w2, uxtw #4]
ldr q0, [x1, w2, sxtw]
ldr q0, [x1, w2, sxtw #4]
ldr q0, [x1, x2, sxtx]
ldr q0, [x1, x2, sxtx #4]
ldr q0, [sp, x2, lsl #4]
ldr q0, [sp, x2]
ldr q0, [x1, xzr]
ldp q0, q1, [x1]
ldp q0, q1, [x1, #1008]
ldp q0, q1, [x1, #-1024]
ldp q0, q1, [x1, #-256]
ldp q0, q1, [x1, #-16]
ldp q0, q1, [x1], #32
ldp q0, q1, [x1], #-1024
ldp q0, q1, [x1, #32]!
ldp q0, q1, [sp, #-32]!
ldp d0, d1, [x1, #8]
ldp d0, d1, [x1], #16
ldp s0, s1, [x1, #-4]
ldp s0, s1, [x1, #-256]
ldp x3, x4, [x1, #16]
ldp x3, x4, [x1, #-512]
ldp x3, x4, [x1], #16
ldp w3, w4, [x1, #4]
ldp x1, x3, [x1]
ldp x3, x1, [x1]
ldp x3, xzr, [x1]
ldpsw x3, x4, [x1]
ld1 { v0.4s }, [x1]
ld1 { v0.16b }, [x1], #16
ld1 { v0.2d }, [x1], x2
ld1 { v0.2s }, [x1]
ld1 { v0.8h, v1.8h }, [x1]
ld1 { v0.4s, v1.4s }, [x1], #32
ld1 { v0.4s, v1.4s, v2.4s }, [x1], x2
ld1 { v30.4s, v31.4s, v0.4s, v1.4s }, [x1], #64
ld1 { v0.4s, v1.4s }, [sp], #32
ld1 { v0.4s }, [x1], xzr
ld1 { v0.s }[1], [x1]
ld1r { v0.4s }, [x1]
ld2 { v0.4s, v1.4s }, [x1]
ldr d0, [x1]
ldr x0, [x1]
ldr q0, [x1, :lo12:table]
ldr q0, [x1], STEP
ldr q0, table
str q0, [x1]
fmla v0.4s, v1.4s, v2.4s
""".strip().splitlines()


def split(text: str, split_: bool = True, unpair: bool = True, at_most: int | None = None) -> SplitBody:
    return split_loads([parse_instr(line) for line in text.splitlines()], split_, unpair, at_most)


def lines(done: SplitBody) -> list[str]:
    names = {f"x%{number}": f"x{number + 9}" for number in range(len(done.scratch))}
    found = []
    for instr in done.instrs:
        registers = tuple(names.get(reg.name, reg.name) for reg in instr.registers())
        found.append(str(instr.with_registers(registers)).replace("\t", " "))
    return found


def test_every_form(golden: "Golden") -> None:
    text = "".join(f"{form}\n" + "".join(f"    {line}\n" for line in lines(split(form))) for form in FORMS)
    assert golden == text


RUNNABLE = [form for form in FORMS if "table" not in form and "STEP" not in form]


def test_the_same_registers_and_memory_by_emulation() -> None:
    """Every form and its parts from random states; general scratch registers x9 to x12 aside."""
    flags = {"both": (True, True), "split": (True, False), "unpair": (False, True)}
    text, pairs = "", []
    for number, form in enumerate(RUNNABLE):
        for name_of_form, (split_, unpair) in flags.items():
            parts = lines(split(form, split_, unpair))
            for name, code in ((f"a{number}{name_of_form}", [form]), (f"b{number}{name_of_form}", parts)):
                text += f".globl {name}\n{name}:\n" + "\n".join(code) + "\nret\n"
            pairs.append((form, f"a{number}{name_of_form}", f"b{number}{name_of_form}"))
    machine = EmulatedCore(assemble_image(text))
    kept = [f"x{i}" for i in range(30) if i not in range(9, 13)] + [f"v{i}" for i in range(32)] + ["sp", "nzcv"]
    for form, before, after in pairs:
        for seed in (0, 4, 5, 6):
            one, other = (machine.run(name, start_state(seed)) for name in (before, after))
            assert one.end == other.end == End.RETURNED, form
            assert [one.register(r) for r in kept] == [other.register(r) for r in kept], (form, after)
            assert one.written == other.written


@pytest.mark.parametrize(
    ("form", "splits", "unpaired"),
    [
        ("ldr q0, [x1]", 1, 0),
        ("ldp q0, q1, [x1]", 2, 1),
        ("ld1 { v0.4s, v1.4s, v2.4s, v3.4s }, [x1], #64", 4, 1),
        ("ldp d0, d1, [x1]", 0, 1),
        ("ldr q0, [x1, #65520]", 0, 0),
        ("ldr q0, [x1, #32752]", 1, 0),
        ("ldr d0, [x1]", 0, 0),
    ],
)
def test_counts(form: str, splits: int, unpaired: int) -> None:
    done = split(form)
    assert (done.splits, done.unpaired, len(done.scratch)) == (splits, unpaired, splits)


@pytest.mark.parametrize("form", FORMS)
def test_forms_that_are_not_enabled_are_not_split(form: str) -> None:
    instr = parse_instr(form)
    assert split(form, False, False).instrs == (instr,)
    assert split(form, True, True, at_most=0).scratch == ()
    only_unpaired = split(form, False, True)
    assert only_unpaired.scratch == () and only_unpaired.splits == 0
    only_split = split(form, True, False)
    if not only_split.splits:
        assert only_split.instrs == (instr,)
    if "q" not in form and "ld1" not in form:
        assert only_split.instrs == (instr,)


def test_without_scratch_registers_loads_stay_whole() -> None:
    body = "ldp q0, q1, [x1], #32\nld1 { v2.4s }, [x2], #16"
    assert split(body, True, False, at_most=0).instrs == tuple(map(parse_instr, body.splitlines()))
    one = split(body, True, False, at_most=1)
    assert (one.splits, len(one.scratch)) == (1, 1)
    assert "ld1 { v2.4s }, [x2], #16" in lines(one)


def test_scratch_names_are_new_ones() -> None:
    done = split("ldr q0, [x1]\nldr q2, [x1, #16]\nldp q4, q5, [x3]")
    assert done.scratch == ("x%0", "x%1", "x%2", "x%3")
