"""Quotes and escapes symbol names as LLVM prints them, and finds symbols in printed IR."""

import re
from collections.abc import Iterator

NAME = r'(?:"[^"]*"|[-a-zA-Z$._0-9]+)'
# A quoted text is a symbol (@"a b", $"a b"), a string constant or an asm string; the scanner skips the latter two.
SYMBOL_OR_TEXT = re.compile(rf'[@$](?P<name>{NAME})|c?"[^"]*"')


def unquote(name: str) -> str:
    """Return a symbol without quotes: `"operator new"` -> `operator new`. Escapes such as \\22 stay."""
    return name[1:-1] if name.startswith('"') else name


def quote(name: str) -> str:
    """Return a symbol as IR text spells it: in quotes unless all its characters are plain."""
    return name if re.fullmatch(r"[-a-zA-Z$._][-a-zA-Z$._0-9]*", name) else f'"{name}"'


def escape(name: str) -> str:
    r"""Return a name as IR text spells it between quotes: \ and two digits for ", \ and bytes not in printable ASCII.

    Source: printEscapedString in LLVM's StringExtras.cpp.
    """
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in name.encode())


def unescape(text: str) -> str:
    r"""Return the text without LLVM's escapes of two hexadecimal digits: \0A -> a line's end."""
    return re.sub(r"\\([0-9A-Fa-f]{2})", lambda m: chr(int(m[1], 16)), text)


def symbols_in(text: str) -> Iterator[str]:
    """Yield the @symbols of a text in order, with repetitions; string constants are skipped."""
    return (unquote(m["name"]) for m in SYMBOL_OR_TEXT.finditer(text) if m["name"] and m[0][0] == "@")


def own_symbol(header: str) -> re.Match[str]:
    """Return the match of the symbol that the first line of a global names: its first @symbol; the name is ["name"]."""
    symbols = (m for m in SYMBOL_OR_TEXT.finditer(header) if m["name"] and m[0][0] == "@")
    match = next(symbols, None)
    assert match, f"not a global as LLVM prints it: {header[:80]}"
    return match
