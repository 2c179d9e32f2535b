"""The verb `mavcg memory`: place buffers with known lifetimes in the least memory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, console, print_json
from mavcg.errors import MavcgError


@dataclass(frozen=True)
class MemoryOptions:
    """The command line of `mavcg memory`."""

    instance: Annotated[
        Path,
        typer.Option(
            metavar="FILE.csv",
            help="The buffers, in columns id,lower,upper,size or buffer,start,end,size; a buffer is live from lower to "
            "before upper.",
        ),
    ]
    capacity: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Size of the memory, in the file's unit: stop at the first placement that fits; default: find the "
            "least.",
        ),
    ] = None
    nodes: Annotated[
        int, typer.Option(metavar="N", help="Largest number of nodes of the search tree; default 2000000.")
    ] = 2_000_000
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="Also stop the search after this time, in seconds, so that results may vary; no default."
        ),
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of the random orders, which decides the offsets; default 0.")] = 0
    as_json: Annotated[bool, typer.Option("--json", help="Print offsets, peak and lower bound as JSON.")] = False


def run_memory(options: MemoryOptions) -> None:
    """Place buffers in one memory so that buffers that are live at the same time do not overlap.

    The search is exact: `optimal` is true if it proved that no placement is smaller. The exit status is 2 if no
    placement fits the capacity, or if the search ended before it found one.

    \b
    mavcg memory --instance A.1048576.csv --capacity 1048576
    mavcg memory --instance buffers.csv --json
    """
    from mavcg.memory.instance_file import check_capacity, read_instance, solve_instance
    from mavcg.memory.placement_search import SearchLimits

    capacity, nodes, seconds = options.capacity, options.nodes, options.seconds
    if capacity is not None and capacity < 0:
        raise MavcgError(f"--capacity {capacity}: is below 0; give the memory's size, in the file's unit")
    if nodes < 1 or (seconds is not None and not seconds > 0):
        raise MavcgError(f"--nodes {nodes}, --seconds {seconds}: do not allow a search; give numbers above 0")
    buffers = read_instance(options.instance)
    if capacity is not None:
        check_capacity(buffers, capacity)
    with Progress() as progress:
        placement = solve_instance(buffers, SearchLimits(nodes, seconds, capacity or 0, options.seed), progress)
    bound = placement.lower_bound
    if capacity is not None and placement.peak > capacity:
        if bound > capacity:
            raise MavcgError(f"--capacity {capacity}: every placement needs {bound} or more; give at least that")
        raise MavcgError(
            f"--capacity {capacity}: no placement found in {placement.nodes} nodes; the best needs {placement.peak}, "
            f"and every placement needs {bound} or more; give more --nodes, or another --seed"
        )
    if options.as_json:
        print_json(
            {
                "offsets": dict(placement.offsets),
                "peak": placement.peak,
                "lower_bound": bound,
                "optimal": placement.optimal,
            }
        )
        return
    from rich.table import Table

    table = Table("buffer", "offset", "size", "from", "to", box=None, pad_edge=False)
    offsets = placement.offsets
    for name, buffer in sorted(buffers.items(), key=lambda item: (offsets[item[0]], item[1].first)):
        table.add_row(name, *map(str, (offsets[name], buffer.size, buffer.first, buffer.end)))
    out = console()
    out.print(table)
    proof = "optimal" if placement.optimal else f"every placement needs {bound} or more"
    out.print(f"{len(buffers)} buffers in {placement.peak}; {proof}")


memory = command_of("memory", MemoryOptions, run_memory)
