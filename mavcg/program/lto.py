"""Reads from a compiler's flags which link-time optimisation a program requests, and knows bitcode by its bytes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import MavcgError

# Source: LLVM BitCodeFormat, "Magic Number" and "Wrapper".
_MAGIC = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_OTHER_MODULES = ("-fwhole-program-vtables", "-fvirtual-function-elimination", "-fsanitize=cfi")
FULL, THIN = "full", "thin"


@dataclass(frozen=True)
class Lto:
    """A link-time optimisation. kind: FULL or THIN. flags: the program's own flags about the form of its bitcode."""

    kind: str = FULL
    flags: tuple[str, ...] = ()


def lto_of(flags: Sequence[str]) -> Lto | None:
    """Return the link-time optimisation that a compiler's flags request; None without one, or with native code too.

    Raises: MavcgError for flags whose bitcode depends on the other modules of the link.
    """
    requested = [flag for flag in flags if flag == "-fno-lto" or re.match(r"-flto(=|$)", flag)]
    if not requested or requested[-1] == "-fno-lto" or "-ffat-lto-objects" in flags:
        return None
    for flag in flags:
        if flag.startswith(_OTHER_MODULES):
            raise MavcgError(
                f"{flag}: needs the same marks in all modules of the link, which versions lack; leave it out"
            )
    form = tuple(flag for flag in flags if re.match(r"-f(no-)?(split-lto-unit|unified-lto)$", flag))
    return Lto(THIN if requested[-1] == "-flto=thin" else FULL, form)


def is_bitcode(path: Path) -> bool:
    """True if a file begins as LLVM bitcode."""
    with path.open("rb") as file:
        return file.read(4) in _MAGIC
