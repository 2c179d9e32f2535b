"""DNNVM's figures 7 and 8 and tables III to V by cycle-accurate simulation.

python -m bench.accelerators.accel_simulated [--json]

Whole programs are generated for each network, target and search, with costs of groups by simulation, and simulated.
Weights are seeded, radix positions fixed: cycles do not depend on values. Nothing is measured on a board. Energy
efficiency divides simulated rates by the power that the paper measured (table V), which is not simulated.
"""

import json
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console

from bench.record import facts, parser_with_json, write
from mavcg.accelerators.codegen.choose_tile import tiled_group
from mavcg.accelerators.codegen.generate import generate, generate_group
from mavcg.accelerators.costs.computed import SimulatedGroupCosts
from mavcg.accelerators.fusion.plan import SEARCHES, choose_fusion
from mavcg.accelerators.fusion.templates import read_templates
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.networks import network
from mavcg.accelerators.quantise import with_fixed_radices
from mavcg.accelerators.shapes import check_xgraph
from mavcg.accelerators.simulator.cycles import simulate
from mavcg.accelerators.simulator.report import simulated_json
from mavcg.accelerators.target import IsaTarget, find_target
from mavcg.accelerators.xgraph import Parameters, XGraph, XNode

NETWORKS = ("vgg16", "resnet50", "resnet152", "googlenet")
OTHERS = ("mobilenet_v2", "yolo_small", "squeezenet")
# GOP/s of DNNVM: baseline, greedy and optimised on ZU2 (table III); optimised on ZU9 (table IV).
PAPER_ZU2 = {
    "vgg16": (325.5, 331.5, 334.0),
    "resnet50": (195.4, 221.9, 228.7),
    "resnet152": (212.5, 233.0, 244.1),
    "googlenet": (183.1, 204.6, 231.5),
}
PAPER_ZU9 = {"vgg16": 2820.0, "resnet50": 1380.0, "googlenet": 1410.0}
POWER_W = {"zu2": 7.5, "zu9": 22.8}  # table V
FACTORS = (0.5, 1.0, 2.0)  # of the bandwidth, for the sensitivity
_Groups = tuple[tuple[tuple[str, ...], float | None], ...]  # groups with the paper's milliseconds


def network_rows(name: str, graph: XGraph, target: IsaTarget) -> dict[str, Any]:
    """Return the row of a network on a target: simulated rates of whole programs by search."""
    choices = choose_fusion(graph, target, read_templates(), SimulatedGroupCosts(target))
    seconds = sum(choices.seconds.values())
    row: dict[str, Any] = {
        "network": name,
        "target": target.name,
        "candidates": len(choices.candidates),
        "search_cpu_seconds": round(seconds, 1),
        "searches": {},
    }
    for search in SEARCHES:
        program, _ = generate(graph, choices.plan(search).groups, target)
        report = simulated_json(program, simulate(program))
        row["searches"][search] = {
            "cycles": report["cycles"],
            "sum_of_costs": round(choices.plan(search).cost),
            "ms": round(report["ms"], 3),
            "gops": round(report["gops"], 1),
            "utilisation_percent": round(100 * report["utilisation"], 1),
            "ddr_megabytes": round(report["ddr_bytes"] / 1e6, 2),
            "instructions": len(program.instructions),
            "groups": len(choices.plan(search).groups),
            "busy_percent": {u: round(100 * c / report["cycles"], 1) for u, c in report["units"].items()},
        }
        if search in ("none", "exact"):
            row["searches"][search]["gops_by_bandwidth"] = by_bandwidth(program)
    row["gops_per_watt"] = round(row["searches"]["exact"]["gops"] / POWER_W[target.name], 1)
    return row


def quantised(name: str) -> XGraph:
    """Return a network's graph for an accelerator."""
    return with_fixed_radices(xgraph_of(network(name)))


def by_bandwidth(program: AccelProgram) -> dict[str, float]:
    """Return the rates of the same program with other DDR bandwidths."""
    rates = {}
    for factor in FACTORS:
        port = program.target.port_gb_per_s
        scaled = None if port is None else port * factor
        target = replace(program.target, ddr_gb_per_s=program.target.ddr_gb_per_s * factor, port_gb_per_s=scaled)
        tried = replace(program, target=target)
        rates[f"{target.ddr_gb_per_s:g} GB/s"] = round(simulated_json(tried, simulate(tried))["gops"], 1)
    return rates


def feature_bytes(program: AccelProgram) -> int:
    """Return the bytes of feature maps that a program loads and saves, without weights, code and padding of beats."""
    return sum(
        instruction["rows"] * instruction["columns"] * instruction["channels"]
        for instruction in program.instructions
        if instruction.form.name in ("load.map", "save.map")
    )


