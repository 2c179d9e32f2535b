"""Spell the names of symbols as LLVM prints them, and find them in a piece of printed text."""

import re
from collections.abc import Iterator

NAME = r'(?:"[^"]*"|[-a-zA-Z$._0-9]+)'
# A quoted run of text is either a symbol (@"a b", $"a b"), a string constant or an asm string; only the first
# kind is a name, so the scanner has to step over the others whole.
SYMBOL_OR_TEXT = re.compile(rf'[@$](?P<name>{NAME})|c?"[^"]*"')


def unquote(name: str) -> str:
    """Return the symbol itself: `"operator new"` -> `operator new`; escapes such as \\22 stay as LLVM writes them."""
    return name[1:-1] if name.startswith('"') else name


def quote(name: str) -> str:
    """Return a symbol as IR text spells it: in quotes unless it is made of plain characters."""
    return name if re.fullmatch(r"[-a-zA-Z$._][-a-zA-Z$._0-9]*", name) else f'"{name}"'


def escape(name: str) -> str:
    r"""Return a value's name in LLVM as text spells it between quotes: printable ASCII but for " and \, else \ and two
    digits.

    Source: printEscapedString in LLVM's StringExtras.cpp.
    """
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in name.encode())


def unescape(text: str) -> str:
    r"""Return the text without LLVM's escapes of two hexadecimal digits: \0A -> a line's end."""
    return re.sub(r"\\([0-9A-Fa-f]{2})", lambda m: chr(int(m[1], 16)), text)


def symbols_in(text: str) -> Iterator[str]:
    """Yield the @symbols of a text in their order, each as often as it is there; strings count as one piece."""
    return (unquote(m["name"]) for m in SYMBOL_OR_TEXT.finditer(text) if m["name"] and m[0][0] == "@")
