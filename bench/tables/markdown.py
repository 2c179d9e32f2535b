"""A markdown table, which all tables of records are made with."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Record: TypeAlias = Mapping[str, Any]  # what a bench measured
Tables: TypeAlias = Mapping[
    str, tuple[str, Callable[[Record], str]]
]  # name of a record: its title, its text and tables


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a markdown table whose columns, except the first, are right-aligned."""
    marks = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, marks, *rows])


def table_of(rows: Iterable[Any], columns: Mapping[str, Callable[[Any], object]]) -> str:
    """Return a markdown table with a line for each row. columns: the cell of a row, by the heading."""
    return table(tuple(columns), [[cell(row) for cell in columns.values()] for row in rows])
