"""Report of an exploration: JSON and a table."""

from typing import TYPE_CHECKING, Any

from mavcg.accelerators.explore.exploration import INFEASIBLE, PRUNED, Exploration

if TYPE_CHECKING:
    from rich.console import Console

MOST_ROWS = 40  # rows of the front in a table; JSON and the database have all


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
    out.print(table)
    if len(front) > MOST_ROWS:
        out.print(f".. and {len(front) - MOST_ROWS} more: --json, or the table points of the file of -o")
    out.print(
        f"{result.planned_points} points planned ({result.count(INFEASIBLE)} without a tiling for some layer), "
        f"{result.count(PRUNED)} left out by bounds; {result.searches} searches, {result.seconds:.1f} s. "
        f"Figures are the model's; energy and area by {result.space.technology.name}."
    )


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " x ".join(_text(item) if not isinstance(item, list) else "+".join(item) or "-" for item in value)
    return str(value)
