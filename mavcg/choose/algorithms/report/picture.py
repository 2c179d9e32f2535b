"""Picture of a selection, after the paper's figures 4 to 7 (CGO 2018).

Speed of each strategy, choice for each layer.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mavcg.choose.algorithms.report.answer import Selection, family_of
from mavcg.choose.algorithms.report.paper_tables import families_json, rows_of, speed_ups
from mavcg.drawing.svg_plots import save_plot, start_plots
from mavcg.text.safe_text import plot_label


def write_picture(selection: Selection, path: Path) -> None:
    """Draw the strategies on the left and the layers on the right.

    Raises: MavcgError if matplotlib is missing, or the file cannot be written.
    """
    start_plots()
    from matplotlib.figure import Figure

    layers = [node.name for node in selection.problem.network.convolutions]
    figure = Figure(figsize=(13.0, max(4.5, 0.24 * len(layers) + 1.5)))
    left, right = figure.subplots(1, 2)
    _strategies(left, selection)
    _layers(right, selection, layers)
    kinds = sorted({alternative.cost.kind for alternative in selection.choice.chosen.values() if alternative.primitive})
    threads = f"{selection.threads} thread{'s' * (selection.threads > 1)}"
    title = f"{selection.model} on {selection.board}, {selection.core}, {threads}; costs: {', '.join(kinds)}"
    figure.suptitle(plot_label(title), fontsize=10)
    save_plot(figure, path)


def _strategies(axes: Any, selection: Selection) -> None:
    """Draw figures 5 to 7: speed-up of each strategy over sum2d on one thread."""
    rows = rows_of(selection)
    names = list(selection.compared)
    for number, (row, threads, compared) in enumerate(rows):
        heights = [speed_ups(selection, compared)[name] or 0.0 for name in names]
        width = 0.8 / len(rows)
        positions = [at + (number - (len(rows) - 1) / 2) * width for at in range(len(names))]
        axes.bar(positions, heights, width, label=f"({row}) {threads} thread{'s' * (threads > 1)}")
        for position, name, height in zip(positions, names, heights, strict=True):
            result = compared.get(name)
            label = f"{height:.2f}x" if height else "none" if result is None or math.isinf(result.total_ms) else ""
            axes.text(position, height, label, ha="center", va="bottom", fontsize=7)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=8)
    axes.set(ylabel="times as fast as sum2d on one thread")
    axes.legend(fontsize=8)


def _layers(axes: Any, selection: Selection, layers: Sequence[str]) -> None:
    """Draw figure 4: the primitive of each layer, and the fastest of each other family."""
    families = sorted({family for layer in layers for family in families_json(selection, layer)})
    colours = {family: f"C{number}" for number, family in enumerate(families)}
    longest = max((selection.choice.chosen[layer].cost.ms for layer in layers), default=1.0)
    for at, layer in enumerate(layers):
        chosen = selection.choice.chosen[layer]
        axes.barh(at, chosen.cost.ms, color=colours[family_of(chosen)])
        for family, best in families_json(selection, layer).items():
            if family != family_of(chosen) and best["cost_ms"] <= 1.5 * longest:
                axes.plot(best["cost_ms"], at, "|", color=colours[family], markersize=7)
        axes.text(0, at, f" {chosen.name}", va="center", fontsize=6)
    for family in families:
        axes.plot([], [], "s", color=colours[family], label=family)
    axes.set_yticks(range(len(layers)), [plot_label(layer) for layer in layers], fontsize=6)
    axes.invert_yaxis()
    axes.set(xlabel="ms; marks: the fastest of another family")
    axes.legend(fontsize=7)
