"""Report of an exploration of accelerators as JSON and a table; pictures of the points and front of any exploration."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mavcg.accelerators.explore.exploration import INFEASIBLE, PRUNED, Exploration
from mavcg.accelerators.explore.objectives import objective_values
from mavcg.accelerators.explore.pareto import Floats
from mavcg.accelerators.explore.point_exploration import PointExploration
from mavcg.drawing.svg_plots import save_plot, start_plots
from mavcg.text.safe_text import plot_label

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


MOST_ROWS = 40  # rows of the front in a table; JSON and the database have all
MOST_POINTS = 4000  # points drawn besides the front; of more points, a regular sample


def exploration_json(result: Exploration) -> dict[str, Any]:
    """Return counts, seconds and the front, each point in the form of an accelerator's file.

    Metrics: latency in seconds, energy in joules, traffic in off-chip bytes, all for one run of each network; area in
    mm2; networks: the first three for each network.
    """
    front = [result.figures(number) for number in result.front]
    return {
        "points": result.space.points,
        "planned": result.planned_points,
        "pruned": result.count(PRUNED),
        "infeasible": result.count(INFEASIBLE),
        "searches": result.searches,
        "objectives": [objective.text for objective in result.objectives],
        "technology": result.space.technology.name,
        "front": [
            {"point": result.space.point(f.number), "metrics": {**f.figures, "networks": f.networks}} for f in front
        ],
        "seconds": round(result.seconds, 3),
    }


def show_exploration(result: Exploration, out: "Console") -> None:
    """Print the front, fastest first, with the keys that differ between points."""
    from rich.table import Table

    varied = [axis.key for axis in result.space.axes if len(axis.values) > 1]
    front = sorted((result.figures(number) for number in result.front), key=lambda f: f.figures["latency"])
    objectives = ", ".join(objective.text for objective in result.objectives)
    title = f"{len(front)} of {result.space.points} points are on the front of {objectives}"
    table = Table(title=title, title_justify="left", box=None)
    for key in varied:
        table.add_column(key)
    for heading in ("latency ms", "area mm2", "energy mJ", "traffic MB"):
        table.add_column(heading, justify="right")
    for row in front[:MOST_ROWS]:
        point, figures = result.space.point(row.number), row.figures
        table.add_row(
            *(_text(point[key]) for key in varied),
            f"{figures['latency'] * 1e3:.3f}",
            f"{figures['area']:.3f}",
            f"{figures['energy'] * 1e3:.3f}",
            f"{figures['traffic'] / 1e6:.1f}",
        )
    print_front(table, len(front), out)
    out.print(
        f"{result.planned_points} points planned ({result.count(INFEASIBLE)} without a tiling for some layer), "
        f"{result.count(PRUNED)} left out by bounds; {result.searches} searches, {result.seconds:.1f} s. "
        f"Figures are the model's; energy and area by {result.space.technology.name}."
    )


def print_front(table: "Table", points: int, out: "Console") -> None:
    """Print a table with the first MOST_ROWS of the points on a front, and how many more there are."""
    out.print(table)
    if points > MOST_ROWS:
        out.print(f".. and {points - MOST_ROWS} more: --json, or the table points of the file of -o")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " x ".join(_text(item) if not isinstance(item, list) else "+".join(item) or "-" for item in value)
    return str(value)


def write_picture(result: Exploration, path: Path) -> None:
    """Draw an exploration's planned points and its front. Raises: MavcgError as draw_front."""
    values = objective_values(result.metrics, result.objectives).reshape(-1, len(result.objectives))
    rates = result.space.rates
    front = [result.rows[number // rates] * rates + number % rates for number in result.front]
    title = f"{', '.join(result.workload.networks)}: modelled, {result.space.technology.name}"
    draw_front(values, front, [f"{o.text} ({o.unit})" for o in result.objectives], title, path)


def draw_points(result: PointExploration[Any, Any], units: Mapping[str, str], title: str, path: Path) -> None:
    """Draw the planned points of an exploration and their front. units: by objective. Raises: MavcgError as draw_front.

    title: what follows the networks' names.
    """
    numbers = sorted(result.figures)
    values = np.array([result.values(number) for number in numbers]).reshape(-1, len(result.objectives))
    labels = [f"{word} ({units[word.partition(':')[0]]})" for word in result.objectives]
    front = [numbers.index(number) for number in result.front]
    draw_front(values, front, labels, f"{', '.join(result.networks)}: {title}", path)


def draw_front(values: Floats, front: Sequence[int], labels: Sequence[str], title: str, path: Path) -> None:
    """Draw points in grey, and the front in the colours of the third objective, if there is one.

    values: [point, objective]. front: its rows on the front. Both axes are logarithmic. With a single objective the
    other axis is the point's number. Raises: MavcgError if matplotlib is missing, or the picture cannot be written.
    """
    start_plots()
    from matplotlib.figure import Figure

    if values.shape[1] == 1:
        values = np.concatenate([values, np.arange(1.0, len(values) + 1)[:, None]], axis=1)
        labels = [*labels, "point"]
    figure = Figure(figsize=(7, 4.6))
    axes = figure.add_subplot()
    beside = np.setdiff1d(np.arange(len(values)), front)
    shown = beside[:: max(1, -(-len(beside) // MOST_POINTS))]
    axes.scatter(values[shown, 0], values[shown, 1], s=6, color="0.75", label=f"planned, {len(values)} points")
    of_front = values[list(front)]
    colours = of_front[:, 2] if values.shape[1] > 2 else None
    marks = axes.scatter(
        of_front[:, 0], of_front[:, 1], s=16, c=colours, cmap="viridis", label=f"front, {len(front)} points"
    )
    if colours is not None and len(front):
        figure.colorbar(marks, label=plot_label(labels[2]))
    if len(values):
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_xlabel(plot_label(labels[0]))
    axes.set_ylabel(plot_label(labels[1]))
    axes.set_title(plot_label(title))
    axes.legend()
    save_plot(figure, path)
