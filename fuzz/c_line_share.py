"""The share of the lines of a C target's readers that inputs reach, of what llvm-cov exports.

Readers are the functions of the files that readers.toml names for the target. A library's C is one file when it is
compiled, selector and engine and all, so that functions are told apart by their names.
"""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fuzz.line_share import READERS

ROOT = READERS.parents[1]
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DEFINITION = re.compile(r"^[A-Za-z_][^;{}=#]*\b(\w+)\([^;{}]*?\)\s*\{", re.MULTILINE)
_CODE = 0  # kind of a region, as llvm's CounterMappingRegion numbers them


def functions_of(target: str) -> frozenset[str]:
    """Return the names of the functions that are defined in the files of a C target's readers."""
    files = tomllib.loads(READERS.read_text())["c"].get(target, ())
    return frozenset(name for file in files for name in defined_functions((ROOT / file).read_text()))


def defined_functions(source: str) -> Iterator[str]:
    """Yield the names of functions that C source defines at the beginning of a line, as clang-format has them."""
    yield from _DEFINITION.findall(_COMMENT.sub("", source))


def line_share(export: Mapping[str, Any], names: Collection[str]) -> tuple[int, int]:
    """Return (lines reached, lines) of these functions; one that several units have counts once, by what any reaches.

    export: the document of `llvm-cov export`.
    """
    reached: dict[str, dict[int, bool]] = {}
    for function in export["data"][0]["functions"]:
        name = function["name"].rpartition(":")[2]
        if name in names:
            lines = reached.setdefault(name, {})
            for at, is_reached in enumerate(_lines(function["regions"])):
                lines[at] = lines.get(at, False) or is_reached
    every = [line for lines in reached.values() for line in lines.values()]
    return sum(every), len(every)


def _lines(regions: Sequence[Sequence[int]]) -> Iterator[bool]:
    """Yield whether each line of a function's body is reached.

    regions: first line, column, last line, column, count, file, .., kind; that of the body comes first. A line counts
    by the innermost region that it begins in, and by those that begin in it.
    """
    body = regions[0]
    code = [region for region in regions if region[5] == body[5] and region[-1] == _CODE]
    for line in range(body[0], body[2] + 1):
        around = [region for region in code if region[0] < line <= region[2]]
        innermost = max(around, key=lambda region: (region[0], region[1]), default=None)
        begun = [region[4] for region in code if region[0] == line]
        yield max([*begun, innermost[4] if innermost else 0]) > 0
