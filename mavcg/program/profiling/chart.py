"""Draws a ranking: the hottest functions' shares of the run, per core type if the samples name their core.

After figure 2.1 of Park et al. (the share of matrix products in a network's run time).
"""

from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.drawing.svg_plots import check_plot, save_plot, start_plots
from mavcg.program.profiling.names import short_names, shorten
from mavcg.program.profiling.profile import Profile
from mavcg.program.profiling.ranking import DEFAULT_THRESHOLD, RankedFunction, is_over, rank, trusted_cores
from mavcg.text.safe_text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL_CHARS = 48

# The colours differ in lightness too, for print and readers without colour vision.
_HOT, _COOL, _FIXED = "#1f5fa8", "#9dc3e6", "#c8c8c8"
_INK, _FAINT = "#222222", "#777777"


def plot_shares(profile: Profile, path: Path, threshold: float = DEFAULT_THRESHOLD, top: int = 10) -> None:
    """Draw the ranking as horizontal bars, with a panel per core type, or one panel if no sample names its core.

    Args:
        path: the file; its suffix is the format, .png or .svg.
        threshold: share from which on a function is hot, 0..1; drawn as a line.
        top: number of functions with their own bar; the other functions share one bar.
    Raises: MavcgError for another suffix, when matplotlib is absent, or when the file cannot be written.
    """
    check_plot(path)
    start_plots()
    from matplotlib import rc_context

    with rc_context({"font.family": "DejaVu Sans"}):
        save_plot(share_figure(profile, threshold, top), path, tight=False)


def share_figure(profile: Profile, threshold: float = DEFAULT_THRESHOLD, top: int = 10) -> "Figure":
    """Return the figure of plot_shares without writing it."""
    from matplotlib.figure import Figure

    ranked = rank(profile)
    shown, others = ranked[: max(1, top)], ranked[max(1, top) :]
    cores = sorted({core for f in ranked for core in f.share_by_core})
    panels = cores or [""]
    labels = [
        *map(printable, short_names([f.demangled for f in shown], LABEL_CHARS)),
        *([f"{len(others)} more functions"] if others else []),
    ]
    label_inches = 0.25 + 0.078 * max(len(label) for label in labels)
    panel_inches = 4.6 if len(panels) == 1 else 2.7
    top_inches = 0.82 if cores else 0.5
    width = label_inches + len(panels) * panel_inches + 0.3
    height = top_inches + 0.32 * len(labels) + 0.85
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    trusted = trusted_cores(profile)
    longest = max(_share(f, core) for f in shown for core in panels)
    for ax, core in zip(axes, panels, strict=True):
        _draw_panel(ax, core, shown, others, profile, threshold, trusted)
        ax.set_xlim(0, min(1.0, max(longest, sum(_share(f, core) for f in others), threshold)) * 122)
    axes[0].set_yticks(range(len(labels)), labels, fontsize=9, color=_INK)
    axes[0].set_ylim(len(labels) - 0.4, -0.6)
    for text in axes[0].get_yticklabels():
        text.set_parse_math(False)  # a $ in a symbol is a $
    title = figure.text(0.15 / width, 1 - 0.25 / height, _title(profile), fontsize=11, color=_INK, va="center")
    title.set_parse_math(False)
    _draw_legend(figure, width, height)
    figure.subplots_adjust(
        left=label_inches / width,
        right=1 - 0.2 / width,
        top=1 - top_inches / height,
        bottom=0.82 / height,
        wspace=0.12,
    )
    return figure


def _share(function: RankedFunction, core: str) -> float:
    return function.share_by_core.get(core, 0.0) if core else function.share


def _draw_panel(
    ax: "Axes",
    core: str,
    shown: tuple[RankedFunction, ...],
    others: tuple[RankedFunction, ...],
    profile: Profile,
    threshold: float,
    trusted: frozenset[str],
) -> None:
    """Draw the bars of one core type; core "" stands for all samples."""
    shares = [_share(f, core) for f in shown] + ([sum(_share(f, core) for f in others)] if others else [])
    colours = [_FIXED if not f.clonable else _HOT if is_over(f, threshold, trusted) else _COOL for f in shown]
    colours += [_FIXED] if others else []
    ax.barh(range(len(shares)), [100 * share for share in shares], color=colours, height=0.7)
    for at, share in enumerate(shares):
        label = f"{100 * share:.1f} %" if share > 0 else "none"
        text = ax.annotate(label, (100 * share, at), xytext=(3, 0), textcoords="offset points", va="center")
        # A white background, because the threshold's line may run through the number.
        text.set(fontsize=8, color=_INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})
    ax.axvline(100 * threshold, color=_FAINT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
    counted = "samples" if profile.kind == "samples" else "instructions"
    if core:
        of_core = profile.frame[profile.frame["core"] == core]
        part = float(of_core["samples"].sum()) / profile.total
        few = "" if core in trusted else ", too few to judge"
        words = f"{printable(core)}\n{part:.0%} of {counted}{few}"
        heading = ax.set_title(words, fontsize=9, color=_INK, loc="left", pad=5)
        heading.set_parse_math(False)
    ax.set_xlabel("share, %", fontsize=8.5, color=_INK)
    ax.tick_params(axis="x", labelsize=8, colors=_FAINT)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="#ececec", linewidth=0.8)
    ax.set_axisbelow(True)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(_FAINT)


def _draw_legend(figure: "Figure", width: float, height: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Patch(color=_HOT, label="worth a version per core"),
        Patch(color=_COOL, label="under the threshold"),
        Patch(color=_FIXED, label="not clonable, or the rest"),
        Line2D([], [], color=_FAINT, linewidth=0.9, linestyle=(0, (4, 3)), label="threshold"),
    ]
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.05 / width, 0.02 / height),
        ncols=4,
        frameon=False,
        fontsize=8,
        handlelength=1.4,
        columnspacing=1.3,
    )


def _title(profile: Profile) -> str:
    quantity = "instructions" if profile.kind == "instructions" else f"time ({profile.event})"
    command = shorten(profile.command, 40)
    return printable(f"Share of {quantity} per function" + (f": {command}" if command else "")).replace("\n", " ")
