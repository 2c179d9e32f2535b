"""Draws a schedule or unit pressure as SVG without a library or script; valid as a file and inside an HTML page."""

from collections.abc import Iterable

from mavcg.assembly.schedule_grid import Cell, headline, schedule_rows, verdict
from mavcg.drawing.svg_plots import FAINT, INK
from mavcg.hardware.instr_classes import CLASSES, FAMILIES
from mavcg.passes.asm.models.estimate import IN_ORDER, LoopEstimate, OpEstimate
from mavcg.text.safe_text import xml_attribute, xml_text

# Light fills on which black text is readable; they differ in lightness too, for readers without colour vision.
_FILL = {
    "integer": "#cfd8dc",
    "branch": "#e1bee7",
    "load": "#ffe082",
    "store": "#ffab91",
    "fp": "#90caf9",
    "vector": "#a5d6a7",
}
_ALARM = "#c62828"
_CHAR = 7.25  # width of a character of the monospaced font at 12 px
_ROW, _PAD, _BARS = 20, 16, 420


def as_svg(estimate: LoopEstimate, title: str) -> str:
    """Return the picture as an SVG document; a cell's tooltip has its op and the reason for waiting.

    title: a line of text above it, such as the function's name.
    """
    body, width, height = _schedule(estimate) if estimate.model == IN_ORDER else _pressure(estimate)
    lines = [title, headline(estimate), verdict(estimate)]
    width = max(width, *(2 * _PAD + len(line) * _CHAR for line in lines))
    head = [
        _text(_PAD, 26, title, size=15, weight="bold"),
        _text(_PAD, 46, lines[1]),
        _text(_PAD, 64, lines[2], fill=FAINT),
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height + 80:.0f}" '
            f'viewBox="0 0 {width:.0f} {height + 80:.0f}" role="img" aria-label={xml_attribute(title)} '
            'font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="12">',
            f"<title>{xml_text(title)}</title>",
            "<defs>",
            _hatch("stall", "#ffcdd2", _ALARM),
            _hatch("empty", "#f6f8fa", "#d1d5da"),
            "</defs>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *head,
            '<g transform="translate(0 80)">',
            *body,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _schedule(estimate: LoopEstimate) -> tuple[list[str], float, float]:
    rows = schedule_rows(estimate)
    longest = max((len(_label(cell)) for row in rows for cell in row.cells), default=0)
    lane = max(12, longest) * _CHAR + 16
    left = _PAD + 44
    reasons = left + estimate.width * (lane + 4) + 10
    families = [name for name in FAMILIES if any(cell.family == name for row in rows for cell in row.cells)]
    out = _legend(families, stalls=True)
    top = 52
    out.append(_text(left - 10, top - 8, "cycle", fill=FAINT, anchor="end"))
    for slot in range(estimate.width):
        out.append(_text(left + slot * (lane + 4), top - 8, f"slot {slot}", fill=FAINT))
    previous, iteration = "", 0
    for row in rows:
        y = top + row.cycle * _ROW
        started = max((cell.iteration for cell in row.cells if cell.op is not None and not cell.from_before), default=0)
        if started > iteration:
            iteration = started
            out.append(f'<path d="M{_PAD} {y - 0.5}H{reasons - 10:.1f}" stroke="{INK}" stroke-dasharray="4 3"/>')
        out.append(_text(left - 10, y + 14, str(row.cycle), fill=_ALARM if row.is_stall else FAINT, anchor="end"))
        for slot, cell in enumerate(row.cells):
            out += _cell(cell, row.cycle, slot, left + slot * (lane + 4), y, lane)
        if row.reason and row.reason != previous:
            out.append(_text(reasons, y + 14, row.reason, fill=_ALARM if row.is_stall else FAINT))
        elif row.reason:
            out.append(_text(reasons, y + 14, "\u2033", fill=FAINT))
        previous = row.reason
    width = reasons + max((len(row.reason) for row in rows), default=0) * _CHAR + _PAD
    return out, width, top + len(rows) * _ROW + _PAD


def _cell(cell: Cell, cycle: int, slot: int, x: float, y: float, width: float) -> list[str]:
    if cell.op is not None:
        hover = f"cycle {cycle}, slot {slot}: {cell.op.text} ({cell.op.op_class})"
        hover += ", of the iteration before" if cell.from_before else ""
        text = _text(x + 8, y + 14, _label(cell))
        return [_box(x, y + 1, width, _ROW - 2, _FILL[cell.family], hover, text)]
    why = f": {cell.wait.why}" if cell.wait is not None else ""
    kind = "stall" if cell.stalled else "empty"
    return [_box(x, y + 1, width, _ROW - 2, f"url(#{kind})", f"cycle {cycle}, slot {slot}: {kind}{why}")]


def _label(cell: Cell) -> str:
    if cell.op is None:
        return ""
    return f"\u2191 {cell.op.text}" if cell.from_before else cell.op.text


