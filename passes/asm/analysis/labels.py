"""Finds labels that only debug information refers to, and functions whose instructions must keep their distances.

Instructions may move across the former. Compilers with -g put such labels between instructions (`.Ltmp12:` by clang,
`.LVL3:` and `.LBB4:` by gcc), for the address ranges in .debug_info, .debug_loc and the like. No branch can go to them,
because the file refers to them in debug sections only, and names that begin with .L are local to the file. Distances
are kept where code or data counts the bytes between two labels.
"""

import re
from collections.abc import Mapping, Sequence

from mavcg.passes.asm.isa.effects import Effects
from mavcg.passes.asm.isa.source import Statement
from mavcg.passes.asm.isa.syntax import Imm, Mem

_LOCAL_NAME = re.compile(r"(?<![\w.$])\.L[\w.$]+")
_DEBUG_SECTION = re.compile(r'\.(?:push)?section\s+"?(?:\.debug_|\.eh_frame|__DWARF)')


def debug_labels(statements: Sequence[Statement]) -> frozenset[str]:
    """Return the local labels that no instruction, data or exception table of the file refers to."""
    referenced: set[str] = set()
    in_debug = debug_statements(statements)
    for at, s in enumerate(statements):
        is_directive = s.kind == "directive" and s.name != ".loc" and s.name not in _SECTION_CHANGES
        if s.kind in ("instr", "macro") or (is_directive and at not in in_debug):
            referenced.update(_LOCAL_NAME.findall(s.code))
    labels = {s.name for s in statements if s.kind == "label" and s.name.startswith(".L")}
    return frozenset(labels - referenced)


def debug_statements(statements: Sequence[Statement]) -> frozenset[int]:
    """Return the indices of the statements in sections of debug or unwind information, but for section directives."""
    indices: set[int] = set()
    sections = [False]  # True for a debug section, by depth of .pushsection
    previous = False
    for at, s in enumerate(statements):
        if s.kind == "directive" and s.name in _SECTION_CHANGES:
            previous = _change_section(sections, s, previous)
        elif sections[-1]:
            indices.add(at)
    return frozenset(indices)


_SECTION_CHANGES = frozenset(
    (".section", ".text", ".data", ".bss", ".rodata", ".pushsection", ".popsection", ".previous", ".subsection")
)


def _change_section(sections: list[bool], s: Statement, previous: bool) -> bool:
    """Apply a section directive to the stack of sections; return whether the section before it was a debug section."""
    before = sections[-1]
    if s.name == ".popsection":
        if len(sections) > 1:
            sections.pop()
    elif s.name == ".pushsection":
        sections.append(_DEBUG_SECTION.match(s.code) is not None)
    elif s.name == ".previous":
        sections[-1] = previous
    elif s.name != ".subsection":
        sections[-1] = _DEBUG_SECTION.match(s.code) is not None
    return before


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
