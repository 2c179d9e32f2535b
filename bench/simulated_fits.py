"""Constants of the model of primitives for Arm cores, fitted to simulated cores: `python -m bench.simulated_fits`.

Primitives of every family are compiled for a core and simulated on it, on small scenarios that stay in its caches
(bench/primitive_cycles.py). Some of them have many channels: where there are few, copying patches takes as long as
their product, and the two constants cannot be told apart. The constants are fitted to the simulated cycles by least
squares of relative errors, none below 0, as those for x86 were to measured times. A third of the rows, drawn by lot,
takes no part in the fit and says how far off it is. `--write` puts the constants into
profiles/fits. Cycles are simulated, not measured.
"""

import argparse
import random
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.primitive_cycles import simulate_jobs
from bench.record import facts, write
from bench.rows import measured
from bench.simulated_fills import exposed
from mavcg.choose.algorithms.costs.modelled import STARTS, ModelledCosts, modelled_costs
from mavcg.cost.board_model import core_model
from mavcg.cost.cycles import BYTES, Cycles
from mavcg.graph import Array
from mavcg.hardware.cost_fit import IN_ORDER, OUT_OF_ORDER_AARCH64, PrimitiveFit
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.lab.trials.check import CheckCase, prepared_job
from mavcg.profiles.folders import files
from mavcg.profiles.load import load_board, load_core
from mavcg.specs.primitive import Primitive, Scenario

NAME = "simulated_fits"
BOARD = "exynos9820"
CORES = {IN_ORDER: "cortex-a55", OUT_OF_ORDER_AARCH64: "cortex-a75"}
SCENARIOS = (
    Scenario(16, 14, 14, 1, 3, 16, 1),
    Scenario(24, 12, 12, 1, 1, 24),
    Scenario(3, 16, 16, 2, 3, 16, 1),
    Scenario(16, 14, 14, 1, 3, 16, 1, 16),
    Scenario(8, 10, 10, 1, 5, 8, 2),
    Scenario(64, 7, 7, 1, 1, 128),
    Scenario(16, 8, 8, 1, 3, 64, 1),
    Scenario(96, 14, 14, 1, 1, 24),
    Scenario(96, 7, 7, 1, 3, 96, 1, 96),
    Scenario(32, 9, 9, 2, 3, 96, 1),
)
ALIKE = 2  # primitives of a scenario whose counts have the same names
TILE_CYCLES = (0.0, 5.0, 10.0, 20.0, 40.0)
INTERCEPT = "least_us"
FILLS = {
    "l1_fill_exposed": "from_l2",
    "l2_fill_exposed": "from_memory",
    "memory_fill_exposed": "from_memory",
    "prefetch_cycles": "prefetch_cycles",
}
LEAST_EXPOSED = 0.01
STORING, LEAST_STORE = ("copy", "gather", "turn", "patch", "patch_far", "convert"), 1.0  # a store a cycle
ASSUMED = ("sparse",)  # no scenario has zeros among its weights, and dense blocks say little of those
HELD_OUT = 3  # one row in so many
UNITS = {"product_sum2d": "cycles/vector", "product_sum2d_sofar": "cycles/vector"}


@dataclass(frozen=True)
class SimulatedRow:
    """A primitive on a scenario, and its simulated cycles."""

    scenario: Scenario
    primitive: Primitive
    cycles: int


def chosen_primitives(model: ModelledCosts, scenario: Scenario, pick: random.Random) -> list[Primitive]:
    """Return up to ALIKE primitives for each set of terms."""
    groups: dict[tuple[str, ...], list[Primitive]] = {}
    for primitive in all_primitives():
        cycles = model.primitive_cycles(scenario, primitive)
        if cycles is not None:
            groups.setdefault(tuple(sorted(_by_constant(cycles))), []).append(primitive)
    return [primitive for group in groups.values() for primitive in pick.sample(group, min(ALIKE, len(group)))]


def cluster_of(kind: str) -> int:
    return next(n for n, cluster in enumerate(load_board(BOARD).clusters) if cluster.core == CORES[kind])


def simulated_rows(kind: str, scenarios: Sequence[Scenario]) -> tuple[ModelledCosts, list[SimulatedRow]]:
    """Simulate the chosen primitives of each scenario on the kind's core."""
    board, core = load_board(BOARD), load_core(CORES[kind])
    model = modelled_costs(core_model(board, cluster_of(kind)))
    rows, pick = [], random.Random("simulated fits")
    for scenario in scenarios:
        chosen = chosen_primitives(model, scenario, pick)
        jobs = [prepared_job(CheckCase(primitive, scenario, block=model.block, ranges=False)) for primitive in chosen]
        cycles = simulate_jobs(jobs, core, board)
        rows += [SimulatedRow(scenario, *row) for row in zip(chosen, cycles, strict=True)]
        print(f"{core.name}: {scenario}: {len(chosen)} primitives", file=sys.stderr, flush=True)
    return model, rows


