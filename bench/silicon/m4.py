"""Macro expansion for assembly written in m4: define, ifdef, include, dnl, changecom, quotes and arguments.

This is the part of m4 that GMP's mpn/arm64 uses, so that no m4 has to be installed. As in m4, a macro's expansion is
read again, an argument loses one level of quotes, and `$1` to `$9` in a body are the arguments. `#` begins no comment:
GMP switches comments off before its first instruction.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from mavcg.errors import MavcgError

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PARAMETER = re.compile(r"\$(\d)")
# Macros of m4 itself that take arguments: those that this module has no rule for are errors, never plain text.
_BUILTINS = (
    "define undefine ifdef ifelse include sinclude eval incr decr len index substr translit format shift pushdef "
    "popdef defn indir builtin divert undivert changequote changecom esyscmd syscmd m4wrap forloop"
).split()


def expand(text: str, macros: Mapping[str, str], folder: Path) -> str:
    """Return the text with macros expanded.

    macros: name -> body, known from the start. folder: where names of `include` are looked up. Raises: MavcgError for
    quotes or parentheses without an end, a file that is not there, and a macro of m4 that is not known here.
    """
    reader = _Reader(text, macros, folder)
    out = []
    while (token := reader.token()) is not None:
        kind, piece = token
        if kind != "name" or not reader.replace(piece):
            out.append(piece)
    return "".join(out)


class _Reader:
    """Text still to be read, and the macros defined so far."""

    def __init__(self, text: str, macros: Mapping[str, str], folder: Path) -> None:
        self.text, self.at, self.macros, self.folder = text, 0, dict(macros), folder

    def token(self) -> tuple[str, str] | None:
        """Return the next ("quoted" without its quotes, "name" or "character", text); None at the end."""
        if self.at >= len(self.text):
            return None
        if self.text[self.at] == "`":
            return "quoted", self._quoted()
        match = _NAME.match(self.text, self.at)
        end = match.end() if match else self.at + 1
        piece, self.at = self.text[self.at : end], end
        return ("name" if match else "character"), piece

    def replace(self, name: str) -> bool:
        """Put the expansion of a macro before the text still to be read; False for a name that is no macro."""
        if name == "dnl":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end + 1
        elif name in self.macros:
            arguments = self._arguments()
            body = self.macros[name]
            self._push(_PARAMETER.sub(lambda m: _nth(arguments, int(m[1]), name), body))
        elif name == "changecom":
            self._arguments()
        elif name in _BUILTINS and self._has_arguments():
            self._push(self._built_in(name, self._arguments()))
        else:
            return False
        return True

    def _built_in(self, name: str, arguments: list[str]) -> str:
        if name == "define":
            self.macros[arguments[0]] = arguments[1] if len(arguments) > 1 else ""
            return ""
        if name == "ifdef":
            chosen = 1 if arguments[0] in self.macros else 2
            return arguments[chosen] if len(arguments) > chosen else ""
        if name == "include":
            path = self.folder / arguments[0]
            if not path.exists():
                raise MavcgError(f"include({arguments[0]}): no such file")
            return path.read_text(encoding="utf-8")
        raise MavcgError(f"m4's {name} is not known here, before {self._rest()}; bench/silicon/m4.py has what is")

    def _has_arguments(self) -> bool:
        return self.text.startswith("(", self.at)

    def _arguments(self) -> list[str]:
        """Read the arguments behind a macro's name, each expanded; an empty list without parentheses."""
        if not self._has_arguments():
            return []
        rest = self._rest()
        self.at += 1
        arguments, depth = [""], 1
        self._skip_blanks()
        while (token := self.token()) is not None:
            kind, piece = token
            if kind == "name" and self.replace(piece):
                continue
            if kind == "character":
                depth += (piece == "(") - (piece == ")")
                if depth == 0:
                    return arguments
                if piece == "," and depth == 1:
                    arguments.append("")
                    self._skip_blanks()
                    continue
            arguments[-1] += piece
        raise MavcgError(f"a macro's arguments have no end: {rest}")

    def _quoted(self) -> str:
        depth, start = 0, self.at
        for at in range(start, len(self.text)):
            depth += (self.text[at] == "`") - (self.text[at] == "'")
            if depth == 0:
                self.at = at + 1
                return self.text[start + 1 : at]
        raise MavcgError(f"a quotation has no end: {self._rest()}")

    def _skip_blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t\n":
            self.at += 1

    def _push(self, text: str) -> None:
        self.text, self.at = text + self.text[self.at :], 0

    def _rest(self) -> str:
        """Return the beginning of what is still to be read, for messages."""
        return repr(self.text[self.at : self.at + 40])


def _nth(arguments: list[str], number: int, name: str) -> str:
    return name if number == 0 else arguments[number - 1] if number <= len(arguments) else ""
