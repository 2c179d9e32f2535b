"""Draws shares by function class as stacked bars, one per network, after figure 2.1 of Park et al."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.drawing.svg_plots import check_plot, save_plot, start_plots
from mavcg.program.profiling.function_classes import CLASSES, ClassShares
from mavcg.text.safe_text import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The colours differ in lightness too, for print and readers without colour vision.
_COLOURS = ("#1f5fa8", "#5b9bd5", "#f0b45a", "#c2571a", "#7d6ba8", "#8ab17d", "#b8b8b8", "#e4e4e4")
_LEAST_LABELLED = 0.04  # minimum share of a part that has its number printed


def plot_classes(rows: Sequence[ClassShares], path: Path, title: str = "Share of time by class of function") -> None:
    """Write the chart. path: its suffix is the format, .png or .svg.

    Raises: MavcgError for another suffix, when matplotlib is absent, or when the file cannot be written.
    """
    check_plot(path)
    start_plots()
    from matplotlib import rc_context

    with rc_context({"font.family": "DejaVu Sans"}):
        save_plot(class_figure(rows, title), path)


def class_figure(rows: Sequence[ClassShares], title: str) -> "Figure":
    """Draw the figure of plot_classes without writing it: a bar for each row, the first on top."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.5 + 0.32 * len(rows)), facecolor="white")
    ax = figure.subplots()
    begins = [0.0] * len(rows)
    for name, colour in zip(CLASSES, _COLOURS, strict=True):
        widths = [100 * row.shares[name] for row in rows]
        if not any(widths):
            continue
        bars = ax.barh(range(len(rows)), widths, left=begins, color=colour, label=name, height=0.72)
        labels = [f"{width:.0f}" if width >= 100 * _LEAST_LABELLED else "" for width in widths]
        ax.bar_label(
            bars, labels, label_type="center", fontsize=7.5, color="white" if name == CLASSES[0] else "#222222"
        )
        begins = [begin + width for begin, width in zip(begins, widths, strict=True)]
    ax.set_yticks(range(len(rows)), [printable(row.label) for row in rows], fontsize=8.5)
    for text in (*ax.get_yticklabels(), ax.set_title(printable(title), fontsize=10.5, loc="left")):
        text.set_parse_math(False)  # a $ in a name is a $
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(0, 100)
    ax.set_xlabel("share, %", fontsize=8.5)
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.45, -0.55 / (0.35 * len(rows) + 0.6)), ncols=4, frameon=False, fontsize=8
    )
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    return figure
