"""Mutants of kernels: each kernel is written so that every instruction, operand and immediate shows in what it leaves
behind, and each mutant has one fault."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

KERNELS = {
    "axpy": """
        mov x3, #5
        ldr q16, [x4]
        ldr d18, [x4, #24]
    .Lloop:
        ldr q0, [x1], #16
        ldr q1, [x2, #32]
        fmla v1.4s, v0.4s, v16.s[3]
        fmla v1.4s, v1.4s, v18.s[1]
        str q1, [x2], #16
        subs x3, x3, #1
        b.ne .Lloop
        str x1, [x2, #64]
        str q18, [x2, #96]
        ret""",
    "dot": """
        mov x4, #48
        mov x5, #0
        movi v4.4s, #9
        movi v5.4s, #3
    .Lloop:
        ldp q0, q1, [x0], #32
        ld1 { v2.16b }, [x1]
        add x1, x1, #8
        ldr d3, [x2, x5]
        sdot v4.4s, v0.16b, v2.4b[1]
        sdot v5.4s, v1.16b, v3.4b[0]
        add x5, x5, #16
        cmp x5, x4
        b.lo .Lloop
        stp q4, q5, [x2, #-32]
        ret""",
    "alias": """
        add x1, x0, #16
        mov w2, #3
    .Lloop:
        ldr q0, [x0, #16]
        str d8, [x0, #24]
        ldr q2, [x1, #8]
        fadd v0.4s, v0.4s, v2.4s
        str q0, [x1], #16
        add x0, x0, #8
        sub w2, w2, #1
        cbnz w2, .Lloop
        mov x3, v2.d[1]
        str x3, [x0, #8]
        ret""",
    "flags": """
        stp x19, x20, [sp, #-32]!
        stp d9, d10, [sp, #16]
        ldp x19, x20, [x0]
        ldp x8, x9, [x1]
        ldr d9, [x0, #8]
        ldr d10, [x1, #24]
        adds x19, x19, x8
        adc x20, x20, x9
        cset w10, hs
        cmp x8, x9
        csel x11, x19, x20, gt
        ldr q3, [x0, #32]
        ext v3.16b, v3.16b, v9.16b, #4
        mov v3.s[1], v10.s[0]
        umov w12, v3.b[5]
        madd x11, x12, x8, x11
        stp x19, x20, [x0]
        stp x10, x11, [x1, #32]
        str q3, [x1, #64]
        ldp d9, d10, [sp, #16]
        ldp x19, x20, [sp], #32
        ret""",
}


@dataclass(frozen=True)
class Mutant:
    kind: str
    lines: tuple[str, ...]
    what: str


def lines_of(kernel: str) -> list[str]:
    return [line.strip() for line in KERNELS[kernel].strip().splitlines()]


def _code(lines: Sequence[str]) -> list[int]:
    return [at for at, line in enumerate(lines) if line != "ret" and not line.endswith(":")]


def _with(lines: Sequence[str], at: int, line: str) -> tuple[str, ...]:
    return (*lines[:at], line, *lines[at + 1 :])


def _is_frame(line: str) -> bool:
    return "[sp" in line or " sp, sp" in line


def wrong_registers(lines: Sequence[str]) -> Iterator[Mutant]:
    """Each register operand of each instruction becomes one that the instruction does not name."""
    for at in _code(lines):
        if _is_frame(lines[at]) or lines[at].count(", v") and "{ v" in lines[at]:  # a list has consecutive registers
            continue
        for found in re.finditer(r"\b([xwvqdsh])(\d+)\b", lines[at]):
            used = {int(name) for name in re.findall(r"\b[xwvqdsh](\d+)\b", lines[at])}
            other = next(n for n in (7, 6, 5, 4, 3, 2) if n not in used)
            line = f"{lines[at][: found.start()]}{found[1]}{other}{lines[at][found.end() :]}"
            yield Mutant("wrong register", _with(lines, at, line), line)


def dropped_instructions(lines: Sequence[str]) -> Iterator[Mutant]:
    for at in _code(lines):
        yield Mutant("dropped instruction", (*lines[:at], *lines[at + 1 :]), lines[at])


def wrong_immediates(lines: Sequence[str]) -> Iterator[Mutant]:
    """Each immediate and each lane becomes another one that can be encoded."""
    for at in _code(lines):
        if _is_frame(lines[at]):
            continue
        for found in re.finditer(r"#(-?\d+)|(?<=[a-z])\[(\d+)\]", lines[at]):
            larger = 16 if "[" in lines[at] or "x5, x5" in lines[at] else 1
            changed = f"[{int(found[2]) ^ 1}]" if found[2] else f"#{int(found[1]) + larger}"
            line = lines[at][: found.start()] + changed + lines[at][found.end() :]
            yield Mutant("wrong immediate", _with(lines, at, line), line)


def _is_load(line: str) -> bool:
    return line.startswith("ld")


def _is_store(line: str) -> bool:
    return line.startswith("st")


def _written(line: str) -> set[str]:
    """Registers that the line writes; all operands of a load's list, and moved pointers."""
    names = re.findall(r"\b[xwvqdsh](\d+)\b", line)
    if not names or line.startswith(("cmp", "cb", "b.")):
        return set()
    bank = "x" if re.match(r"\S+ [xw]", line) else "v"
    written = set() if _is_store(line) else {bank + names[0]}
    if line.startswith("ldp"):
        written.add(bank + names[1])
    pointer = re.search(r"\[x(\d+)(?:\], [#x]|.*\]!)", line)
    return written | ({f"x{pointer[1]}"} if pointer else set())


def _named(line: str) -> set[str]:
    return {("x" if k in "xw" else "v") + n for k, n in re.findall(r"\b([xwvqdshb])(\d+)\b", line)}


def swapped_dependences(lines: Sequence[str]) -> Iterator[Mutant]:
    """Neighbours of which one writes a register that the other names, swapped."""
    for at in _code(lines)[:-1]:
        first, second = lines[at], lines[at + 1]
        if second.endswith(":") or _is_frame(first) or second == "ret" or second.startswith(("b.", "cb")):
            continue
        if _written(first) & _named(second) or _written(second) & _named(first):
            yield Mutant("swapped dependence", (*lines[:at], second, first, *lines[at + 2 :]), f"{first} | {second}")


def loads_over_stores(lines: Sequence[str]) -> Iterator[Mutant]:
    """A load goes before the store in front of it; "alias" makes these two overlap."""
    for at in _code(lines)[:-1]:
        first, second = lines[at], lines[at + 1]
        if _is_store(first) and _is_load(second) and not _is_frame(first + second):
            yield Mutant("load over store", (*lines[:at], second, first, *lines[at + 2 :]), second)


def moved_stores(lines: Sequence[str]) -> Iterator[Mutant]:
    """A store of the loop goes to the loop's start, and behind the loop."""
    labels = [at for at, line in enumerate(lines) if line.endswith(":")]
    branches = [at for at, line in enumerate(lines) if line.endswith("Lloop")]
    for start, end in zip(labels, branches, strict=True):
        for at in range(start, end):
            if _is_store(lines[at]):
                rest = [*lines[:at], *lines[at + 1 :]]
                yield Mutant("moved store", (*rest[: start + 1], lines[at], *rest[start + 1 :]), lines[at])
                yield Mutant("moved store", (*rest[:end], lines[at], *rest[end:]), lines[at])


def extra_reads(lines: Sequence[str]) -> Iterator[Mutant]:
    """A load whose result nobody needs, of bytes that the function does not read."""
    for load in ("ldr q31, [x0, #1024]", "ldr xzr, [x1, #4096]", "ldrb wzr, [x0, #700]"):
        yield Mutant("extra read", (*lines[:-1], load, "ret"), load)


def unsaved_registers(lines: Sequence[str]) -> Iterator[Mutant]:
    """Preserved registers are written, and nothing restores them."""
    for register in ("x19", "x28", "x29"):
        yield Mutant("unsaved register", (*lines[:-1], f"mov {register}, #1", "ret"), register)
    for vector in ("v8", "v15"):
        yield Mutant("unsaved register", (*lines[:-1], f"movi {vector}.4s, #77", "ret"), vector)


MUTATIONS: tuple[Callable[[Sequence[str]], Iterator[Mutant]], ...] = (
    wrong_registers,
    dropped_instructions,
    wrong_immediates,
    swapped_dependences,
    loads_over_stores,
    moved_stores,
    extra_reads,
    unsaved_registers,
)
