"""Pareto fronts: the points of row_of_point no other is at least as good in every objective and better in one."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def pareto_front(values: Floats) -> NDArray[np.int64]:
    """Return the indices of the rows that no other row dominates, ascending; equal rows are undominated together.

    values: [point, objective], all minimised.
    """
    rows, row_of_point = np.unique(
        values, axis=0, return_inverse=True
    )  # sorted, so only an earlier row can dominate a row
    front = np.empty_like(rows)
    undominated = np.zeros(len(rows), np.bool_)
    count = 0
    for number, row in enumerate(rows):
        if not (front[:count] <= row).all(axis=1).any():
            front[count] = row
            undominated[number] = True
            count += 1
    return np.flatnonzero(undominated[row_of_point.ravel()])


def all_dominated(values: Floats, front: Floats) -> bool:
    """True if each row of `values` is dominated by a row of `front`: no worse in any objective and better in one."""
    no_worse = np.logical_and.reduce(front[None, :, :] <= values[:, None, :], axis=2)
    better = np.logical_or.reduce(front[None, :, :] < values[:, None, :], axis=2)
    return bool(np.logical_or.reduce(no_worse & better, axis=1).all())
