"""Solve a PBQP instance from a file, for `mavcg select --instance`."""

from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.console.output import console, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from rich.console import Console

    from mavcg.choose.pbqp import Instance, Solution


def select_instance(file: Path, time_limit_s: float, as_json: bool) -> None:
    """Solve a bare PBQP instance, and print the choice for each node. Raises: MavcgError for a file that is wrong."""
    from mavcg.choose.pbqp import read_instance, solution_json, solve

    instance = read_instance(file)
    try:
        solution = solve(instance, time_limit_s)
    except MavcgError as error:
        raise MavcgError(f"{file}: {error}") from None
    if as_json:
        print_json(solution_json(solution))
    else:
        _show(instance, solution, console())


def _show(instance: "Instance", solution: "Solution", out: "Console") -> None:
    """Print each node's choice, its cost, and the cost of the edges that end at the node."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="")
    for title in ("node", "choice", "alternatives", "cost", "cost of edges"):
        table.add_column(title, justify="left" if title == "node" else "right")
    edge_costs = dict.fromkeys(instance.nodes, 0.0)
    for edge in instance.edges:
        edge_costs[edge.target] += float(edge.costs[solution.choice[edge.source], solution.choice[edge.target]])
    for name, costs in instance.nodes.items():
        chosen = solution.choice[name]
        table.add_row(name, str(chosen), str(len(costs)), f"{costs[chosen]:.6g}", f"{edge_costs[name]:.6g}")
    out.print(table)
    proof = "optimal" if solution.optimal else f"at least {solution.lower_bound:.6g}: gap {solution.gap:.2%}"
    out.print(f"\ncost {solution.cost:.6g}, {proof}; {solution.seconds:.3f} s")
    statistics = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in solution.counts.items() if count)
    if statistics:
        out.print(statistics)
