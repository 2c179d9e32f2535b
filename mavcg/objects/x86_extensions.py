"""Tells which extensions of x86-64 the instructions of a function need, by their encoding.

The tables are in x86_opcodes.py. Hints that older processors ignore (prefetchw, endbr64, pause) need nothing. The bytes
of `tzcnt` are `rep bsf` on a processor without BMI1, with another result for 0, and count as BMI1; so do those of
`lzcnt`, which are `rep bsr` there.

Source: Intel SDM volume 2, chapter 2, "Instruction format"; AMD APM volume 3, chapter 1 (XOP).
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from mavcg.objects.x86_opcodes import EVEX, LEGACY, VEX, XOP

_SEGMENTS_AND_LOCK = frozenset((0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x67, 0xF0))
_MANDATORY = {0x66: "66", 0xF2: "f2", 0xF3: "f3"}
_BY_PP = ("np", "66", "f3", "f2")


def _set(text: str) -> frozenset[int]:
    """Return the bytes of a list such as "00-03 63"."""
    ranges = (word.partition("-") for word in text.split())
    return frozenset(n for lo, _, hi in ranges for n in range(int(lo, 16), int(hi or lo, 16) + 1))


# Not in 64-bit mode, or a prefix, which may not follow REX.
_NO_OPCODE_0 = _set("06 07 0e 16 17 1e 1f 27 2f 37 3f 40-4f 60-62 82 9a c4 c5 ce d4-d6 ea f0 f2 f3 26 2e 36 3e 64-67")
_MODRM_0 = _set("00-03 08-0b 10-13 18-1b 20-23 28-2b 30-33 38-3b 63 69 6b 80-8f c0 c1 c6 c7 d0-d3 d8-df f6 f7 fe ff")
_BYTE_0 = _set("04 0c 14 1c 24 2c 34 3c 6a 6b 70-7f 80 83 a8 b0-b7 c0 c1 c6 cd e0-e7 eb")  # constant of a byte
_WORD_0 = _set("05 0d 15 1d 25 2d 35 3d 68 69 81 a9 c7")  # of 4 bytes, or 2 with the operand-size prefix
_MISSING_1 = _set("04 0a 0c 0e 0f 20-27 36 39 3b-3f 7a 7b a6 a7 ff")
_NO_MODRM_1 = _set("05-09 0b 30-37 77 80-8f a0-a2 a8-aa c8-cf")
_BYTE_1 = _set("70-73 a4 ac ba c2 c4-c6")
_VECTOR_BYTE_1 = _set("70-73 c2 c4-c6")


class Opcode(NamedTuple):
    """The fields that distinguish an instruction from others.

    encoding: "legacy", "vex", "evex" or "xop". map: table of opcodes; 0 one byte, 1 0F, 2 0F 38, 3 0F 3A. prefix: "np",
    "66", "f3" or "f2". wide: W of REX, VEX or EVEX. opcode: a byte. length: of vectors, L of VEX or L'L of EVEX. modrm:
    the byte, or -1. rounds: the b bit of EVEX, which with a register operand means rounding in place of a length.
    """

    encoding: str
    map: int
    prefix: str
    wide: bool
    opcode: int
    length: int
    modrm: int
    rounds: bool


class X86Instruction(NamedTuple):
    """An instruction. at: its offset in the function. jump: distance from its end to where it directly leads."""

    at: int
    size: int
    opcode: Opcode
    jump: int | None


def instructions(code: bytes) -> Iterator[X86Instruction | None]:
    """Yield the instructions of a function; None, as the last one, for bytes that are no known instruction."""
    at = 0
    while at < len(code):
        found = _instruction(code, at)
        if found is None or found.at + found.size > len(code):
            yield None
            return
        yield found
        at += found.size


def _instruction(code: bytes, start: int) -> X86Instruction | None:
    padded = code[start : start + 15] + bytes(16)  # an instruction has at most 15 bytes
    at, prefixes, jump = 0, set(), 0
    while padded[at] in _SEGMENTS_AND_LOCK or padded[at] in _MANDATORY:
        prefixes.add(padded[at])
        at += 1
    if at > 14:
        return None
    first = padded[at]
    if first in (0xC4, 0xC5, 0x62) or (first == 0x8F and padded[at + 1] & 31 >= 8):
        end, opcode = (None, None) if prefixes & {0x66, 0xF2, 0xF3, 0xF0} else _vector_opcode(padded, at)
    else:
        end, opcode, jump = _legacy_opcode(padded, at, prefixes)
    if end is None or opcode is None or end > 15:
        return None
    distance = int.from_bytes(padded[end - jump : end], "little", signed=True) if jump else None
    return X86Instruction(start, end, opcode, distance)


def _vector_opcode(code: bytes, at: int) -> tuple[int | None, Opcode | None]:
    """Return the end of an instruction with VEX, EVEX or XOP, and its opcode."""
    first, one, two = code[at], code[at + 1], code[at + 2]
    if first == 0xC5:
        name, table, last, wide, length, rounds, at = "vex", 1, one, False, one >> 2 & 1, False, at + 2
    elif first == 0x62:
        three = code[at + 3]
        if one & 8 or not two & 4:  # of APX and AVX10
            return None, None
        name, table, last, wide, length, rounds = "evex", one & 7, two, two > 127, three >> 5 & 3, bool(three & 16)
        at += 4
    else:
        name, table, last, wide, length, rounds = "vex", one & 31, two, two > 127, two >> 2 & 1, False
        name = "xop" if first == 0x8F else name
        at += 3
    opcode = code[at]
    if name == "vex" and table == 1 and opcode == 0x77:  # vzeroupper, vzeroall
        return at + 1, Opcode(name, table, _BY_PP[last & 3], wide, opcode, 0, -1, False)
    modrm = code[at + 1]
    constant = {1: int(opcode in _VECTOR_BYTE_1), 3: 1, 8: 1, 10: 4}.get(table, 0)
    end = at + 1 + _operand_bytes(code, at + 1) + constant
    return end, Opcode(name, table, _BY_PP[last & 3], wide, opcode, length, modrm, rounds)


def _legacy_opcode(code: bytes, at: int, prefixes: set[int]) -> tuple[int | None, Opcode | None, int]:
    """Return the end of an instruction, its opcode, and the size of its last field if that is a jump's distance."""
    wide = code[at] & 0xF8 == 0x48
    if code[at] & 0xF0 == 0x40:  # REX
        at += 1
    table = 0
    if code[at] == 0x0F:
        table = {0x38: 2, 0x3A: 3}.get(code[at + 1], 1)
        at += 1 if table == 1 else 2
    opcode, modrm = code[at], code[at + 1]
    repeat = [_MANDATORY[p] for p in (0xF2, 0xF3) if p in prefixes]
    prefix = repeat[-1] if repeat else "66" if 0x66 in prefixes else "np"
    if opcode in (_NO_OPCODE_0, _MISSING_1, frozenset())[min(table, 2)] or len(repeat) > 1:
        return None, None, 0
    has_modrm = table > 1 or (opcode in _MODRM_0 if table == 0 else opcode not in _NO_MODRM_1)
    half, jump = 0x66 in prefixes and not wide, 0
    if half and ((table == 0 and opcode in (0xE8, 0xE9)) or (table == 1 and 0x80 <= opcode < 0x90)):
        return None, None, 0  # Intel reads a distance of 4 bytes, AMD of 2
    if table == 0 and opcode in (0xC6, 0xC7) and modrm & 0x38 and modrm != 0xF8:
        return None, None, 0
    at += 1 + (_operand_bytes(code, at + 1) if has_modrm else 0)
    if table == 0:
        at, jump = at + _constant_bytes(opcode, modrm, wide, half, 0x67 in prefixes), _jump_bytes(opcode, modrm)
    elif table == 1:
        is_extract = opcode == 0x78 and prefix in ("66", "f2")  # extrq, insertq
        at += 2 if is_extract else 4 if 0x80 <= opcode < 0x90 else int(opcode in _BYTE_1)
        jump = 4 if 0x80 <= opcode < 0x90 else 0
    else:
        at += table == 3
    return at, Opcode("legacy", table, prefix, wide, opcode, 0, modrm if has_modrm else -1, False), jump


