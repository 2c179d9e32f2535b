"""Candidates of a choice, and one choice simulated."""

import pytest

from bench.simulated_choices import CHOSEN_FOR, CORES, candidates, compared
from bench.simulated_fits import BOARD, SCENARIOS
from mavcg.choose.algorithms.costs.modelled import modelled_costs
from mavcg.cost.board_model import core_model
from mavcg.profiles.load import load_board
from mavcg.specs.primitive import Scenario


def test_candidates_are_the_cheapest_and_one_of_each_other_family() -> None:
    model = modelled_costs(core_model(load_board(BOARD), 0))
    candidates_of = candidates(model, CHOSEN_FOR[0], rivals=2)
    costs = [ms for _, ms in candidates_of]
    assert costs[:3] == sorted(costs)[:3] and len(candidates_of) >= 6
    families = [primitive.family for primitive, _ in candidates_of[3:]]
    assert len(set(families)) == len(families) and not set(families) & {p.family for p, _ in candidates_of[:3]}


def test_choices_are_judged_by_scenarios_that_nothing_was_fitted_to() -> None:
    assert len(CORES) * len(CHOSEN_FOR) == 12 and not set(CHOSEN_FOR) & set(SCENARIOS)


@pytest.mark.long
def test_a_choice_is_compared_with_all_that_was_simulated() -> None:
    row = compared("cortex-a55", Scenario(8, 6, 6, 1, 1, 8), rivals=1)
    cycles = [each["simulated"] for each in row["rows"]]
    assert row["ratio"] == pytest.approx(cycles[0] / min(cycles), abs=1e-3) and row["ratio"] >= 1
    assert row["rows"][0]["primitive"] == row["chosen"]
