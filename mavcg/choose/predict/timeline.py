"""A prediction as an SVG picture: the steps of a run one after the other, with a lane for each cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.choose.predict.predict import Prediction
from mavcg.choose.predict.report import ARE, best_sentence, slower_sets
from mavcg.drawing.svg_plots import FAINT, INK, save_drawing
from mavcg.text.safe_text import xml_attribute, xml_text

_WIDTH, _LEFT, _PAD, _LANE, _GAP = 1180.0, 190.0, 16.0, 34.0, 14.0
# By what bounds a step; they differ in lightness, too. Patterns of black on them stay readable.
_FILL = {"compute": "#90caf9", "memory": "#ffb74d", "overhead": "#cfd8dc", "measured": "#a5d6a7"}
_LABEL_CHAR = 6.6  # of the 11 px font


@dataclass(frozen=True)
class Bar:
    """A step in a lane. kind: the resource that bounds it, or "measured"."""

    label: str
    ms: float
    kind: str
    hover: str


@dataclass(frozen=True)
class Lane:
    """A row of the picture."""

    title: str
    bars: tuple[Bar, ...]

    @property
    def ms(self) -> float:
        """Total time of the lane."""
        return sum(bar.ms for bar in self.bars)


def lanes_of(prediction: Prediction, measured: Sequence[float] | None = None) -> tuple[Lane, ...]:
    """Return one core of each cluster, then the chosen threads if several, then the measured times."""
    lanes = []
    for label in prediction.clusters:
        bars = []
        for layer in prediction.layers:
            cost = layer.on[label]
            parts = f"compute {cost.compute_ms:.4f}, memory {cost.memory_ms:.4f}, overhead {cost.overhead_ms:.4f}"
            hover = f"{layer.work.name} ({layer.work.op}): {cost.ms:.4f} ms predicted; {parts}"
            bars.append(Bar(layer.work.name, cost.ms, cost.bound, hover))
        lanes.append(Lane(f"1 {label}", tuple(bars)))
    if prediction.chosen.threads > 1:
        lanes.append(
            Lane(
                f"{prediction.chosen.threads} threads",
                tuple(
                    Bar(
                        layer.work.name,
                        layer.ms,
                        layer.bound,
                        f"{layer.work.name} ({layer.work.op}): {layer.ms:.4f} ms predicted with "
                        f"{prediction.chosen.words}",
                    )
                    for layer in prediction.layers
                ),
            )
        )
    if measured is not None:
        bars = [
            Bar(
                layer.work.name,
                ms,
                "measured",
                f"{layer.work.name} ({layer.work.op}): {ms:.4f} ms measured, {layer.ms:.4f} predicted",
            )
            for layer, ms in zip(prediction.layers, measured, strict=True)
        ]
        count = prediction.chosen.threads
        lanes.append(Lane(f"measured, {count} thread{'s' if count > 1 else ''}", tuple(bars)))
    return tuple(lanes)


def timeline_svg(prediction: Prediction, measured: Sequence[float] | None = None) -> str:
    """Return the picture as an SVG document. All lanes have one scale; hovering over a bar says which step it is."""
    lanes = lanes_of(prediction, measured)
    longest = max((lane.ms for lane in lanes), default=0.0)
    scale = (_WIDTH - _LEFT - 90) / longest if longest else 0.0
    shown = (
        f"predicted timeline of a run ({ARE})" if measured is None else "a run as predicted (modelled) and as measured"
    )
    title = f"{prediction.model} on {prediction.board}: {shown}"
    notes = [*slower_sets(prediction), best_sentence(prediction)]
    top = 84.0
    height = top + len(lanes) * (_LANE + _GAP) + 30 + 18 * len(notes) + _PAD
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" aria-label={xml_attribute(title)} '
        'font-family="ui-sans-serif, \'DejaVu Sans\', sans-serif" font-size="11">',
        f"<title>{xml_text(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _text(_PAD, 26, title, size=15, weight="bold"),
        *_legend(measured is not None),
    ]
    for number, lane in enumerate(lanes):
        out += _lane(lane, top + number * (_LANE + _GAP), scale)
    bottom = top + len(lanes) * (_LANE + _GAP)
    out += _axis(longest, scale, top, bottom)
    out += [_text(_PAD, bottom + 40 + 18 * number, note, fill=FAINT) for number, note in enumerate(notes)]
    return "\n".join([*out, "</svg>", ""])


def write_timeline(prediction: Prediction, measured: Sequence[float] | None, path: Path) -> None:
    """Write the picture, .svg or .png, atomically. Raises: MavcgError if it cannot be written."""
    save_drawing(timeline_svg(prediction, measured), path)


def _lane(lane: Lane, y: float, scale: float) -> list[str]:
    out = [_text(_LEFT - 10, y + _LANE / 2 + 4, lane.title, anchor="end", weight="bold")]
    x = _LEFT
    for bar in lane.bars:
        width = bar.ms * scale
        shown = bar.label if len(bar.label) * _LABEL_CHAR + 6 < width else ""
        label = _text(x + 4, y + _LANE / 2 + 4, shown) if shown else ""
        out.append(
            f"<g><title>{xml_text(bar.hover)}</title>"
            f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{_LANE:.1f}" fill="{_FILL[bar.kind]}" '
            f'stroke="#ffffff" stroke-width="{0.6 if width > 3 else 0.0}"/>{label}</g>'
        )
        x += width
    out.append(_text(x + 6, y + _LANE / 2 + 4, f"{lane.ms:.3f} ms", fill=FAINT))
    return out


def _axis(longest: float, scale: float, top: float, bottom: float) -> list[str]:
    if not longest:
        return []
    step = 10.0 ** len(str(int(longest))) / 10
    while longest / step < 4:
        step /= 2
    out = []
    for number in range(int(longest / step) + 1):
        x = _LEFT + number * step * scale
        out.append(f'<path d="M{x:.1f} {top - 6:.1f}V{bottom:.1f}" stroke="#d1d5da" stroke-width="0.5"/>')
        out.append(_text(x, bottom + 14, f"{number * step:g} ms", fill=FAINT, anchor="middle"))
    return out


def _legend(measured: bool) -> list[str]:
    out, x = [], _PAD
    for kind in [*("compute", "memory", "overhead"), *(("measured",) if measured else ())]:
        words = kind if kind == "measured" else f"predicted, bound by {kind}"
        out.append(f'<rect x="{x:.1f}" y="42" width="14" height="14" fill="{_FILL[kind]}" stroke="#d1d5da"/>')
        out.append(_text(x + 20, 53, words, fill=FAINT))
        x += 34 + len(words) * _LABEL_CHAR
    return out


def _text(
    x: float, y: float, text: str, fill: str = INK, anchor: str = "start", size: int = 11, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}">{xml_text(text)}</text>'
    )
