"""Random AArch64 functions as LLVM prints them: straight-line code and counted loops, for checks by execution.

Each instruction is made from one integer that hypothesis draws, so that a failing example shrinks by leaving
instructions out (random_instructions.py).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.passes.asm.random_instructions import FRAME_SLOTS, Registers, instruction, writes_flags


def _trip_count(dice: Random, registers: Registers, register: int) -> list[str]:
    """Lines that put 1 to 40 into a register: known when it was assembled, or from an argument."""
    if dice.random() < 0.6:
        return [f"mov x{register}, #{dice.choice((1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 33, 40))}"]
    mask = dice.choice((1, 3, 7, 31))
    return [f"and x{register}, x{dice.choice(registers.ints)}, #{mask:#x}", f"add x{register}, x{register}, #1"]


def _insert(dice: Random, body: list[str], line: str, after: int = 0) -> int:
    at = dice.randint(after, len(body))
    body.insert(at, line)
    return at


def _behind_flags(body: Sequence[str]) -> int:
    """The first place with no writer of flags behind it."""
    return max((at + 1 for at, line in enumerate(body) if writes_flags(line)), default=0)


def counted_loop(dice: Random, registers: Registers, seeds: Sequence[int], label: str) -> list[str]:
    """A do-while loop around the instructions of `seeds`; registers.sources are its counter and its limit."""
    counter, limit = registers.sources
    size = dice.choice("xw")
    i, end = f"{size}{counter}", f"{size}{limit}"
    step = dice.choice((1, 1, 2, 4))
    form = dice.choice(("subs", "subs", "cbnz", "cmp", "cmp", "cmp early", "pointer", "downto"))
    setup = [f"mov {i}, #0"] if form.startswith("cmp") else []
    if form == "pointer":
        registers = replace(registers, fixed=registers.pointers[:1])
    body = [instruction(seed, registers) for seed in seeds]
    if form == "subs":
        setup += _trip_count(dice, registers, counter)
        _insert(dice, body, f"subs {i}, {i}, #1", _behind_flags(body))
        body.append(f"b.{dice.choice(('ne', 'ne', 'gt', 'hi'))} {label}")
    elif form == "downto":
        setup += [*_trip_count(dice, registers, counter), f"lsl x{counter}, x{counter}, #1"]
        _insert(dice, body, f"subs {i}, {i}, #{2 * step}", _behind_flags(body))
        body.append(f"b.gt {label}")
    elif form == "cbnz":
        setup += _trip_count(dice, registers, counter)
        _insert(dice, body, f"sub {i}, {i}, #1")
        body.append(f"cbnz {i}, {label}")
    elif form.startswith("cmp"):
        setup += [*_trip_count(dice, registers, limit), f"lsl x{limit}, x{limit}, #{step.bit_length() - 1}"]
        if form == "cmp early":  # the old value is compared: one more trip
            early = _insert(dice, body, f"cmp {i}, {end}", _behind_flags(body))
            _insert(dice, body, f"add {i}, {i}, #{step}", early + 1)
        else:
            moved = _insert(dice, body, f"add {i}, {i}, #{step}")
            _insert(dice, body, f"cmp {i}, {end}", max(moved + 1, _behind_flags(body)))
        body.append(f"b.{dice.choice(('lo', 'lt', 'ne'))} {label}")
    else:
        pointer, stride = registers.pointers[0], dice.choice((8, 16, 32, 64))
        setup += _trip_count(dice, registers, limit)
        setup += [f"lsl x{limit}, x{limit}, #{stride.bit_length() - 1}", f"add x{limit}, x{pointer}, x{limit}"]
        vector = dice.choice(registers.vectors)
        moves = (f"ldr q{vector}, [x{pointer}], #{stride}", f"add x{pointer}, x{pointer}, #{stride}")
        moved = _insert(dice, body, dice.choice(moves))
        _insert(dice, body, f"cmp x{pointer}, x{limit}", max(moved + 1, _behind_flags(body)))
        body.append(f"b.{dice.choice(('ne', 'lo'))} {label}")
    return [*setup, f"{label}:", *body]


def _live_out(dice: Random, registers: Registers) -> list[str]:
    """Stores of some registers, and some results: all others are dead."""
    pointer = dice.choice(registers.pointers)
    lines = [f"str q{v}, [x{pointer}, #{16 * at}]" for at, v in enumerate(registers.vectors) if dice.random() < 0.7]
    kept = [x for x in registers.ints + registers.pointers[1:] if dice.random() < 0.6]
    lines += [f"str x{x}, [x{pointer}, #{512 + 8 * at}]" for at, x in enumerate(kept)]
    lines += [f"mov v0.16b, v{dice.choice(registers.vectors)}.16b"] if dice.random() < 0.5 else []
    return [*lines, f"mov x0, x{dice.choice(registers.ints + registers.pointers)}"] if dice.random() < 0.5 else lines


def with_frame(lines: Sequence[str], has_frame: bool) -> list[str]:
    """Save and restore what a callee must preserve and `lines` touch."""
    text = "\n".join(lines)
    numbers = {(kind, int(number)) for kind, number in re.findall(r"\b([xwvqdshb])(\d+)\b", text)}
    saved = sorted({f"x{n}" for kind, n in numbers if kind in "xw" and 19 <= n <= 28})
    saved += sorted({f"d{n}" for kind, n in numbers if kind in "vqdshb" and 8 <= n <= 15})
    size = (FRAME_SLOTS if has_frame else 0) + -(-len(saved) // 2) * 16
    if not size:
        return [*lines, "ret"]
    first = size - -(-len(saved) // 2) * 16
    save: list[str] = []
    restore: list[str] = []
    while saved:
        at = first + 8 * (len(save) * 2)
        if len(saved) > 1 and saved[0][0] == saved[1][0]:
            save.append(f"stp {saved[0]}, {saved[1]}, [sp, #{at}]")
            restore.append(f"ldp {saved[0]}, {saved[1]}, [sp, #{at}]")
            saved = saved[2:]
        else:
            save.append(f"str {saved[0]}, [sp, #{at}]")
            restore.append(f"ldr {saved[0]}, [sp, #{at}]")
            saved = saved[1:]
    size = max(size, first + 16 * len(save))
    slots = [f"stp xzr, xzr, [sp, #{at}]" for at in range(0, FRAME_SLOTS, 16)] if has_frame else []
    return [f"sub sp, sp, #{size}", *save, *slots, *lines, *reversed(restore), f"add sp, sp, #{size}", "ret"]


def _registers(dice: Random, has_frame: bool) -> Registers:
    numbers = dice.sample(range(8, 18), 10) if dice.random() < 0.7 else dice.sample([*range(8, 18), *range(19, 29)], 10)
    vectors = dice.sample(range(32), dice.randint(5, 10))
    vectors[0] %= 16  # lanes of halves are of v0 to v15
    pointers = tuple(dice.sample(range(8), dice.randint(2, 4)))
    return Registers(
        pointers,
        tuple(numbers[2 : 2 + dice.randint(3, 6)]),
        tuple(dict.fromkeys(vectors)),
        sources=(numbers[0], numbers[1]),
        has_frame=has_frame,
    )


@dataclass(frozen=True)
class RandomFunction:
    """The parts of a random function that hypothesis draws. body: of the loop; empty for straight-line code."""

    shape: int
    before: tuple[int, ...]
    body: tuple[int, ...]
    after: tuple[int, ...]

    def with_one_less(self) -> Iterator["RandomFunction"]:
        """The same function without one of its instructions, for each of them; a loop keeps one."""
        for part in ("before", "body", "after"):
            seeds = getattr(self, part)
            for at in range(len(seeds)):
                if part != "body" or len(seeds) > 1:
                    rest: Any = {part: (*seeds[:at], *seeds[at + 1 :])}
                    yield replace(self, **rest)

    def lines(self, name: str) -> list[str]:
        dice = Random(self.shape)
        has_frame = dice.random() < 0.3
        registers = _registers(dice, has_frame)
        lines = []
        if dice.random() < 0.4:  # two pointers that surely overlap
            first, second = registers.pointers[:2]
            lines.append(f"add x{second}, x{first}, #{dice.choice((0, 4, 8, 16, 16, 24, 32, 64))}")
        lines += [f"movi v{v}.2d, #0" for v in registers.vectors if dice.random() < 0.3]
        lines += [instruction(seed, registers) for seed in self.before]
        registers = replace(registers, is_kernel=bool(self.body) and dice.random() < 0.4)
        if self.body:
            lines += counted_loop(dice, registers, self.body, f".LBB{name}_1")
            if dice.random() < 0.1:
                lines += counted_loop(dice, registers, tuple(reversed(self.body)), f".LBB{name}_2")
        lines += [instruction(seed, registers) for seed in self.after]
        return with_frame([*lines, *_live_out(dice, registers)], has_frame)


def function_text(name: str, lines: Sequence[str]) -> str:
    """A function around its lines, as LLVM prints it."""
    shown = [line if line.endswith(":") else "\t" + line.replace(" ", "\t", 1) for line in lines]
    head = ["\t.text", f"\t.globl\t{name}", "\t.p2align\t2", f"\t.type\t{name},@function", f"{name}:"]
    body = ["\t.cfi_startproc", "// %bb.0:", *shown]
    tail = [f".Lfunc_end_{name}:", f"\t.size\t{name}, .Lfunc_end_{name}-{name}", "\t.cfi_endproc"]
    return "\n".join([*head, *body, *tail, ""])


_SEED = st.integers(0, (1 << 24) - 1)  # hypothesis prefers small numbers in larger ranges


def _seeds(least: int, most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(_SEED, min_size=least, max_size=most).map(tuple)


def blocks() -> st.SearchStrategy[RandomFunction]:
    """Straight-line functions of up to 30 random instructions."""
    return st.builds(RandomFunction, _SEED, _seeds(6, 30), st.just(()), st.just(()))


def loops() -> st.SearchStrategy[RandomFunction]:
    """Functions around a counted loop of up to 24 random instructions, at times two loops."""
    return st.builds(RandomFunction, _SEED, _seeds(0, 3), _seeds(3, 24), _seeds(0, 4))


def functions() -> st.SearchStrategy[RandomFunction]:
    """Two of three have loops."""
    return st.one_of(loops(), blocks(), loops())


def program_text(functions: Sequence[RandomFunction]) -> str:
    """Functions f0, f1, ... in one text: one call of the assembler serves all."""
    return "".join(function_text(f"f{number}", f.lines(f"f{number}")) for number, f in enumerate(functions))
