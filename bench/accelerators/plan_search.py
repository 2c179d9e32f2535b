"""The planner's three searches: seconds, candidates, loss by pruning: `python -m bench.accelerators.plan_search`.

Every layer of the five networks on setups A to D is planned, none from a cache, with performance per access as metric
and tiles that fit with halo. Seconds are the least of some runs in turn, those of the exhaustive search of one run.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from bench.record import facts, parser_with_json, write
from bench.tables.catalogue import show_record
from mavcg.accelerators.plans import exact, grid
from mavcg.accelerators.plans.exact import ExactOptions
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.levels import plan_levels
from mavcg.accelerators.plans.roofline import performance_per_access
from mavcg.accelerators.plans.space import Planned
from mavcg.cost.layer import ConvLayer
from mavcg.graph.networks import NAMES, network
from mavcg.hardware.accelerator import Accelerator
from mavcg.profiles.accelerators import find_accelerator

SETUPS = ("A", "B", "C", "D")
RUNS = 3
# The exact search has to plan the whole table in this.
MOST_SECONDS = 60.0
OTHERS = {
    "halo counted": ExactOptions(model="halo"),
    "two buffers": ExactOptions(double_buffer=True),
    "roof of the tile": ExactOptions(tile_roof=True),
    "every factor": ExactOptions(grid="full"),
    "every factor, halo counted": ExactOptions(grid="full", model="halo"),
    "every factor, halo counted, two buffers": ExactOptions(grid="full", model="halo", double_buffer=True),
}

Search = Callable[[ConvLayer, Accelerator], Planned]
SEARCHES: dict[str, Search] = {"pruned": grid.search_pruned, "exact": exact.search}


def compare(name: str, setup: str) -> dict[str, Any]:
    """Return the row of one network on one setup."""
    accelerator = find_accelerator(f"setup-{setup.lower()}")
    layers = layers_of(network(name, paper_variant=True))
    plans_by_search: dict[str, list[Planned]] = {}
    seconds: dict[str, float] = {}
    for run in range(RUNS):
        for search, of in SEARCHES.items() if run else (SEARCHES | {"exhaustive": grid.search_exhaustively}).items():
            start = time.perf_counter()
            plans_by_search[search] = [of(layer, accelerator) for layer in layers]
            taken = time.perf_counter() - start
            seconds[search] = min(taken, seconds.get(search, taken))
    values = {
        search: [performance_per_access(plan.reached) for plan in plans] for search, plans in plans_by_search.items()
    }
    missed = [ours / best for ours, best in zip(values["pruned"], values["exhaustive"], strict=True) if ours < best]
    return {
        "network": name,
        "setup": setup,
        "layers": len(layers),
        "seconds": {search: round(of, 4) for search, of in seconds.items()},
        "candidates": {search: sum(plan.candidates for plan in plans) for search, plans in plans_by_search.items()},
        "off_chip_bytes": {
            search: sum(plan.reached.traffic.total_bytes for plan in plans) for search, plans in plans_by_search.items()
        },
        "exact_is_exhaustive": values["exact"] == values["exhaustive"],
        "layers_that_pruning_misses": len(missed),
        "times_below_at_worst": round(1 / min(missed, default=1.0), 3),
    }


def others() -> dict[str, dict[str, float]]:
    """Return the rows of the exact search with other options, and with two levels."""
    tables = {
        title: _whole(lambda layer, on, of=options: exact.search(layer, on, options=of).candidates)  # type: ignore[misc]
        for title, options in OTHERS.items()
    }
    return tables | {"each level of memory": _whole(lambda layer, on: plan_levels(layer, on).candidates)}


def _whole(candidates_of: Callable[[ConvLayer, Accelerator], int]) -> dict[str, float]:
    start = time.perf_counter()
    candidates = 0
    for name in NAMES:
        layers = layers_of(network(name, paper_variant=True))
        for setup in SETUPS:
            accelerator = find_accelerator(f"setup-{setup.lower()}")
            candidates += sum(candidates_of(layer, accelerator) for layer in layers)
    return {"seconds": round(time.perf_counter() - start, 2), "candidates": candidates}


def main() -> None:
    """Plan, print, and write bench/results/plan_search.json; status 1 where a bound is missed."""
    parser = parser_with_json(__doc__, "the record instead of tables")
    args = parser.parse_args()
    rows = []
    for name in NAMES:
        for setup in SETUPS:
            print(f"bench: {name}, setup {setup}", file=sys.stderr, flush=True)
            rows.append(compare(name, setup))
    searches = ("pruned", "exhaustive", "exact")
    sums = {
        key: {of: round(sum(row[key][of] for row in rows), 3) for of in searches} for key in ("seconds", "candidates")
    }
    record = {
        **facts("measured", "bench.accelerators.plan_search"),
        "runs": RUNS,
        "rows": rows,
        **sums,
        "other_options": others(),
    }
    write("plan_search", record)
    show_record("plan_search", record, args.json)
    wrong = [f"{row['network']} {row['setup']}" for row in rows if not row["exact_is_exhaustive"]]
    if wrong:
        sys.exit(f"bench: exact search is not as good as exhaustive search: {', '.join(wrong)}")
    if sums["seconds"]["exact"] > MOST_SECONDS:
        sys.exit(f"bench: exact search took {sums['seconds']['exact']} s for the table; {MOST_SECONDS} s are allowed")


if __name__ == "__main__":
    main()
