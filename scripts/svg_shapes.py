"""Shapes of the pictures as SVG text: boxes, arrows, lines of text, whole drawings."""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

BOX, SHADE, LINE, ACCENT = "#eef3f8", "#dbe7f3", "#43627f", "#c2571a"
_CHAR = 7.6  # px of a bold character at 12 px, on average; a box is wide enough for its longest line


@dataclass(frozen=True)
class Box:
    """A rectangle with centred lines of text: x, y of its upper left corner, width and height, in px."""

    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]
    fill: str = BOX


def svg(width: float, height: float, parts: Sequence[str], title: str) -> str:
    """Return a whole drawing of `width` x `height` px on white, with the arrow head that `arrow` uses."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" font-size="12">\n<title>{escape(title)}</title>\n'
        f'<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{LINE}"/></marker></defs>\n'
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"


def box(b: Box) -> str:
    """Return a rectangle with its lines of text, the first in bold."""
    top = b.y + b.height / 2 - 7.5 * (len(b.lines) - 1) + 4
    parts = [
        f'<rect x="{b.x:g}" y="{b.y:g}" width="{b.width:g}" height="{b.height:g}" rx="4" fill="{b.fill}" '
        f'stroke="{LINE}"/>'
    ]
    for i, line in enumerate(b.lines):
        weight = ' font-weight="bold"' if i == 0 else ' font-size="11"'
        parts.append(text(b.x + b.width / 2, top + 15 * i, line, "middle", weight))
    return "\n".join(parts)


def text(x: float, y: float, words: str, anchor: str = "start", style: str = "") -> str:
    """Return a line of text whose baseline begins, has its middle or ends at x, y."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{style}>{escape(words)}</text>'


def arrow(*points: tuple[float, float]) -> str:
    """Return a line through the points with a head at the last."""
    path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.3" marker-end="url(#head)"/>'


def row_of_boxes(x: float, y: float, texts: Sequence[Sequence[str]], height: float = 44, gap: float = 22) -> list[Box]:
    """Return boxes side by side, each as wide as its longest line needs."""
    boxes: list[Box] = []
    for lines in texts:
        width = max(len(line) for line in lines) * _CHAR + 16
        boxes.append(Box(x, y, width, height, tuple(lines)))
        x += width + gap
    return boxes


def chain(boxes: Sequence[Box]) -> list[str]:
    """Return boxes side by side with an arrow from each to the next."""
    arrows = [
        arrow((a.x + a.width, a.y + a.height / 2), (b.x, b.y + b.height / 2))
        for a, b in zip(boxes, boxes[1:], strict=False)
    ]
    return [*map(box, boxes), *arrows]
