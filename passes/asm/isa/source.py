"""Parses an assembly file into statements: labels, directives, instructions, with every blank and comment.

The concatenated texts of the statements are the file again. ELF AArch64 conventions (GNU as manual, "AArch64 Syntax"):
`//` and `/* */` begin comments, `#` does at the start of a line, `;` separates statements.
"""

import re
from dataclasses import dataclass, field

from mavcg.errors import MavcgError
from mavcg.passes.asm.isa.syntax import Instr, SyntaxFault, parse_instr, parse_register

_PLAIN = re.compile(r"[\t !$-&(-.0-:<-~]+")  # ends no statement and begins no comment or string
_LABEL = re.compile(r'\s*((?:[\w.$]+|"[^"\n]*"))\s*:(?!:)')
_REQ = re.compile(r"([A-Za-z_.$][\w.$]*)\s+\.req\s+([\w.]+)$", re.IGNORECASE)
_ASSIGNMENT = re.compile(r'(?:[A-Za-z_.$][\w.$]*|"[^"\n]*")\s*==?(?!=)')
_PLAIN_SYMBOL = re.compile(r"[A-Za-z_.$][\w.$]*$")
_MNEMONIC = re.compile(r"[A-Za-z_][\w.]*$", re.ASCII)
# Directives that emit bytes at their position, possibly instructions.
_EMITS = re.compile(
    r"\.(?:inst|word|long|int|quad|octa|xword|dword|hword|short|byte|[248]byte|ascii|asciz|string|zero|skip|space|fill|"
    r"org|ltorg|pool|incbin|float|single|double|uleb128|sleb128|dcb?|ds)(?:\.\w+)?(?=\s|$)",
    re.IGNORECASE,
)
# Blanks and comments before a statement.
_BEFORE_CODE = re.compile(r"(?:\s|/\*.*?\*/)*", re.DOTALL)


@dataclass(frozen=True)
class Statement:
    """A statement of the file.

    kind: "instr", "label", "directive", "blank" (blanks and comments only) or "macro" (the inside of a .macro, .rept or
    .if, which an assembler has yet to expand). text: exactly as in the file, with the blanks before and the comment
    behind it. code: the statement alone. line, column: from 1, where `code` begins. instr: for an instruction; for a
    directive that emits bytes into the code, an unknown instruction with its name. inline: True between the markers of
    inline assembly.
    """

    kind: str
    text: str
    code: str = ""
    line: int = 0
    column: int = 0
    instr: Instr | None = field(default=None, compare=False)
    inline: bool = False

    @property
    def name(self) -> str:
        """The name of a label or directive; the mnemonic of an instruction."""
        if self.kind == "label":
            return self.code.rstrip(":").strip().strip('"')
        return self.code.split(None, 1)[0].lower() if self.code else ""


def asm_error(file: str, line: int, column: int, fault: str, remedy: str) -> MavcgError:
    """Return the error for a location in an assembly file; the caller raises it."""
    return MavcgError(f"{file}:{line}:{column}: {fault}; {remedy}")


def quote_symbol(symbol: str) -> str:
    """Return a symbol as assembly text: in quotes where it has characters that a plain name cannot have."""
    return symbol if _PLAIN_SYMBOL.match(symbol) else f'"{symbol}"'


def parse_source(text: str, file: str = "<assembly>") -> tuple[Statement, ...]:
    """Parse a file into statements; their concatenated texts are `text`.

    Raises: MavcgError with line and column for a comment, string or bracket that is not closed, for a missing operand,
    and for characters that cannot be assembly.
    """
    statements: list[Statement] = []
    aliases: dict[str, str] = {}
    inline = False
    depth = 0
    for piece in _pieces(text, file):
        if piece.kind == "blank":
            if re.search(r"(?://|#)\s*APP\s*$", piece.text.rstrip("\n")):
                inline = True
            elif re.search(r"(?://|#)\s*NO_APP\s*$", piece.text.rstrip("\n")):
                inline = False
            statements.append(piece)
            continue
        word = piece.name
        if word in (".endm", ".endr", ".endif"):
            depth = max(0, depth - 1)
        if depth or word in (".endm", ".endr", ".endif"):
            kind = "directive" if word in (".endm", ".endr", ".endif") and not depth else "macro"
            statements.append(_as(piece, kind, inline))
        elif piece.kind == "label":
            statements.append(_as(piece, "label", inline))
        elif alias := _REQ.match(piece.code):
            register = parse_register(alias[2])
            meant = aliases.get(alias[2].lower(), alias[2]) if register is None else str(register)
            aliases.setdefault(alias[1].lower(), meant)  # assemblers ignore a second meaning, and warn
            statements.append(_as(piece, "directive", inline))
        elif word == ".unreq":
            aliases.pop(piece.code.split()[-1].lower(), None)
            statements.append(_as(piece, "directive", inline))
        elif piece.code.startswith(".") or _ASSIGNMENT.match(piece.code):
            data = Instr(word) if _EMITS.match(piece.code) else None
            statements.append(Statement("directive", piece.text, piece.code, piece.line, piece.column, data, inline))
        else:
            statements.append(_instruction(piece, aliases, inline, file))
        if word in (".macro", ".rept", ".irp", ".irpc") or word.startswith(".if"):
            depth += 1
    if depth:
        last = statements[-1]
        raise asm_error(file, last.line, 1, "the file ends inside of a .macro, .rept or .if", "close it")
    return tuple(statements)


def _as(piece: Statement, kind: str, inline: bool) -> Statement:
    return Statement(kind, piece.text, piece.code, piece.line, piece.column, None, inline)


