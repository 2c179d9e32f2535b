"""Errors and regret of learned costs of groups: `python -m bench.accelerators.accel_learned [--json]`.

The reference is the simulated costs of all groups of a network. The learned provider simulates some groups and predicts
the others; its error is over the predicted ones. Regret is the cost, by simulation, of the path that the exact search
finds with learned costs over that of the path with simulated costs: after the first search, and after the searches that
replace the costs of all chosen groups by simulated ones, as `mavcg accel build --costs learned` does. Cycles are
simulated, nothing is measured.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from bench.record import facts, parser_with_json, write
from mavcg.accelerators.costs.computed import SimulatedGroupCosts
from mavcg.accelerators.costs.kept import GroupCostFile, KeptGroupCosts
from mavcg.accelerators.costs.learned import LearnedGroupCosts
from mavcg.accelerators.fusion.costs import GroupCosts
from mavcg.accelerators.fusion.plan import choose_fusion
from mavcg.accelerators.fusion.templates import read_templates
from mavcg.accelerators.group_search import search_path
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.networks import network
from mavcg.accelerators.quantise import with_fixed_radices
from mavcg.accelerators.target import IsaTarget, find_target
from mavcg.accelerators.xgraph import XGraph

NETWORKS = ("squeezenet", "mobilenet_v2", "resnet50", "yolo_small", "googlenet")
TARGET = "zu2"


def quiet(message: str) -> None:
    """Discard progress messages."""


def true_cycles(groups: list[tuple[str, ...]], graph: XGraph, truth: GroupCosts) -> float:
    """Return the sum of the simulated cycles of groups; infinite if one of them does not fit."""
    costs = [truth.cost(graph, nodes) for nodes in groups]
    return sum(float("inf") if cost is None else cost.cost for cost in costs)


def row(name: str, target: IsaTarget, file: GroupCostFile) -> dict[str, Any]:
    """Return a network's row on a target."""
    graph = with_fixed_radices(xgraph_of(network(name)))
    truth = KeptGroupCosts(SimulatedGroupCosts(target), "simulated", target, file)
    exact = choose_fusion(graph, target, read_templates(), truth, ("exact",))
    best = exact.paths["exact"].cost
    learned = LearnedGroupCosts(target, truth)
    first = choose_fusion(graph, target, read_templates(), learned, ("exact",))
    at_first = learned.exact_groups, learned.predicted_groups
    errors = [
        abs(predicted.cost / cost.cost - 1)
        for group in first.instance.groups
        if learned.is_predicted(graph, group.nodes)
        and (predicted := learned.cost(graph, group.nodes)) is not None
        and (cost := truth.cost(graph, group.nodes)) is not None
    ]
    regret = true_cycles([group.nodes for group in first.plan("exact").groups], graph, truth) / best - 1
    last = search_path(graph, target, "exact", quiet, learned).plan("exact")
    percent = np.percentile(errors, [50, 95]) if errors else [0.0, 0.0]
    return {
        "network": name,
        "target": target.name,
        "simulated": at_first[0],
        "predicted": at_first[1],
        "left_out_error_percent": round(100 * learned.models[0].error, 2) if learned.models else None,
        "error_percent": round(100 * float(np.mean(errors)), 2) if errors else None,
        "median_percent": round(100 * float(percent[0]), 2),
        "worst_twentieth_percent": round(100 * float(percent[1]), 2),
        "regret_percent": round(100 * regret, 3),
        "simulated_in_the_end": learned.exact_groups,
        "regret_in_the_end_percent": round(100 * (last.cost / best - 1), 3),
    }


def main() -> None:
    """Simulate, learn, print, and write bench/results/accel_learned.json."""
    parser = parser_with_json(__doc__, "the record instead of lines")
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), help="only these; writes no record")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, GroupCostFile(Path(folder) / "costs.sqlite") as file:
        for name in args.networks:
            rows.append(row(name, find_target(TARGET), file))
            if not args.json:
                Console(width=200).print(rows[-1])
    record = {**facts("modelled", "bench.accelerators.accel_learned"), "rows": rows}
    if args.networks == list(NETWORKS):
        write("accel_learned", record)
    if args.json:
        print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
