"""Tells which extensions of x86-64 the instructions of a function need, by their encoding.

The tables are in x86_opcodes.py. Hints that older processors ignore (prefetchw, endbr64, pause) need nothing. The bytes
of `tzcnt` are `rep bsf` on a processor without BMI1, with another result for 0, and count as BMI1; so do those of
`lzcnt`, which are `rep bsr` there.
"""

import re
from functools import cache
from typing import NamedTuple

from mavcg.objects.x86_code import Opcode, instructions
from mavcg.objects.x86_opcodes import EVEX, LEGACY, VEX, XOP

_TABLES = {"legacy": LEGACY, "vex": VEX, "evex": EVEX, "xop": XOP}
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
    for row in _rows(opcode.encoding).get((opcode.map, opcode.prefix, opcode.opcode), []):
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
def _rows(encoding: str) -> dict[tuple[int, str, int], list[_Row]]:
    """Return (map, prefix, opcode) -> entries of an encoding's table."""
    rows: dict[tuple[int, str, int], list[_Row]] = {}
    for line in _TABLES[encoding].strip().splitlines():
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
