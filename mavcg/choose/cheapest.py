"""Algorithm 4 of e-PlaNNer: exhaustive search for the candidate of least modelled cost.

All planners use this function, except on spaces too large to enumerate: those have branch and bound
(accelerators/plans/exact.py, levels.py), which finds the same candidate.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Candidate = TypeVar("Candidate")


def cheapest(
    candidates: Iterable[Candidate],
    cost: Callable[[Candidate], float],
    *,
    order: Callable[[Candidate], Any] | None = None,
    plain: Candidate | None = None,
    least_ratio: float = 1.0,
) -> Candidate | None:
    """Return the candidate of least cost, None if there are no candidates.

    Among equal costs the candidate of least `order` is taken, or without `order` the first. cost: of a candidate, to be
    minimised; for a metric to be maximised, its negative. plain: the default candidate, which is returned unless
    another costs less than least_ratio times its cost. least_ratio: 1 minus the model's relative error; below 1 only
    for positive costs.
    """
    best, limit = plain, None if plain is None else least_ratio * cost(plain)
    for candidate in candidates:
        value = cost(candidate)
        if limit is None or value < limit:
            best, limit = candidate, value
        elif order is not None and best is not None and value == limit and order(candidate) < order(best):
            best = candidate
    return best
