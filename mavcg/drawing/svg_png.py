"""Draw SVG that mavcg wrote as PNG: matplotlib draws the elements that these drawings consist of.

Source: SVG 1.1, W3C: rect, circle, path of M, H and V, text, g with translate, and patterns as hatched fills.
"""

import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PX_PER_INCH = 100
_SCALE = 2  # pixels of the PNG for a unit of the drawing, as long as the picture stays below _MOST_PX
_MOST_PX = 30_000  # along a side; matplotlib's own limit is 2^16
_POINTS = 72 / _PX_PER_INCH
_UNDRAWN = ("title", "defs")
_PATH_STEP = re.compile(r"([MHV])\s*([-\d.]+)(?:[ ,]+([-\d.]+))?")
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def png_of(svg: str) -> bytes:
    """Draw an SVG as a PNG with two pixels per unit, or fewer if the picture is very large.

    Raises: ValueError for an element that mavcg's drawings do not have.
    """
    from matplotlib.figure import Figure

    root = ElementTree.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    figure = Figure(figsize=(width / _PX_PER_INCH, height / _PX_PER_INCH))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set(xlim=(0, width), ylim=(height, 0))
    family = "DejaVu Sans Mono" if "monospace" in root.get("font-family", "") else "DejaVu Sans"
    _Canvas(axes, width, height, _hatches(root), family, float(root.get("font-size", "12"))).draw(root, 0.0, 0.0)
    out = io.BytesIO()
    scale = min(_SCALE, _MOST_PX / max(width, height))
    figure.savefig(out, format="png", dpi=_PX_PER_INCH * scale, metadata={"Software": None})
    return out.getvalue()


@dataclass(frozen=True)
class _Hatch:
    """A pattern. ground: colour of its background. line: colour of its lines."""

    ground: str
    line: str


@dataclass(frozen=True)
class _Canvas:
    """The target of a drawing, with the properties that elements inherit. hatches: patterns by name."""

    axes: "Axes"
    width: float
    height: float
    hatches: Mapping[str, _Hatch]
    family: str
    font_size: float

    def draw(self, group: ElementTree.Element, x: float, y: float) -> None:
        """Draw the elements of a group, moved by x and y."""
        for element in group:
            name = element.tag.rpartition("}")[2]
            if name == "g":
                moved = re.fullmatch(
                    r"translate\(([-\d.]+)[ ,]+([-\d.]+)\)", element.get("transform", "translate(0 0)")
                )
                if moved is None:
                    raise ValueError(f"transform {element.get('transform')}")
                self.draw(element, x + float(moved[1]), y + float(moved[2]))
            elif name == "rect":
                self._rect(element, x, y)
            elif name == "circle":
                self._circle(element, x, y)
            elif name == "path":
                self._path(element, x, y)
            elif name == "text":
                self._text(element, x, y)
            elif name not in _UNDRAWN:
                raise ValueError(f"element {name}")

    def _rect(self, element: ElementTree.Element, x: float, y: float) -> None:
        from matplotlib.patches import Rectangle

        corner = x + float(element.get("x", "0")), y + float(element.get("y", "0"))
        width = _length(element.attrib["width"], self.width)
        height = _length(element.attrib["height"], self.height)
        style: dict[str, Any] = {"linewidth": 0, "alpha": float(element.get("fill-opacity", "1"))}
        fill = element.attrib["fill"]
        hatched = re.fullmatch(r"url\(#(\w+)\)", fill)
        if hatched is not None:
            hatch = self.hatches[hatched[1]]
            style |= {"facecolor": hatch.ground, "edgecolor": hatch.line, "hatch": "////"}
        else:
            style["facecolor"] = fill
        if element.get("stroke") and hatched is None:
            style |= {"edgecolor": element.attrib["stroke"], "linewidth": _stroke(element)}
        self.axes.add_patch(Rectangle(corner, width, height, **style))

    def _circle(self, element: ElementTree.Element, x: float, y: float) -> None:
        from matplotlib.patches import Circle

        at = x + float(element.attrib["cx"]), y + float(element.attrib["cy"])
        self.axes.add_patch(Circle(at, float(element.attrib["r"]), facecolor=element.attrib["fill"], linewidth=0))

    def _path(self, element: ElementTree.Element, x: float, y: float) -> None:
        description = element.attrib["d"]
        if _PATH_STEP.sub("", description).strip():
            raise ValueError(f"path {description}")
        points: list[tuple[float, float]] = []
        for step, first, second in _PATH_STEP.findall(description):
            if step == "M":
                points.append((x + float(first), y + float(second)))
            else:
                points.append((x + float(first), points[-1][1]) if step == "H" else (points[-1][0], y + float(first)))
        dashes = element.get("stroke-dasharray")
        style = (0, tuple(float(length) for length in dashes.split())) if dashes else "solid"
        self.axes.plot(
            *zip(*points, strict=True), color=element.attrib["stroke"], linewidth=_stroke(element), linestyle=style
        )

    def _text(self, element: ElementTree.Element, x: float, y: float) -> None:
        self.axes.text(
            x + float(element.attrib["x"]),
            y + float(element.attrib["y"]),
            element.text or "",
            color=element.get("fill", "black"),
            ha=_ANCHORS[element.get("text-anchor", "start")],
            va="baseline",
            fontsize=float(element.get("font-size", self.font_size)) * _POINTS,
            fontweight=element.get("font-weight", "normal"),
            family=self.family,
            parse_math=False,
        )


def _hatches(root: ElementTree.Element) -> dict[str, _Hatch]:
    hatches = {}
    for pattern in (element for element in root.iter() if element.tag.endswith("}pattern")):
        ground, line = pattern
        hatches[pattern.attrib["id"]] = _Hatch(ground.attrib["fill"], line.attrib["stroke"])
    return hatches


def _length(text: str, whole: float) -> float:
    return whole * float(text[:-1]) / 100 if text.endswith("%") else float(text)


def _stroke(element: ElementTree.Element) -> float:
    return float(element.get("stroke-width", "1")) * _POINTS
