"""Gantt chart of a schedule: when each network runs, is released, and has its deadline."""

from collections.abc import Sequence
from pathlib import Path

from mavcg.apps.service.periodic_task import PeriodicTask
from mavcg.apps.service.simulator import SimulatedSchedule
from mavcg.drawing.svg_plots import save_plot, start_plots

_MOST_SLICES = 4_000  # drawn; a picture of more cannot be read


def draw_gantt(tasks: Sequence[PeriodicTask], schedule: SimulatedSchedule, title: str, path: Path) -> None:
    """Write the schedule, a row for each network, the most urgent at the top, a colour for each processor.

    Marks: a line up at each release, a line down at each deadline, a cross at one that was missed. Raises: MavcgError
    if it cannot be written.
    """
    start_plots()
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    ordered = sorted(tasks, key=lambda task: task.priority)
    rows = {task.name: number for number, task in enumerate(ordered)}
    slices = schedule.slices[:_MOST_SLICES]
    end = max((each.end_ns for each in slices), default=1) / 1e6
    names = list(dict.fromkeys(stage.processor for task in tasks for stage in task.stages))
    colours = {name: f"C{number % 10}" for number, name in enumerate(names)}
    figure = Figure(figsize=(11, 1.6 + 0.7 * len(rows)))
    axes = figure.add_subplot()
    for each in slices:
        left, wide = each.begin_ns / 1e6, (each.end_ns - each.begin_ns) / 1e6
        axes.barh(rows[each.task], wide, 0.5, left, color=colours[each.processor], edgecolor="black", linewidth=0.3)
    for job in schedule.jobs:
        row, release, deadline = rows[job.task], job.release_ns / 1e6, job.deadline_ns / 1e6
        if release < end:
            axes.plot([release, release], [row, row + 0.42], color="black", linewidth=0.8)
        if deadline <= end:
            axes.plot([deadline, deadline], [row, row - 0.42], color="grey", linewidth=0.8)
            if not job.kept:
                axes.plot(deadline, row - 0.36, "x", color="red", markersize=7)
    axes.set_yticks(list(rows.values()), [f"{task.name} ({task.priority})" for task in ordered])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xlim(0, end)
    axes.set_xlabel("ms; line up: release, line down: deadline, cross: missed; in brackets: priority")
    axes.set_title(title, fontsize=10)
    marks = [Patch(color=colours[name], label=name) for name in names]
    axes.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=min(len(marks), 6), frameon=False)
    save_plot(figure, path)
