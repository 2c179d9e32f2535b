"""Markdown tables of the corpus: by compiler, then each build."""

import statistics
from collections.abc import Sequence

from bench.corpus.trial import EQUAL
from bench.tables.markdown import Record, Tables, table


def corpus(record: Record) -> str:
    """Return the table of compilers and the table of builds."""
    rows: Sequence[Record] = record["rows"]
    of_ways = [_of_way(way, [row for row in rows if row["way"] == way]) for way in sorted({row["way"] for row in rows})]
    head = ["compiler", "packages", "equal", "objects with versions", "their code", "CPU time of builds", "gain"]
    lines = [
        [
            f"{row['package']} {row['version']}",
            row["way"],
            row["verdict"],
            row["files"] or "",
            f"{row['bytes_before']} to {row['bytes_after']} bytes" if row["files"] else "",
            f"{row['plain_s']:.1f} to {row['launch_s']:.1f} s" if row["launch_s"] else "",
            f"{row['gain']:.2f}" if row["gain"] else "",
        ]
        for row in rows
    ]
    text = (
        "Measured: Debian's source packages, built as they are and with versions of the functions that take over 2 % "
    )
    text += "of the time of their work. Equal: both give the same bytes, on every core, and the packages' own tests "
    text += "pass. The gain is the time of that work without versions over that with them, where the machine was quiet."
    each = ["package", "compiler", "verdict", *head[3:]]
    return f"{text}\n\n{table(head, of_ways)}\n\n{table(each, lines)}"


def _of_way(way: str, rows: Sequence[Record]) -> list[object]:
    """Return the row of a compiler: sums of code, the median of the builds' ratios, the mean of the gains."""
    built = [row for row in rows if row["launch_s"]]
    before, after = (sum(row[key] for row in built) for key in ("bytes_before", "bytes_after"))
    ratios = [row["launch_s"] / row["plain_s"] for row in built if row["plain_s"]]
    gains = [row["gain"] for row in rows if row["gain"]]
    return [
        way,
        len(rows),
        sum(row["verdict"] == EQUAL for row in rows),
        sum(row["files"] for row in rows),
        f"+{after / before - 1:.0%}" if before else "",
        f"{statistics.median(ratios):.1f} times" if ratios else "",
        f"{statistics.geometric_mean(gains):.2f}" if gains else "",
    ]


TABLES: Tables = {
    "corpus": ("Strangers' software under mavcg launch", corpus),
}
