"""An exploration as a picture: all planned points and the front, by the first two objectives."""

from pathlib import Path

import numpy as np

from mavcg.drawing.svg_plots import save_plot, start_plots
from mavcg.explore.exploration import Exploration
from mavcg.explore.objectives import objective_values
from mavcg.text.safe_text import plot_label

MOST_POINTS = 4000  # that are drawn of those beside the front: evenly spaced ones of more


def write_picture(result: Exploration, path: Path) -> None:
    """Draw planned points in grey, and the front in the colours of the third objective, if there is one.

    Both axes are logarithmic. Raises: MavcgError where matplotlib is missing, or the picture cannot be written.
    """
    start_plots()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.6))
    axes = figure.add_subplot()
    objectives = result.objectives if len(result.objectives) > 1 else result.objectives * 2
    values = objective_values(result.metrics, objectives).reshape(-1, len(objectives))
    rates = result.space.rates
    front = [result.rows[number // rates] * rates + number % rates for number in result.front]
    beside = np.setdiff1d(np.arange(len(values)), front)
    shown = beside[:: max(1, -(-len(beside) // MOST_POINTS))]
    axes.scatter(values[shown, 0], values[shown, 1], s=6, color="0.75", label=f"planned, {len(values)} points")
    of_front = values[front]
    colours = of_front[:, 2] if len(objectives) > 2 else None
    marks = axes.scatter(
        of_front[:, 0], of_front[:, 1], s=16, c=colours, cmap="viridis", label=f"front, {len(front)} points"
    )
    if colours is not None and len(front):
        figure.colorbar(marks, label=_label(result, 2))
    if len(values):
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_xlabel(_label(result, 0))
    axes.set_ylabel(_label(result, min(1, len(result.objectives) - 1)))
    axes.set_title(plot_label(f"{', '.join(result.workload.networks)}: modelled, {result.space.technology.name}"))
    axes.legend()
    save_plot(figure, path)


def _label(result: Exploration, number: int) -> str:
    objective = result.objectives[number]
    return plot_label(f"{objective.text} ({objective.unit})")
