"""Statistics of the rows by core and kind of figure: bias, mean absolute error, correlation, directions of changes."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from bench.silicon.compare import Row, before_and_after

CHANGE = 0.05  # a change of silicon's time that counts as one


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the record's tables: errors per core and kind, changes per core, reasons of figures without a model's."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.figure.core, row.figure.kind), []).append(row)
    cores = [{"core": core, "kind": kind, **errors(group)} for (core, kind), group in sorted(groups.items())]
    reasons = Counter(row.why for row in rows if row.modelled is None)
    return {
        "figures": len(rows),
        "cores": cores,
        "changes": _changes(rows),
        "not_modelled": [{"why": why, "figures": count} for why, count in reasons.most_common()],
    }


def errors(rows: Sequence[Row]) -> dict[str, Any]:
    """Return count, bias, errors (0.1 is 10 %) and correlation of the figures with a model's."""
    known = [row for row in rows if row.error is not None]
    all_errors = [row.error for row in known if row.error is not None]
    held_out = [row.error for row in known if row.figure.held_out and row.error is not None]
    blind = [row.error for row in known if row.figure.blind and row.error is not None]
    pairs = [(row.figure.value, row.modelled) for row in known if row.modelled is not None]
    return {
        "figures": len(rows),
        "modelled": len(known),
        "bias": _mean(all_errors),
        "mean_abs_error": _mean(map(abs, all_errors)),
        "median_abs_error": round(statistics.median(map(abs, all_errors)), 4) if all_errors else None,
        "correlation": _correlation(pairs),
        "held_out": len(held_out),
        "held_out_error": _mean(map(abs, held_out)),
        "blind": len(blind),
        "blind_error": _mean(map(abs, blind)),
        "blind_bias": _mean(blind),
    }


def _changes(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the number of changes over 5 % on silicon, and how many of them the model has in the right direction.

    Both are per core and in all.
    """
    counts: dict[str, list[int]] = {}
    for figure, silicon, modelled in before_and_after(list(rows)):
        if abs(silicon - 1) > CHANGE:
            for name in (figure.core, "all"):
                count = counts.setdefault(name, [0, 0, 0, 0])
                right = (modelled - 1) * (silicon - 1) > 0
                count[0] += 1
                count[1] += right
                count[2] += figure.held_out
                count[3] += right and figure.held_out
    return [
        {"core": core, "changes": all_, "right": right, "held_out": held_out, "held_out_right": held_right}
        for core, (all_, right, held_out, held_right) in sorted(counts.items())
    ]


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return round(statistics.fmean(known), 4) if known else None


def _correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Pearson's correlation of logarithms; None for fewer than three figures or without spread."""
    logs = [(math.log(a), math.log(b)) for a, b in pairs if a > 0 and b > 0]
    try:
        return round(statistics.correlation([a for a, _ in logs], [b for _, b in logs]), 4) if len(logs) > 2 else None
    except statistics.StatisticsError:
        return None
