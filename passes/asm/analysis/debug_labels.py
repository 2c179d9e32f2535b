"""Finds labels that only debug information refers to, so that instructions may move across them.

Compilers with -g put such labels between instructions (`.Ltmp12:` by clang, `.LVL3:` and `.LBB4:` by gcc), for the
address ranges in .debug_info, .debug_loc and the like. No branch can go to them, because the file refers to them in
debug sections only, and names that begin with .L are local to the file.
"""

import re
from collections.abc import Sequence

from mavcg.passes.asm.isa.source import Statement

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
