"""Edges against a definition by force: every pair of accesses of unrolled iterations."""

from random import Random

import pytest

from mavcg.passes.asm.analysis.aliasing import block_accesses, may_overlap
from mavcg.passes.asm.analysis.dependences import Code, block_edges, loop_edges, with_effects
from mavcg.passes.asm.isa.op import RegisterRead
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

LINES = """
ldr q0, [x1], #16
ldr q1, [x2, #16]
str q0, [x3], #16
str q1, [x3, #32]
fmla v2.4s, v0.4s, v1.s[0]
fadd v0.4s, v0.4s, v1.4s
ins v1.d[1], x9
ldr x9, [x2, #8]
add x9, x9, #1
cmp x9, #3
csel x9, x9, x2, eq
adcs x9, x9, x9
prfm pldl1keep, [x1, #64]
""".strip().splitlines()

TIMING = load_timing(load_core("cortex-a55"))


def body(pick: Random) -> tuple[Code, ...]:
    lines = [pick.choice(LINES) for _ in range(pick.randint(1, 8))]
    return with_effects([parse_instr(t) for t in (*lines, "subs x0, x0, #1", "b.ne .Lloop")])


def order_by_force(code: tuple[Code, ...], rounds: int) -> set[tuple[int, int]]:
    """Instances (round * length + index) of which the first must stay before the second, closed under transitivity."""
    count = len(code)
    accesses = block_accesses([(c.instr, c.effects) for c in code])
    ordered: set[tuple[int, int]] = set()
    for a in range(count * rounds):
        for b in range(a + 1, count * rounds):
            first, then = code[a % count].effects, code[b % count].effects
            registers = first.writes() & (then.reads() | then.writes()) | first.reads() & then.writes()
            one, other = first.memory, then.memory
            if one and other and one.bytes and other.bytes and (one.store or other.store):
                later = b // count - a // count
                if may_overlap(accesses.ranges[a % count], accesses.ranges[b % count], accesses.steps, later):
                    ordered.add((a, b))
            if registers:
                ordered.add((a, b))
    return closed(ordered, count * rounds)


def closed(pairs: set[tuple[int, int]], count: int) -> set[tuple[int, int]]:
    after = [0] * count
    for a, b in pairs:
        after[a] |= 1 << b
    for a in reversed(range(count)):
        for b in range(a + 1, count):
            if after[a] >> b & 1:
                after[a] |= after[b]
    return {(a, b) for a in range(count) for b in range(count) if after[a] >> b & 1}


def test_loop_edges_are_all_that_must_stay_in_order() -> None:
    pick = Random(4)
    for _ in range(150):
        code = body(pick)
        count, rounds = len(code), 4
        edges = loop_edges(code, TIMING)
        pairs = {
            (e.source + r * count, e.target + (r + e.distance) * count)
            for e in edges
            for r in range(rounds - e.distance)
            if (e.source, 0) != (e.target, e.distance)
        }
        assert all(a < b for a, b in pairs)
        assert closed(pairs, count * rounds) == order_by_force(code, rounds), [str(c.instr) for c in code]


def test_block_edges_are_all_that_must_stay_in_order() -> None:
    pick = Random(5)
    for _ in range(200):
        code = body(pick)
        pairs = {(e.source, e.target) for e in block_edges(code, TIMING)}
        assert closed(pairs, len(code)) == order_by_force(code, 1)
        assert not any(e.distance for e in block_edges(code, TIMING))


def edge(text: str, source: int, target: int, distance: int = 0) -> int:
    edges = loop_edges(with_effects([parse_instr(t) for t in text.splitlines()]), TIMING)
    (found,) = (e.latency for e in edges if (e.source, e.target, e.distance) == (source, target, distance))
    return found


def test_latencies() -> None:
    text = "ldr q0, [x1], #16\nfadd v2.4s, v0.4s, v1.4s\nstr q2, [x3]\nldr x9, [x1]"
    assert edge(text, 0, 1) == TIMING.latency("ldr_q", "fadd_q", "")
    assert edge(text, 1, 2) == TIMING.latency("fadd_q", "str_q", "data")
    assert edge(text, 0, 3) == max(1, TIMING.latency("writeback", "ldr_x", "addr"))  # the base, not the data
    assert edge(text, 1, 0, 1) == 0  # read before it is written anew: the same cycle will do
    assert edge("fmla v0.4s, v1.4s, v2.4s\nnop", 0, 0, 1) == TIMING.latency("fmla_q", "fmla_q", "acc")


@pytest.mark.parametrize(
    ("text", "reads", "writes", "writeback"),
    [
        ("ldr q0, [x1], #16", (RegisterRead("x1", "addr"),), ("v0", "x1"), "x1"),
        ("fmla v0.4s, v1.4s, v1.s[0]", (RegisterRead("v0", "acc"), RegisterRead("v1")), ("v0",), None),
        ("adcs w0, w1, w2", (RegisterRead("x1"), RegisterRead("x2"), RegisterRead("nzcv")), ("x0", "nzcv"), None),
        (
            "str q0, [x1, x2]",
            (RegisterRead("v0", "data"), RegisterRead("x1", "addr"), RegisterRead("x2", "addr")),
            (),
            None,
        ),
        ("cmp xzr, x1", (RegisterRead("x1"),), ("nzcv",), None),
    ],
)
def test_ops(text: str, reads: tuple[RegisterRead, ...], writes: tuple[str, ...], writeback: str | None) -> None:
    (code,) = with_effects([parse_instr(text)])
    op = code.op
    assert (op.reads, op.writes, op.writeback) == (reads, writes, writeback)
    assert op.text == text
