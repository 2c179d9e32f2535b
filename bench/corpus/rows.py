"""Rows of the corpus: what came of a package by a compiler, as cells of its record and read from them again.

A run tries some packages by some compilers; the record has the rows of all runs, each with its date and commit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from bench.records import Record
from mavcg.errors import MavcgError

EQUAL = "equal"
NO_VERSIONS = "no versions: "
NOT_TRIED = "not tried: "
HEAD = (
    "package",
    "compiler",
    "verdict",
    "objects with versions",
    "their code, bytes",
    "with versions",
    "build, CPU s",
    "with versions",
    "gain",
    "mavcg build",
    "its code, bytes",
    "date",
    "commit",
)


@dataclass(frozen=True)
class Row:
    """The outcome of a package by a way.

    verdict: EQUAL if both builds' programs give the same bytes on all processors, and the package's own tests pass;
    else what differs or failed, NO_VERSIONS and why there is nothing to compare, or NOT_TRIED and why. files: objects
    with versions. bytes_before, bytes_after: their code. plain_s, launch_s: CPU time of the builds, 0.0 where not
    measured. gain: the work's time without versions over that with them, None where not measured. build_verdict,
    build_bytes: the same with objects of `mavcg build` in place of those with versions, and their code; "" where not
    tried. date: YYYY-MM-DD. commit: of mavcg.
    """

    package: str
    version: str
    way: str
    verdict: str
    files: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    plain_s: float = 0.0
    launch_s: float = 0.0
    gain: float | None = None
    build_verdict: str = ""
    build_bytes: int = 0
    date: str = ""
    commit: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the record's table, below HEAD."""
        return (
            f"{self.package} {self.version}".strip(),
            self.way,
            self.verdict,
            str(self.files or ""),
            str(self.bytes_before or ""),
            str(self.bytes_after or ""),
            f"{self.plain_s:.1f}" if self.plain_s else "",
            f"{self.launch_s:.1f}" if self.launch_s else "",
            f"{self.gain:.2f}" if self.gain else "",
            self.build_verdict,
            str(self.build_bytes or ""),
            self.date,
            self.commit,
        )


Rows: TypeAlias = Mapping[tuple[str, str], Row]  # (package, way) -> its row


def rows_of(record: Record) -> Rows:
    """Return the rows of a record. Raises: MavcgError for a record without a table below HEAD."""
    for table in record.tables:
        if table.head == HEAD:
            return merged({}, map(_row_of, table.rows))
    raise MavcgError(f"record '{record.title}': no table has the columns {', '.join(HEAD)}; mend the record")


def merged(known: Rows, new: Iterable[Row]) -> Rows:
    """Return rows with new ones in place of those of the same package and way. What was not tried replaces nothing."""
    rows = dict(known)
    for row in new:
        at = row.package, row.way
        if at not in rows or not row.verdict.startswith(NOT_TRIED):
            rows[at] = row
    return dict(sorted(rows.items()))


def _row_of(cells: tuple[str, ...]) -> Row:
    named, way, verdict, files, before, after, plain, launch, gain, build, code, date, commit = cells
    package, _, version = named.partition(" ")
    return Row(
        package,
        version,
        way,
        verdict,
        int(files or 0),
        int(before or 0),
        int(after or 0),
        float(plain or 0),
        float(launch or 0),
        float(gain) if gain else None,
        build,
        int(code or 0),
        date,
        commit,
    )
