"""The constant of sparse products on Arm cores, fitted to simulated cores: `python -m bench.simulated_sparse
[--write]`.

Products with sparse weights, with zeros one by one and in blocks, are simulated on one core of each kind, for layers
that stay in its caches and for layers that do not. The constant is a factor on the lower bound of a product's cycles by
the rates of loads, multiply-adds and issue. It is the upper quartile of the ratios in two thirds of the rows, so that
sparse weights are only chosen where they almost surely win. The remaining third, chosen by lot, gives the error. Cycles
are simulated, not measured. `--write` puts the constant into profiles/fits.
"""

import argparse
import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bench.primitive_cycles import simulate_jobs
from bench.record import facts, write
from bench.simulated_fits import CORES, HELD_OUT, cluster_of, summary, with_constant
from mavcg.choose.algorithms.costs.modelled import ModelledCosts, modelled_costs
from mavcg.cost.board_model import core_model
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.kernels.primitives.sparse.family import Sparse
from mavcg.lab.trials.check import CheckCase, prepared_job
from mavcg.profiles.folders import files
from mavcg.profiles.load import load_board, load_core
from mavcg.specs.primitive import Scenario

NAME = "simulated_sparse"
BOARD = "exynos9820"
LAYERS = (
    Scenario(64, 7, 7, 1, 1, 64),
    Scenario(96, 14, 14, 1, 1, 24),
    Scenario(256, 14, 14, 1, 1, 64),
    Scenario(576, 7, 7, 1, 1, 96),
    Scenario(1152, 7, 7, 1, 1, 192),
    Scenario(32, 28, 28, 1, 1, 64),
    Scenario(32, 14, 14, 1, 3, 32, 1),
)
PERCENT = (50, 75, 90)  # zeros among the weights
ALIKE = 2  # primitives of a layer


def sparse_rows(kind: str, layers: Sequence[Scenario]) -> tuple[ModelledCosts, list[dict[str, Any]]]:
    """Return the model of the kind's core and a row for each primitive, layer and share of zeros."""
    board, core = load_board(BOARD), load_core(CORES[kind])
    model = modelled_costs(core_model(board, cluster_of(kind)))
    pick = random.Random(NAME)
    rows = []
    for layer in layers:
        cases = []
        for percent in PERCENT:
            for blocks in (0, percent):
                scenario = replace(layer, sparsity=percent, block_sparsity=blocks)
                able = [p for p in all_primitives() if isinstance(p, Sparse) and p.applies(scenario)]
                fitting = [p for p in able if (p.block_rows > 1) == bool(blocks)]
                for primitive in pick.sample(fitting, min(ALIKE, len(fitting))):
                    cases.append((scenario, primitive))
        jobs = [prepared_job(CheckCase(primitive, s, block=model.block, ranges=False)) for s, primitive in cases]
        for (scenario, primitive), cycles in zip(cases, simulate_jobs(jobs, core, board), strict=True):
            modelled = model.primitive_cycles(scenario, primitive)
            assert modelled is not None
            own = modelled.terms["sparse"]
            rest = model.ms(modelled) * 1e6 / model.core.cycle_ns - own
            factor = max(0.0, cycles - rest) / (own / model.fit.cycles["sparse"])
            row = {"scenario": str(scenario), "primitive": primitive.name, "cycles": cycles, "factor": round(factor, 2)}
            rows.append(row | {"modelled": round(own + rest)})
    return model, rows


def record_of(kind: str, layers: Sequence[Scenario]) -> dict[str, Any]:
    """Simulate the layers on the kind's core, and return the constant and its error."""
    model, rows = sparse_rows(kind, layers)
    order = random.Random("held out").sample(rows, len(rows))
    held_out, used = order[: len(rows) // HELD_OUT], order[len(rows) // HELD_OUT :]
    constant = float(np.quantile([row["factor"] for row in used], 0.75))
    return {
        "kind": kind,
        "core": CORES[kind],
        "board": BOARD,
        "rows": len(rows),
        "before": model.fit.cycles["sparse"],
        "sparse": round(constant, 2),
        "median_factor": round(statistics.median(row["factor"] for row in used), 2),
        "held_out_factors_over_it": summary([row["factor"] / constant for row in held_out]),
        "rows_simulated": rows,
    }


def write_constant(record: dict[str, Any]) -> None:
    """Write the constant into the kind's file of profiles/fits."""
    path = files("fits")[record["kind"]]
    origin = (
        f"upper quartile of {record['rows']} simulated products of weights with 50 to 90 % zeros, median "
        f"{record['median_factor']:g}: python -m bench.simulated_sparse"
    )
    text = path.read_text(encoding="utf-8")
    machine = f"simulated-{record['core']}"
    path.write_text(with_constant(text, "primitives", "sparse", record["sparse"], machine, origin), encoding="utf-8")


def main() -> None:
    """Simulate, and write bench/results/simulated_sparse.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=len(LAYERS), help="the first so many; fewer write no record")
    parser.add_argument("--write", action="store_true", help="put the constants into profiles/fits")
    arguments = parser.parse_args()
    records = [record_of(kind, LAYERS[: arguments.layers]) for kind in CORES]
    for record in records:
        print(*(f"{name} {value}" for name, value in record.items() if name != "rows_simulated"), sep="  ")
        for row in record["rows_simulated"]:
            print("   ", *row.values())
    if arguments.layers >= len(LAYERS):
        print(write(NAME, {**facts("modelled", f"bench.{NAME}"), "kinds": records}))
    if arguments.write:
        for record in records:
            write_constant(record)


if __name__ == "__main__":
    main()
