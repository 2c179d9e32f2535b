"""Report a choice of groups: rates, traffic, and ratio of computation to communication, for tables and JSON."""

from typing import Any

from mavcg.accelerators.fusion.costs import ModelledGroupCosts
from mavcg.accelerators.fusion.group_shape import GraphFacts, group_shape
from mavcg.accelerators.fusion.plan import FusionChoices
from mavcg.accelerators.fusion.tiling import paper_tile
from mavcg.accelerators.groups import GroupTile
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph, operations


def accelerated_operations(graph: XGraph) -> int:
    """Return the operations of the convolutions that run on the accelerator, for one image (DNNVM, equation 3)."""
    return sum(operations(graph, node) for node in graph.nodes if node.on_accelerator)


def gops(graph: XGraph, cycles: float, target: IsaTarget) -> float:
    """Return the rate of all cores in 10^9 operations per second."""
    return accelerated_operations(graph) * target.batch * target.frequency_mhz / cycles / 1000 if cycles else 0.0


def ideal_bytes(graph: XGraph) -> int:
    """Return the bytes that must move even if all nodes were fused: inputs, results, weights (DNNVM, equation 2)."""
    facts = GraphFacts(graph)
    everything = [node.name for node in graph.nodes if node.on_accelerator]
    shape = group_shape(facts, everything)
    maps = sum(n.shape[0] * n.shape[1] * n.shape[2] * n.channels for n in shape.inputs)
    maps += sum(n.shape[1] * n.shape[2] * n.channels for n in shape.nodes if n.name in shape.results)
    return maps + sum(shape.weight_bytes(node) for node in shape.convolutions)


def path_rows(choices: FusionChoices, target: IsaTarget) -> list[dict[str, Any]]:
    """Return the cycles, rate, utilisation, bytes and CTC (operations per byte: equation 1) of each search."""
    modelled = ModelledGroupCosts(target)
    rows, work = [], accelerated_operations(choices.graph)
    for search, path in choices.paths.items():
        plan = choices.plan(search)
        moved = 0
        for group in plan.groups:
            tile_and_work = modelled.work(choices.graph, group.nodes)
            moved += 0 if tile_and_work is None else tile_and_work[1].ddr_bytes
        rate = gops(choices.graph, path.cost, target)
        rows.append(
            {
                "search": search,
                "cycles": path.cost,
                "ms": path.cost / target.frequency_mhz / 1000,
                "gops": rate,
                "utilisation": rate / target.peak_gops,
                "groups": len(plan.groups),
                "ddr_bytes": moved,
                "ctc": work / moved if moved else 0.0,
                "optimal": path.optimal,
            }
        )
    return rows


def group_rows(choices: FusionChoices, search: str, target: IsaTarget) -> list[dict[str, Any]]:
    """Return the groups of a search with their tiles, costs and work, and the paper's tile (equation 5)."""
    modelled, facts, rows = ModelledGroupCosts(target), GraphFacts(choices.graph), list[dict[str, Any]]()
    for group in choices.plan(search).groups:
        tile_and_work = modelled.work(choices.graph, group.nodes)
        row: dict[str, Any] = {
            "nodes": list(group.nodes),
            "template": group.template,
            "cycles": group.cost,
            "tile": tile_json(group.tile),
        }
        if tile_and_work is not None:
            work = tile_and_work[1]
            computed = sum(operations(choices.graph, facts.nodes[name]) for name in group.nodes)
            row |= {
                "ddr_bytes": work.ddr_bytes,
                "feature_bytes": work.feature_bytes,
                "conv_cycles": work.conv_cycles,
                "pool_cycles": work.pool_cycles,
                "misc_cycles": work.misc_cycles,
                "tiles": work.tiles,
                "ctc": computed / work.ddr_bytes if work.ddr_bytes else 0.0,
            }
        no_tiles = group.template == "whole" or facts.nodes[group.nodes[0]].kind == "concat"
        paper = None if no_tiles else paper_tile(group_shape(facts, group.nodes), target)
        row["paper_tile"] = (
            None
            if paper is None
            else {
                **tile_json(paper[0]),
                "cycles": paper[1].cycles(target),
                "ddr_bytes": paper[1].ddr_bytes,
            }
        )
        rows.append(row)
    return rows


def tile_json(tile: GroupTile) -> dict[str, Any]:
    """Return the sizes of a tile by name."""
    return {
        "rows": tile.rows,
        "columns": tile.columns,
        "out_ch": tile.out_ch,
        "in_ch": tile.in_ch,
        "order": tile.order,
        "whole": tile.whole,
    }


def fusion_json(choices: FusionChoices, target: IsaTarget, model: str, costs: str) -> dict[str, Any]:
    """Return the document of `mavcg accel fuse --json`."""
    work = accelerated_operations(choices.graph)
    return {
        "model": model,
        "target": target.name,
        "costs": costs,
        "nodes": sum(node.on_accelerator for node in choices.graph.nodes),
        "cpu_nodes": [node.name for node in choices.graph.nodes if node.kind == "host"],
        "operations": work,
        "peak_gops": target.peak_gops,
        "ctc_if_all_fused": work / ideal_bytes(choices.graph),
        "embeddings": [
            {"nodes": list(group.nodes), "template": candidate.template, "cycles": group.cost}
            for candidate, group in zip(choices.candidates, choices.instance.groups, strict=True)
        ],
        "paths": path_rows(choices, target),
        "groups": {search: group_rows(choices, search, target) for search in choices.paths},
        "seconds": dict(choices.seconds),
    }
