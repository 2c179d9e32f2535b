"""Records of figures, as bench/results/ has them: command, commit, machine, date, and tables of at most 150 lines.

A record is made from the markdown that a bench makes of what it measured (bench/tables/); the rows that were measured
stay in build/bench/, outside the repository. In the file each row of a table is one line.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.decode import read_json
from mavcg.files.whole_file import write_whole

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench/results"
MOST_LINES = 150
_BETWEEN_CELLS = re.compile(r"(?<!\\)\|")
_IS_TABLE = re.compile(r"\|.*\n\|(?: *-+:? *\|)+(?:\n|$)")


@dataclass(frozen=True)
class RecordTable:
    """A table of a record, all cells as text; a row may have two cells that name it."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Record:
    """The results of a command: a title, paragraphs and tables in order, and where they are from.

    kind: "measured", "counted", "modelled". commit: of `git describe --always --dirty`. date: "YYYY-MM-DD HH:MM UTC".
    machine: its processor, its number of CPUs, and whether it is virtual.
    """

    title: str
    kind: str
    command: str
    commit: str
    date: str
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    parts: tuple[str | RecordTable, ...]

    @property
    def tables(self) -> Iterator[RecordTable]:
        return (part for part in self.parts if isinstance(part, RecordTable))

    @property
    def where(self) -> str:
        """The machine in a few words."""
        virtual = ", virtual" if self.machine.get("virtual") == "yes" else ""
        return f"{self.machine['processor']}, {self.machine['cpus']} CPUs{virtual}"

    def cell(self, row: str, column: str) -> str:
        """Return the first cell that two patterns of fnmatch select: a row by its first cell, or by its first two.

        The first two are joined by " / "; a pattern's "#2" selects the second column that it fits.
        Raises: MavcgError if there is none.
        """
        pattern, _, number = column.partition("#")
        for table in self.tables:
            columns = [at for at, name in enumerate(table.head) if fnmatchcase(name, pattern)]
            for cells in table.rows if len(columns) >= int(number or 1) else ():
                if fnmatchcase(cells[0], row) or fnmatchcase(" / ".join(cells[:2]), row):
                    return cells[columns[int(number or 1) - 1]]
        raise MavcgError(f"record '{self.title}': no cell {row}|{column}; run `{self.command}` again, or name another")


def record_of(title: str, head: Mapping[str, Any], text: str) -> Record:
    """Return the record of a bench's markdown.

    head: of bench.record.facts. Raises: MavcgError where it has more than 150 lines.
    """
    parts = tuple(_part(block) for block in text.strip().split("\n\n"))
    lines = sum(len(part.rows) + 2 if isinstance(part, RecordTable) else part.count("\n") + 1 for part in parts)
    if lines > MOST_LINES:
        raise MavcgError(f"record '{title}': {lines} lines, a record has at most {MOST_LINES}: summarise it")
    machine = {key: str(head["machine"][key]) for key in ("processor", "cpus", "virtual")}
    kind, command, commit, date = (str(head[key]) for key in ("kind", "command", "commit", "date"))
    return Record(title, kind, command, commit, date, machine, dict(head.get("versions", {})), parts)


def _part(block: str) -> str | RecordTable:
    if not _IS_TABLE.match(block):
        return block
    head, _, *rows = (_cells(line) for line in block.split("\n"))
    return RecordTable(head, tuple(rows))


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in _BETWEEN_CELLS.split(line.strip()[1:-1]))


def markdown(table: RecordTable) -> str:
    """Return a table as markdown, its columns but the first right-aligned."""
    marks = ("---", *("--:" for _ in table.head[1:]))
    return "\n".join("| " + " | ".join(row) + " |" for row in (table.head, marks, *table.rows))


def read(path: Path) -> Record:
    """Return the record of a file.

    Raises: MavcgError where it is not one.
    """
    return read_json(path, "make it anew by its command").decode(Record)


def write(path: Path, record: Record) -> None:
    """Write a record's file whole, a line for each row of its tables."""
    head = ("title", "kind", "command", "commit", "date", "machine", "versions")
    lines = [f"{json.dumps(key)}: {_json(getattr(record, key))}" for key in head]
    parts = ",\n".join(_json(part) if isinstance(part, str) else _table_json(part) for part in record.parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "{\n" + ",\n".join([*lines, f'"parts": [\n{parts}\n]']) + "\n}\n")


def _table_json(table: RecordTable) -> str:
    return f'{{"head": {_json(table.head)}, "rows": [\n{_rows_json(table.rows)}\n]}}'


def _rows_json(rows: Sequence[Sequence[str]]) -> str:
    return ",\n".join(map(_json, rows))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
