"""Write the figures of README.md and docs/figures.md from the records: `python -m bench.pages`.

bench/pages.toml says which cells of which records a page has. Each figure stands with the date, the commit and the
machine of its record, and with the word "old" where bench/age.py says so.
"""

import datetime
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench import records
from bench.age import is_old
from bench.records import RESULTS, ROOT, Record, RecordTable
from mavcg.errors import MavcgError
from mavcg.files.decode import read_toml
from mavcg.files.whole_file import write_whole

PLAN = ROOT / "bench/pages.toml"
OLD, ABSENT = "old, ", "not measured"
BEGIN, END = "<!-- figures: python -m bench.pages -->", "<!-- end of figures -->"
_COLUMNS = 120  # of a page's lines that are no rows of tables
_CELL = re.compile(r"\{([^{}|]+)\|([^{}|]+)\}")
_HEAD = ("figure", "value", "date", "commit", "machine", "command")


@dataclass(frozen=True)
class Line:
    """A line of a page.

    text: as it has to be, with OLD before the date where the record is old. record: the name of the record that it is
    from; None for a line that has no figure.
    """

    text: str
    record: str | None = None


class Figure(NamedTuple):
    """A figure of a page: the record that has it, what it is, and its cells as {row|column} in a text."""

    record: str
    what: str
    value: str


@dataclass(frozen=True)
class Headline:
    """A figure that `make figures` measures: its name, the bench with its arguments, and its share of the time."""

    name: str
    bench: str
    seconds: int
    record: str
    what: str
    value: str

    @property
    def figure(self) -> Figure:
        return Figure(self.record, self.what, self.value)


@dataclass(frozen=True)
class Subject:
    """A chapter of docs/figures.md: figures, and records whose first table it has whole."""

    title: str
    text: str
    figures: tuple[Figure, ...] = ()
    tables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The content of both pages, in order, as bench/pages.toml says."""

    text: str
    headline_text: str
    headline: tuple[Headline, ...]
    subject: tuple[Subject, ...]


def plan_of(path: Path = PLAN) -> Plan:
    """Return what the pages have.

    Raises: MavcgError where the file is not as it has to be.
    """
    return read_toml(path).decode(Plan)


class Pages:
    """The two pages as they have to be, by the records of a folder.

    today: the day that "old" is judged on; None: now. grace: as for bench.age.is_old.
    """

    def __init__(self, plan: Plan, results: Path, root: Path, today: datetime.date | None = None, grace: int = 0):
        self.plan = plan
        self._root, self._today = root, today
        self._records = {path.stem: records.read(path) for path in sorted(results.glob("*.json"))}
        self._old = {name: is_old(record, root, today, grace) for name, record in self._records.items()}

    def is_old(self, record: str) -> bool:
        """Return whether a record is old."""
        return self._old[record]

    def unprinted(self) -> list[str]:
        """Return the records that no page prints."""
        printed = {line.record for page in (self.readme_lines(), self.figures_lines()) for line in page}
        return sorted(self._records.keys() - printed)

    def readme_lines(self) -> list[Line]:
        """Return the block of README.md: the headline figures."""
        return [*map(Line, _table_head(_HEAD[:-1])), *self._headline_rows(len(_HEAD) - 1)]

    def figures_lines(self) -> list[Line]:
        """Return docs/figures.md."""
        lines = [*_text(f"# Figures\n\n{self.plan.text.strip()}\n\n## Headline figures\n\n{self.plan.headline_text}\n")]
        lines += [*map(Line, _table_head(_HEAD)), *self._headline_rows(len(_HEAD))]
        for subject in self.plan.subject:
            lines += _text(f"\n## {subject.title}\n\n{subject.text.strip()}\n")
            if subject.figures:
                lines += map(Line, _table_head(_HEAD))
                lines += (self._row(figure, len(_HEAD)) for figure in subject.figures)
            for name in subject.tables:
                lines += self._whole_table(name)
        return lines

    def _headline_rows(self, columns: int) -> Iterator[Line]:
        return (self._row(headline.figure, columns) for headline in self.plan.headline)

    def facts_of(self, figure: Figure) -> dict[str, str]:
        """Return a figure's value, date, commit, machine and command, as a page has them."""
        record = self._record(figure.record)
        return {
            "value": _CELL.sub(lambda cell: _cell(record, cell[1], cell[2]), figure.value),
            "date": OLD * self._old[figure.record] + record.date[:10],
            "commit": record.commit,
            "machine": record.where,
            "command": record.command.removeprefix("python -m "),
        }

    def _row(self, figure: Figure, columns: int) -> Line:
        *facts, command = self.facts_of(figure).values()
        cells = (figure.what, *facts, f"`{command}`")
        return Line(f"| {' | '.join(cells[:columns])} |", figure.record)

    def _whole_table(self, name: str) -> Iterator[Line]:
        """Return a record's first table, with its title above and its origin below."""
        record = self._record(name)
        table = next(record.tables)
        yield from _text(f"\n### {record.title}\n")
        for text in records.markdown(table).split("\n"):
            yield Line(text, name)
        origin = f"{OLD * self._old[name]}{record.date[:10]}, commit {record.commit}, {record.where}"
        yield Line("")
        yield Line(f"{record.kind.capitalize()}: {origin};", name)
        yield Line(f"`{record.command}`", name)  # a line of its own: with "old" one line would be too long

    def _record(self, name: str) -> Record:
        if name not in self._records:
            raise MavcgError(f"bench/pages.toml: bench/results has no record {name}; measure it, or take it out")
        return self._records[name]


def _cell(record: Record, row: str, column: str) -> str:
    """Return a cell; ABSENT where the machine that measured lacks what the row is of, a compiler or a library."""
    try:
        return record.cell(row, column)
    except MavcgError:
        return ABSENT


def _table_head(names: Sequence[str]) -> list[str]:
    return records.markdown(RecordTable(tuple(names), ())).split("\n")


def _text(text: str) -> Iterator[Line]:
    """Return the lines of a text, broken at _COLUMNS."""
    for line in text.split("\n"):
        for part in textwrap.wrap(line, _COLUMNS, break_long_words=False, break_on_hyphens=False) or [""]:
            yield Line(part)


def readme_block(text: str) -> tuple[int, int]:
    """Return where the block of figures begins and ends in README.md.

    Raises: MavcgError where the marks are not there.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise MavcgError(f"README.md: needs the lines {BEGIN} and {END} once each, which the figures stand between")
    return text.index(BEGIN) + len(BEGIN) + 1, text.index(END)


def write_pages(pages: Pages, root: Path) -> None:
    """Write both pages anew."""
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    begin, end = readme_block(text)
    write_whole(readme, text[:begin] + "\n" + _joined(pages.readme_lines) + "\n" + text[end:])
    write_whole(root / "docs/figures.md", _joined(pages.figures_lines))


def _joined(lines: Callable[[], Sequence[Line]]) -> str:
    return "".join(f"{line.text}\n" for line in lines())


def main() -> int:
    """Write the pages."""
    try:
        write_pages(Pages(plan_of(), RESULTS, ROOT), ROOT)
    except MavcgError as error:
        print(f"bench.pages: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
