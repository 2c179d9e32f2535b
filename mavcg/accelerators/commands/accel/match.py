"""The verb `mavcg accel match`: find the places where a template occurs in a graph."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.output import console, print_json
from mavcg.errors import MavcgError

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
