"""Accesses reported as no alias share no byte: addresses computed as numbers, over iterations of random code."""

from random import Random

import pytest

from mavcg.passes.asm.analysis.aliasing import AddressRange, block_accesses, may_overlap
from mavcg.passes.asm.analysis.dependences import Code, with_effects
from mavcg.passes.asm.isa.syntax import Imm, Mem, Reg, parse_instr

TEMPLATES = """
ldr q0, [{p}]
ldr q0, [{p}, #{o}]
ldr q0, [{p}], #{o}
ldr d0, [{p}, #{o}]!
str q0, [{p}, #{o}]
str q0, [{p}], #16
str d0, [{p}, #{o}]!
stp q0, q1, [{p}, #{q}]
ldp x8, x9, [{p}], #{q}
st1 {{ v0.4s, v1.4s }}, [{p}], {i}
ld1 {{ v0.s }}[1], [{p}]
st1 {{ v0.b }}[3], [{p}], #1
str w8, [{p}, {i}]
str q0, [{p}, {i}, lsl #4]
str x8, [{p}, {v}, sxtw #3]
ldr {p}, [{r}]
add {p}, {r}, #{o2}
sub {p}, {p}, #{o2}
add {p}, {p}, #1, lsl #12
add {p}, {p}, {i}
add {i}, {i}, #1
mov {p}, {r}
mov {i}, xzr
add {w}, {w}, #4
movk {p}, #3
str q0, [sp, #{q}]
add {i}, {i}, #0
""".strip().splitlines()


def body(pick: Random) -> tuple[Code, ...]:
    found = []
    for _ in range(pick.randint(2, 9)):
        p, r = pick.choice(("x1", "x2", "x3")), pick.choice(("x1", "x2", "x3"))
        i = pick.choice(("x4", "x5"))
        text = pick.choice(TEMPLATES).format(
            p=p,
            r=r,
            i=i,
            v=f"w{i[1]}",
            w=f"w{p[1]}",
            o=pick.choice((-16, -8, 0, 8, 16, 32)),
            q=pick.choice((-32, 0, 16, 32)),
            o2=pick.choice((0, 8, 16, 48)),
        )
        if not text.startswith(f"ldr {p}, [{p}]"):
            found.append(parse_instr(text))
    return with_effects(found)


def touched(code: tuple[Code, ...], values: dict[str, int], pick: Random) -> list[range | None]:
    """One iteration on numbers: the bytes of each access; loads leave any number."""
    mask = (1 << 64) - 1
    found: list[range | None] = []
    for c in code:
        memory, ops = c.effects.memory, c.instr.operands
        new: dict[str, int] = {r: pick.getrandbits(64) for r in c.effects.writes() if r[0] == "x"}
        if memory is not None:
            address: Mem = memory.address
            base, index = values[address.base.name], 0
            if address.index is not None:
                index = values[address.index.name]
                if address.index.view == "w":
                    index = (index & 0xFFFFFFFF) - ((index & 0x80000000) << 1)
            step = (address.offset or 0) if address.index is None else index
            if address.index is not None and "#" in address.extend:
                step <<= int(address.extend.split("#")[1])
            at = base if address.mode == "post" else base + step
            found.append(range(at & mask, (at & mask) + memory.bytes))
            if address.mode != "offset":
                new[address.base.name] = (base + step) & mask
        else:
            found.append(None)
            to, *others = ops
            assert isinstance(to, Reg)
            registers = [values.get(o.name, 0) if isinstance(o, Reg) else 0 for o in others]
            numbers = [o.value if isinstance(o, Imm) else n for o, n in zip(others, registers, strict=True)]
            if c.instr.mnemonic == "mov":
                new[to.name] = numbers[0]
            elif c.instr.mnemonic in ("add", "sub"):
                shift = 12 if len(ops) == 4 else 0
                result = numbers[0] + (numbers[1] << shift) * (1 if c.instr.mnemonic == "add" else -1)
                new[to.name] = result & (mask if to.view == "x" else 0xFFFFFFFF)
            elif c.instr.mnemonic == "movk":
                new[to.name] = values[to.name] & ~0xFFFF | 3
        values.update(new)
    return found


