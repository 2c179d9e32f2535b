"""`mavcg select`: the cheapest choice of alternatives where costs of neighbours depend on each other."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.cli.output import console, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from rich.console import Console

    from mavcg.selection.pbqp import Instance, Solution

TIME_LIMIT_S = 60.0


def select(
    instance: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Solve this PBQP instance: costs of nodes, and of pairs along edges."),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(metavar="S", help="Seconds for the search; then the best so far, and its gap.")
    ] = TIME_LIMIT_S,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as JSON.")] = False,
) -> None:
    """Choose one alternative for each node so that all costs together are least, and say whether that is proven.

    An instance is {"nodes": {"a": [1, 2.5], "b": [0, "inf"]}, "edges": [{"from": "a", "to": "b",
    "costs": [[0, 1], ["inf", 0]]}]}: a matrix has a row for each alternative of `from`; "inf" is forbidden.

    \b
    mavcg select --instance network.json
    mavcg select --instance network.json --time-limit 1 --json
    """
    if instance is None:
        raise MavcgError("select: nothing to choose from; name a file by --instance FILE.json")
    _select_instance(instance, time_limit, as_json)


def _select_instance(file: Path, time_limit_s: float, as_json: bool) -> None:
    """A bare instance: nothing of networks or boards is read."""
    from mavcg.selection.pbqp import read_instance, solution_json, solve

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
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="")
    for title in ("node", "choice", "of", "its cost", "edges' cost"):
        table.add_column(title, justify="left" if title == "node" else "right")
    paid = dict.fromkeys(instance.nodes, 0.0)
    for edge in instance.edges:
        paid[edge.target] += float(edge.costs[solution.choice[edge.source], solution.choice[edge.target]])
    for name, costs in instance.nodes.items():
        chosen = solution.choice[name]
        table.add_row(name, str(chosen), str(len(costs)), f"{costs[chosen]:.6g}", f"{paid[name]:.6g}")
    out.print(table)
    proof = "optimal" if solution.optimal else f"at least {solution.lower_bound:.6g}: gap {solution.gap:.2%}"
    out.print(f"\ncost {solution.cost:.6g}, {proof}; {solution.seconds:.3f} s")
    made = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in solution.counts.items() if count)
    if made:
        out.print(made)