def _operand_bytes(code: bytes, at: int) -> int:
    """Return the bytes of ModRM, SIB and displacement."""
    mode, base = code[at] >> 6, code[at] & 7
    if mode == 3:
        return 1
    sib = int(base == 4)
    if sib:
        base = code[at + 1] & 7
    return 1 + sib + (4 if mode == 2 or (mode == 0 and base == 5) else mode)


def _constant_bytes(opcode: int, modrm: int, wide: bool, half: bool, short_address: bool) -> int:
    """Return the bytes of the constant of a one-byte opcode. half: 16-bit operands."""
    word = 2 if half else 4
    if opcode in _BYTE_0 or (opcode == 0xF6 and not modrm & 0x30):
        return 1
    if opcode in _WORD_0 or (opcode == 0xF7 and not modrm & 0x30):
        return word
    if 0xB8 <= opcode < 0xC0:  # mov of a constant to a register
        return 8 if wide else word
    if 0xA0 <= opcode < 0xA4:  # mov from and to an address
        return 4 if short_address else 8
    return {0xC2: 2, 0xCA: 2, 0xC8: 3, 0xE8: 4, 0xE9: 4}.get(opcode, 0)


def _jump_bytes(opcode: int, modrm: int) -> int:
    """Return the bytes of the distance of a one-byte opcode that jumps or calls; else 0."""
    if 0x70 <= opcode < 0x80 or 0xE0 <= opcode < 0xE4 or opcode == 0xEB:
        return 1
    return 4 if opcode in (0xE8, 0xE9) or (opcode == 0xC7 and modrm == 0xF8) else 0


