"""Write errors against silicon into the cores' files, from the record: `python -m bench.silicon.core_facts`."""

import re
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import records
from bench.records import RESULTS
from bench.silicon.blind_table import ALL, BLIND_HEAD
from bench.tables.markdown import table
from mavcg.hardware.core import SILICON_UNITS

CORES = Path(__file__).resolve().parents[2] / "profiles/cores"
# Prefix of the keys of a group of figures -> its kinds in the record. Cycles alone say how far a cost is off, so that
# `error` is what choices go by (mavcg/hardware/core.py); the others are for people.
GROUPS = {"": ("cycles", "loop"), "changes_": ("ratio",), "instructions_": ("instruction",)}
_NAMES = {
    "": "published cycles of calls and loops",
    "changes_": "published changes in time",
    "instructions_": "published cycles an instruction",
}
_KEYS = "|".join(key.removeprefix("model.") for key in SILICON_UNITS)
_OWN_LINES = re.compile(rf"^(?:{_KEYS}) = .*\n", re.MULTILINE)


def errors(record: Mapping[str, Any]) -> str:
    """Return the table of mean absolute errors of each core and group of figures, of all and of those held out."""
    rows = []
    for core in sorted({row["core"] for row in record["rows"]}):
        for prefix, kinds in GROUPS.items():
            known = [row for row in record["rows"] if row["core"] == core and row["kind"] in kinds]
            known = [row for row in known if "modelled" in row]
            held_out = [row for row in known if row.get("held_out")]
            if known:
                rows.append([core, _NAMES[prefix], *_cells(known), *(_cells(held_out) if held_out else ("", ""))])
    text = "Modelled: mean absolute error in percent, and how many published figures it is of."
    head = ["core", "figures of", "error", "figures", "held-out error", "held-out figures"]
    return f"{text}\n\n{table(head, rows)}"


def _cells(rows: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
    return f"{100 * statistics.fmean(abs(row['modelled'] / row['silicon'] - 1) for row in rows):.2f}", len(rows)


def with_errors(text: str, rows: Iterable[Sequence[str]], blind: Sequence[str] = ()) -> str:
    """Return a core's file with the errors of these rows of the record in its table [model], in place of older ones.

    blind: the core's row of the record of blind projects, if it has one.
    """
    table = "[model]\n"
    if table not in text:
        return text
    head, model = text.split(table, 1)
    by_group = {row[1]: row[2:] for row in rows}
    lines = _blind_lines(blind)
    lines += [line for prefix in GROUPS for line in _lines_of(prefix, by_group.get(_NAMES[prefix], ()))]
    return head + table + "".join(lines) + _OWN_LINES.sub("", model)


def _lines_of(prefix: str, cells: Sequence[str]) -> list[str]:
    """Return the lines of a group of figures: mean absolute errors, and how many figures they are of."""
    source = f"python -m bench.silicon: {_NAMES[prefix]} (bench/results/silicon_cores.json)"
    lines = []
    for key, at, of_lot in (("", 0, ""), ("held_out_", 2, ", those held out by lot")):
        if cells and cells[at]:
            lines += [_line(f"{prefix}{key}error", cells[at], "percent", source + of_lot)]
            lines += [_line(f"{prefix}{key}figures", cells[at + 1], "figures", source + of_lot)]
    return lines


def _blind_lines(row: Sequence[str]) -> list[str]:
    source = "python -m bench.silicon --blind: published cycles of projects that no fact was fitted to "
    source += "(bench/results/silicon_blind.json)"
    cells = dict(zip(BLIND_HEAD, row, strict=True)) if row else {}
    return [
        _line(f"blind_{key}", cells[key].rstrip("%"), unit, source)
        for key, unit in (("error", "percent"), ("figures", "figures"))
        if cells
    ]


def recorded_blind(core: str) -> tuple[str, ...]:
    """Return the row of the record of blind projects that has all of a core's figures; empty without one."""
    (table,) = records.read(RESULTS / "silicon_blind.json").tables
    return next((row for row in table.rows if row[:2] == (core, ALL)), ())


def recorded(core: str) -> list[tuple[str, ...]]:
    """Return the record's rows of a core."""
    (table,) = records.read(RESULTS / "silicon_cores.json").tables
    return [row for row in table.rows if row[0] == core]


def _line(key: str, value: str, unit: str, source: str) -> str:
    return f'{key} = {{ value = {value}, unit = "{unit}", source = "{source}" }}\n'


def main() -> int:
    """Update every core's file that has a table [model]; name those that changed."""
    for path in sorted(CORES.glob("*.toml")):
        text = path.read_text(encoding="utf-8")
        new = with_errors(text, recorded(path.stem), recorded_blind(path.stem))
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(f"updated: {path.relative_to(CORES.parents[1])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
