"""Live registers: by hand, and against following every path of random small graphs."""

import random

import pytest

from mavcg.passes.asm.analysis.blocks import Function, functions_of
from mavcg.passes.asm.analysis.liveness import ALL, AT_CALL, AT_RETURN, live_before, liveness, private_conventions
from mavcg.passes.asm.isa.effects import FLAGS
from mavcg.passes.asm.isa.source import parse_source

HEAD = "\t.text\n"


def functions(text: str) -> tuple[Function, ...]:
    return functions_of(parse_source(HEAD + text))


def top(text: str, block: int = 0) -> frozenset[str]:
    (function,) = functions(f".globl f\nf:\n{text}\n")
    return liveness(function).at_top[block]


def registers(text: str) -> frozenset[str]:
    return frozenset(text.split())


@pytest.mark.parametrize(
    ("text", "live", "dead"),
    [
        ("add x0, x9, x10\nret", "x9 x10 x1 x19 x29 x30 v0 v8 sp", "x0 x11 x16 v16 v31 nzcv"),
        ("mov w9, w10\nadd x0, x0, x9\nret", "x10", "x9"),  # a w register's write is one of the whole register
        ("fmov s16, s17\nfadd s0, s16, s0\nret", "v17", "v16"),  # so is a scalar's of the vector
        ("mov v16.s[1], w9\nmov v0.16b, v16.16b\nret", "v16 x9", "x10"),  # an element's is not
        ("movk x9, #1, lsl #16\nmov x0, x9\nret", "x9", "x10"),
        ("ld1 { v16.s }[1], [x9]\nmov v0.16b, v16.16b\nret", "v16 x9", ""),
        ("ld1r { v16.4s }, [x9]\nmov v0.16b, v16.16b\nret", "x9", "v16"),
        ("xtn2 v16.8h, v17.4s\nmov v0.16b, v16.16b\nret", "v16 v17", ""),
        ("ldr x9, [x10], #8\nmov x0, x9\nret", "x10", "x9"),
        ("adcs x9, x10, x11\ncset x0, eq\nret", "nzcv x10 x11", "x9"),
        ("cmp x9, x10\ncset x0, eq\nret", "x9 x10", "nzcv"),
        ("ccmp x9, #1, #0, eq\ncset x0, eq\nret", "nzcv x9", ""),
        ("bl g\nret", "x0 x9 x17 v0 v7 v8 sp x29", "x30 v16 v31 nzcv"),  # x30 is written by the call itself
        ("mov x9, #1\nmov x19, x30\nblr x10\nmov x30, x19\nret x30", "x10 x30 x0", "x9"),
        ("b g", "x0 x9 v0 v8 x30", "v16 nzcv"),  # a tail call
        ("br x9", " ".join(ALL), ""),
        ("mrs x0, fpcr\nret", " ".join(ALL), ""),
        (".inst 0xd503201f\nret", " ".join(ALL), ""),
        (".word 0xd503201f\nret", " ".join(ALL), ""),
        ("nop", " ".join(ALL), ""),  # control runs into what follows
        ("bl abort", " ".join(AT_CALL - {"x30"}), "x30"),
        ("ret x9", "x9 x30", "x10"),
        ("cbz x9, g\nret", "x9 x0 x10", "v16 nzcv"),  # perhaps a tail call
        ("b .Lelsewhere2\n.globl g\ng: .Lelsewhere2: mov x0, x9\nret", " ".join(ALL), ""),
    ],
)
def test_live_registers_are_those_found_by_hand(text: str, live: str, dead: str) -> None:
    first = functions(f".globl f\nf:\n{text}\n")[0]
    found = liveness(first).at_top[0]
    assert registers(live) <= found
    assert not registers(dead) & found


def test_a_loop_carries_its_registers_around() -> None:
    text = """
    mov x9, #0
.Lloop:
    ldr q16, [x1], #16
    fmla v0.4s, v16.4s, v1.s[0]
    subs x2, x2, #1
    add x9, x9, #1
    b.ne .Lloop
    mov x0, x9
    ret
    """
    (function,) = functions(f".globl f\nf:{text}")
    live = liveness(function)
    assert registers("x1 x2 x9 v0 v1 x30") <= live.at_top[1]
    assert registers("x1 x2 x9 v0 v1") <= live.at_end[1]
    assert not registers("v16 x10 x11 nzcv v17") & (live.at_top[1] | live.at_end[1])
    assert "x9" not in live.at_top[0]
    inside = live_before(function.blocks[1], live.at_end[1], 1)
    assert "v16" in inside and "nzcv" not in inside
    assert FLAGS in live_before(function.blocks[1], live.at_end[1], 4)


