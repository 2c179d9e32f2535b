"""Picture of an arena over time: the data of each edge is a rectangle from its first live step to its last."""

from pathlib import Path

from mavcg.apps.plan import ApplicationPlan
from mavcg.drawing.svg_plots import save_plot, start_plots

# Fractions of the picture's height and width that a line and a letter take, horizontal and rotated.
_LINE_HIGH, _LETTER_WIDE = 0.03, 0.007
_LINE_WIDE, _LETTER_HIGH = 0.018, 0.014


def draw_memory_map(plan: ApplicationPlan, path: Path) -> None:
    """Write the chosen solution's memory map, one colour per network. Raises: MavcgError if it cannot be written."""
    start_plots()
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle

    best = plan.front[plan.chosen]
    figure = Figure(figsize=(10, 5.5))
    axes = figure.add_subplot()
    colours = {cnn.name: f"C{number % 10}" for number, cnn in enumerate(plan.app.cnns)}
    end = max((stop for _, stop in best.arena.times.values()), default=1)
    for data, ring in best.arena.rings.items():
        begin, stop = best.arena.times[data]
        axes.add_patch(
            Rectangle(
                (begin, ring.offset / 1e3),
                stop - begin,
                ring.elements / 1e3,
                facecolor=colours[data.cnn],
                alpha=0.55,
                edgecolor="black",
                linewidth=0.3,
            )
        )
        named = data.label.partition(":")[2]
        high, wide = ring.elements / best.arena.size, (stop - begin) / end
        level, upright = (
            high >= _LINE_HIGH and wide >= len(named) * _LETTER_WIDE,
            wide >= _LINE_WIDE and high >= len(named) * _LETTER_HIGH,
        )
        if level or upright:
            middle, rotation_degrees = ((begin + stop) / 2, (ring.offset + ring.elements / 2) / 1e3), 0 if level else 90
            axes.text(*middle, named, ha="center", va="center", fontsize=7, rotation=rotation_degrees)
    axes.set_xlim(0, end)
    axes.set_ylim(0, best.arena.size / 1e3 * 1.05 or 1)
    axes.set_xlabel("steps of the schedule, in order: each computes a layer, or one row of a layer by parts")
    axes.set_ylabel("place in the arena, kB")
    by_parts = sum(count > 1 for count in best.phases.values())
    axes.set_title(
        f"Arena of {best.arena.size / 1e3:,.0f} kB, {by_parts} layers by parts: "
        "data from its writer's first step to its reader's last",
        fontsize=10,
    )
    axes.axhline(best.arena.size / 1e3, color="black", linewidth=0.6)
    marks = [Patch(color=colours[name], alpha=0.55, label=name) for name in colours]
    axes.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=min(len(marks), 6), frameon=False)
    save_plot(figure, path)
