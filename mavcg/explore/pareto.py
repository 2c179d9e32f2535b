"""Pareto fronts: the points of which no other is at least as good in every objective and better in one."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def pareto_front(values: Floats) -> NDArray[np.int64]:
    """Return the rows that no other row dominates, ascending; equal rows stay together.

    values: [point, objective], less is better.
    """
    rows, which = np.unique(values, axis=0, return_inverse=True)  # sorted: only a row before it can dominate a row
    front = np.empty_like(rows)
    kept = np.zeros(len(rows), np.bool_)
    count = 0
    for number, row in enumerate(rows):
        if not (front[:count] <= row).all(axis=1).any():
            front[count] = row
            kept[number] = True
            count += 1
    return np.flatnonzero(kept[which.ravel()])


def all_dominated(values: Floats, front: Floats) -> bool:
    """True if for each row of `values` a row of `front` is no worse anywhere and better somewhere."""
    no_worse = np.logical_and.reduce(front[None, :, :] <= values[:, None, :], axis=2)
    better = np.logical_or.reduce(front[None, :, :] < values[:, None, :], axis=2)
    return bool(np.logical_or.reduce(no_worse & better, axis=1).all())
