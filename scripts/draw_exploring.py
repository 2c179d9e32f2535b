"""Draw the pictures of docs/exploring.md: a front of a small space, how exploring scales over workers; boards."""

import tempfile
from pathlib import Path
from typing import Any

from bench import records
from bench.records import RESULTS
from bench.rows import measured
from mavcg.accelerators.explore.exploration import explore
from mavcg.accelerators.explore.objectives import read_objectives
from mavcg.accelerators.explore.space_file import read_space
from mavcg.accelerators.explore.store import ExplorationStore
from mavcg.accelerators.explore.workload import workload_of
from mavcg.accelerators.plans.request import read_layers
from mavcg.lab.jobs.engine import LocalEngine
from scripts.log_axes import APART, HEIGHT, LEFT, TOP, WIDTH, axes, circle, line, log_scale
from scripts.svg_shapes import ACCENT, LINE, svg, text

SPACE = """[accelerator]
mem_size = [[64, 64, 64], [128, 64, 128], [256, 128, 256], [512, 256, 512], [1024, 512, 1024]]
pe_len = [[4, 8], [8, 8], [8, 16], [16, 16], [16, 32]]
pe_mapping = [[["IC"], ["OC"]], [["OC"], ["OW"]]]
bandwidth = [2, 8]
frequency = [0.25, 0.5]
"""


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
    x, y = (log_scale([v[i] for v in values.values()]) for i in (0, 1))
    parts = axes(LEFT, "area, mm2", f"SqueezeNet on {len(planned)} machines: latency, ms (modelled)", x, y)
    for n, (area, latency) in values.items():
        radius, fill = (3.2, ACCENT) if n in result.front else (2.0, "#b9c6d2")
        parts.append(circle(LEFT, x.place(area), y.place(latency), radius, fill))
    return parts


def _workers() -> list[str]:
    (table,) = records.read(RESULTS / "explore.json").tables
    points = [(int(row[0]), float(row[2])) for row in table.rows]
    x, y = log_scale([1, 1000]), log_scale([1, 1000])
    left = LEFT + WIDTH + APART
    title = "Speed-up of 100,000 points x 5 networks (simulated)"
    parts = axes(left, "workers", title, x, y)

    ends = [(x.place(a), y.place(b)) for a, b in points]
    parts.append(
        line(
            left, [(x.place(1), y.place(1)), (x.place(1000), y.place(1000))], f'stroke="{LINE}" stroke-dasharray="4 3"'
        )
    )
    parts.append(line(left, ends, f'stroke="{ACCENT}" stroke-width="2"'))
    return parts


BOARD_COLOURS = ("#7a9cbf", "#3f6f4f", "#8a6fb0", "#c9a227")


def exploring_boards() -> str:
    """Return the picture of the board space: latency over power by mix of cores, with the front as a line."""
    record = measured("explore_boards")
    rows = record["planned"]
    x, y = (log_scale([row[key] for row in rows]) for key in ("power_w", "latency_ms"))
    title = f"SqueezeNet on {record['points']} boards, at most {record['budget_w']:g} W: latency, ms (modelled)"
    parts = axes(LEFT, "cores at work, W (published, CoreMark)", title, x, y)
    front = sorted((row["power_w"], row["latency_ms"]) for row in rows if row["front"])
    steps = [front[0]]
    for power, latency in front[1:]:
        steps += [(power, steps[-1][1]), (power, latency)]
    parts.append(line(LEFT, [(x.place(a), y.place(b)) for a, b in steps], f'stroke="{ACCENT}" stroke-width="1.5"'))
    mixes = list(dict.fromkeys(_mix(row) for row in rows))
    for row in rows:
        fill = BOARD_COLOURS[mixes.index(_mix(row)) % len(BOARD_COLOURS)]
        parts.append(circle(LEFT, x.place(row["power_w"]), y.place(row["latency_ms"]), 3.2, fill))
    for n, mix in enumerate(mixes):
        bottom = TOP + 16 + 18 * n
        parts.append(f'<circle cx="{LEFT + WIDTH + 24:g}" cy="{bottom - 4:g}" r="4" fill="{BOARD_COLOURS[n]}"/>')
        parts.append(text(LEFT + WIDTH + 36, bottom, mix))
    parts.append(text(LEFT + WIDTH + 36, TOP + 16 + 18 * len(mixes), "line: what no other board beats"))
    return svg(LEFT + WIDTH + 260, TOP + HEIGHT + 50, parts, "Boards within a power budget: latency over power")


def _mix(row: dict[str, Any]) -> str:
    return ", ".join(f"{count} {core}" for core, count in row["board"]["mix"].items())
