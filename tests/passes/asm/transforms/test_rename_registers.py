"""Registers chosen anew: the same terms as before, by symbolic execution of random code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.passes.asm.analysis.dependences import Code, with_effects
from mavcg.passes.asm.isa.syntax import Instr, RegList, parse_instr
from mavcg.passes.asm.transforms.rename_registers import SCRATCH_GENERAL, SCRATCH_VECTORS, NoRegister, allocate
from tests.conftest import examples
from tests.passes.asm import terms

# x: a general register, v: a vector register, each drawn anew.
TEMPLATES = """
add xX, xX, xX
add wX, wX, #1
sub xX, xX, #16
subs xX, xX, #1
csel xX, xX, xX, eq
cset wX, ne
cmp xX, xX
movk xX, #7, lsl #16
mov xX, #3
mov xX, xzr
add xX, sp, #16
ldr qV, [xX]
ldr qV, [sp, #16]
ldr qV, [xX], #16
ldr dV, [xX, #8]!
ldr xX, [xX, xX, lsl #3]
ldr xX, [xX, wX, sxtw]
ldp xX, xY, [xX]
ldp qV, qW, [xX, #32]
str qV, [xX]
str xX, [xY], #8
stp dV, dV, [xX, #16]
str xX, [sp, #8]
ld1 { vV.4s }, [xX], xY
ld1 { vV.s }[1], [xX]
ld1 { v4.4s, v5.4s, v6.4s, v7.4s }, [xX]
ld1 { v31.4s, v0.4s }, [xX]
st1 { v4.4s, v5.4s }, [xX]
st1 { v20.4s, v21.4s, v22.4s }, [xX], #48
tbl vV.16b, { v4.16b, v5.16b }, vV.16b
tbl vV.16b, { vV.16b }, vV.16b
fmla vV.4s, vV.4s, vV.4s
fmla vV.4s, vV.4s, vV.s[1]
fmla vV.8h, vV.8h, vL.h[1]
mul vV.8h, vV.8h, vL.h[7]
fadd vV.4s, vV.4s, vV.4s
ins vV.d[1], xX
mov vV.s[1], vV.s[0]
umov wX, vV.s[1]
fmov dV, xX
fmov xX, dV
fcvtn2 vV.4s, vV.2d
xtn vV.4h, vV.4s
fmadd sV, sV, sV, sV
movi vV.4s, #0
mov x30, xX
add xX, x30, x29
mov x18, xX
add xX, x18, #1
""".strip().splitlines()

GENERAL = [0, 1, 2, 3, 9, 16, 19, 20]
VECTOR = [0, 1, 4, 5, 6, 7, 8, 15, 16, 20, 21, 22, 31]


def body(seed: int, length: int) -> tuple[Code, ...]:
    pick = Random(seed)
    general, vector = pick.sample(GENERAL, 5), pick.sample(VECTOR, 7)

    def fill(template: str) -> Instr:
        x, y = pick.sample(general, 2)
        v, w = pick.sample(vector, 2)
        text = template
        if "Y" in text or "W" in text:  # these must differ from all others
            text = re.sub("X(?=.*Y)|Y", lambda m: str(y if m[0] == "Y" else x), text, count=0)
            text = text.replace("V", str(v)).replace("W", str(w))
        text = re.sub("X", lambda m: str(pick.choice(general)), text)
        text = re.sub("L", lambda m: str(pick.choice([n for n in vector if n < 16] or [1])), text)
        return parse_instr(re.sub("V", lambda m: str(pick.choice(vector)), text))

    found: list[Instr] = []
    while len(found) < length:
        instr = fill(pick.choice(TEMPLATES))
        address = [reg.name for reg in instr.registers()[-1:]]
        base = instr.operands[-1]
        if getattr(base, "mode", "offset") != "offset" and [r.name for r in instr.registers()].count(address[0]) > 1:
            continue  # a base that is also data: unpredictable
        if instr.mnemonic == "ldp" and instr.registers()[0] == instr.registers()[1]:
            continue
        found.append(instr)
    return with_effects(found)


def live_before(code: Sequence[Code], live: frozenset[str]) -> frozenset[str]:
    for c in reversed(code):
        live = (live - (c.effects.writes() - c.effects.reads())) | c.effects.reads()
    return live


@settings(max_examples=examples(600, 19))
@given(st.integers(0, 10**9), st.integers(1, 24), st.integers(0, 10**9))
def test_the_same_terms(seed: int, length: int, choice: int) -> None:
    code = body(seed, length)
    pick = Random(choice)
    every = [*(f"x{i}" for i in range(31)), *(f"v{i}" for i in range(32))]
    share = pick.random()
    live_out = frozenset(r for r in every if pick.random() < share) | {"sp", "x18", "x29", "x30"}
    live_out |= {f"x{i}" for i in range(19, 29)} | {f"v{i}" for i in range(8, 16)}
    live_in = live_before(code, live_out)
    try:
        new = allocate(code, live_in, live_out)
    except NoRegister:  # code fits its own registers, but these three are given to no value
        assert {"x18", "x29", "x30"} & {r for c in code for r in c.effects.writes()}
        return
    old = tuple(c.instr for c in code)
    assert terms.Symbols().run(old).left(live_out) == terms.Symbols().run(new).left(live_out)
    written = {r for c in code for r in c.effects.writes()}
    written_now = {r for c in with_effects(new) for r in c.effects.writes()}
    untouchable = {"x18", "x29", "x30", "sp"} | {f"x{i}" for i in range(19, 29)} | {f"v{i}" for i in range(8, 16)}
    assert untouchable & written_now <= written
    assert written_now <= written | set(SCRATCH_GENERAL) | set(SCRATCH_VECTORS) | {"nzcv"}
    for was, now in zip(old, new, strict=True):
        assert was.mnemonic == now.mnemonic
        for before, after in zip(was.operands, now.operands, strict=True):
            if isinstance(before, RegList) and len(before.registers) > 1:
                assert isinstance(after, RegList)
                numbers = [int(r.name[1:]) for r in after.registers]
                assert all((b - a) % 32 == 1 for a, b in zip(numbers, numbers[1:], strict=False))
        for reg in now.registers():
            assert not (reg.arrangement == "h" and reg.lane is not None and int(reg.name[1:]) > 15)
        names = [reg.name for reg in now.registers()]
        if getattr(now.operands[-1], "mode", "offset") != "offset":  # a base written back is no data register
            assert len(set(names)) >= len({reg.name for reg in was.registers()}), (was, now)
        elif now.mnemonic == "ldp":  # two targets; either may be the base, whose last read this then is
            assert names[0] != names[1], (was, now)


def test_scratch_names_become_registers_that_are_free() -> None:
    code = with_effects([parse_instr("ldr d0, [x1]")])
    high = parse_instr("ldr x9, [x1, #8]").with_registers(("x%0", "x1"))
    insert = parse_instr("ins v0.d[1], x9").with_registers(("v0", "x%0"))
    code = (*code, *with_effects([high, insert]))
    live = frozenset(f"x{i}" for i in range(31) if i != 7) | {"sp", "v0"}
    new = allocate(code, live - {"v0"}, live)
    assert [str(i) for i in new] == ["ldr\td0, [x1]", "ldr\tx7, [x1, #8]", "ins\tv0.d[1], x7"]
    with pytest.raises(NoRegister):
        allocate(code, live | {"x7"}, live | {"x7"})
    without = (live | {"x7"}) - {"x20"}  # which has to be saved: only on request
    assert "x20" in str(allocate(code, without, without, frozenset({"x20"}))[1])
    with pytest.raises(NoRegister):
        allocate(code, without, without)


def test_a_register_is_free_between_the_values_that_it_carries_on() -> None:
    """v0 is live at the top and at the end, and in between the code's third value has no other register."""
    texts = ("fmla v1.4s, v0.4s, v2.4s", "ldr q0, [x1, #16]", "fmla v1.4s, v0.4s, v2.4s", "ldr q0, [x1, #32]")
    code = with_effects([parse_instr(text) for text in texts])
    live = frozenset({"x1", *(f"v{i}" for i in range(32))})
    assert [str(instr) for instr in allocate(code, live, live)] == [str(c.instr) for c in code]


def test_values_keep_their_registers_where_others_do_not_fit() -> None:
    """v3 has been free longest when v20's second value begins; given to it, no lane of v3 to v15 would be left."""
    texts = (
        "ldr q20, [x1]",
        "fadd v1.8h, v1.8h, v20.8h",
        "ldr q20, [x1, #16]",
        "ldr q3, [x1, #32]",
        "fmla v1.8h, v20.8h, v3.h[1]",
    )
    code = with_effects([parse_instr(text) for text in texts])
    live = frozenset({"x1", *(f"v{i}" for i in range(32) if i not in (3, 20))})
    assert [str(instr) for instr in allocate(code, live, live)] == [str(c.instr) for c in code]


def test_successive_values_get_different_registers() -> None:
    """Removes the false dependences that keep a scheduler from overlapping iterations."""
    code = with_effects(
        [
            parse_instr(t)
            for t in ("ldr q16, [x1]", "fadd v0.4s, v0.4s, v16.4s", "ldr q16, [x1, #16]", "fadd v0.4s, v0.4s, v16.4s")
        ]
    )
    live = frozenset({"x1", "v0"})
    new = allocate(code, live, live)
    first, second = (new[i].registers()[0].name for i in (0, 2))
    assert first != second and {first, second} & {"v0"} == set()
    assert [r.name for r in new[1].registers()][1:] == ["v0", first]
    assert new[3].registers()[0].name == "v0"
