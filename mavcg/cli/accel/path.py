"""The verb `mavcg accel path`: the cheapest choice of groups that covers a graph."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.cli.output import console, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.accel.path_instance import ChosenPath, PathInstance

SEARCHES = ("exact", "paper", "greedy", "none")


def path(
    instance: Annotated[Path, typer.Option(metavar="I.json", help="Candidate groups with costs, and edges.")],
    search: Annotated[
        str, typer.Option(help="exact, paper (DNNVM, algorithm 2), greedy, or none: each node by itself.")
    ] = "exact",
    as_json: Annotated[bool, typer.Option("--json", help="The choice as JSON.")] = False,
) -> None:
    """Choose groups so that each node is in exactly one, groups form no cycle, and the sum of costs is least.

    The file is JSON: {"groups": [{"nodes": [NAME, ..], "cost": NUMBER}, ..], "edges": [[FROM, TO], ..]}. `chosen`
    has the indices of groups in an order in which they can run; `optimal` is true if no choice is proven to cost
    less, which the exact search alone says.

    \b
    mavcg accel path --instance net.json
    mavcg accel path --instance net.json --search greedy --json
    """
    from mavcg.accel.json_files import read_instance

    if search not in SEARCHES:
        raise MavcgError(f"--search {search}: no such search; there are {', '.join(SEARCHES)}")
    problem = read_instance(instance)
    found = searches()[search](problem)
    if as_json:
        print_json({"chosen": list(found.chosen), "cost": found.cost, "optimal": found.optimal})
        return
    out = console()
    for index in found.chosen:
        group = problem.groups[index]
        out.print(f"[{index}] {' '.join(group.nodes)}: {group.cost:g}", soft_wrap=True)
    out.print(f"cost {found.cost:g}" + (", optimal" if found.optimal else ""))


def searches() -> "Mapping[str, Callable[[PathInstance], ChosenPath]]":
    """Return the searches by their names."""
    from mavcg.accel.path_exact import cheapest_path
    from mavcg.accel.path_greedy import greedy_path, unfused_path
    from mavcg.accel.path_paper import paper_path

    return {"exact": cheapest_path, "paper": paper_path, "greedy": greedy_path, "none": unfused_path}
