"""DNNVM's table III and the fusion columns of table IV, by the analytic model.

python -m bench.accelerators.accel_fusion [--json]

For each network and target: nodes, CPU times of the compiler's stages, rates of the convolutions without fusion, with
greedy fusion, with the paper's search and with the exact one, beside what the paper measured on its boards. Rates are
modelled, not measured; DDR bandwidths are those of the targets' files, and halved and doubled for the sensitivity.
"""

import json
import time
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.record import facts, parser_with_json, write
from mavcg.accelerators.fusion.costs import ModelledGroupCosts
from mavcg.accelerators.fusion.group_shape import GraphFacts
from mavcg.accelerators.fusion.opportunities import template_embeddings
from mavcg.accelerators.fusion.plan import choose_fusion
from mavcg.accelerators.fusion.report import accelerated_operations, path_rows
from mavcg.accelerators.fusion.templates import read_templates
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.networks import network
from mavcg.accelerators.target import IsaTarget, find_target
from mavcg.accelerators.xgraph import XGraph

NETWORKS = ("vgg16", "resnet50", "resnet152", "googlenet")
OTHERS = ("mobilenet_v2", "yolo_small", "squeezenet")
# Nodes; graph generation, isomorphism and auto tuning in ms; baseline, greedy, optimised GOP/s (table III).
TABLE_3 = {
    "vgg16": (32, 0.389, 9.28, 0.647, 325.5, 331.5, 334.0),
    "resnet50": (120, 4.112, 30.893, 12.309, 195.4, 221.9, 228.7),
    "resnet152": (358, 18.125, 145.023, 70.53, 212.5, 233.0, 244.1),
    "googlenet": (137, 3.424, 66.069, 6.61, 183.1, 204.6, 231.5),
}
# GOP/s on ZU9, optimised (table IV); ResNet-152 is not in it.
TABLE_4 = {"vgg16": 2820.0, "resnet50": 1380.0, "googlenet": 1410.0}
BANDWIDTHS = (0.5, 1.0, 2.0)


def fine_nodes(graph: XGraph) -> int:
    """Return the number of nodes as table III counts them: every operation, each activation as a node of its own."""
    return sum(node.on_accelerator + (node.on_accelerator and bool(node.act)) for node in graph.nodes)


def matching_ms(graph: XGraph) -> float:
    """Return the CPU time, in ms, of finding all embeddings of all templates: the least of three runs."""
    templates, times = read_templates(), []
    for _ in range(3):
        start = time.process_time()
        list(template_embeddings(GraphFacts(graph), templates))
        times.append(time.process_time() - start)
    return 1000 * min(times)


def row(name: str, graph: XGraph, target: IsaTarget) -> dict[str, Any]:
    """Return a network's row on a target."""
    choices = choose_fusion(graph, target, read_templates(), ModelledGroupCosts(target))
    rates = {path["search"]: round(path["gops"], 1) for path in path_rows(choices, target)}
    exact = next(path for path in path_rows(choices, target) if path["search"] == "exact")
    seconds = {stage: round(1000 * value, 3) for stage, value in choices.seconds.items()}
    return {
        "network": name,
        "target": target.name,
        "gop": round(accelerated_operations(graph) / 1e9, 3),
        "candidates": len(choices.candidates),
        "isomorphism_ms": round(matching_ms(graph), 3),
        "stages_ms": seconds,
        "gops": rates,
        "speed_up": round(rates["exact"] / rates["none"], 3),
        "optimal": exact["optimal"],
        "utilisation_percent": round(100 * exact["utilisation"], 1),
        "ctc": round(exact["ctc"], 1),
    }


def sensitivity(graph: XGraph, target: IsaTarget) -> dict[str, dict[str, float]]:
    """Return modelled rates without fusion and with the exact search, for other DDR bandwidths."""
    by_bandwidth = {}
    for factor in BANDWIDTHS:
        tried = replace(target, ddr_gb_per_s=target.ddr_gb_per_s * factor)
        choices = choose_fusion(graph, tried, read_templates(), ModelledGroupCosts(tried), ("exact", "none"))
        rates = {path["search"]: round(path["gops"], 1) for path in path_rows(choices, tried)}
        by_bandwidth[f"{tried.ddr_gb_per_s:g} GB/s"] = rates
    return by_bandwidth


def main() -> None:
    """Model, print, and write bench/results/accel_fusion.json."""
    parser = parser_with_json(__doc__, "the record instead of tables")
    parser.add_argument("--networks", nargs="*", default=[*NETWORKS, *OTHERS], help="only these; writes no record")
    args = parser.parse_args()
    rows, by_bandwidth = [], {}
    for name in args.networks:
        made = network(name)
        start = time.process_time()
        graph = xgraph_of(made)
        generation_ms = 1000 * (time.process_time() - start)
        del made
        for target in (find_target("zu2"), find_target("zu9")):
            paper = TABLE_3.get(name) if target.name == "zu2" else None
            rows.append(
                {
                    "nodes": fine_nodes(graph),
                    "coarse_nodes": sum(n.on_accelerator for n in graph.nodes),
                    "generation_ms": round(generation_ms, 1),
                    **row(name, graph, target),
                    "paper": paper
                    and dict(
                        zip(
                            (
                                "nodes",
                                "generation_ms",
                                "isomorphism_ms",
                                "tuning_ms",
                                "baseline",
                                "greedy",
                                "optimised",
                            ),
                            paper,
                            strict=True,
                        )
                    ),
                    "paper_gops": TABLE_4.get(name) if target.name == "zu9" else paper and paper[6],
                }
            )
        if name in NETWORKS:
            by_bandwidth[name] = sensitivity(graph, find_target("zu2"))
    record = {**facts("modelled", "bench.accelerators.accel_fusion"), "rows": rows, "zu2_by_bandwidth": by_bandwidth}
    if list(args.networks) == [*NETWORKS, *OTHERS]:
        write("accel_fusion", record)
    if args.json:
        print(json.dumps(record, indent=2))
        return
    Console(width=150).print(_table(rows))
    for name, rates in by_bandwidth.items():
        print(
            f"{name} on zu2 by bandwidth: "
            + "; ".join(f"{bandwidth}: {r['none']} -> {r['exact']} GOP/s" for bandwidth, r in rates.items())
        )


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="Modelled, CPU times of this machine; in brackets the paper's", box=None, title_justify="left")
    for title in (
        "network",
        "target",
        "nodes",
        "isomorphism, ms",
        "path, ms",
        "none",
        "greedy",
        "paper's search",
        "exact",
        "speed-up",
        "of peak",
    ):
        table.add_column(title, justify="left" if title in ("network", "target") else "right")
    for entry in rows:
        paper, rates = entry["paper"] or {}, entry["gops"]

        def beside(ours: object, key: str, paper: dict[str, Any] = paper) -> str:
            return f"{ours} ({paper[key]})" if key in paper else str(ours)

        best = f"{rates['exact']} ({entry['paper_gops']})" if entry["paper_gops"] else str(rates["exact"])
        table.add_row(
            entry["network"],
            entry["target"],
            beside(entry["nodes"], "nodes"),
            beside(entry["isomorphism_ms"], "isomorphism_ms"),
            beside(entry["stages_ms"]["path, exact"], "tuning_ms"),
            beside(rates["none"], "baseline"),
            beside(rates["greedy"], "greedy"),
            str(rates["paper"]),
            best,
            str(entry["speed_up"]),
            f"{entry['utilisation_percent']} %",
        )
    return table


if __name__ == "__main__":
    main()