def test_accesses_reported_as_no_alias_do_not_overlap() -> None:
    pick = Random(6)
    no_alias = 0
    for _ in range(1500):
        code = body(pick)
        known_places = block_accesses([(c.instr, c.effects) for c in code])
        for _ in range(3):
            near = 1 << 32
            values = {f"x{i}": near + pick.choice((0, 8, 16, 64)) for i in range(1, 4)}
            values |= {"x4": pick.randrange(4), "x5": pick.choice((0, 1, (1 << 64) - 1, 1 << 31))}
            values |= {"sp": near, "x8": 0, "x9": 0}
            rounds = [touched(code, values, pick) for _ in range(4)]
            for later in range(4):
                for a, one in enumerate(rounds[0]):
                    for b, other in enumerate(rounds[later]):
                        if one is None or other is None or (not later and a >= b):
                            continue
                        if not may_overlap(known_places.ranges[a], known_places.ranges[b], known_places.steps, later):
                            no_alias += 1
                            shown = [str(c.instr) for c in code]
                            assert one.stop <= other.start or other.stop <= one.start, (shown, a, b, later)
    assert no_alias > 3000


@pytest.mark.parametrize(
    ("text", "pair", "later", "overlap"),
    [
        ("str q0, [x1]\nldr q1, [x1, #16]", (0, 1), 0, False),
        ("str q0, [x1]\nldr q1, [x1, #15]", (0, 1), 0, True),
        ("str q0, [x1]\nldr q1, [x2, #16]", (0, 1), 0, True),
        ("str q0, [x1], #16\nldr q1, [x1]", (0, 1), 0, False),
        ("str q0, [x1], #16\nldr q1, [x1, #-16]", (0, 1), 0, True),
        ("str q0, [x1, #16]!\nldr q1, [x1, #16]", (0, 1), 0, False),
        ("str q0, [x1], #16", (0, 0), 1, False),
        ("str q0, [x1], #8", (0, 0), 1, True),
        ("str q0, [x1], #8", (0, 0), 2, False),
        ("str q0, [x1]\nldr q1, [x1, #16]\nadd x1, x1, #16", (0, 1), 1, False),
        ("ldr q0, [x1]\nstr q1, [x1, #16]\nadd x1, x1, #16", (1, 0), 1, True),
        ("mov x3, x1\nstr q0, [x3]\nldr q1, [x1, #16]", (1, 2), 0, False),
        ("add x3, x1, #1, lsl #12\nstr q0, [x3]\nldr q1, [x1, #4080]", (1, 2), 0, False),
        ("str q0, [x1, x2]\nldr q1, [x1, x2]", (0, 1), 0, True),
        ("str q0, [x1, x2]\nadd x2, x2, #16\nldr q1, [x1, x2]", (0, 2), 0, True),  # not followed, so not known
        ("str q0, [x1]\nadd x1, x1, x2\nldr q1, [x1, #16]", (0, 2), 0, True),
        ("add x1, x1, x2\nstr q0, [x1]\nldr q1, [x1, #16]", (1, 2), 0, False),
        ("add x1, x1, x2\nstr q0, [x1]\nldr q1, [x1, #16]", (1, 2), 1, True),
        ("ldr x1, [x2]\nstr q0, [x1]\nldr q1, [x1, #16]", (1, 2), 1, True),
        ("str q0, [sp]\nstr q1, [sp, #16]", (0, 1), 0, False),
        ("str q0, [x1, :lo12:a]\nstr q1, [x1, #16]", (0, 1), 0, True),
        ("add w1, w1, #16\nstr q0, [x1]\nldr q1, [x1, #16]", (1, 2), 1, True),
    ],
)
def test_overlaps_are_those_found_by_hand(text: str, pair: tuple[int, int], later: int, overlap: bool) -> None:
    code = with_effects([parse_instr(line) for line in text.splitlines()])
    accesses = block_accesses([(c.instr, c.effects) for c in code])
    assert may_overlap(accesses.ranges[pair[0]], accesses.ranges[pair[1]], accesses.steps, later) == overlap


def test_nothing_known_may_overlap() -> None:
    assert may_overlap(None, AddressRange("x1", 0, "", 16), {})
    assert may_overlap(AddressRange("x1", None, "a", 16), AddressRange("x1", 0, "", 16), {})
