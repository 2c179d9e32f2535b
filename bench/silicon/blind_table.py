"""The table of errors on blind projects, by core: of all their kernels, then of each project."""

import statistics
from collections.abc import Mapping
from typing import Any

from bench.tables.markdown import table

BLIND_HEAD = ("core", "project", "figures", "bias", "error", "goal")
ALL = "all"
# Mean absolute error that is asked for on projects that were not seen, in percent; of all others `_OTHERS`.
_GOALS = {
    **dict.fromkeys(("cortex-a53", "cortex-a55"), 5),
    **dict.fromkeys(("cortex-a72", "cortex-a73", "cortex-a75", "cortex-a76", "neoverse-n1"), 10),
}
_OTHERS = 15


def blind_errors(record: Mapping[str, Any]) -> str:
    """Return errors on kernels of projects that are held out whole, by core and project, beside the goal."""
    rows = []
    for core in sorted({row["core"] for row in record["rows"]}):
        known = [row for row in record["rows"] if row["core"] == core and "modelled" in row]
        projects = list(dict.fromkeys(row["project"] for row in known))
        for project in (ALL, *projects):
            errors = [row["modelled"] / row["silicon"] - 1 for row in known if project in (ALL, row["project"])]
            error = 100 * statistics.fmean(map(abs, errors))
            goal = _GOALS.get(core, _OTHERS)
            verdict = f"{goal}% {'met' if error <= goal else 'missed'}" if project == ALL else ""
            bias = 100 * statistics.fmean(errors)
            rows.append([core, project, len(errors), f"{bias:+.1f}%", f"{error:.2f}%", verdict])
    text = (
        "Modelled, beside published cycles of whole calls of projects that no fact was fitted to "
        "(bench/silicon/blind.toml): mean absolute error of kernels, and bias: above 0 the model is slower."
    )
    return f"{text}\n\n{table(BLIND_HEAD, rows)}"
