"""Report of an exploration of accelerators with an instruction set: JSON, a table and a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mavcg.accelerators.explore.exploration import INFEASIBLE, PRUNED
from mavcg.accelerators.explore.picture import draw_front
from mavcg.accelerators.explore.report import MOST_ROWS
from mavcg.accelerators.explore.target_exploration import TargetExploration, point_values, sum_figures, target_figures
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
    targets = list(result.space.targets())
    pruned = result.states.count(PRUNED)
    return {
        "points": len(targets),
        "planned": len(targets) - pruned,
        "pruned": pruned,
        "infeasible": result.states.count(INFEASIBLE),
        "simulations": result.simulations,
        "objectives": list(result.objectives),
        "search": result.space.search,
        "energy_assumes": ENERGY_BASIS,
        "front": [
            {
                "point": result.space.point(i),
                "metrics": {
                    **sum_figures(result.figures[i]),
                    **target_figures(targets[i]),
                    "networks": dict(result.figures[i]),
                },
            }
            for i in result.front
        ],
        "seconds": round(result.seconds, 3),
    }


def draw_targets(result: TargetExploration, path: Path) -> None:
    """Draw the simulated targets and their front. Raises: MavcgError as draw_front."""
    targets = list(result.space.targets())
    numbers = sorted(result.figures)
    values = np.array([point_values(targets[i], result.figures[i], result.objectives) for i in numbers])
    labels = [f"{word} ({UNITS[word.partition(':')[0]]})" for word in result.objectives]
    title = f"{', '.join(result.networks)}: simulated, {result.space.base.name} changed"
    front = [numbers.index(i) for i in result.front]
    draw_front(values.reshape(-1, len(labels)), front, labels, title, path)


def show_target_exploration(result: TargetExploration, out: "Console") -> None:
    """Print the front, fastest first, with the keys that differ between points."""
    from rich.table import Table

    targets = list(result.space.targets())
    varied = [axis.key for axis in result.space.axes if len(axis.values) > 1]
    front = sorted(result.front, key=lambda i: sum_figures(result.figures[i])["latency"])
    title = f"{len(front)} of {len(targets)} targets are on the front of {', '.join(result.objectives)}"
    table = Table(title=title, title_justify="left", box=None)
    for heading in (*varied, "latency ms", "multiply-adds", "KiB on chip", "energy mJ", "DDR MB"):
        table.add_column(heading, justify="right")
    for i in front[:MOST_ROWS]:
        point, sums, own = result.space.point(i), sum_figures(result.figures[i]), target_figures(targets[i])
        table.add_row(
            *(f"{point[key]:g}" for key in varied),
            f"{sums['latency'] * 1e3:.3f}",
            f"{own['macs']:.0f}",
            f"{own['memory'] / 1024:.0f}",
            f"{sums['energy'] * 1e3:.3f}",
            f"{sums['traffic'] / 1e6:.1f}",
        )
    out.print(table)
    if len(front) > MOST_ROWS:
        out.print(f".. and {len(front) - MOST_ROWS} more: --json, or the table points of the file of -o")
    pruned = result.states.count(PRUNED)
    out.print(
        f"{len(targets) - pruned} targets simulated ({result.states.count(INFEASIBLE)} too small for some node), "
        f"{pruned} left out by bounds; {result.simulations} simulations, {result.seconds:.1f} s. "
        f"Energy: {ENERGY_BASIS}."
    )
