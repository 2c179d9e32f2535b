"""Picture of an exploration: all planned points and the front, by the first two objectives."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mavcg.accelerators.explore.exploration import Exploration
from mavcg.accelerators.explore.objectives import objective_values
from mavcg.accelerators.explore.pareto import Floats
from mavcg.accelerators.explore.point_exploration import PointExploration
from mavcg.drawing.svg_plots import save_plot, start_plots
from mavcg.text.safe_text import plot_label

MOST_POINTS = 4000  # points drawn besides the front; of more points, a regular sample


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
