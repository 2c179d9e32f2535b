"""Time of scheduling a network, with and without the cache of layers.

python -m bench.accelerators.plan_seconds [--record]

The e-PlaNNer thesis, section 8.4: less than 1.4 s for every network, 36.6 ms for AlexNet. Each of the five networks on
setups A to D by the pruned search, with performance per access as metric: every layer searched; each kind of layer
searched once (section 4.2); all schedules read from a file of an earlier run. Processor time, the least of some runs,
so that other programs count little.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.record import facts, write
from mavcg.accelerators.plans import grid
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.roofline import performance_per_access
from mavcg.accelerators.plans.schedule_cache import ScheduleCache, plan_layers, schedules
from mavcg.files.store import EntryStore
from mavcg.graph.networks import NAMES, network
from mavcg.profiles.accelerators import find_accelerator

SETUPS = ("A", "B", "C", "D")
RUNS = 5
PAPER_MOST_MS, PAPER_ALEXNET_MS = 1400.0, 36.6


def least_ms(action: Callable[[], object]) -> float:
    """Return the milliseconds of CPU time, the least of RUNS."""
    taken = []
    for _ in range(RUNS):
        start = time.process_time()
        action()
        taken.append(time.process_time() - start)
    return round(min(taken) * 1e3, 3)


def row_of(name: str, setup: str, folder: Path) -> dict[str, Any]:
    """Return the row of one network on one setup."""
    machine = find_accelerator(f"setup-{setup.lower()}")
    layers = layers_of(network(name, paper_variant=True))
    uncached, cached = schedules(layers)
    store = EntryStore(folder)

    def plan() -> object:
        cache = ScheduleCache(store, f"{name} {setup}")
        return plan_layers(layers, machine, grid.search_pruned, performance_per_access, cache)

    plan()
    return {
        "network": name,
        "setup": setup,
        "layers": uncached,
        "schedules": cached,
        "every_layer_ms": least_ms(lambda: [grid.search_pruned(layer, machine) for layer in layers]),
        "each_kind_once_ms": least_ms(lambda: plan_layers(layers, machine, grid.search_pruned)),
        "from_file_ms": least_ms(plan),
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.accelerators.plan_seconds", description="Seconds of scheduling networks"
    )
    parser.add_argument("--record", action="store_true", help="into bench/results/plan_seconds.json")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="mavcg-plan-") as folder:
        for name in NAMES:
            for setup in SETUPS:
                rows.append(row_of(name, setup, Path(folder)))
                print(rows[-1], flush=True)
    if arguments.record:
        paper = {"most_ms": PAPER_MOST_MS, "alexnet_ms": PAPER_ALEXNET_MS}
        write(
            "plan_seconds",
            facts("measured", "bench.accelerators.plan_seconds --record") | {"rows": rows, "paper": paper},
        )


if __name__ == "__main__":
    main()
