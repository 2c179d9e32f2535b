"""The verb `mavcg memory`: offsets of buffers with known lifetimes, in the least memory."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.cli.output import Progress, console, print_json
from mavcg.errors import MavcgError


def memory(
    instance: Annotated[
        Path,
        typer.Option(metavar="FILE.csv", help="Buffers: id,lower,upper,size or buffer,start,end,size; ends exclusive."),
    ],
    capacity: Annotated[
        int | None, typer.Option(metavar="N", help="Stop at a placement that fits; without it, the least memory.")
    ] = None,
    nodes: Annotated[int, typer.Option(metavar="N", help="Most nodes of the search tree.")] = 2_000_000,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", help="Also stop the search after this time; answers may then vary.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random orders; the same seed gives the same offsets.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print offsets, peak and lower bound as JSON.")] = False,
) -> None:
    """Place buffers in one memory so that those live at the same time do not overlap.

    The search is exact: `optimal` says whether it is proven that no placement is smaller. Exit status 2 if nothing
    fits the capacity, or if the search ended before it knew.

    \b
    mavcg memory --instance A.1048576.csv --capacity 1048576
    mavcg memory --instance buffers.csv --json
    """
    from mavcg.memory.instance_file import check_capacity, read_instance, solve_instance
    from mavcg.memory.placement_search import SearchLimits

    if capacity is not None and capacity < 0:
        raise MavcgError(f"--capacity {capacity}: is below 0; give the memory's size, in the file's unit")
    if nodes < 1 or (seconds is not None and not seconds > 0):
        raise MavcgError(f"--nodes {nodes}, --seconds {seconds}: leave nothing to search; give more")
    buffers = read_instance(instance)
    if capacity is not None:
        check_capacity(buffers, capacity)
    with Progress() as progress:
        found = solve_instance(buffers, SearchLimits(nodes, seconds, capacity or 0, seed), progress)
    if capacity is not None and found.peak > capacity:
        if found.lower_bound > capacity:
            raise MavcgError(f"--capacity {capacity}: no placement is below {found.lower_bound}; give at least that")
        raise MavcgError(
            f"--capacity {capacity}: not found in {found.nodes} nodes; the best takes {found.peak}, and none is below "
            f"{found.lower_bound}; give more --nodes, or another --seed"
        )
    if as_json:
        print_json({
            "offsets": dict(found.offsets), "peak": found.peak, "lower_bound": found.lower_bound,
            "optimal": found.optimal,
        })  # fmt: skip
        return
    from rich.table import Table

    table = Table("buffer", "offset", "size", "from", "to", box=None, pad_edge=False)
    for name, buffer in sorted(buffers.items(), key=lambda item: (found.offsets[item[0]], item[1].first)):
        table.add_row(name, *map(str, (found.offsets[name], buffer.size, buffer.first, buffer.end)))
    out = console()
    out.print(table)
    words = "optimal" if found.optimal else f"none is below {found.lower_bound}"
    out.print(f"{len(buffers)} buffers in {found.peak}; {words}")
