"""Picture of a plan's front: memory against the time of a run of all networks, modelled and measured."""

from collections.abc import Sequence
from pathlib import Path

from mavcg.apps.measured_front import MeasuredPoint
from mavcg.apps.plan import ApplicationPlan
from mavcg.drawing.svg_plots import save_plot, start_plots


def draw_front(plan: ApplicationPlan, measured: Sequence[MeasuredPoint], path: Path) -> None:
    """Write the front; measured: of each point, or empty. Raises: MavcgError if it cannot be written."""
    start_plots("--plot-front")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.6))
    axes = figure.add_subplot()
    modelled = [sum(1e3 / rate for rate in point.throughput.values()) for point in plan.front]
    axes.plot(modelled, [p.arena.size / 1e6 for p in plan.front], "o-", color="C0", label="modelled schedules")
    axes.plot(
        modelled[plan.chosen],
        plan.front[plan.chosen].arena.size / 1e6,
        "o",
        color="C0",
        markersize=12,
        fillstyle="none",
        label="chosen",
    )
    if measured:
        points = [(point.run_ms, point.arena_bytes / 1e6) for point in measured]
        axes.plot(*zip(*points, strict=True), "s--", color="C1", label="measured libraries")
    axes.set_xlabel("time of a run of each network, one after the other, ms")
    axes.set_ylabel("arena, MB")
    axes.set_ylim(bottom=0)
    axes.set_title(f"Front of {', '.join(cnn.name for cnn in plan.app.cnns)}", fontsize=10)
    axes.legend()
    save_plot(figure, path, "--plot-front")
