"""Write errors against silicon into the cores' files, from the record: `python -m bench.silicon.core_facts`."""

import json
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.record import RESULTS
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


def with_errors(text: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a core's file with the errors of these rows of the record in its table [model], in place of older ones."""
    table = "[model]\n"
    if table not in text:
        return text
    head, model = text.split(table, 1)
    lines = [line for prefix in GROUPS for line in _lines_of(prefix, rows)]
    return head + table + "".join(lines) + _OWN_LINES.sub("", model)


def _lines_of(prefix: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a group of figures: mean absolute errors, and how many figures they are of."""
    errors, held_out = [], []
    for row in rows:
        if row["kind"] in GROUPS[prefix] and "modelled" in row:
            errors.append(abs(row["modelled"] / row["silicon"] - 1))
            if row.get("held_out"):
                held_out.append(errors[-1])
    source = f"python -m bench.silicon: {_NAMES[prefix]} (bench/results/silicon.json)"
    lines = []
    for key, group, of_lot in (("", errors, ""), ("held_out_", held_out, ", those held out by lot")):
        if group:
            mean = f"{100 * statistics.fmean(group):.2f}"
            lines += [_line(f"{prefix}{key}error", mean, "percent", source + of_lot)]
            lines += [_line(f"{prefix}{key}figures", str(len(group)), "figures", source + of_lot)]
    return lines


def _line(key: str, value: str, unit: str, source: str) -> str:
    return f'{key} = {{ value = {value}, unit = "{unit}", source = "{source}" }}\n'


def main() -> int:
    """Update every core's file that has a table [model]; name those that changed."""
    rows = json.loads((RESULTS / "silicon.json").read_text(encoding="utf-8"))["rows"]
    for path in sorted(CORES.glob("*.toml")):
        text = path.read_text(encoding="utf-8")
        new = with_errors(text, [row for row in rows if row["core"] == path.stem])
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(f"updated: {path.relative_to(CORES.parents[1])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
