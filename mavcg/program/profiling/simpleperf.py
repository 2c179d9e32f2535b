"""Reads Android's `simpleperf report --csv` as samples.

Source of the columns: the Android Open Source Project's simpleperf, doc/executable_commands_reference.md and the help
text of `simpleperf report`: Overhead or Children and Self; Sample with -n; Command, Pid, Tid, Shared Object, Symbol by
--sort; EventCount or AccEventCount and SelfEventCount, EventName. Names with commas are quoted in later versions only.
"""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass

from mavcg.errors import ProfileError
from mavcg.program.profiling.sample_table import SampleTable, Tally, split_event

_TITLE = re.compile(r'"?(?:Overhead|Children)"?,.*')
_PLAIN_TITLE = re.compile(r"(?:Overhead|Children)\s{2,}.*\bSymbol\b.*")
_CONTEXT = re.compile(r"(?P<name>Cmdline|Arch|Event|Samples|Event count|Time in ns|Error Callchains): (?P<value>.*)")
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,9})?")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%")


@dataclass
class _Context:
    """The facts in the lines above a table; each event has a table."""

    command: str = ""
    event: str = "unnamed"
    records: float = 0.0
    count: float = 0.0
    title: tuple[str, ...] = ()


def looks_like_simpleperf(lines: Iterable[str]) -> bool:
    """True if one of these lines is the table header of a simpleperf report, with or without --csv."""
    return any(_TITLE.fullmatch(line.strip()) or _PLAIN_TITLE.fullmatch(line.strip()) for line in lines)


def read_simpleperf(lines: Iterable[str], location: str = "simpleperf report") -> SampleTable:
    """Read samples of `simpleperf report --csv` output: self cost per symbol.

    Args:
        location: name in errors, normally the file.
    Raises: ProfileError for a report without --csv, without a Symbol column, or without rows.
    """
    tally, context = Tally(), _Context()
    for raw in lines:
        line = raw.strip().lstrip("\ufeff")
        context_line = _CONTEXT.fullmatch(line)
        if not line:
            continue
        if _TITLE.fullmatch(line):
            context.title = tuple(cell.strip().lower() for cell in _cells(line))
            if "symbol" not in context.title:
                raise ProfileError(
                    f"{location}: the report has no Symbol column, it has {', '.join(context.title)}; "
                    f"write it with simpleperf report --csv --no-demangle --sort dso,symbol"
                )
        elif _PLAIN_TITLE.fullmatch(line):
            raise ProfileError(f"{location}: a simpleperf report for people; write it with simpleperf report --csv")
        elif context_line is not None:
            _take_context(context, context_line["name"], context_line["value"])
        elif context.title:
            _count_row(tally, context, line)
    return tally.reading(location, "samples", context.command)


def _take_context(context: _Context, name: str, value: str) -> None:
    number = _NUMBER.match(value)
    if name == "Cmdline":
        context.command = value.partition(" -- ")[2].strip() or value
    elif name == "Event":
        context.event, context.records, context.count, context.title = value.partition(" (")[0], 0.0, 0.0, ()
    elif name == "Samples" and number:
        context.records = float(number[0])
    elif name in ("Event count", "Time in ns") and number:
        context.count = float(number[0])


def _count_row(tally: Tally, context: _Context, line: str) -> None:
    """Add a row of the table; lines of other shapes (a call graph printed below a row) are skipped."""
    cells, title = _cells(line), context.title
    surplus = len(cells) - len(title)
    if surplus < 0:
        return
    if surplus:  # older versions do not quote a C++ name with commas: surplus cells belong to the name
        at = title.index("symbol")
        cells = [*cells[:at], ",".join(cells[at : at + surplus + 1]), *cells[at + surplus + 1 :]]
    row = dict(zip(title, (cell.strip() for cell in cells), strict=True))
    own = row.get("self") or row.get("overhead") or ""
    percent, raw_period = _PERCENT.fullmatch(own), _NUMBER.fullmatch(own)
    counted = _NUMBER.fullmatch(row.get("selfeventcount") or row.get("eventcount") or "")
    if percent is None and raw_period is None:
        return
    share = float(percent[1]) / 100 if percent is not None else None
    if counted is not None:
        samples = float(counted[0])
    elif share is not None:
        samples = share * (context.count or context.records or 1.0)
    else:
        samples = float(own)  # --raw-period
    if share is None:
        share = samples / context.count if context.count else 0.0
    event, core = split_event(row.get("eventname") or context.event)
    cpu, records = row.get("cpu", ""), _NUMBER.fullmatch(row.get("sample", ""))
    tally.add(
        event,
        (row["symbol"], row.get("shared object", ""), int(cpu) if re.fullmatch(r"\d{1,6}", cpu) else None, core),
        samples,
        float(records[0]) if records is not None else share * context.records,
    )


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:  # a field over csv's limit, or a stray carriage return: not a row of this table
        return []
