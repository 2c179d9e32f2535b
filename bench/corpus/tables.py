"""Markdown tables of the corpus: by compiler, then each build."""

import statistics
from collections.abc import Sequence

from bench.corpus.rows import EQUAL, HEAD, NO_VERSIONS, Row
from bench.tables.markdown import Record, Tables, table


def corpus(record: Record) -> str:
    """Return the table of compilers and the table of builds."""
    rows = [Row(**row) for row in record["rows"]]
    compared = [row for row in rows if not row.verdict.startswith(NO_VERSIONS)]
    of_ways = [_of_way(way, [row for row in compared if row.way == way]) for way in sorted({row.way for row in rows})]
    head = ["compiler", "packages", "equal", "equal by mavcg build", "objects with versions", "their code"]
    head += ["CPU time of builds", "gain"]
    text = (
        "Measured: Debian's source packages, built as they are and with versions of the functions that take over 2 % "
        "of the time of their work. Equal: both give the same bytes, on every core, and the packages' own tests pass. "
        "CPU times, and the gain, which is the time of that work without versions over that with them, are there where "
        "the machine was quiet. A package of which no object got versions has nothing to compare, is not counted by "
        "compiler, and the reason is that of its first object. Objects with versions by clang and zig are ziglang's "
        "clang's, and those by gcc keep gcc's cold functions. `mavcg build`: the same where it makes the objects with "
        "versions, from the build's own commands; of a Rust crate's objects it makes versions of their LLVM bitcode, "
        "and `mavcg launch` none. Each "
        "row is of the last run that tried the package by the compiler; the record's date and commit are those of its "
        "oldest row."
    )
    return f"{text}\n\n{table(head, of_ways)}\n\n{table(HEAD, [row.cells for row in rows])}"


def _of_way(way: str, rows: Sequence[Row]) -> list[object]:
    """Return the row of a compiler: sums of code, the median of the builds' ratios, the mean of the gains."""
    before, after = (sum(getattr(row, key) for row in rows) for key in ("bytes_before", "bytes_after"))
    ratios = [row.launch_s / row.plain_s for row in rows if row.plain_s and row.launch_s]
    gains = [row.gain for row in rows if row.gain]
    return [
        way,
        len(rows),
        sum(row.verdict == EQUAL for row in rows),
        f"{sum(row.build_verdict == EQUAL for row in rows)} of {sum(row.build_verdict != '' for row in rows)}",
        sum(row.files for row in rows),
        f"+{after / before - 1:.0%}" if before else "",
        f"{statistics.median(ratios):.1f} times" if ratios else "",
        f"{statistics.geometric_mean(gains):.2f}" if gains else "",
    ]


TABLES: Tables = {
    "corpus": ("Strangers' software under mavcg launch", corpus),
}
