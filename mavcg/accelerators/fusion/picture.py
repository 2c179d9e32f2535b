"""Draw the coarse graph of a network as SVG, with the groups of an execution path in colours."""

from collections.abc import Mapping

from mavcg.accelerators.groups import FusionPlan
from mavcg.accelerators.xgraph import XGraph, XNode
from mavcg.drawing.svg_plots import FAINT, INK
from mavcg.text.safe_text import xml_attribute, xml_text

# Light fills that keep black text readable; neighbours in the list differ in lightness, too.
_FILLS = ("#90caf9", "#ffe082", "#a5d6a7", "#ffab91", "#ce93d8", "#80cbc4", "#f48fb1", "#c5e1a5")
_ALONE, _HOST = "#eceff1", "#ffffff"
_CHAR, _BOX, _ROW, _GAP, _PAD = 6.6, 24, 46, 16, 20
_MOST_NAME = 26  # maximum characters of a node's name in its box


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
