"""Finds functions whose instructions must keep their distances, because code or data counts bytes between them."""

import re
from collections.abc import Mapping, Sequence

from mavcg.passes.asm.isa.effects import Effects
from mavcg.passes.asm.isa.source import Statement
from mavcg.passes.asm.isa.syntax import Imm, Mem

_OWN_PLACE = re.compile(r"(?<![\w.$])(?:\.(?=\s*(?:[-+,)]|$))|\d+[bf]\s*[-+])")
_LABEL_OFFSET = re.compile(r'(?<![\w.$"])([A-Za-z_.$][\w.$]*|"[^"\n]*")\s*[-+]\s*\(?\s*(?:0x)?\d')
_PLAIN_B = frozenset("bfi bfc bfm bfxil bic bics brk bti bcax bfcvt bfcvtn bfcvtn2".split())


def offset_labels(statements: Sequence[Statement]) -> dict[str, int]:
    """Return label that an expression adds a number to (`adr x0, table + 8`) -> line of the first such use."""
    first_use: dict[str, int] = {}
    for s in statements:
        if s.kind in ("instr", "directive", "macro") and ("+" in s.code or "-" in s.code):
            for name in _LABEL_OFFSET.findall(s.code):
                first_use.setdefault(name.strip('"'), s.line)
    return first_use


def why_distances_are_fixed(
    statements: Sequence[Statement],
    extent: range,
    effects_at: Mapping[int, Effects | None],
    offsets: Mapping[str, int],
) -> str:
    """Return the reason why the distances between a function's instructions must not change, or "".

    extent: the function's statements. effects_at: statement -> its effects. offsets: as from offset_labels.
    """
    own = {statements[at].name for at in extent if statements[at].kind == "label"}
    if with_offset := sorted(own & offsets.keys()):
        return f"line {offsets[with_offset[0]]}: an address counted in bytes from {with_offset[0]}"
    for at in extent:
        s = statements[at]
        if s.kind == "macro":
            return f"line {s.line}: a macro, a repetition or a condition that an assembler has yet to expand"
        if s.kind == "instr" and (_OWN_PLACE.search(s.code) or _is_distance(s)):
            return f"line {s.line}: `{s.code}` counts from its own place"
        if s.kind == "directive" and re.match(r"\.(?:org|if|incbin|include)\b", s.code.lower()):
            return f"line {s.line}: {s.code.split()[0]} depends on where code stands"
        if s.kind == "instr" and effects_at[at] is None and s.code.split()[0].startswith("."):
            return f"line {s.line}: {s.code}"
    return ""


def _is_distance(s: Statement) -> bool:
    """True if an instruction gives its target as a distance in bytes, as in `b #8`."""
    if s.instr is None or not s.instr.operands:
        return False
    mnemonic = s.instr.mnemonic
    takes_address = mnemonic.startswith(("b", "cb", "tb", "adr", "ldr", "prf")) and mnemonic not in _PLAIN_B
    named = any(isinstance(operand, Mem) for operand in s.instr.operands)
    return takes_address and not named and isinstance(s.instr.operands[-1], Imm)
