"""Panels of pictures with two logarithmic axes."""

import math
from collections.abc import Callable, Sequence

from scripts.svg_shapes import LINE, text

LEFT, TOP, WIDTH, HEIGHT, APART = 62.0, 40.0, 270.0, 210.0, 96.0  # of a panel, and between two, in px


class LogScale:
    """A logarithmic axis from `low` to `high`. place: 0 to 1."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def place(self, value: float) -> float:
        """Return the part of the axis below a value."""
        return math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[float]:
        """Return round values on the axis."""
        values = [m * 10.0**e for e in range(-4, 7) for m in ((1, 3) if self.high / self.low < 200 else (1,))]
        return [value for value in values if self.low <= value <= self.high]


def log_scale(values: Sequence[float]) -> LogScale:
    """Return an axis for these values, a little longer than they need."""
    low, high = min(values), max(values)
    margin = 1.0 if (low, high) == (1, 1000) else 1.08
    return LogScale(low / margin, high * margin)


def axes(left: float, label: str, title: str, x: LogScale, y: LogScale) -> list[str]:
    """Return the axes of a panel at `left` with their ticks. label: of the horizontal one; title: says the other."""
    bottom = TOP + HEIGHT
    parts = [
        text(left - 20, 20, title, style=' font-weight="bold" font-size="11"'),
        f'<path d="M{left:g} {TOP:g} V{bottom:g} H{left + WIDTH:g}" fill="none" stroke="{LINE}"/>',
        text(left + WIDTH / 2, bottom + 38, label, "middle"),
    ]
    words: Callable[[float], str] = lambda value: f"{value:,.10g}"  # noqa: E731
    parts += [text(left + WIDTH * x.place(v), bottom + 17, words(v), "middle") for v in x.ticks()]
    parts += [text(left - 7, TOP + HEIGHT * (1 - y.place(v)) + 4, words(v), "end") for v in y.ticks()]
    return parts


def circle(left: float, x: float, y: float, radius: float, fill: str) -> str:
    """Return a dot at parts x and y of a panel's axes."""
    return f'<circle cx="{left + WIDTH * x:.1f}" cy="{TOP + HEIGHT * (1 - y):.1f}" r="{radius:g}" fill="{fill}"/>'


def line(left: float, points: Sequence[tuple[float, float]], style: str) -> str:
    """Return a line through parts of a panel's axes."""
    ends = [f"{left + WIDTH * x:.1f} {TOP + HEIGHT * (1 - y):.1f}" for x, y in points]
    return f'<path d="M{" L".join(ends)}" fill="none" {style}/>'
