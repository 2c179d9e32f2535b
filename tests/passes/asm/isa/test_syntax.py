"""One instruction's text to operands and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.syntax import (
    Instr,
    Mem,
    RawOperand,
    Reg,
    RegList,
    SyntaxFault,
    number,
    parse_instr,
    parse_register,
)


def operands(text: str) -> tuple[object, ...]:
    return parse_instr(text).operands


@pytest.mark.parametrize(
    ("text", "register"),
    [
        ("x0", Reg("x0", "x")),
        ("W30", Reg("x30", "w")),
        ("lr", Reg("x30", "x")),
        ("FP", Reg("x29", "x")),
        ("ip1", Reg("x17", "x")),
        ("sp", Reg("sp", "x")),
        ("wsp", Reg("sp", "w")),
        ("wzr", Reg("xzr", "w")),
        ("q31", Reg("v31", "q")),
        ("b7", Reg("v7", "b")),
        ("v3", Reg("v3", "v")),
        ("v3.4S", Reg("v3", "v", "4s")),
        ("v3.s[2]", Reg("v3", "v", "s", 2)),
        ("v3.4b[1]", Reg("v3", "v", "4b", 1)),
        ("v3.1q", Reg("v3", "v", "1q")),
    ],
)
def test_registers(text: str, register: Reg) -> None:
    assert parse_register(text) == register


@pytest.mark.parametrize("text", ["x31", "w32", "v32", "q32", "x", "x01", "z0", "p0", "x٣", "v3.4x", "r0", "s32", ""])
def test_no_registers(text: str) -> None:
    assert parse_register(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("#5", 5),
        ("-5", -5),
        ("# 0x10", 16),
        ("#-0X1f", -31),
        ("010", 8),
        ("0b101", 5),
        ("0", 0),
        ("+3", 3),
        ("1b", None),
        ("08", None),
        ("0b", None),
        ("a", None),
        ("٣", None),
        ("1.0", None),
    ],
)
def test_numbers(text: str, value: int | None) -> None:
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("[x1]", Mem(Reg("x1", "x"))),
        ("[sp, #16]", Mem(Reg("sp", "x"), 16)),
        ("[x1, #-16]!", Mem(Reg("x1", "x"), -16, mode="pre")),
        ("[x1]!", Mem(Reg("x1", "x"), mode="pre")),
        ("[x1], #32", Mem(Reg("x1", "x"), 32, mode="post")),
        ("[x1], x2", Mem(Reg("x1", "x"), index=Reg("x2", "x"), mode="post")),
        ("[x1, x2]", Mem(Reg("x1", "x"), index=Reg("x2", "x"))),
        ("[x1, x2, LSL #4]", Mem(Reg("x1", "x"), index=Reg("x2", "x"), extend="lsl #4")),
        ("[x1, w2, sxtw]", Mem(Reg("x1", "x"), index=Reg("x2", "w"), extend="sxtw")),
        ("[x1, :lo12:sym]", Mem(Reg("x1", "x"), None, ":lo12:sym")),
        ("[x1, #(4 * 8)]", Mem(Reg("x1", "x"), None, "#(4 * 8)")),
        ("[x1], STEP", Mem(Reg("x1", "x"), None, "STEP", mode="post")),
        ("[x1], #(2 * 16)", Mem(Reg("x1", "x"), None, "#(2 * 16)", mode="post")),
    ],
)
def test_addresses(text: str, address: Mem) -> None:
    instr = parse_instr(f"ldr q0, {text}")
    assert instr.operands == (Reg("v0", "q"), address)
    assert parse_instr(str(instr)) == instr
    effect = effects(instr)
    assert effect is not None and (address.base.name in effect.writes()) == (address.mode != "offset")


def test_lists() -> None:
    registers = tuple(Reg(f"v{i}", "v", "4s") for i in (31, 0, 1))
    assert operands("ld1 {v31.4s-v1.4s}, [x0]")[0] == RegList(registers)
    assert operands("ld1 { v31.4s, v0.4s, v1.4s }, [x0]")[0] == RegList(registers)
    assert operands("ld1 {v3.s}[2], [x0]")[0] == RegList((Reg("v3", "v", "s"),), 2)
    assert str(parse_instr("ld1 {v31.4s-v1.4s}, [x0]")) == "ld1\t{ v31.4s, v0.4s, v1.4s }, [x0]"


def test_other_operands_stay_as_written() -> None:
    assert operands("add x0, x1, w2, UXTW #2")[3] == RawOperand("UXTW #2")
    assert operands("b.NE .Lx") == (RawOperand(".Lx"),)
    assert parse_instr("b.NE .Lx").mnemonic == "b.ne"
    assert operands("fmov s0, #1.5")[1] == RawOperand("#1.5")
    assert operands('bl "a, b"') == (RawOperand('"a, b"'),)


@pytest.mark.parametrize("text", ["ldr x0, [x1", "ldr x0, x1]", "add x0,, x1", "add x0,", 'bl "f', "ld1 {v0.4s), [x0]"])
def test_faults_of_the_syntax_are_refused(text: str) -> None:
    with pytest.raises(SyntaxFault):
        parse_instr(text)


@given(st.permutations(range(4)))
def test_registers_are_replaced_in_the_order_of_the_text(order: list[int]) -> None:
    instr = parse_instr("ld1 { v0.4s, v1.4s }, [x2], x3")
    names = tuple(f"{'v' if at < 2 else 'x'}{10 + i}" for at, i in enumerate(order))
    new = instr.with_registers(names)
    assert tuple(reg.name for reg in new.registers()) == names
    assert str(new) == f"ld1\t{{ {names[0]}.4s, {names[1]}.4s }}, [{names[2]}], {names[3]}"
    assert isinstance(new, Instr) and new.with_registers(tuple(reg.name for reg in instr.registers())) == instr
