"""Write errors against silicon into the cores' files, from the record: `python -m bench.silicon.core_facts`."""

import json
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.record import RESULTS

CORES = Path(__file__).resolve().parents[2] / "profiles/cores"
KINDS = ("cycles", "loop")
_SOURCE = "python -m bench.silicon: published cycles of calls and loops (bench/results/silicon.json)"
_OWN_LINES = re.compile(r"^(?:error|figures|held_out_error) = .*\n", re.MULTILINE)


def with_errors(text: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a core's file with the errors of these rows of the record in its table [model], in place of older ones."""
    errors, held = [], []
    for row in rows:
        if row["kind"] in KINDS and "modelled" in row:
            errors.append(abs(row["modelled"] / row["silicon"] - 1))
            if row.get("held_out"):
                held.append(errors[-1])
    table = "[model]\n"
    if table not in text:
        return text
    head, model = text.split(table, 1)
    lines = []
    if errors:
        lines += [_line("error", f"{100 * statistics.fmean(errors):.2f}", "percent", _SOURCE)]
        lines += [_line("figures", str(len(errors)), "figures", _SOURCE)]
    if held:
        source = f"{_SOURCE}, those held out by lot"
        lines += [_line("held_out_error", f"{100 * statistics.fmean(held):.2f}", "percent", source)]
    return head + table + "".join(lines) + _OWN_LINES.sub("", model)


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
