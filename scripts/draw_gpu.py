"""Draw the picture of docs/gpu.md from the rows of bench.accelerators.gpu: kernels, predictions and cuDNN."""

from collections.abc import Sequence

from bench.rows import measured
from scripts.log_axes import APART, HEIGHT, LEFT, TOP, WIDTH, axes, circle, line, log_scale
from scripts.svg_shapes import ACCENT, LINE, svg, text

_FILLS = {"f32": LINE, "f16": ACCENT, "i8": "#8fb0cf"}


def gpu() -> str:
    """Return the picture: measured over predicted milliseconds of every kernel; f32 and f16 over cuDNN's."""
    rows = measured("gpu")["rows"]
    predicted = [(row["type"], row["predicted_ms"], row["ms"]) for row in rows]
    peers = [
        (row["type"], peer, row["ms"])
        for row in rows
        if (peer := row.get("cudnn_f32_ms" if row["type"] == "f32" else "cudnn_f16_ms")) is not None
    ]
    right = LEFT + WIDTH + APART
    parts = [
        *_panel(LEFT, predicted, "predicted ms", f"{len(predicted)} kernels on an H100: measured ms"),
        *_panel(right, peers, "cuDNN's ms, the same type", f"{len(peers)} layers beside cuDNN: measured ms"),
    ]
    for number, (name, fill) in enumerate(_FILLS.items()):
        at = right - APART / 2 - 60 + 50 * number
        parts.append(f'<circle cx="{at:g}" cy="{TOP + HEIGHT + 54:g}" r="4" fill="{fill}"/>')
        parts.append(text(at + 8, TOP + HEIGHT + 58, name))
    return svg(right + WIDTH + 40, TOP + HEIGHT + 70, parts, "CUDA kernels: prediction and measurement; cuDNN")


def _panel(left: float, points: Sequence[tuple[str, float, float]], label: str, title: str) -> list[str]:
    values = [value for _, *both in points for value in both]
    scale = log_scale(values)
    parts = axes(left, label, title, scale, scale)
    parts.append(line(left, [(0, 0), (1, 1)], f'stroke="{LINE}" stroke-dasharray="4 3"'))
    return parts + [circle(left, scale.place(x), scale.place(y), 2.2, _FILLS[name]) for name, x, y in points]