def _pressure(estimate: LoopEstimate) -> tuple[list[str], float, float]:
    names = [*estimate.bounds, *estimate.pools]
    left = _PAD + max(len(name) for name in names) * _CHAR + 12
    scale = _BARS / estimate.cycles if estimate.cycles else 0.0  # no bound and no unit goes beyond the cycles
    families = [name for name in FAMILIES if any(_family(detail) == name for detail in estimate.ops)]
    out = _legend(families, stalls=False)
    y = 44.0
    out.append(_text(_PAD, y + 8, "bounds, in cycles", weight="bold"))
    y += 18
    for name, value in estimate.bounds.items():
        hover = f"{name}: {value:.2f} cycles"
        fill = _ALARM if name == estimate.bound_by else "#b0bec5"
        out.append(_text(left - 10, y + 14, name, anchor="end"))
        out.append(_box(left, y + 2, value * scale, _ROW - 4, fill, hover))
        out.append(_text(left + value * scale + 6, y + 14, f"{value:.2f}", fill=FAINT))
        y += _ROW
    y += 14
    out.append(_text(_PAD, y + 8, "busy cycles of each unit, by family", weight="bold"))
    y += 18
    first = y
    for pool, busy in estimate.pools.items():
        out.append(_text(left - 10, y + 14, pool, anchor="end"))
        x = left
        for family in families:
            part = sum(detail.pressure.get(pool, 0.0) for detail in estimate.ops if _family(detail) == family)
            if part:
                out.append(_box(x, y + 2, part * scale, _ROW - 4, _FILL[family], f"{pool}: {family} {part:.2f} cycles"))
                x += part * scale
        share = busy / estimate.cycles if estimate.cycles else 0.0
        out.append(_text(x + 6, y + 14, f"{busy:.2f} ({share:.0%})", fill=FAINT))
        y += _ROW
    limit = left + estimate.cycles * scale
    out.append(f'<path d="M{limit:.1f} {first - 2}V{y + 2}" stroke="{_ALARM}" stroke-dasharray="3 2"/>')
    y += 20
    matrix, width, y = _matrix(estimate, y)
    return out + matrix, max(width, left + _BARS + 130), y + _PAD


def _matrix(estimate: LoopEstimate, y: float) -> tuple[list[str], float, float]:
    """Return a table with a row per instruction and a column per pool, darker for more busy cycles; width; height."""
    used = [pool for pool in estimate.pools if any(detail.pressure.get(pool) for detail in estimate.ops)]
    left = _PAD + 14 + max([22, *(len(detail.op.text) for detail in estimate.ops)]) * _CHAR
    column = max([6, *(len(pool) for pool in used)]) * _CHAR + 8
    most = max((share for detail in estimate.ops for share in detail.pressure.values()), default=1.0)
    out = [_text(_PAD, y + 8, "each instruction's part", weight="bold")]
    out += [
        _text(left + n * column + column / 2, y + 8, pool, fill=FAINT, anchor="middle") for n, pool in enumerate(used)
    ]
    y += 16
    for detail in estimate.ops:
        if detail.why:
            out.append(f'<circle cx="{_PAD + 4}" cy="{y + 10:.1f}" r="3" fill="{_ALARM}"/>')
        label = _text(_PAD + 18, y + 14, detail.op.text)
        hover = f"{detail.op.text} ({detail.op.op_class})" + (f": {detail.why}" if detail.why else "")
        out.append(_box(_PAD + 12, y + 1, left - _PAD - 16, _ROW - 2, _FILL[_family(detail)], hover, label))
        for number, pool in enumerate(used):
            if share := detail.pressure.get(pool, 0.0):
                cell = f'fill-opacity="{0.15 + 0.6 * share / most:.2f}"'
                text = _text(left + number * column + column / 2, y + 14, f"{share:.2f}", anchor="middle")
                hover = f"{detail.op.text}: {share:.2f} cycles of {pool}"
                out.append(_box(left + number * column + 2, y + 1, column - 4, _ROW - 2, "#1e88e5", hover, text, cell))
        y += _ROW
    if any(detail.why for detail in estimate.ops):
        out.append(f'<circle cx="{_PAD + 4}" cy="{y + 12:.1f}" r="3" fill="{_ALARM}"/>')
        out.append(_text(_PAD + 14, y + 16, f"makes the bound: {estimate.bound_by}", fill=FAINT))
        y += _ROW
    return out, left + len(used) * column + _PAD, y


def _family(detail: OpEstimate) -> str:
    return CLASSES[detail.op.op_class].family


def _legend(families: Iterable[str], stalls: bool) -> list[str]:
    entries = [(name, _FILL[name]) for name in families]
    if stalls:
        entries += [("empty slot", "url(#empty)"), ("stall: nothing issues", "url(#stall)")]
    out, x = [], float(_PAD)
    for name, fill in entries:
        out.append(f'<rect x="{x:.1f}" y="4" width="14" height="14" rx="2" fill="{fill}" stroke="#d1d5da"/>')
        out.append(_text(x + 20, 15, name, fill=FAINT))
        x += 20 + len(name) * _CHAR + 18
    return out


def _hatch(name: str, ground: str, line: str) -> str:
    return (
        f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="6" height="6" fill="{ground}"/><path d="M0 0V6" stroke="{line}" stroke-width="1.5"/></pattern>'
    )


def _box(
    x: float, y: float, width: float, height: float, fill: str, hover: str, inner: str = "", attributes: str = ""
) -> str:
    rect = (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" fill="{fill}" {attributes}/>'
    )
    return f"<g><title>{xml_text(hover)}</title>{rect}{inner}</g>"


def _text(
    x: float, y: float, text: str, fill: str = INK, anchor: str = "start", size: int = 12, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}" xml:space="preserve">{xml_text(text)}</text>'
    )
