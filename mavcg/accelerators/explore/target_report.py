"""Report of an exploration of accelerators with an instruction set: JSON, a table and a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.accelerators.explore.picture import draw_points
from mavcg.accelerators.explore.report import MOST_ROWS
from mavcg.accelerators.explore.target_exploration import TargetExploration
from mavcg.accelerators.simulator.report import ENERGY_BASIS

if TYPE_CHECKING:
    from rich.console import Console

UNITS = {
    "latency": "s",
    "energy": "J",
    "traffic": "bytes",
    "macs": "multiply-add units",
    "memory": "bytes",
    "bandwidth": "GB/s",
    "frequency": "MHz",
}


def target_exploration_json(result: TargetExploration) -> dict[str, Any]:
    """Return counts, seconds and the front, like exploration_json.

    Metrics: latency in seconds, energy in joules, traffic in DDR bytes, for one image of each network on one core;
    macs: multiply-add units; memory: on-chip bytes; bandwidth in GB/s, frequency in MHz.
    """
    return {
        **result.counts("simulations"),
        "search": result.space.search,
        "energy_assumes": ENERGY_BASIS,
        "front": [
            {
                "point": result.space.point(i),
                "metrics": {**result.metrics[i], "networks": dict(result.figures[i])},
            }
            for i in result.front
        ],
        "seconds": round(result.seconds, 3),
    }


def draw_targets(result: TargetExploration, path: Path) -> None:
    """Draw the simulated targets and their front. Raises: MavcgError as draw_front."""
    draw_points(result, UNITS, f"simulated, {result.space.base.name} changed", path)


def show_target_exploration(result: TargetExploration, out: "Console") -> None:
    """Print the front, fastest first, with the keys that differ between points."""
    from rich.table import Table

    varied = [axis.key for axis in result.space.axes if len(axis.values) > 1]
    front = result.fastest_first()
    title = f"{len(front)} of {len(result.points)} targets are on the front of {', '.join(result.objectives)}"
    table = Table(title=title, title_justify="left", box=None)
    for heading in (*varied, "latency ms", "multiply-adds", "KiB on chip", "energy mJ", "DDR MB"):
        table.add_column(heading, justify="right")
    for i in front[:MOST_ROWS]:
        point, metrics = result.space.point(i), result.metrics[i]
        table.add_row(
            *(f"{point[key]:g}" for key in varied),
            f"{metrics['latency'] * 1e3:.3f}",
            f"{metrics['macs']:.0f}",
            f"{metrics['memory'] / 1024:.0f}",
            f"{metrics['energy'] * 1e3:.3f}",
            f"{metrics['traffic'] / 1e6:.1f}",
        )
    out.print(table)
    if len(front) > MOST_ROWS:
        out.print(f".. and {len(front) - MOST_ROWS} more: --json, or the table points of the file of -o")
    out.print(
        f"{result.planned_count} targets simulated ({result.infeasible_count} too small for some node), "
        f"{result.pruned_count} left out by bounds; {result.computed} simulations, {result.seconds:.1f} s. "
        f"Energy: {ENERGY_BASIS}."
    )
