"""Draw the picture of docs/exploring.md: a front of a small space, and how an exploration scales over workers."""

import json
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from mavcg.explore.engine import LocalEngine
from mavcg.explore.exploration import explore
from mavcg.explore.objectives import read_objectives
from mavcg.explore.space_file import read_space
from mavcg.explore.store import ExplorationStore
from mavcg.explore.workload import workload_of
from mavcg.planner.accelerators.request import read_layers
from scripts.draw_pictures import ACCENT, LINE, svg, text
from scripts.floors import ROOT

SPACE = """[accelerator]
mem_size = [[64, 64, 64], [128, 64, 128], [256, 128, 256], [512, 256, 512], [1024, 512, 1024]]
pe_len = [[4, 8], [8, 8], [8, 16], [16, 16], [16, 32]]
pe_mapping = [[["IC"], ["OC"]], [["OC"], ["OW"]]]
bandwidth = [2, 8]
frequency = [0.25, 0.5]
"""
LEFT, TOP, WIDTH, HEIGHT, APART = 62.0, 40.0, 270.0, 210.0, 96.0


def exploring() -> str:
    """Return the picture: latency over area of SqueezeNet's machines; simulated speed-up over workers."""
    parts = [*_front(), *_workers()]
    return svg(
        2 * WIDTH + LEFT + APART + 40, TOP + HEIGHT + 50, parts, "A front of accelerators; speed-up over workers"
    )


def _front() -> list[str]:
    workload = workload_of({"squeezenet": read_layers("squeezenet", {}, False)})
    with tempfile.TemporaryDirectory() as folder, ExplorationStore(None) as store:
        path = Path(folder) / "space.toml"
        path.write_text(SPACE)
        objectives = read_objectives("latency,area", workload.networks)
        result = explore(read_space(path), workload, objectives, LocalEngine(), store, prune=False)
    planned = [n for n in range(result.space.points) if result.states[n // result.space.rates] == "planned"]
    values = {n: (result.figures(n).figures["area"], 1e3 * result.figures(n).figures["latency"]) for n in planned}
    x, y = (_log_scale([v[i] for v in values.values()]) for i in (0, 1))
    parts = _axes(LEFT, "area, mm2", f"SqueezeNet on {len(planned)} machines: latency, ms (modelled)", x, y)
    for n, (area, latency) in values.items():
        on_front = n in result.front
        parts.append(
            f'<circle cx="{LEFT + WIDTH * x.place(area):.1f}" cy="{TOP + HEIGHT * (1 - y.place(latency)):.1f}" '
            f'r="{3.2 if on_front else 2}" fill="{ACCENT if on_front else "#b9c6d2"}"/>'
        )
    return parts


def _workers() -> list[str]:
    record = json.loads((ROOT / "bench" / "results" / "explore.json").read_text())
    first = record["simulated"][0]["seconds"]
    points = [(row["workers"], first / row["seconds"]) for row in record["simulated"]]
    x, y = _log_scale([1, 1000]), _log_scale([1, 1000])
    left = LEFT + WIDTH + APART
    title = f"Speed-up of {record['points']:,} points x {len(record['networks'])} networks (simulated)"
    parts = _axes(left, "workers", title, x, y)

    def line(values: Sequence[tuple[float, float]], style: str) -> str:
        ends = [f"{left + WIDTH * x.place(a):.1f} {TOP + HEIGHT * (1 - y.place(b)):.1f}" for a, b in values]
        return f'<path d="M{" L".join(ends)}" fill="none" {style}/>'

    parts.append(line([(1, 1), (1000, 1000)], f'stroke="{LINE}" stroke-dasharray="4 3"'))
    parts.append(line(points, f'stroke="{ACCENT}" stroke-width="2"'))
    return parts


class _LogScale:
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


def _log_scale(values: Sequence[float]) -> _LogScale:
    low, high = min(values), max(values)
    margin = 1.0 if (low, high) == (1, 1000) else 1.08
    return _LogScale(low / margin, high * margin)


def _axes(left: float, label: str, title: str, x: _LogScale, y: _LogScale) -> list[str]:
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
