"""The verb `mavcg accel path`: choose the cheapest groups that cover a graph."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.console.output import console, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.accelerators.fusion.path_instance import ChosenPath, PathInstance

SEARCHES = ("exact", "paper", "greedy", "none")


def path(
    instance: Annotated[
        Path, typer.Option(metavar="I.json", help="File of candidate groups with costs, and of edges between nodes.")
    ],
    search: Annotated[
        str,
        typer.Option(
            help="Search to use: exact, paper (DNNVM, algorithm 2), greedy, or none (each node by itself); default "
            "exact."
        ),
    ] = "exact",
    as_json: Annotated[bool, typer.Option("--json", help="Print the choice as JSON.")] = False,
) -> None:
    """Choose groups so that each node is in exactly one of them, groups form no cycle, and the total cost is least.

    The file is JSON: {"groups": [{"nodes": [NAME, ..], "cost": NUMBER}, ..], "edges": [[FROM, TO], ..]}. `chosen`
    has the indices of groups in an order in which they can run; `optimal` is true if the search proved that no choice
    costs less, which only the exact search can.

    \b
    mavcg accel path --instance net.json
    mavcg accel path --instance net.json --search greedy --json
    """
    from mavcg.accelerators.fusion.json_files import read_instance

    if search not in SEARCHES:
        raise MavcgError(f"--search {search}: there is no such search; the searches are {', '.join(SEARCHES)}")
    problem = read_instance(instance)
    best = searches()[search](problem)
    if as_json:
        print_json({"chosen": list(best.chosen), "cost": best.cost, "optimal": best.optimal})
        return
    out = console()
    for index in best.chosen:
        group = problem.groups[index]
        out.print(f"[{index}] {' '.join(group.nodes)}: {group.cost:g}", soft_wrap=True)
    out.print(f"cost {best.cost:g}" + (", optimal" if best.optimal else ""))


def searches() -> "Mapping[str, Callable[[PathInstance], ChosenPath]]":
    """Return the searches by their names."""
    from mavcg.accelerators.fusion.path_exact import cheapest_path
    from mavcg.accelerators.fusion.path_heuristics import greedy_path, paper_path, unfused_path

    return {"exact": cheapest_path, "paper": paper_path, "greedy": greedy_path, "none": unfused_path}