def figure_graph(number: int) -> XGraph:
    """Return the graph of DNNVM's figure 7 (5x5 convolution, 3x3 pool) or 8 (two 1x1 convolutions, their sum)."""

    def conv(name: str, source: str, size: int, channels: int, kernel: int) -> XNode:
        pads = (kernel // 2,) * 4
        return XNode(
            name, "conv", (source,), (1, size, size, channels), (kernel, kernel), pads=pads, radix=4, weight_radix=(7,)
        )

    nodes: tuple[XNode, ...]
    if number == 7:
        nodes = (
            XNode("x", "input", (), (1, 28, 28, 32), radix=4),
            conv("conv", "x", 28, 256, 5),
            XNode("pool", "max_pool", ("conv",), (1, 28, 28, 256), (3, 3), pads=(1, 1, 1, 1), radix=4),
        )
        depth = {"conv": 32}
    else:
        nodes = (
            XNode("x", "input", (), (1, 56, 56, 64), radix=4),
            XNode("y", "input", (), (1, 56, 56, 64), radix=4),
            conv("conv1", "x", 56, 256, 1),
            conv("conv2", "y", 56, 256, 1),
            XNode("add", "eltwise", ("conv1", "conv2"), (1, 56, 56, 256), op="add", radix=4),
        )
        depth = {"conv1": 64, "conv2": 64}
    parameters = {
        node.name: Parameters(
            np.zeros((node.channels, *node.kernel, depth[node.name]), np.int8), np.zeros(node.channels, np.int32)
        )
        for node in nodes
        if node.name in depth
    }
    graph = XGraph(f"figure {number}", nodes, (nodes[-1].name,), parameters)
    check_xgraph(graph)
    return graph


def figure_rows(target: IsaTarget) -> list[dict[str, Any]]:
    """Return time and bytes of the figures' nodes, executed separately and fused, beside the paper's milliseconds.

    Both programs are generated and simulated as a whole; the parts are those of each group alone.
    """
    cases: tuple[tuple[int, _Groups, _Groups, float], ...] = (
        (7, ((("conv",), 0.375), (("pool",), 0.242)), ((("conv", "pool"), None),), 64.0),
        (
            8,
            ((("conv1",), 0.467), (("conv2",), 0.463), (("add",), 0.833)),
            ((("conv1",), 0.467), (("conv2", "add"), None)),
            36.4,
        ),
    )
    rows = []
    for number, separate, fused, saved in cases:
        graph = figure_graph(number)
        entry: dict[str, Any] = {"figure": number, "paper_saved_percent": saved}
        for title, groups in (("separate", separate), ("fused", fused)):
            entry[title] = _simulated_groups(graph, groups, target)
        separate_whole, fused_whole = entry["separate"]["program"], entry["fused"]["program"]
        entry["saved_percent"] = round(100 * (1 - fused_whole["feature_bytes"] / separate_whole["feature_bytes"]), 2)
        entry["speed_up"] = round(separate_whole["ms"] / fused_whole["ms"], 3)
        rows.append(entry)
    return rows


def _simulated_groups(graph: XGraph, groups: _Groups, target: IsaTarget) -> dict[str, Any]:
    """Return the simulated time and bytes of the program of all groups, and of each group alone."""
    tiled = [tiled_group(graph, names, "figure", target) for names, _ in groups]
    parts = [
        {"nodes": list(group.nodes), "paper_ms": paper_ms, **_simulated(generate_group(graph, group, target)[0])}
        for group, (_, paper_ms) in zip(tiled, groups, strict=True)
    ]
    return {"program": _simulated(generate(graph, tiled, target)[0]), "parts": parts}


def _simulated(program: AccelProgram) -> dict[str, Any]:
    ms = simulate(program).cycles / program.target.frequency_mhz / 1000
    return {"ms": round(ms, 3), "feature_bytes": feature_bytes(program)}


def main() -> None:
    """Simulate, print, and write bench/results/accel_simulated.json."""
    parser = parser_with_json(__doc__, "the record instead of lines")
    parser.add_argument("--networks", nargs="*", default=[*NETWORKS, *OTHERS], help="only these; writes no record")
    parser.add_argument("--targets", nargs="*", default=["zu2", "zu9"], help="only these; writes no record")
    args = parser.parse_args()
    out = Console(width=150)
    rows = []
    for name in args.networks:
        graph = quantised(name)
        for target in map(find_target, args.targets):
            row = network_rows(name, graph, target)
            row["paper"] = PAPER_ZU2.get(name) if target.name == "zu2" else PAPER_ZU9.get(name)
            rows.append(row)
            if not args.json:
                out.print(_line(row))
    figures = figure_rows(find_target("zu2"))
    record = {
        **facts("modelled", "bench.accelerators.accel_simulated"),
        "figures": figures,
        "rows": rows,
        "power_w": POWER_W,
    }
    if list(args.networks) == [*NETWORKS, *OTHERS] and args.targets == ["zu2", "zu9"]:
        write("accel_simulated", record)
    if args.json:
        print(json.dumps(record, indent=2))
        return
    for entry in figures:
        out.print(entry)


def _line(row: dict[str, Any]) -> str:
    rates = ", ".join(
        f"{search} {figures['gops']} GOP/s ({figures['utilisation_percent']} %)"
        for search, figures in row["searches"].items()
    )
    return (
        f"{row['network']} on {row['target']}: {rates}; paper {row['paper']}; {row['gops_per_watt']} GOP/s/W; "
        f"{row['candidates']} candidates, {row['search_cpu_seconds']} CPU seconds"
    )


if __name__ == "__main__":
    main()