def _instruction(piece: Statement, aliases: dict[str, str], inline: bool, file: str) -> Statement:
    code = _with_aliases(piece.code, aliases)
    word = code.split(None, 1)[0]
    if not _MNEMONIC.match(word):
        raise asm_error(
            file,
            piece.line,
            piece.column,
            f"{word!r} is not an instruction, label or directive",
            "correct or remove it",
        )
    try:
        instr = parse_instr(code)
    except SyntaxFault as fault:
        raise asm_error(file, piece.line, piece.column, f"`{piece.code}`: {fault}", "mend the instruction") from None
    return Statement("instr", piece.text, piece.code, piece.line, piece.column, instr, inline)


def _with_aliases(code: str, aliases: dict[str, str]) -> str:
    """Return the code with names defined by .req replaced by their registers."""
    if not aliases:
        return code

    def register(match: re.Match[str]) -> str:
        return aliases.get(match[0].lower(), match[0])

    word, blank, rest = code.partition(" ") if "\t" not in code else code.partition("\t")
    return word + blank + re.sub(r"(?<![\w.$])[A-Za-z_$][\w$]*", register, rest)


def _pieces(text: str, file: str) -> list[Statement]:
    """Divide the file into raw statements of kind "blank", "label" or "code" (not yet parsed)."""
    pieces: list[Statement] = []
    at, line, begin_of_line = 0, 1, 0
    while at < len(text):
        end, code_end, has_comment_only = _end_of_statement(text, at, line, at - begin_of_line + 1, file)
        raw = text[at:end]
        code = _without_comments(text[at:code_end])
        label = _LABEL.match(code)
        if label and not has_comment_only and not _inside_comment(text[at:code_end], label):
            stop = at + _label_end(text[at:code_end])
            if code[label.end() :].strip():
                raw, end = text[at:stop], stop
            code, kind = label[0], "label"
        else:
            kind = "blank" if not code.strip() else "code"
        begin = _BEFORE_CODE.match(text, at, end) if code.strip() else None
        offset = begin.end() - at if begin else len(text[at:end]) - len(text[at:end].lstrip())
        before = text[at : at + offset]
        where_line = line + before.count("\n")
        where_column = at + offset - (text.rfind("\n", 0, at + offset) + 1) + 1
        pieces.append(Statement(kind, raw, code.strip(), where_line, where_column))
        line += raw.count("\n")
        if "\n" in raw:
            begin_of_line = at + raw.rfind("\n") + 1
        at = end
    return pieces


def _end_of_statement(text: str, at: int, line: int, column: int, file: str) -> tuple[int, int, bool]:
    """Scan the statement that begins at `at`, and return the end of its text, the end of its code, and if it is blank.

    The text ends after the newline or `;`, the code before a comment. line, column: of `at`, for errors.
    """
    start_of_line = at == 0 or text[at - 1] == "\n"
    i, code_end = at, None
    only_blanks = True
    while i < len(text):
        if plain := _PLAIN.match(text, i):
            i, only_blanks = plain.end(), only_blanks and plain[0].isspace()
            continue
        sign = text[i]
        if sign == "\n":
            return i + 1, code_end if code_end is not None else i, only_blanks
        if text.startswith("/*", i):
            close = text.find("*/", i + 2)
            if close < 0:
                row = text.count("\n", 0, i) + 1
                raise asm_error(file, row, i - text.rfind("\n", 0, i), "a comment /* is not closed", "close it")
            i = close + 2
            continue
        if text.startswith("//", i) or (sign == "#" and only_blanks and start_of_line):
            close = text.find("\n", i)
            close = len(text) if close < 0 else close
            return min(close + 1, len(text)), i, only_blanks
        if sign == '"':
            close = i + 1
            while close < len(text) and text[close] not in '"\n':
                close += 2 if text[close] == "\\" else 1
            if close >= len(text) or text[close] == "\n":
                row = text.count("\n", 0, i) + 1
                raise asm_error(file, row, i - text.rfind("\n", 0, i), "a string is not closed", "close it")
            i, only_blanks = close + 1, False
            continue
        if sign == "'" and text[i + 1 : i + 2].isprintable() and i + 1 < len(text):  # a character: 'a, 'a' or '\\n'
            i += 3 if text[i + 1] == "\\" else 2
            i += text.startswith("'", i)
            only_blanks = False
            continue
        if sign == ";":
            return i + 1, i, only_blanks
        if not sign.isspace():
            only_blanks = False
            if not sign.isprintable():
                row = text.count("\n", 0, i) + 1
                raise asm_error(
                    file, row, i - text.rfind("\n", 0, i), f"the character {sign!r} is not assembly", "is it text?"
                )
        i += 1
    return len(text), code_end if code_end is not None else len(text), only_blanks


def _without_comments(code: str) -> str:
    return re.sub(r"/\*.*?\*/", " ", code, flags=re.DOTALL)


def _inside_comment(raw: str, label: re.Match[str]) -> bool:
    """True if the colon that ended the label stands inside a /* */ comment."""
    return False if "/*" not in raw else raw.find("/*") < raw.find(":") and ":" not in _without_comments(raw)


def _label_end(raw: str) -> int:
    """Return the end of a label's colon in the raw text, after skipping strings and comments."""
    i = 0
    while i < len(raw):
        if raw.startswith("/*", i):
            i = raw.find("*/", i) + 2
        elif raw[i] == '"':
            i = raw.find('"', i + 1) + 1
        elif raw[i] == ":":
            return i + 1
        else:
            i += 1
    return len(raw)
