"""Figures that the e-PlaNNer thesis prints of its planner and others, and means as they take them."""

from collections.abc import Mapping, Sequence
from typing import Any

MIB = 2**20
OURS = "e-planner"  # the paper's own search; the exact one stands beside it
# Table 8.4: speed-ups measured on the board, mean over the three others.
TABLE_8_4 = {
    "A": (3.435, 4.023, 1.536, 9.450, 23.068),
    "B": (1.767, 2.608, 1.213, 2.630, 7.929),
    "C": (2.569, 3.770, 1.304, 9.106, 17.083),
    "D": (2.458, 3.632, 1.257, 8.982, 14.573),
}
# Section 8.3: percent less off-chip access.
PAPER_REDUCTION = {"mean": 21.14, "A": 26.36, "B": 16.57, "yolov2": 52.07, "alexnet": 2.67}


def mean(rows: Sequence[Mapping[str, Any]], key: str, **chosen: str) -> float:
    """Return the mean of a figure over planners and those rows that have the chosen values."""
    taken = [row[key].values() for row in rows if all(row[name] == value for name, value in chosen.items())]
    figures = [float(value) for values in taken for value in values]
    return sum(figures) / len(figures)
