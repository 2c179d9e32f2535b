"""Reads `perf report --stdio` text as samples, by the columns in its header.

Source of the layout: perf-report(1), and the output of perf 6.1. Counts have the precision of the printed shares, two
decimals.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mavcg.errors import ProfileError
from mavcg.program.profiling.sample_table import SampleTable, Tally, split_event

_HEADER = re.compile(r"#\s+(?:Overhead|Children)\b.*")
_DOTS = re.compile(r"#\s+\.+(?:\s+\.+)*\s*")
_SAMPLES = re.compile(
    r"#\s*Samples:\s*(?P<count>\d{1,15}(?:\.\d{1,6})?)(?P<unit>[KMG]?)\s+of events?\s+'(?P<event>[^']*)'.*"
)
_EVENT_COUNT = re.compile(r"#\s*Event count \(approx\.\):\s*(\d{1,18})\s*")
_PERCENT = re.compile(r"\s*(\d{1,3}\.\d{1,4})%")
_MODE = re.compile(r"\[(?P<mode>[.kgGuH])\]\s+(?P<name>.*)")
_NUMBER = re.compile(r"\d{1,18}")
_COMMAND = re.compile(r"#\s*cmdline\s*:\s*(.*)")
_UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class _ReportSection:
    """One event's part of the report. columns: (name, start, end), offsets into a line."""

    event: str = "unnamed"
    core: str | None = None
    records: float = 0.0
    count: float = 0.0
    columns: tuple[tuple[str, int, int | None], ...] = ()


def looks_like_perf_report(lines: Iterable[str]) -> bool:
    """True if one of these lines is the report's table header or its count of samples."""
    return any(_HEADER.fullmatch(line.rstrip()) or _SAMPLES.fullmatch(line.rstrip()) for line in lines)


def read_perf_report(lines: Iterable[str], location: str = "perf report text") -> SampleTable:
    """Read samples of `perf report --stdio` output: self cost, whether or not it also lists children.

    Args:
        location: name in errors, normally the file.
    Raises: ProfileError when there is no symbol column or no row.
    """
    tally, section, command, title = Tally(), _ReportSection(), "", ""
    for raw in lines:
        line = raw.rstrip("\r\n")
        if line.startswith("#"):
            samples, count, command_line = _SAMPLES.fullmatch(line), _EVENT_COUNT.fullmatch(line), _COMMAND.match(line)
            if samples is not None:
                event, core = split_event(samples["event"].split(",")[0])
                section = _ReportSection(event, core, float(samples["count"]) * _UNITS[samples["unit"]])
            elif count is not None:
                section = _ReportSection(section.event, section.core, section.records, float(count[1]), section.columns)
            elif command_line is not None:
                command = command_line[1].partition(" -- ")[2].strip() or command_line[1].strip()
            elif _HEADER.fullmatch(line):
                title = line
            elif title and _DOTS.fullmatch(line):
                columns = _columns(title, line)
                if "symbol" not in dict.fromkeys(name for name, _, _ in columns):
                    raise ProfileError(
                        f"{location}: the report has no Symbol column, it has {', '.join(c[0] for c in columns)}; "
                        f"print it with perf report --stdio --no-demangle --sort cpu,dso,symbol"
                    )
                section = _ReportSection(section.event, section.core, section.records, section.count, columns)
        elif section.columns:
            _count_row(tally, section, line)
    if title and not tally.rows and not section.columns:
        raise ProfileError(
            f"{location}: a perf report whose columns cannot be determined; print it with perf report --stdio, without "
            f"--field-separator and --column-widths"
        )
    return tally.reading(location, "samples", command)


def _columns(title: str, dots: str) -> tuple[tuple[str, int, int | None], ...]:
    """Return (name in lower case, start, end) of each column, whose width is that of the dots below the header."""
    spans = [column.span() for column in re.finditer(r"\.+", dots)]
    ends = [*(end for _, end in spans[:-1]), None]  # the last column runs to the end of its line
    return tuple((title[start:end].strip().lower(), start, end) for (start, _), end in zip(spans, ends, strict=True))


def _count_row(tally: Tally, section: _ReportSection, line: str) -> None:
    """Add a row of the table; call-graph lines below it start to the right of the first column and are skipped."""
    first_end = section.columns[0][2]
    if _PERCENT.match(line[:first_end]) is None:
        return
    cells = {name: line[0 if at == 0 else start : end].strip() for at, (name, start, end) in enumerate(section.columns)}
    percent = _PERCENT.match(cells.get("self") or cells.get("overhead") or "")
    symbol = cells["symbol"]
    if percent is None or not symbol:
        return
    share = float(percent[1]) / 100
    mode = _MODE.fullmatch(symbol)
    name = mode["name"].strip() if mode is not None else symbol
    object_ = cells.get("shared object", "")
    if not object_ and mode is not None and mode["mode"] in "kgG":
        object_ = "[kernel.kallsyms]"
    cpu, core = cells.get("cpu", ""), section.core
    period, records = cells.get("period", ""), cells.get("samples", "")
    tally.add(
        section.event,
        (name, object_, int(cpu) if re.fullmatch(r"\d{1,6}", cpu) else None, core),
        float(period) if _NUMBER.fullmatch(period) else share * (section.count or section.records or 1.0),
        float(records) if _NUMBER.fullmatch(records) else share * section.records,
    )