def recorded_rows(kind: str) -> tuple[ModelledCosts, list[SimulatedRow]]:
    """Return the record's rows of scenarios that still exist."""
    record = measured(NAME)
    scenarios, primitives = {str(s): s for s in SCENARIOS}, {p.name: p for p in all_primitives()}
    recorded = next(entry for entry in record["kinds"] if entry["kind"] == kind)
    rows = [
        SimulatedRow(scenarios[row["scenario"]], primitives[row["primitive"]], row["cycles"])
        for row in recorded["rows_simulated"]
    ]
    return modelled_costs(core_model(load_board(BOARD), cluster_of(kind))), rows


def unit_cycles(model: ModelledCosts, row: SimulatedRow) -> dict[str, float]:
    """Return the cycles that a row takes for each constant if that is 1; for the intercept, 1."""
    cycles = model.primitive_cycles(row.scenario, row.primitive)
    assert cycles is not None
    return {INTERCEPT: 1.0, **_by_constant(cycles)}


def _by_constant(cycles: Cycles) -> dict[str, float]:
    """Return the terms by their constants: bytes of all levels together, without starts, which are the engine's."""
    terms = {name: count for name, count in cycles.terms.items() if name != STARTS and not name.startswith(BYTES)}
    return {**terms, BYTES: sum(count for name, count in cycles.terms.items() if name.startswith(BYTES))}


def ones(names: Sequence[str], tile_cycles: float) -> PrimitiveFit:
    """Return constants of 1, with which a term's cycles are its count."""
    return PrimitiveFit(tile_cycles, 0.0, 1.0, 0.0, 0.0, dict.fromkeys(names, 1.0))


def least_squares(a: Array, b: Array) -> Array:
    """Solve min |a x - b| with no x below 0 (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23)."""
    count = a.shape[1]
    x, active = np.zeros(count), np.zeros(count, dtype=bool)
    for _ in range(10 * count):
        slope = a.T @ (b - a @ x)
        slope[active] = -np.inf
        best = int(np.argmax(slope))
        if slope[best] <= 1e-9:
            break
        active[best] = True
        while True:
            tried = np.zeros(count)
            tried[active] = np.linalg.lstsq(a[:, active], b, rcond=None)[0]
            low = active & (tried <= 0)
            if not low.any():
                x = tried
                break
            step = np.min(x[low] / (x[low] - tried[low]))
            x = x + step * (tried - x)
            active &= x > 1e-12
            x[~active] = 0.0
    return x


def fit(model: ModelledCosts, rows: Sequence[SimulatedRow]) -> tuple[float, dict[str, float], float]:
    """Return the cycles at a tile's ends, the constants, and the root mean square of the relative errors."""
    names = sorted(model.core.fit.primitives.cycles)
    best: tuple[float, dict[str, float], float] | None = None
    for tile_cycles in TILE_CYCLES:
        table = [unit_cycles(replace(model, constants=ones(names, tile_cycles)), row) for row in rows]
        columns = sorted({name for row in table for name in row})
        a = np.array(
            [[row.get(name, 0.0) / of.cycles for name in columns] for row, of in zip(table, rows, strict=True)]
        )
        scale = np.maximum(a.max(axis=0), 1e-30)
        x = least_squares(a / scale, np.ones(len(rows))) / scale
        error = float(np.sqrt(np.mean((a @ x - 1) ** 2)))
        if best is None or error < best[2]:
            best = tile_cycles, dict(zip(columns, map(float, x), strict=True)), error
    assert best is not None
    return best


def ratios(model: ModelledCosts, rows: Sequence[SimulatedRow]) -> list[float]:
    """Return simulated over modelled cycles."""
    all_ratios = []
    for row in rows:
        cost = model.primitive(row.scenario, row.primitive)
        assert cost is not None
        all_ratios.append(row.cycles * model.core.cycle_ns / (cost.ms * 1e6))
    return all_ratios


def fitted(model: ModelledCosts, tile_cycles: float, constants: Mapping[str, float]) -> PrimitiveFit:
    """Return the constants of a kind; counts without rows get those of the nearest one that has some."""
    before = model.core.fit.primitives
    products = [value for name, value in constants.items() if name.startswith("product_") and "sum2d" not in name]
    known = {**constants, "convert": max(constants["copy"], constants["turn"])}
    cycles = {
        name: max(
            LEAST_STORE if name in STORING else 0.0,
            known.get(name) or (statistics.median(products) if name.startswith("product_") else known["copy"]),
        )
        for name in before.cycles
    }
    return replace(
        before,
        tile_cycles=tile_cycles,
        least_us=constants.get(INTERCEPT, 0.0) * model.core.cycle_ns / 1e3,
        bytes_exposed=constants.get(BYTES, 0.0),
        cycles=cycles,
    )