TABLES = {"legacy": LEGACY, "vex": VEX, "evex": EVEX, "xop": XOP}
_PREFIXES = ("np", "66", "f3", "f2")
_BYTE = "[0-9a-f]{2}"
_OPCODE = re.compile(
    rf"(?P<first>{_BYTE})(-(?P<last>{_BYTE}))?(=(?P<modrm>{_BYTE})|(/(?P<field>[0-7]))?(?P<operand>[mr])?)$"
)


def x86_extensions(code: bytes) -> frozenset[str] | None:
    """Return LLVM's names of the extensions beyond x86-64 that a function's instructions need.

    None if not all of it is read: bytes that are no known instruction, a jump into the middle of an instruction, or an
    end that is none of an instruction. code: one function, without data.
    """
    found: set[str] = set()
    starts, targets = {len(code)}, set()
    for instruction in instructions(code):
        needs = None if instruction is None else _extensions(instruction.opcode)
        if instruction is None or needs is None:
            return None
        found |= needs
        starts.add(instruction.at)
        if instruction.jump is not None:
            targets.add(instruction.at + instruction.size + instruction.jump)
    inside = {target for target in targets if 0 <= target <= len(code)}
    return frozenset(found) if inside <= starts else None


class _Row(NamedTuple):
    """An entry of a table, for instructions whose W is `wide` (None: any) and whose ModRM & mask is `modrm`.

    memory: True, False or None for any operand. short, long: what it needs with vectors of 128 bits, and with longer
    ones. lig: True if the length of vectors has no meaning.
    """

    wide: bool | None
    mask: int
    modrm: int
    memory: bool | None
    short: frozenset[str]
    long: frozenset[str]
    lig: bool


@cache
def _extensions(opcode: Opcode) -> frozenset[str] | None:
    """Return what an instruction needs, or None if it is not known."""
    in_memory = opcode.modrm >> 6 != 3
    for row in table_rows(opcode.encoding).get((opcode.map, opcode.prefix, opcode.opcode), []):
        if row.wide in (None, opcode.wide) and row.memory in (None, in_memory) and opcode.modrm & row.mask == row.modrm:
            if opcode.encoding == "evex":
                return _evex(opcode, row, in_memory)
            return row.long if opcode.length else row.short
    return frozenset() if opcode.encoding == "legacy" and opcode.map < 2 else None


def _evex(opcode: Opcode, row: _Row, in_memory: bool) -> frozenset[str] | None:
    if row.lig or (opcode.rounds and not in_memory):
        return row.short | {"avx512f"}
    if opcode.length == 3:
        return None
    return row.short | {"avx512f"} | ({"avx512vl"} if opcode.length < 2 else set())


@cache
def table_rows(encoding: str) -> dict[tuple[int, str, int], list[_Row]]:
    """Return (map, prefix, opcode) -> entries of an encoding's table."""
    rows: dict[tuple[int, str, int], list[_Row]] = {}
    for line in TABLES[encoding].strip().splitlines():
        place, *words = line.split()
        table, _, prefix = place.partition(".")
        wide = {"w0": False, "w1": True}.get(words[0])
        matches = [match for word in words if (match := _OPCODE.match(word))]
        names = [word for word in words if not _OPCODE.match(word) and word not in ("w0", "w1", "lig", "-")]
        by_length = [[of_length.split(",") for of_length in name.split("|")] for name in names]
        short = frozenset(name for choices in by_length for name in choices[0])
        long = frozenset(name for choices in by_length for name in choices[-1])
        for match in matches:
            mask, modrm = 0, 0
            if match["modrm"]:
                mask, modrm = 255, int(match["modrm"], 16)
            elif match["field"]:
                mask, modrm = 0x38, int(match["field"]) << 3
            memory = {"m": True, "r": False}.get(match["operand"] or "")
            row = _Row(wide, mask, modrm, memory, short, long, "lig" in words)
            first = int(match["first"], 16)
            for opcode in range(first, int(match["last"] or match["first"], 16) + 1):
                for each in _PREFIXES if prefix == "*" else (prefix,):
                    rows.setdefault((int(table, 16), each, opcode), []).append(row)
    return rows
