"""Finds the functions of an assembly file, their basic blocks, and the blocks that lie in loops."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mavcg.passes.asm.analysis.components import strongly_connected
from mavcg.passes.asm.analysis.labels import debug_labels, offset_labels, why_distances_are_fixed
from mavcg.passes.asm.isa.effects import Effects, Malformed
from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.source import Statement, asm_error

# Directives that belong to the position where they stand: instructions do not move across one of these.
_STANDS_IN_CODE = re.compile(
    r"\.(?:cfi_(?!sections)|inst|word|long|quad|xword|hword|short|byte|2byte|4byte|8byte|ascii|asciz|string|zero|skip|"
    r"space|fill|org|int|octa|dword|float|single|double|uleb|sleb|dc|ds|incbin|tlsdesccall|reloc|balign|align|p2align|ltorg|pool|seh_|macro|rept|if|irp)"
)
# Directives that mean the same wherever they stand. A directive in neither list is unknown, and a fence.
_DESCRIBES = re.compile(
    r"\.(?:type|size|globl|global|weak|weakref|hidden|local|protected|internal|section|text|data|bss|rodata|previous|"
    r"pushsection|popsection|subsection|ident|file|arch|cpu|arch_extension|arm|thumb|code|fpu|variant_pcs|cfi_sections|set|equ|equiv|eqv|"
    r"req|unreq|symver|comm|lcomm|common|end|title|sbttl|list|nolist|eject|altmacro|noaltmacro|print|warning|error|addrsig|"
    r"addrsig_sym|version|desc|cg_profile|purgem|exitm|endm|endr|endif|else\w*|func|endfunc|aeabi_\w+|cv_\w+|loc|loc_mark_labels|"
    r"lto_\w+|build_version|subsections_via_symbols|private_extern|no_dead_strip|gnu_attribute)(?=\s|$)"
)
_SECTION = re.compile(r"\.(?:section|text|data|bss|rodata|pushsection|popsection|previous|subsection)\b")


def is_code_directive(statement: Statement) -> bool:
    """True for a directive that instructions may not cross: it depends on its position, or is unknown."""
    code = statement.code.lower()
    if statement.kind != "directive" or not code.startswith("."):
        return False
    return bool(_STANDS_IN_CODE.match(code)) or not (_DESCRIBES.match(code) or " .req " in code)


@dataclass(frozen=True)
class CodeLine:
    """An instruction of a block: its index in the file's list of statements, and its effects (None: unknown).

    Data in the code is an unknown instruction.
    """

    statement: int
    effects: Effects | None

    @property
    def is_fence(self) -> bool:
        return self.effects is None or self.effects.flow in ("call", "indirect", "return")


@dataclass(frozen=True)
class Block:
    """A basic block: statements [start, stop), entered at the top only and left at the end only.

    labels: names of the labels at its top, without those of debug information. successors: indices of blocks of the
    function. leaves: True if control may also leave the function or go to an unknown target (a return, a tail call, an
    indirect jump, the function's end). whole: True if no directive or macro that instructions may not cross stands
    between its instructions. in_loop: True if control can come back to the block.
    """

    start: int
    stop: int
    labels: tuple[str, ...]
    lines: tuple[CodeLine, ...]
    successors: tuple[int, ...] = ()
    leaves: bool = False
    whole: bool = True
    in_loop: bool = False

    def loops_to_itself(self, index: int) -> bool:
        """True if the block, which has this index, is a loop by itself: its branch goes to its top or falls through."""
        return index in self.successors and len(self.successors) == 2


@dataclass(frozen=True)
class Function:
    """A function's blocks, in the order of the text; its statements are [start, stop).

    frozen: the reason why none of its code may move, or "".
    """

    name: str
    start: int
    stop: int
    blocks: tuple[Block, ...] = field(default_factory=tuple)
    frozen: str = ""


def functions_of(statements: Sequence[Statement], file: str = "<assembly>") -> tuple[Function, ...]:
    """Find every function of a file. It begins at a label of type function, or at a global label in a code section.

    It ends at its .size, at the next function, or where the section changes.
    Raises: MavcgError with line and column for an instruction with operands that it cannot have, and for a branch to a
    local label that the file does not define.
    """
    starts = _function_labels(statements)
    defined = {s.name for s in statements if s.kind == "label"}
    offsets, for_debuggers = offset_labels(statements), debug_labels(statements)
    functions = []
    for name, start, stop in _ranges(statements, starts):
        functions.append(_function(statements, name, start, stop, defined, offsets, for_debuggers, file))
    return tuple(functions)


def _function_labels(statements: Sequence[Statement]) -> set[str]:
    typed: set[str] = set()
    exported: set[str] = set()
    objects: set[str] = set()
    for s in statements:
        if s.kind != "directive":
            continue
        if s.name == ".type" and (match := re.match(r'\.type\s+("?[^",\s]+"?)\s*,\s*[@%#]?"?(\w+)', s.code)):
            target = typed if match[2].lower() in ("function", "stt_func", "gnu_indirect_function") else objects
            target.add(match[1].strip('"'))
        elif s.name in (".globl", ".global", ".weak", ".hidden", ".local"):
            exported |= {n.strip().strip('"') for n in s.code.split(None, 1)[1:] for n in n.split(",")}
    return (typed | exported) - objects


def _ranges(statements: Sequence[Statement], names: set[str]) -> Iterator[tuple[str, int, int]]:
    """Yield each function's name and its range [start, stop) of statements."""
    name, start, in_text = "", -1, True
    for at, s in enumerate(statements):
        ends = False
        if s.kind == "directive":
            if _SECTION.match(s.code):
                in_text = _is_text(s.code) if not s.name.startswith((".pop", ".prev", ".subs")) else True
                ends = True
            elif s.name == ".size" and name and re.match(rf'\.size\s+"?{re.escape(name)}"?\s*,', s.code):
                ends = True
        if s.kind == "label" and s.name in names and in_text:
            if name:
                yield name, start, at
            name, start = s.name, at
        elif ends and name:
            yield name, start, at
            name = ""
    if name:
        yield name, start, len(statements)


def _is_text(code: str) -> bool:
    if code.split()[0].lower() == ".text":
        return True
    return re.search(r'section\s+"?(?:\.text|__TEXT)', code) is not None or '"ax' in code


def _function(
    statements: Sequence[Statement],
    name: str,
    start: int,
    stop: int,
    defined: set[str],
    offsets: dict[str, int],
    for_debuggers: frozenset[str],
    file: str,
) -> Function:
    lines: dict[int, CodeLine] = {}
    for at in range(start, stop):
        s = statements[at]
        if s.kind == "instr" and s.instr is not None:
            try:
                lines[at] = CodeLine(at, effects(s.instr))
            except Malformed as fault:
                raise asm_error(file, s.line, s.column, f"`{s.code}`: {fault}", "mend the instruction") from None
            _check_target(s, lines[at].effects, defined, file)
        elif s.kind == "directive" and s.instr is not None:
            lines[at] = CodeLine(at, None)
    raw = _raw_blocks(statements, start, stop, lines, for_debuggers)
    labels = {label: i for i, block in enumerate(raw) for label in block.labels}
    linked = [_link(raw, i, labels, statements) for i in range(len(raw))]
    groups = strongly_connected([block.successors for block in linked], range(len(linked)))
    cycles = {i for group in groups for i in group if len(group) > 1 or i in linked[i].successors}
    blocks = tuple(
        Block(b.start, b.stop, b.labels, b.lines, b.successors, b.leaves, b.whole, i in cycles)
        for i, b in enumerate(linked)
    )
    effects_at = {at: line.effects for at, line in lines.items()}
    frozen = why_distances_are_fixed(statements, range(start, stop), effects_at, offsets)
    return Function(name, start, stop, blocks, frozen)


def _check_target(s: Statement, effect: Effects | None, defined: set[str], file: str) -> None:
    target = effect.target if effect else ""
    if target.startswith((".L", "L")) and target.startswith(".L") and not re.search(r"[-+]", target):
        if target not in defined:
            raise asm_error(
                file, s.line, s.column, f"`{s.code}`: the label {target} is nowhere in the file", "is the file whole?"
            )


def _raw_blocks(
    statements: Sequence[Statement],
    start: int,
    stop: int,
    lines: dict[int, CodeLine],
    for_debuggers: frozenset[str],
) -> list[Block]:
    """Return the blocks between labels and branches, without successors; labels in `for_debuggers` do not count."""
    blocks: list[Block] = []
    labels: list[str] = []
    code: list[CodeLine] = []
    begin, whole = start, True
    seen_code = False

    def close(end: int) -> None:
        nonlocal begin, labels, code, whole, seen_code
        if end > begin:
            blocks.append(Block(begin, end, tuple(labels), tuple(code), whole=whole))
        begin, labels, code, whole, seen_code = end, [], [], True, False

    for at in range(start, stop):
        s = statements[at]
        if s.kind == "label":
            if s.name in for_debuggers:
                continue
            if seen_code:
                close(at)
            labels.append(s.name)
        elif at in lines:
            code.append(lines[at])
            seen_code = True
            whole = whole and s.kind == "instr"
            effect = lines[at].effects
            if effect is not None and effect.flow and effect.flow != "call":
                close(at + 1)
        elif s.kind == "macro" or is_code_directive(s):
            # A directive before the first instruction belongs to the entry: an alignment, the frame's description.
            if seen_code or s.kind == "macro":
                whole = False
    close(stop)
    return blocks


def _link(raw: Sequence[Block], index: int, labels: dict[str, int], statements: Sequence[Statement]) -> Block:
    block = raw[index]
    last = block.lines[-1].effects if block.lines else None
    flow = last.flow if last is not None else ""
    successors: list[int] = []
    leaves = False
    if last is not None and flow in ("cond", "jump"):
        target = _resolve(last.target, block.lines[-1].statement, raw, labels, statements)
        if target is None:
            leaves = True
        else:
            successors.append(target)
    if flow in ("indirect", "return"):
        leaves = True
    elif flow != "jump":
        if index + 1 < len(raw):
            successors.append(index + 1)
        else:
            leaves = True
    return Block(block.start, block.stop, block.labels, block.lines, tuple(successors), leaves, block.whole)


def _resolve(
    target: str, at: int, raw: Sequence[Block], labels: dict[str, int], statements: Sequence[Statement]
) -> int | None:
    """Return the target block of a branch, with numeric labels ("1b", "2f") resolved from statement `at`, or None."""
    if match := re.match(r"(\d+)([bf])$", target):
        tops = [
            (index, i)
            for i, block in enumerate(raw)
            for index in range(block.start, block.stop)
            if statements[index].kind == "label" and statements[index].name == match[1]
        ]
        sides = [x for x in tops if (x[0] < at) == (match[2] == "b")]
        return (max(sides) if match[2] == "b" else min(sides))[1] if sides else None
    return labels.get(target)
