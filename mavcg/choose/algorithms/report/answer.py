"""A selection with all data of its report."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from mavcg.choose.algorithms.choice import Alternative, Choice, Problem
from mavcg.choose.algorithms.foreign import ForeignGain
from mavcg.choose.algorithms.strategies import PBQP, Selected
from mavcg.choose.limits.arena_need import Need


@dataclass(frozen=True)
class Selection:
    """A network's selection by one strategy for threads on cores of a board, compared with all strategies.

    compared: by name; None for a strategy that cannot compute this network. assumed: facts of the machine that its
    description does not state. notes: sentences about the costs. need: memory that the choice needs. single: like
    compared, for one thread of the first core, if there are several threads. foreign: gain of foreign libraries, if any
    were offered.
    """

    model: str
    board: str
    core: str
    threads: int
    problem: Problem
    selected: Selected
    compared: Mapping[str, Selected | None]
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    need: Need | None = None
    single: Mapping[str, Selected | None] = field(default_factory=dict)
    foreign: ForeignGain | None = None

    @property
    def choice(self) -> Choice:
        """The strategy's choice."""
        return self.selected.choice

    @property
    def gap(self) -> float:
        """Largest fraction of the total that another choice can save, by the lower bound."""
        best = self.compared.get(PBQP) if self.selected.strategy != PBQP else self.selected
        total = self.selected.total_ms
        if best is None or best.lower_bound_ms is None or total <= best.lower_bound_ms or math.isinf(total):
            return 0.0 if best is not None and not math.isinf(total) else 1.0
        return (total - best.lower_bound_ms) / total

    @property
    def optimal(self) -> bool:
        """True if it is proven that no choice costs less, by these costs and up to rounding."""
        if self.selected.strategy == PBQP:
            return self.selected.proven
        best = self.compared.get(PBQP)
        return best is not None and best.proven and self.selected.total_ms <= best.total_ms * (1 + 1e-12)


def finite(ms: float) -> float | None:
    """Return the number, or None for infinity, which JSON lacks."""
    return None if math.isinf(ms) else ms


def family_of(alternative: Alternative) -> str:
    """Return the family of an alternative's primitive; "" if it has none."""
    return alternative.primitive.family if alternative.primitive else ""


def shown_ms(value: float) -> str:
    """Format milliseconds for a table."""
    return "none" if math.isinf(value) else f"{value:.4f}"
