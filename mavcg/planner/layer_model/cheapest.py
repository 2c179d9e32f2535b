"""Algorithm 4 of e-PlaNNer: of all candidates the one that a model values most. The planners search by this function.

Spaces that are too large to look at each candidate have branch and bound (planner/accelerators/exact.py, levels.py),
which finds what this would.
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
    """Return the candidate of least cost: the first of those, or that of the least `order`; None if there is none.

    cost: of a candidate; of a metric that is to be large, its negative. plain: stays unless another one costs less than
    least_ratio times as much; least_ratio is 1 less the model's error, and below 1 for positive costs only.
    """
    best, limit = plain, None if plain is None else least_ratio * cost(plain)
    for candidate in candidates:
        value = cost(candidate)
        if limit is None or value < limit:
            best, limit = candidate, value
        elif order is not None and best is not None and value == limit and order(candidate) < order(best):
            best = candidate
    return best