def test_the_vector_convention_keeps_everything() -> None:
    (function,) = functions(".globl f\nf: fadd v0.4s, v0.4s, v1.4s\nret\n")
    assert "v16" not in liveness(function).at_top[0]
    assert liveness(function, variant_convention=True).at_top[0] == ALL - {FLAGS}


def test_hand_written_functions_may_agree_on_more() -> None:
    text = """
.globl f
f:  mov x19, x30
    bl helper
    fadd v0.4s, v20.4s, v0.4s   // which helper left there
    ret x19
.type helper, %function
helper:
    fmul v20.4s, v25.4s, v1.4s
    b tail
.type tail, %function
tail:
    add x9, x9, #1
    ret
    """
    parsed_functions = functions(text)
    private = private_conventions(parsed_functions)
    plain = [liveness(f).at_top[0] for f in parsed_functions]
    assert "v25" not in plain[0] and "v20" not in plain[2]
    f, helper, tail = (liveness(one, private=private).at_top[0] for one in parsed_functions)
    assert "v25" in f and "v25" in helper
    assert "v20" in tail and "v20" not in helper
    assert "v21" not in f | helper | tail


def test_a_function_is_called_by_any_of_its_names() -> None:
    """dav1d's itx.S: an exported function has a local name too, by which its file calls it, and a helper of its own."""
    text = """
.globl f
f:  mov x15, x30
    bl middle
    ret x15
.globl _dav1d_middle
_dav1d_middle:
middle:
    mov x14, x30
    fmul v20.4s, v25.4s, v1.4s
    bl helper
    ret x14
.type helper, %function
helper:
    add x9, x9, #1
    ret
    """
    parsed_functions = functions(text)
    private = private_conventions(parsed_functions)
    f, middle, helper = (liveness(one, private=private) for one in parsed_functions)
    assert [one.name for one in parsed_functions] == ["f", "_dav1d_middle", "helper"]
    assert "v25" in f.at_top[0] and "x15" in middle.at_end[-1]
    assert {"x14", "x15"} <= helper.at_end[-1]


def test_compiled_functions_agree_on_nothing_more() -> None:
    parsed_functions = functions(
        ".globl f\nf: str x30, [sp, #-16]!\nbl g\nldr x30, [sp], #16\nret\n.type g, %function\ng: add x0, x0, x1\nret\n"
    )
    private = private_conventions(parsed_functions)
    assert private.read_after["g"] <= AT_RETURN
    assert private.read_by["g"] <= AT_CALL | AT_RETURN


NAMES = ("x9", "x10", "x11", "v16", "nzcv")


def _random_function(pick: random.Random, blocks: int) -> str:
    lines = [".globl f", "f:"]
    for block in range(blocks):
        lines.append(f".Lb{block}:")
        for _ in range(pick.randrange(3)):
            a, b = pick.choice(NAMES[:3]), pick.choice(NAMES[:3])
            lines.append(
                pick.choice(
                    (
                        f"mov {a}, {b}",
                        f"mov {a}, #1",
                        f"movk {a}, #1",
                        f"cmp {a}, {b}",
                        f"cset {a}, eq",
                        f"adcs {a}, {b}, {b}",
                        f"fmov d16, {a}",
                        f"mov v16.d[1], {a}",
                        f"fmov {a}, d16",
                    )
                )
            )
        target = f".Lb{pick.randrange(blocks)}"
        lines.append(pick.choice(("nop", f"b {target}", f"b.eq {target}", f"cbz x9, {target}", "ret", "nop")))
    return "\n".join([*lines, "ret"]) + "\n"


def _reads_first(function: Function, index: int, name: str) -> bool:
    """True if, by enumeration, some path from the block's top reads the register before it writes it."""
    seen, walk = set(), [index]
    while walk:
        at = walk.pop()
        if at in seen:
            continue
        seen.add(at)
        block = function.blocks[at]
        written = False
        for line in block.lines:
            assert line.effects is not None
            if name in line.effects.reads():
                return True
            if name in line.effects.writes():
                written = True
                break
        if not written:
            walk += block.successors
    return False


def test_against_every_path_of_random_graphs() -> None:
    pick = random.Random(5)
    for _ in range(300):
        (function,) = functions(_random_function(pick, pick.randint(1, 6)))
        live = liveness(function)
        for index in range(len(function.blocks)):
            for name in NAMES:  # none of which a return reads
                expected = _reads_first(function, index, name)
                assert (name in live.at_top[index]) == expected, (name, index, function)
