"""A selection and all that is reported of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from mavcg.selection.arena_need import Need
from mavcg.selection.choice import Alternative, Choice, Problem
from mavcg.selection.foreign import ForeignGain
from mavcg.selection.strategies import PBQP, Selected


@dataclass(frozen=True)
class Selection:
    """A network's selection by one strategy, for so many threads on cores, beside all strategies.

    compared: by name; None for one that cannot do this network. assumed: facts of the machine that nobody stated.
    notes: what there is to say of the costs. need: memory that the choice takes. single: as compared, on one thread
    of the first core, where there are several. foreign: what foreign libraries bring, where any are offered.
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
        """The choice of the optimum."""
        return self.selected.choice

    @property
    def gap(self) -> float:
        """Greatest fraction of the total that another choice may save: total against lower bound."""
        best = self.compared.get(PBQP) if self.selected.strategy != PBQP else self.selected
        total = self.selected.total_ms
        if best is None or best.lower_bound_ms is None or total <= best.lower_bound_ms or math.isinf(total):
            return 0.0 if best is not None and not math.isinf(total) else 1.0
        return (total - best.lower_bound_ms) / total

    @property
    def optimal(self) -> bool:
        """True if it is proven that nothing costs less, by these costs and but for rounding."""
        if self.selected.strategy == PBQP:
            return self.selected.proven
        best = self.compared.get(PBQP)
        return best is not None and best.proven and self.selected.total_ms <= best.total_ms * (1 + 1e-12)


def finite(ms: float) -> float | None:
    """Return a number, or None for infinity, which JSON does not have."""
    return None if math.isinf(ms) else ms


def family_of(one: Alternative) -> str:
    """Return the family of a primitive; "" of a node that has none."""
    return one.primitive.family if one.primitive else ""


def shown_ms(value: float) -> str:
    """Format milliseconds for a table."""
    return "none" if math.isinf(value) else f"{value:.4f}"
