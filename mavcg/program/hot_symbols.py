"""Names of hot functions, and a quick look for them in an object; for `mavcg launch`, which runs once per file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import MavcgError

# Words of a readable name that its linkage name need not contain: Itanium C++ ABI, "Compression" (St, Sa, Ss, Si, So,
# Sd) and builtin types.
_ABBREVIATED = frozenset(
    "std allocator string basic_string istream basic_istream ostream basic_ostream iostream basic_iostream "
    "void bool char short int long float double signed unsigned wchar_t char8_t char16_t char32_t auto const".split()
)


@dataclass(frozen=True)
class HotSymbol:
    """A function to be versioned.

    Args:
        given_name: its name from the user or the profile.
        name: its linkage name.
        share: of the run time, 0..1; 1 if it was not measured.
        named_by_user: True if it is an error that no input defines it.
        why: why it is hot, as text.
        object: the program or library that it ran in; "" if not recorded.
        inexact: True if `name` is the same template with other arguments.
    """

    given_name: str
    name: str = ""
    share: float = 1.0
    named_by_user: bool = True
    why: str = "named"
    object: str = ""
    inexact: bool = False


def parse_hot(text: str) -> tuple[HotSymbol, ...]:
    """Parse a comma-separated --hot list; commas inside template or parameter lists do not separate.

    Raises: MavcgError for an empty name.
    """
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += char in "<(["
        depth -= char in ">)]"
        if char == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    names = [part.strip() for part in [*parts, text[start:]]]
    if not all(names):
        raise MavcgError(
            f"--hot {text!r}: holds an empty name; give functions with commas between, such as sgemm,dwconv"
        )
    return tuple(HotSymbol(name) for name in dict.fromkeys(names))


def certain_word(given_name: str) -> str:
    """Return a word that the linkage name of each function with this name contains; "" if none is certain.

    It is the last word before template arguments, parameters and suffixes of clones.
    """
    plain = given_name.replace("(anonymous namespace)::", "")
    before, end = re.match(r"([^<(.@*?\[{$]*)(.?)", plain, re.DOTALL).groups()  # type: ignore[union-attr]
    words = re.findall(r"[A-Za-z_]\w*", before)
    is_certain = before.isascii() and "operator" not in before and end not in ("*", "?", "[", "{", "$")
    return words[-1] if is_certain and words and words[-1] not in _ABBREVIATED else ""


def certain_words(hot: Sequence[HotSymbol]) -> frozenset[bytes]:
    """Return words of which every object or program that defines one of these functions contains one."""
    return frozenset(certain_word(symbol.given_name).encode() for symbol in hot)


def may_define(binary: Path, hot: Sequence[HotSymbol]) -> bool:
    """True unless it is certain, without parsing an object or program, that it defines none of these functions."""
    words = certain_words(hot)
    content = binary.read_bytes() if words else b""
    return any(word in content for word in words)
