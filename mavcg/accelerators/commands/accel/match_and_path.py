"""The verbs `mavcg accel match` and `path`: the two searches of fusion on graphs and groups of JSON files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.console.output import console, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    pass


MOST_EMBEDDINGS = 1_000_000
MOST_STEPS = 20_000_000


def match(
    graph: Annotated[Path, typer.Option(metavar="G.json", help="File of the graph to search.")],
    template: Annotated[Path, typer.Option(metavar="T.json", help="File of the template to search for.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the embeddings as a JSON list of lists.")] = False,
) -> None:
    """Find all embeddings of a template in a labelled graph, by subgraph isomorphism (DNNVM, algorithm 1).

    Both files are JSON: {"nodes": {NAME: TYPE, ..}, "edges": [[FROM, TO], ..]}. An edge may have a label as its third
    entry; an edge of the template without a label matches any edge. An embedding maps each node of the template to a
    different node of the same type, and each edge to an edge; the graph may have more edges between these nodes.
    Embeddings on the same set of nodes count once. Each is printed as the names of its nodes, in the template's order.

    \b
    mavcg accel match --graph net.json --template conv_pool.json
    mavcg accel match --graph net.json --template siblings.json --json
    """
    from itertools import islice

    from mavcg.accelerators.fusion.json_files import read_labelled
    from mavcg.accelerators.fusion.matching import embeddings

    every = embeddings(read_labelled(template), read_labelled(graph), most_steps=MOST_STEPS)
    listed = list(islice(every, MOST_EMBEDDINGS + 1))
    if len(listed) > MOST_EMBEDDINGS:
        raise MavcgError(
            f"{template}: has more than {MOST_EMBEDDINGS} embeddings; give a template with more edges or types"
        )
    if as_json:
        print_json([list(nodes) for nodes in listed])
        return
    out = console()
    for nodes in listed:
        out.print(" ".join(nodes), soft_wrap=True)
    out.print("1 embedding" if len(listed) == 1 else f"{len(listed)} embeddings")


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
    from mavcg.accelerators.fusion.plan import SEARCHES

    if search not in SEARCHES:
        raise MavcgError(f"--search {search}: there is no such search; the searches are {', '.join(SEARCHES)}")
    problem = read_instance(instance)
    best = SEARCHES[search](problem)
    if as_json:
        print_json({"chosen": list(best.chosen), "cost": best.cost, "optimal": best.optimal})
        return
    out = console()
    for index in best.chosen:
        group = problem.groups[index]
        out.print(f"[{index}] {' '.join(group.nodes)}: {group.cost:g}", soft_wrap=True)
    out.print(f"cost {best.cost:g}" + (", optimal" if best.optimal else ""))
