"""Reports of explorations of boards and of targets: JSON, a table and a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.accelerators.explore.report import MOST_ROWS, draw_points, print_front
from mavcg.accelerators.simulator.report import ENERGY_BASIS

if TYPE_CHECKING:
    from rich.console import Console

    from mavcg.accelerators.explore.board_exploration import BoardExploration
    from mavcg.accelerators.explore.target_exploration import TargetExploration


BOARD_UNITS = {"latency": "s", "energy": "J", "power": "W", "cores": "cores", "cache": "bytes", "bandwidth": "GB/s"}
ASSUMES = "power is CoreMark's of the cores at work, by published measurements; vector code draws more"
TARGET_UNITS = {
    "latency": "s",
    "energy": "J",
    "traffic": "bytes",
    "macs": "multiply-add units",
    "memory": "bytes",
    "bandwidth": "GB/s",
    "frequency": "MHz",
}


def board_exploration_json(result: "BoardExploration") -> dict[str, Any]:
    """Return counts, seconds and the front, like exploration_json.

    Metrics: latency in seconds and energy in joules of one run of each network; power of the working cores in watts,
    the largest of any network; cores; cache: bytes of the given caches; bandwidth in GB/s.
    """
    return {
        **result.counts("predictions"),
        "budget_w": result.space.budget_w,
        "power_sources": {name: power.source for name, power in result.space.powers.items()},
        "assumed": [ASSUMES, *result.space.assumed],
        "front": [
            {
                "point": dict(result.points[i].values),
                "metrics": {**result.metrics[i], "networks": dict(result.figures[i])},
            }
            for i in result.front
        ],
        "seconds": round(result.seconds, 3),
    }


def draw_boards(result: "BoardExploration", path: Path) -> None:
    """Draw the predicted boards and their front. Raises: MavcgError as draw_front."""
    budget = "" if result.space.budget_w is None else f", {result.space.budget_w:g} W"
    draw_points(result, BOARD_UNITS, f"predicted on boards{budget}", path)


def show_board_exploration(result: "BoardExploration", out: "Console") -> None:
    """Print the front, fastest first, with the keys that differ between points."""
    from rich.table import Table

    front = result.fastest_first()
    title = f"{len(front)} of {len(result.points)} boards are on the front of {', '.join(result.objectives)}"
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("cores, GHz")
    for heading in ("L3 MiB", "GB/s", "latency ms", "W", "energy mJ", "threads"):
        table.add_column(heading, justify="right")
    for i in front[:MOST_ROWS]:
        point, of_networks = result.points[i], result.figures[i]
        sums, values = result.metrics[i], point.values
        clusters = [f"{len(c.cpus)} {c.core} {(c.max_khz or 0) / 1e6:g}" for c in point.board.clusters]
        l3, rate = values.get("l3_bytes"), values.get("memory_gb_per_s")
        table.add_row(
            ", ".join(clusters),
            "" if l3 is None else f"{l3 / 2**20:g}",
            "" if rate is None else f"{rate:g}",
            f"{sums['latency'] * 1e3:.3f}",
            f"{sums['power']:.2f}",
            f"{sums['energy'] * 1e3:.2f}",
            "/".join(f"{figures['threads']:.0f}" for figures in of_networks.values()),
        )
    print_front(table, len(front), out)
    out.print(
        f"{result.planned_count} boards predicted ({result.infeasible_count} beyond the budget), "
        f"{result.pruned_count} left out by bounds; {result.computed} predictions, {result.seconds:.1f} s. "
        f"Assumed: {ASSUMES}."
    )
    for sentence in result.space.assumed:
        out.print(f"Assumed: {sentence}.")


def target_exploration_json(result: "TargetExploration") -> dict[str, Any]:
    """Return counts, seconds and the front, like exploration_json.

    Metrics: latency in seconds, energy in joules, traffic in DDR bytes, for one image of each network on one core;
    macs: multiply-add units; memory: on-chip bytes; bandwidth in GB/s, frequency in MHz.
    """
    return {
        **result.counts("simulations"),
        "search": result.space.search,
        "energy_assumes": ENERGY_BASIS,
        "front": [
            {
                "point": result.space.point(i),
                "metrics": {**result.metrics[i], "networks": dict(result.figures[i])},
            }
            for i in result.front
        ],
        "seconds": round(result.seconds, 3),
    }


def draw_targets(result: "TargetExploration", path: Path) -> None:
    """Draw the simulated targets and their front. Raises: MavcgError as draw_front."""
    draw_points(result, TARGET_UNITS, f"simulated, {result.space.base.name} changed", path)


def show_target_exploration(result: "TargetExploration", out: "Console") -> None:
    """Print the front, fastest first, with the keys that differ between points."""
    from rich.table import Table

    varied = [axis.key for axis in result.space.axes if len(axis.values) > 1]
    front = result.fastest_first()
    title = f"{len(front)} of {len(result.points)} targets are on the front of {', '.join(result.objectives)}"
    table = Table(title=title, title_justify="left", box=None)
    for heading in (*varied, "latency ms", "multiply-adds", "KiB on chip", "energy mJ", "DDR MB"):
        table.add_column(heading, justify="right")
    for i in front[:MOST_ROWS]:
        point, metrics = result.space.point(i), result.metrics[i]
        table.add_row(
            *(f"{point[key]:g}" for key in varied),
            f"{metrics['latency'] * 1e3:.3f}",
            f"{metrics['macs']:.0f}",
            f"{metrics['memory'] / 1024:.0f}",
            f"{metrics['energy'] * 1e3:.3f}",
            f"{metrics['traffic'] / 1e6:.1f}",
        )
    print_front(table, len(front), out)
    out.print(
        f"{result.planned_count} targets simulated ({result.infeasible_count} too small for some node), "
        f"{result.pruned_count} left out by bounds; {result.computed} simulations, {result.seconds:.1f} s. "
        f"Energy: {ENERGY_BASIS}."
    )
