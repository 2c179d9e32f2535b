"""Report a choice of groups: rates, traffic and ratio of computation to communication, and the graph with its groups.

The rates are tables and JSON; the coarse graph is an SVG with the groups of an execution path in colours.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

from mavcg.accelerators.fusion.costs import ModelledGroupCosts
from mavcg.accelerators.fusion.group_shape import GraphFacts, group_shape
from mavcg.accelerators.fusion.plan import FusionChoices
from mavcg.accelerators.fusion.tiling import paper_tile
from mavcg.accelerators.groups import FusionPlan, GroupTile
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph, XNode, operations
from mavcg.drawing.svg_plots import FAINT, INK
from mavcg.text.safe_text import xml_attribute, xml_text

# Light fills that keep black text readable; neighbours in the list differ in lightness, too.
_FILLS = ("#90caf9", "#ffe082", "#a5d6a7", "#ffab91", "#ce93d8", "#80cbc4", "#f48fb1", "#c5e1a5")
_ALONE, _HOST = "#eceff1", "#ffffff"
_CHAR, _BOX, _ROW, _GAP, _PAD = 6.6, 24, 46, 16, 20
_MOST_NAME = 26  # maximum characters of a node's name in its box


def accelerated_operations(graph: XGraph) -> int:
    """Return the operations of the convolutions that run on the accelerator, for a batch (DNNVM, equation 3)."""
    return sum(operations(graph, node) for node in graph.nodes if node.on_accelerator)


def gops(graph: XGraph, cycles: float, target: IsaTarget) -> float:
    """Return the rate of all cores in 10^9 operations per second."""
    return accelerated_operations(graph) * target.batch * target.frequency_mhz / cycles / 1000 if cycles else 0.0


def ideal_bytes(graph: XGraph) -> int:
    """Return the bytes that must move even if all nodes were fused: inputs, results, weights (DNNVM, equation 2)."""
    facts = GraphFacts(graph)
    everything = [node.name for node in graph.nodes if node.on_accelerator]
    shape = group_shape(facts, everything)
    maps = sum(prod(n.shape) for n in shape.inputs)
    maps += sum(prod(n.shape) for n in shape.nodes if n.name in shape.results)
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


def plan_svg(graph: XGraph, plan: FusionPlan, title: str) -> str:
    """Return the drawing of a graph, from its inputs downwards.

    Each group of several nodes has a colour, single nodes are grey, and nodes of the CPU white. Hovering over a node
    shows its group, shape and cycles.
    """
    places, width, height = _layout(graph)
    fills, notes = _colours(plan)
    body = [_edge(places[name], places[node.name]) for node in graph.nodes for name in dict.fromkeys(node.inputs)]
    body += [_box(node, places[node.name], fills.get(node.name), notes.get(node.name, "")) for node in graph.nodes]
    width = max(width, 2 * _PAD + len(title) * 8.5)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label={xml_attribute(title)} '
            'font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="11">',
            f"<title>{xml_text(title)}</title>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text x="{_PAD}" y="26" font-size="14" font-weight="bold" fill="{INK}">{xml_text(title)}</text>',
            *body,
            "</svg>",
            "",
        ]
    )


def _label(node: XNode) -> str:
    name = node.name if len(node.name) <= _MOST_NAME else f"..{node.name[2 - _MOST_NAME :]}"
    return f"{name}: {node.op if node.kind in ('host', 'eltwise') else node.kind}"


def _layout(graph: XGraph) -> tuple[Mapping[str, tuple[float, float, float]], float, float]:
    """Return the centre, top and width of each node's box, and the width and height of the drawing.

    A node's row is the length of the longest path from an input; the nodes of a row are side by side.
    """
    depth: dict[str, int] = {}
    rows: dict[int, list[XNode]] = {}
    for node in graph.nodes:
        depth[node.name] = 1 + max((depth[name] for name in node.inputs), default=-1)
        rows.setdefault(depth[node.name], []).append(node)
    widths = {node.name: _CHAR * len(_label(node)) + 16 for node in graph.nodes}
    whole = max(sum(widths[n.name] + _GAP for n in row) for row in rows.values()) + 2 * _PAD
    places: dict[str, tuple[float, float, float]] = {}
    for at, row in rows.items():
        left = (whole - sum(widths[n.name] + _GAP for n in row) + _GAP) / 2
        # Nodes of a row are sorted by the position of their first inputs, to keep edges short.
        for node in sorted(row, key=lambda n: places[n.inputs[0]][0] if n.inputs else 0):
            places[node.name] = (left + widths[node.name] / 2, 44 + at * _ROW, widths[node.name])
            left += widths[node.name] + _GAP
    return places, whole, 44 + len(rows) * _ROW + _PAD


def _colours(plan: FusionPlan) -> tuple[dict[str, str], dict[str, str]]:
    fills, notes, several = dict[str, str](), dict[str, str](), 0
    for group in plan.groups:
        for name in group.nodes:
            fills[name] = _FILLS[several % len(_FILLS)] if len(group.nodes) > 1 else _ALONE
            notes[name] = f"{group.template}, {group.cost:.0f} cycles: {' + '.join(group.nodes)}"
        several += len(group.nodes) > 1
    return fills, notes


def _edge(start: tuple[float, float, float], end: tuple[float, float, float]) -> str:
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1] + _BOX:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
        f'stroke="{FAINT}" stroke-width="1"/>'
    )


def _box(node: XNode, position: tuple[float, float, float], fill: str | None, note: str) -> str:
    x, y, width = position
    shown = f"{node.name} {list(node.shape)}" + (f" - {note}" if note else "")
    return (
        f'<g><title>{xml_text(shown)}</title><rect x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{_BOX}" fill="{fill or _HOST}" stroke="{FAINT}"/>'
        f'<text x="{x - width / 2 + 8:.1f}" y="{y + 16:.1f}" fill="{INK}">{xml_text(_label(node))}</text></g>'
    )
