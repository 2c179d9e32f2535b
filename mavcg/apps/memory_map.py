"""A picture of an arena over time: each edge's data as a rectangle from its first step to its last."""

from pathlib import Path

from mavcg.apps.plan import ApplicationPlan
from mavcg.drawing.svg_plots import save_plot, start_plots


def draw_memory_map(plan: ApplicationPlan, path: Path) -> None:
    """Write the chosen solution's map; a colour a network. Raises: MavcgError where it cannot be written."""
    start_plots()
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle

    best = plan.front[plan.chosen]
    figure = Figure(figsize=(10, 5))
    axes = figure.add_subplot()
    colours = {cnn.name: f"C{number % 10}" for number, cnn in enumerate(plan.app.cnns)}
    end = max((stop for _, stop in best.arena.times.values()), default=1)
    for data, ring in best.arena.rings.items():
        begin, stop = best.arena.times[data]
        axes.add_patch(
            Rectangle(
                (begin, ring.offset / 1e3), stop - begin, ring.elements / 1e3, facecolor=colours[data.cnn], alpha=0.55,
                edgecolor="black", linewidth=0.3,
            )
        )  # fmt: skip
    axes.set_xlim(0, end)
    axes.set_ylim(0, best.arena.size / 1e3 * 1.05 or 1)
    axes.set_xlabel("step")
    axes.set_ylabel("arena, kB")
    axes.axhline(best.arena.size / 1e3, color="black", linewidth=0.6)
    axes.legend(handles=[Patch(color=colours[name], alpha=0.55, label=name) for name in colours], loc="upper right")
    save_plot(figure, path)
