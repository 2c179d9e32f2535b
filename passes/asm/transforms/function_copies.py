"""Copies a function within its assembly file under another symbol, or gives the reason why it cannot be copied.

    f:                          f.cortex-a55:
        cbz  x0, .Lend    ->        cbz  x0, .Lend$v_1
    .Lend:                      .Lend$v_1:
        ret                         ret

A copy follows its original, in the same section and under the same directives, so that the symbols it refers to are in
reach and mean the same. Its labels get a suffix.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from mavcg.passes.asm.analysis.blocks import Function
from mavcg.passes.asm.analysis.labels import debug_statements
from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.source import Statement, quote_symbol

_ABOUT_SYMBOL = (".globl", ".global", ".weak", ".hidden", ".protected", ".internal", ".type", ".size", ".local")
_STRINGS = (".ascii", ".asciz", ".string")
_ASSIGNS = re.compile(r"\.(?:set|equ|equiv|eqv|symver|weakref)\b|[^\s=]+\s*==?(?!=)", re.IGNORECASE)
_REACHES_FAR = re.compile(r"(?:b|bl|adrp|movz|movk)\s|.*(?::lo12:|:got|=)", re.IGNORECASE)
_NUMERIC = re.compile(r"(?<![\w.$#])(\d+)([bf])(?![\w.$])")
_LANDS = re.compile(r"^[^\n]*:\s*(?:\.cfi_\w+\s+)*(?:bti|hint|paci[ab]sp)\b", re.MULTILINE | re.IGNORECASE)
_BEFORE_CODE = re.compile(r"(?:\s|/\*.*?\*/)*", re.DOTALL)
_ENDS = ("jump", "return", "indirect")
_TRAPS = ("brk", "udf", "hlt")


def mentions(s: Statement, symbol: str) -> bool:
    """True if a statement defines a symbol as its label or refers to it in its operands, quoted or not."""
    code = s.code if s.kind == "label" or not s.code else s.code[len(s.code.split(None, 1)[0]) :]
    return _token(symbol).search(code) is not None or (s.kind == "directive" and s.name.strip('"') == symbol)


def _token(symbol: str) -> re.Pattern[str]:
    return re.compile(rf'"{re.escape(symbol)}"|(?<![\w.$"]){re.escape(symbol)}(?![\w.$"])')


def function_extent(statements: Sequence[Statement], function: Function) -> range:
    """Return the statements of a function, from its label to the last one that emits code or data."""
    last = function.start
    for at in range(function.start, function.stop):
        s = statements[at]
        if s.kind in ("instr", "label") or s.instr is not None or s.name in (".cfi_endproc", ".ltorg", ".pool"):
            last = at
    return range(function.start, last + 1)


def is_global(statements: Sequence[Statement], symbol: str) -> bool:
    """True if a symbol is visible to other files."""
    return any(s.name in (".globl", ".global", ".weak") and mentions(s, symbol) for s in statements)


def why_no_copy(statements: Sequence[Statement], function: Function) -> str:
    """Return the reason why a function cannot have copies behind a dispatcher, or ""."""
    name, inside = function.name, function_extent(statements, function)
    if not is_global(statements, name):
        return f"it is local to its file; give it a .globl {name}"
    if function.frozen:
        return function.frozen
    instrs = [statements[at] for at in inside if statements[at].kind == "instr"]
    last = instrs[-1] if instrs else None
    known = effects(last.instr) if last is not None and last.instr is not None else None
    if last is None or not ((known and known.flow in _ENDS) or last.name in _TRAPS):
        return "it has several entry points: its code runs on into what stands behind it"
    labels = [statements[at].name for at in inside if statements[at].kind == "label"][1:]
    for s in instrs:
        target = s.code.split(",")[-1].strip().strip('"')
        if s.name in ("tbz", "tbnz") and not _NUMERIC.match(target) and target not in labels and target != name:
            return f"line {s.line}: `{s.code}` reaches 32 KiB, and a copy would stand further away"
    in_debug = debug_statements(statements)
    for at, s in enumerate(statements):
        if s.kind not in ("instr", "directive", "macro"):
            continue
        if at in in_debug and not _ASSIGNS.match(s.code):  # it describes the generic version, which keeps the labels
            continue
        if at in inside:
            if s.name == ".section" or s.name in (".text", ".data", ".bss", ".pushsection", ".popsection"):
                return f"line {s.line}: {s.name} leaves its section"
            if s.name in _STRINGS:
                return f"line {s.line}: a string in its code"
            continue
        if s.name == ".type" and mentions(s, name) and "indirect" in s.code:
            return f"line {s.line}: it chooses a function by itself, at load"
        if s.name == ".size" and mentions(s, name):  # its versions have sizes of their own
            continue
        if shared := next((label for label in labels if not label.isdigit() and mentions(s, label)), None):
            return f"line {s.line}: `{s.code}` names its label {shared} from outside"
        if mentions(s, name) and (why := _why_name_stays(s)):
            return why
    crossing = next((at for at, goal in _numeric_references(statements) if (at in inside) != (goal in inside)), None)
    if crossing is not None:
        return f"line {statements[crossing].line}: `{statements[crossing].code}` goes into or out of it by a number"
    return ""


def _why_name_stays(s: Statement) -> str:
    """Return the reason why a statement that uses a function's name cannot refer to a dispatcher instead, or ""."""
    if s.kind == "directive" and s.name == ".variant_pcs":
        return f"line {s.line}: it has a calling convention of its own"
    if s.kind == "directive" and s.name not in _ABOUT_SYMBOL and _ASSIGNS.match(s.code):
        return f"line {s.line}: `{s.code}` gives it another name"
    if s.kind == "instr" and not _REACHES_FAR.match(s.code):
        return f"line {s.line}: `{s.code}` does not reach a dispatcher in another place"
    return ""


