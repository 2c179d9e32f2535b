"""Generated scenarios: they apply, differ and stay the same; and what is wrong with a primitive on them is found."""

from dataclasses import replace

import pytest

from mavcg.errors import MavcgError
from mavcg.kernels.primitives.direct.sum2d import Sum2d
from mavcg.kernels.primitives.kn2.family import PRIMITIVES as KN2
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.lab.trials.run import find_machine
from mavcg.specs.kernel import Array
from mavcg.specs.primitive import Epilogue, Layout, Lowering, Scenario
from tests.kernels.primitives.cases import (
    EPILOGUES,
    OPTIMISED_EVERY,
    cases_of,
    checked_scenarios,
    scenarios_of,
    workspace_faults,
)


@pytest.mark.long
def test_scenarios_are_different_ones_that_apply_and_the_same_each_time() -> None:
    for primitive in all_primitives()[::20]:
        scenarios = scenarios_of(primitive, 30)

        assert len(set(scenarios)) == 30 and all(map(primitive.applies, scenarios))
        assert scenarios == scenarios_of(primitive, 30) != scenarios_of(primitive, 30, seed=1)


def test_scenarios_of_what_applies_to_all_have_everything() -> None:
    scenarios = scenarios_of(Sum2d(Layout.CHW, Layout.CHW), 200)

    assert {s.stride for s in scenarios} == {1, 2, 3, 4} and {s.k for s in scenarios} == {1, 2, 3, 4, 5, 7}
    assert any(s.groups == s.c > 1 for s in scenarios) and any(1 < s.groups < s.c for s in scenarios)
    assert any(s.dilation > 1 for s in scenarios) and any(s.pad >= s.k for s in scenarios)
    assert len({s.out_w for s in scenarios}) > 15 and len({s.m for s in scenarios}) > 15


def test_what_applies_to_nothing_is_an_error() -> None:
    class Never(Sum2d):
        def applies(self, scenario: Scenario) -> bool:
            return False

    with pytest.raises(MavcgError, match="applies to only 0 of 500"):
        scenarios_of(Never(Layout.CHW, Layout.CHW), 1)


def test_cases_take_every_epilogue_in_turn() -> None:
    primitive = Sum2d(Layout.CHW, Layout.CHW)
    cases = cases_of(primitive, scenarios_of(primitive, 10), 16)

    assert [case.epilogue for case in cases[:5]] == [case.epilogue for case in cases[5:]]
    assert {case.epilogue for case in cases} == set(EPILOGUES) and len({case.ranges for case in cases}) == 2


class _Careless(Sum2d):
    """Says that it needs half of what it does."""

    def workspace_bytes(self, scenario: Scenario) -> int:
        return super().workspace_bytes(scenario) // 2


class _WrongWhereNarrow(Sum2d):
    """Forgets the bias of narrow images."""

    def lower(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        wrong = replace(epilogue, act="none") if scenario.w < 5 else epilogue
        return super().lower(scenario, weights, wrong, block)


def test_too_little_workspace_is_found_for_every_block() -> None:
    padded = Scenario(4, 6, 6, 1, 3, 4, 1)

    assert len(workspace_faults(_Careless(Layout.CHW, Layout.CHW), padded)) == 5
    for primitive in KN2:
        assert workspace_faults(primitive, padded) == []


def test_faults_are_told_with_their_scenarios() -> None:
    """The first is optimised too."""
    primitive = _WrongWhereNarrow(Layout.CHW, Layout.CHW)
    scenarios = [Scenario(2, 5, w, 1, 3, 3, 1) for w in (4, 9, 4, 9, 4)]
    found = list(checked_scenarios(primitive, scenarios, find_machine("host")))
    acts = [case.epilogue.act != "none" for case in cases_of(primitive, scenarios, 16)]

    assert OPTIMISED_EVERY > 1 and any(acts)
    assert [each.ok for each in found] == [not (s.w < 5 and act) for s, act in zip(scenarios, acts, strict=True)]
