"""Primitives that the model chooses for Arm cores against the best simulated one: `python -m bench.simulated_choices`.

For each scenario and core the primitive that the model of primitives (docs/tuning-models.md) says is fastest is
simulated beside its nearest rivals and the cheapest of each other family. None of the scenarios is one that the model's
constants were fitted to (bench/simulated_fits.py). Nothing is measured.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from bench.primitive_cycles import simulate_jobs
from bench.record import facts, write
from bench.simulated_fits import BOARD, SCENARIOS
from mavcg.choose.algorithms.costs.modelled import ModelledCosts, modelled_costs
from mavcg.cost.board_model import core_model
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.lab.trials.check import CheckCase, prepared_job
from mavcg.profiles.load import load_board, load_core
from mavcg.specs.primitive import Primitive, Scenario

NAME = "simulated_choices"
CORES = ("cortex-a55", "cortex-a75")
CHOSEN_FOR = (
    Scenario(32, 14, 14, 1, 3, 48, 1),
    Scenario(48, 14, 14, 1, 1, 96),
    Scenario(64, 10, 10, 1, 3, 64, 1, 64),
    Scenario(24, 16, 16, 2, 3, 48, 1),
    Scenario(16, 12, 12, 1, 5, 32, 2),
    Scenario(128, 7, 7, 1, 1, 64),
)
RIVALS = 3  # the next ones by the model
NEAR = 1.15


def candidates(model: ModelledCosts, scenario: Scenario, rivals: int = RIVALS) -> list[tuple[Primitive, float]]:
    """Return each family's cheapest primitive and those near the cheapest of all, with modelled ms, cheapest first."""
    modelled = ((primitive, model.primitive(scenario, primitive)) for primitive in all_primitives())
    costs = [(primitive, cost.ms) for primitive, cost in modelled if cost is not None]
    costs.sort(key=lambda each: each[1])
    chosen = costs[: rivals + 1]
    for primitive, ms in costs[rivals + 1 :]:
        if primitive.family not in {included.family for included, _ in chosen}:
            chosen.append((primitive, ms))
    return chosen


def compared(core_name: str, scenario: Scenario, rivals: int = RIVALS) -> dict[str, Any]:
    """Return the choice for a scenario on a core, its simulated time over the best one's, and all simulated times."""
    board, core = load_board(BOARD), load_core(core_name)
    number = next(n for n, cluster in enumerate(board.clusters) if cluster.core == core_name)
    model = modelled_costs(core_model(board, number))
    chosen = candidates(model, scenario, rivals)
    jobs = [prepared_job(CheckCase(primitive, scenario, block=model.block, ranges=False)) for primitive, _ in chosen]
    cycles = simulate_jobs(jobs, core, board)
    best = min(range(len(cycles)), key=cycles.__getitem__)
    return {
        "core": core_name,
        "scenario": str(scenario),
        "chosen": chosen[0][0].name,
        "best": chosen[best][0].name,
        "ratio": round(cycles[0] / cycles[best], 4),
        "rows": [
            {"primitive": primitive.name, "modelled": round(ms * 1e6 / model.core.cycle_ns), "simulated": count}
            for (primitive, ms), count in zip(chosen, cycles, strict=True)
        ],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print the choices, and write bench/results/simulated_choices.json."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{NAME}", description=__doc__)
    parser.parse_args(arguments)
    assert not set(CHOSEN_FOR) & set(SCENARIOS)  # what is fitted is not judged by
    choices = []
    for core in CORES:
        for scenario in CHOSEN_FOR:
            choices.append(compared(core, scenario))
            row = choices[-1]
            print(f"{core}: {scenario}: {row['chosen']}: {row['ratio']} of {row['best']}", file=sys.stderr, flush=True)
    near = sum(row["ratio"] <= NEAR for row in choices)
    print(f"{near} of {len(choices)} choices are within {NEAR} of the best simulated one")
    record = facts("modelled", f"bench.{NAME}") | {"board": BOARD, "near": NEAR, "choices": choices}
    print(f"written: {write(NAME, record)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