def _numeric_references(statements: Sequence[Statement]) -> Iterator[tuple[int, int]]:
    """Yield (statement, statement of the label that it refers to) for each numeric reference, such as `1b` and `2f`."""
    label_positions: dict[str, list[int]] = {}
    for at, s in enumerate(statements):
        if s.kind == "label" and s.name.isdigit():
            label_positions.setdefault(s.name, []).append(at)
    for at, s in enumerate(statements):
        if s.kind not in ("instr", "directive"):
            continue
        for number, side in _NUMERIC.findall(s.code):
            goals = [goal for goal in label_positions.get(number, ()) if (goal < at) == (side == "b")]
            if goals:
                yield at, max(goals) if side == "b" else min(goals)


def rename_function(function: Sequence[Statement], name: str, symbol: str, suffix: str = "") -> str:
    """Return the text of a function's statements with the symbol in place of its name, and a suffix on its labels.

    f:   cbz x0, .Lend     ->    f.cortex-a55:   cbz x0, .Lend$1
    """
    labels = {s.name for s in function if s.kind == "label" and not s.name.isdigit()}
    new = {label: f"{label}{suffix}" for label in labels} | {name: symbol}
    return "".join(_with_names(s, new) for s in function)


def _with_names(s: Statement, new: Mapping[str, str]) -> str:
    """Return a statement's text with symbols renamed, but not its mnemonic or directive. new: old name -> new name."""
    if not s.code:
        return s.text
    head = "" if s.kind == "label" else s.code.split(None, 1)[0]
    before = _BEFORE_CODE.match(s.text)
    begin = s.text.index(head, before.end() if before else 0) + len(head)
    operands = s.text[begin:]
    for old, symbol in new.items():
        if old != symbol:
            operands = _token(old).sub(lambda match, symbol=symbol: quote_symbol(symbol), operands)  # type: ignore[misc]
    return s.text[:begin] + operands


def free_suffix(text: str) -> str:
    """Return a prefix of suffixes that no name in the text contains."""
    return next(suffix for n in count() if (suffix := f"$v{n or ''}_") not in text)


def generic_statement(s: Statement, name: str, symbol: str, in_debug: bool = False) -> str:
    """Return a statement outside of the function, about the generic version's symbol if it describes the function's.

    name: the function's symbol, which is the dispatcher's from now on; other uses of it stay. symbol: the generic
    version's. in_debug: True in a section of debug or unwind information, whose addresses are the generic version's. A
    .size is removed, because version_text writes it after the code.
    """
    if in_debug and s.kind == "directive" and s.name not in _STRINGS:
        return _with_names(s, {name: symbol})
    if s.kind != "directive" or s.name not in _ABOUT_SYMBOL or not mentions(s, name):
        return s.text
    return "\n" if s.name == ".size" else _with_names(s, {name: symbol})


def version_text(text: str, symbol: str, landing: bool) -> str:
    """Return a renamed function with the directives of a version's symbol.

    landing: True if the function needs a BTI landing pad, because the dispatcher reaches it by `br`.
    """
    shown = quote_symbol(symbol)
    if landing and not _LANDS.search(text):
        text = text.replace(f"{shown}:", f"{shown}:\n\thint #34 // bti c: a dispatcher jumps here\n", 1)
    return f"\t.globl {shown}\n\t.hidden {shown}\n\t.type {shown}, %function\n{text}\n\t.size {shown}, .-{shown}\n"