def summary(ratios: Sequence[float]) -> dict[str, float]:
    """Return the distribution of ratios."""
    return {
        "rows": len(ratios),
        "median": round(statistics.median(ratios), 3),
        "within_10_percent": round(sum(0.9 <= r <= 1.1 for r in ratios) / len(ratios), 3),
        "within_35_percent": round(sum(1 / 1.35 <= r <= 1.35 for r in ratios) / len(ratios), 3),
        "upper_quartile": round(float(np.quantile(ratios, 0.75)), 3),
    }


def record_of(kind: str, scenarios: Sequence[Scenario], refit: bool) -> dict[str, Any]:
    """Simulate, fit and compare for a kind of core.

    refit: use the rows of the record, and its figures before the fit.
    """
    model, rows = recorded_rows(kind) if refit else simulated_rows(kind, scenarios)
    pick = random.Random("held out")
    order = pick.sample(rows, len(rows))
    held_out, used = order[: len(rows) // HELD_OUT], order[len(rows) // HELD_OUT :]
    tile_cycles, constants, error = fit(model, used)
    primitives = fitted(model, tile_cycles, constants)
    after = replace(model, constants=primitives)
    by_family: dict[str, list[float]] = {}
    for row, ratio in zip(rows, ratios(after, rows), strict=True):
        by_family.setdefault(row.primitive.family, []).append(ratio)
    return {
        "kind": kind,
        "fills": exposed(load_board(BOARD), cluster_of(kind)),
        "core": CORES[kind],
        "board": BOARD,
        "rows": len(rows),
        "fit_rms": round(error, 4),
        "before": _before(kind) if refit else summary(ratios(model, held_out)),
        "after_held_out": summary(ratios(after, held_out)),
        "after_fitted": summary(ratios(after, used)),
        "after_by_family": {family: summary(family_ratios) for family, family_ratios in sorted(by_family.items())},
        "tile_cycles": primitives.tile_cycles,
        "least_us": round(primitives.least_us, 4),
        "bytes_exposed": round(primitives.bytes_exposed, 4),
        "cycles": {name: float(f"{value:.3g}") for name, value in primitives.cycles.items()},
        "rows_simulated": [
            {"scenario": str(row.scenario), "primitive": row.primitive.name, "cycles": row.cycles} for row in rows
        ],
    }


def _before(kind: str) -> Any:
    record = measured(NAME)
    return next(entry["before"] for entry in record["kinds"] if entry["kind"] == kind)


def write_constants(record: Mapping[str, Any]) -> None:
    """Write the constants into the kind's file."""
    path = files("fits")[record["kind"]]
    machine = f"simulated-{record['core']}"
    origin = (
        f"{record['rows']} simulated primitives: python -m bench.simulated_fits; held out, three in four take at most "
        f"{record['after_held_out']['upper_quartile']:g} times what is modelled"
    )
    values = {name: record[name] for name in ("tile_cycles", "least_us", "bytes_exposed")}
    values |= {name: value for name, value in record["cycles"].items() if name not in ASSUMED}
    fills = record["fills"]
    shown = "a stream of lines beside 24 multiply-adds each, over the lines' time: python -m bench.simulated_fits"
    text = path.read_text(encoding="utf-8")
    for name, value in values.items():
        text = with_constant(text, "primitives", name, value, machine, origin)
    for name, key in FILLS.items() if record["kind"] != IN_ORDER else ():
        text = with_constant(text, "macro_tile", name, max(LEAST_EXPOSED, fills[key]), machine, shown)
    path.write_text(text, encoding="utf-8")


def with_constant(text: str, table: str, name: str, value: float, machine: str, source: str) -> str:
    """Return the text of a file of profiles/fits with another value of a constant.

    Raises: SystemExit if it has no such constant.
    """
    start = text.index(f"[{table}]")
    pattern = rf'^({re.escape(name)} = {{ value = )[^,]+(, .*fitted_on = ")[^"]*(", source = ")[^"]*'
    new, done = re.subn(
        pattern, lambda m: f"{m[1]}{value!r}{m[2]}{machine}{m[3]}{source}", text[start:], count=1, flags=re.M
    )
    if not done:
        raise SystemExit(f"[{table}] {name}: is not there")
    return text[:start] + new


def main() -> None:
    """Simulate, fit, and write bench/results/simulated_fits.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=len(SCENARIOS), help="the first so many")
    parser.add_argument("--refit", action="store_true", help="simulate nothing: fit the record's rows anew")
    parser.add_argument("--write", action="store_true", help="put the constants into profiles/fits")
    arguments = parser.parse_args()
    records = [record_of(kind, SCENARIOS[: arguments.scenarios], arguments.refit) for kind in CORES]
    print(write(NAME, {**facts("modelled", f"bench.{NAME}"), "kinds": records}))
    if arguments.write:
        for record in records:
            write_constants(record)


if __name__ == "__main__":
    main()
