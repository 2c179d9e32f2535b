"""The record of injected failures in bench/results/: a row for each operation, with the date and commit of its run."""

import collections
from collections.abc import Sequence
from dataclasses import dataclass

from bench import records
from bench.record import facts, write
from bench.records import RESULTS
from bench.tables.robustness import INJECTED

NAME = "injected_failures"


@dataclass(frozen=True)
class Row:
    """Verdicts on one operation, in which calls of a kind failed with an error.

    tried: plans. right: those after which the result was right. refused: by a documented status. wrong: all others.
    first_untried: the number of the first call for which the time was over; 0: there is none.
    """

    operation: str
    call: str
    error: str
    tried: int
    right: int
    refused: int
    wrong: int
    first_untried: int = 0


def record(rows: Sequence[Row], command: str) -> None:
    """Write the record with these rows' operations; those of earlier runs stay where these rows have none of them."""
    head = facts("counted", command)
    operations = {row[0]: row for row in _recorded_rows()} | {
        name: cells_of([row for row in rows if row.operation == name], head["date"][:10], head["commit"])
        for name in {row.operation for row in rows}
    }
    write(NAME, head | {"operations": [operations[name] for name in sorted(operations)]})


def _recorded_rows() -> list[Sequence[str]]:
    """Return the record's rows below INJECTED without their sum; none where there is no record."""
    path = RESULTS / f"{NAME}.json"
    tables = {table.head: table.rows for table in records.read(path).tables} if path.is_file() else {}
    return [row for row in tables.get(INJECTED, ()) if row[0] != "total"]


def cells_of(rows: Sequence[Row], date: str, commit: str) -> Sequence[str]:
    """Return the cells below INJECTED of one operation's rows. date: YYYY-MM-DD."""
    calls: collections.Counter[str] = collections.Counter()
    for row in rows:
        calls[row.call] += row.tried
    untried = [row.first_untried for row in rows if row.first_untried]
    counts = (sum(getattr(row, name) for row in rows) for name in ("tried", "right", "refused", "wrong"))
    listed = ", ".join(f"{call} {tried}" for call, tried in sorted(calls.items()))
    reached = f"below {min(untried)}" if untried else "all"
    return (rows[0].operation, listed, reached, *map(str, counts), date, commit)
