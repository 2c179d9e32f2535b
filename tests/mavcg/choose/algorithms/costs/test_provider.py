"""Several providers of costs, one after the other."""

from dataclasses import dataclass

from mavcg.choose.algorithms.costs.provider import (
    IMPORTED,
    MEASURED,
    MODELLED,
    Cost,
    CostProvider,
    first_of,
    mean_of,
    scale_costs,
    shift_costs,
    weighted_sum,
)
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.specs.primitive import Layout, Primitive, Scenario

SMALL = Scenario(8, 6, 6, 1, 3, 8, 1)
LARGE = Scenario(16, 9, 9, 1, 3, 8, 1)


@dataclass(frozen=True)
class Knows:
    """One scenario and images of so many channels."""

    scenario: Scenario
    channels: int
    cost: Cost

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        return self.cost if scenario == self.scenario else None

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        return self.cost if c == self.channels else None


def asked(provider: CostProvider, scenario: Scenario) -> tuple[Cost | None, Cost | None]:
    return (
        provider.primitive(scenario, all_primitives()[0]),
        provider.conversion(Layout.CHW, Layout.HWC, scenario.c, scenario.h, scenario.w),
    )


def test_the_first_that_knows_is_believed() -> None:
    measured, imported = Cost(1.0, MEASURED, 0.1, 9), Cost(0.5, IMPORTED)
    both = first_of(Knows(SMALL, 8, measured), Knows(LARGE, 16, Cost(2.0, MODELLED)), Knows(SMALL, 8, imported))
    assert asked(both, SMALL) == (measured, measured)
    assert asked(both, LARGE) == (Cost(2.0, MODELLED),) * 2


def test_what_nobody_knows_has_no_cost() -> None:
    assert asked(first_of(Knows(SMALL, 8, Cost(1.0, MEASURED))), LARGE) == (None, None)
    assert asked(first_of(), SMALL) == (None, None)


def test_each_question_is_answered_by_itself() -> None:
    """A provider that knows a conversion may know no primitive."""
    provider = first_of(Knows(LARGE, 8, Cost(3.0, MEASURED)), Knows(SMALL, 8, Cost(4.0, MODELLED)))
    assert asked(provider, SMALL) == (Cost(4.0, MODELLED), Cost(3.0, MEASURED))


def test_several_weighed_are_known_where_all_are() -> None:
    a, b = Knows(SMALL, 8, Cost(1.0, MODELLED)), Knows(SMALL, 8, Cost(4.0, MODELLED))
    both = Cost(0.5 * 1.0 + 0.25 * 4.0, MODELLED)
    assert asked(weighted_sum((a, b), (0.5, 0.25)), SMALL) == (both, both)
    mixed = weighted_sum((a, Knows(SMALL, 8, Cost(4.0, MEASURED))), (1, 1))
    assert asked(mixed, SMALL) == (Cost(5.0, MODELLED),) * 2
    assert asked(weighted_sum((a, Knows(LARGE, 16, Cost(4.0, MODELLED))), (1, 1)), SMALL) == (None, None)
    one = Cost(2.0, MEASURED)
    assert asked(weighted_sum((Knows(SMALL, 8, one),), (1,)), SMALL) == (one, one)


def test_what_is_known_is_scaled_as_two_models_say() -> None:
    known = Knows(SMALL, 8, Cost(3.0, MEASURED))
    one, other = Knows(SMALL, 8, Cost(2.0, MODELLED)), Knows(SMALL, 8, Cost(1.5, MODELLED))
    found = Cost(3.0 * 1.5 / 2.0, MODELLED)
    assert asked(scale_costs(known, one, other), SMALL) == (found, found)
    assert asked(scale_costs(known, one, other), LARGE) == (None, None)
    free = Knows(SMALL, 8, Cost(0.0, MODELLED))
    assert asked(scale_costs(known, free, other), SMALL) == (None, None)


def test_what_differs_between_two_models_is_added_to_what_is_known() -> None:
    known = Knows(SMALL, 8, Cost(3.0, MEASURED, 0.1, 9))
    warm, cold = Knows(SMALL, 8, Cost(1.0, MODELLED)), Knows(SMALL, 8, Cost(1.5, MODELLED))
    assert asked(shift_costs(known, warm, cold), SMALL) == (Cost(3.5, MEASURED, 0.1, 9),) * 2
    assert asked(shift_costs(known, cold, Knows(LARGE, 16, warm.cost)), SMALL) == (known.cost,) * 2  # nobody knows more
    assert asked(shift_costs(known, Knows(SMALL, 8, Cost(9.0, MODELLED)), warm), SMALL)[0] == Cost(
        0.0, MEASURED, 0.1, 9
    )
    assert asked(shift_costs(known, warm, cold), LARGE) == (None, None)


def test_the_mean_of_one_thread_and_of_all() -> None:
    alone, together = Knows(SMALL, 8, Cost(4.0, MEASURED, 0.5, 9)), Knows(SMALL, 8, Cost(1.0, MODELLED))
    assert asked(mean_of(alone, together), SMALL) == (Cost(2.0, MEASURED, 0.25, 9),) * 2
    assert asked(mean_of(alone, Knows(LARGE, 16, Cost(1.0, MODELLED))), SMALL) == (None, None)
