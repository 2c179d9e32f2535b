"""A markdown table, which all tables of records are made with."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Record: TypeAlias = Mapping[str, Any]  # what a bench measured
Tables: TypeAlias = Mapping[
    str, tuple[str, Callable[[Record], str]]
]  # name of a record: its title, its text and tables


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a markdown table whose columns, except the first, are right-aligned."""
    marks = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, marks, *rows])
