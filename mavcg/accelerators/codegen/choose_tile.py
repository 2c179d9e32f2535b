"""Choose a group's tile: the cheapest of a grid by estimate, then the cheapest of a few by simulation."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from mavcg.accelerators.codegen.clusters import channel_step, clusters_of
from mavcg.accelerators.codegen.code import CodeState
from mavcg.accelerators.codegen.estimate import EstimatedGroup, alike_passes, divide_channels, estimate, tile_demand
from mavcg.accelerators.codegen.generate import generate_group
from mavcg.accelerators.codegen.group_code import GroupCode
from mavcg.accelerators.codegen.objective import Objective, simulated_cost
from mavcg.accelerators.codegen.vta_tiles import least_vta_tile, ranked_vta_tiles
from mavcg.accelerators.groups import ORDERS, FusedGroup, GroupTile
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.isa.datapath import Datapath, blocks, datapath
from mavcg.accelerators.target import VTA, IsaTarget
from mavcg.accelerators.xgraph import CONVOLUTIONS, XGraph, XNode
from mavcg.errors import MavcgError

FINALISTS = 2  # number of tiles that are simulated


def tiled_group(
    graph: XGraph,
    nodes: Sequence[str],
    template: str,
    target: IsaTarget,
    finalists: int = FINALISTS,
    cost_of: Callable[[AccelProgram], float] | None = None,
    objective: Objective = "time",
) -> FusedGroup:
    """Return a group of nodes with its tile and its cost.

    finalists: number of tiles whose programs are generated. cost_of: gives the cost of a program; None for that by
    simulation. objective: what costs count.
    Raises: MavcgError if no tile fits.
    """
    least = _least(graph, nodes)
    group = FusedGroup(tuple(nodes), template, least_vta_tile(least) if target.isa == VTA else least)
    cost_of = partial(simulated_cost, objective=objective) if cost_of is None else cost_of
    tried: list[FusedGroup] = []
    wrong: MavcgError | None = None
    for tile in [*ranked_tiles(graph, nodes, target, objective)[:finalists], group.tile]:
        if tried and tile is group.tile:
            break  # the smallest tile is tried only if no other tile fits
        try:
            program, fitted = generate_group(graph, replace(group, tile=tile), target)
        except MavcgError as error:
            wrong = error
            continue
        tried.append(replace(fitted, cost=float(cost_of(program))))
    if not tried:
        assert wrong is not None
        raise wrong
    return min(tried, key=lambda one: one.cost)


def ranked_tiles(
    graph: XGraph, nodes: Sequence[str], target: IsaTarget, objective: Objective = "time"
) -> list[GroupTile]:
    """Return the tiles that may fit, the cheapest by estimate first: the fastest, or those that move fewest bytes."""
    path, by_name, chosen = datapath(target), graph.by_name(), set(nodes)
    members = [node for node in graph.nodes if node.name in chosen]
    readers = graph.readers()
    joined = {name for node in members if node.kind == "concat" for name in node.inputs}
    stored = frozenset(
        node.name
        for node in members
        if node.name in graph.outputs
        or node.kind == "concat"
        or node.name in joined
        or not readers[node.name]
        or any(reader not in chosen for reader in readers[node.name])
    )
    if target.isa == VTA:
        return ranked_vta_tiles(graph, nodes, stored, target)
    shape = EstimatedGroup(members, clusters_of(members, by_name), stored, by_name)
    code = CodeState(graph, path, {})
    most_in, rated = _most_in(by_name, members), []
    divisions = [
        (out_ch, order, divide_channels(shape, out_ch, path, target.ddr_burst_bytes))
        for out_ch, order in _channels(members, path)
    ]
    for sizes in _spatial(members, stored, path):
        passes = alike_passes(GroupCode(code, nodes, stored, GroupTile(*sizes, 1, 1)).passes())
        tiles = tile_demand(shape, passes, path, target)
        for out_ch, order, division in divisions:
            rating = estimate(shape, tiles, division, order, path, target)
            if rating is not None:
                tile = GroupTile(*sizes, out_ch, most_in, order)
                # DDR bytes decide the energy too: each takes that of 130 bytes on chip.
                moved = 0 if objective == "time" else rating.ddr_bytes
                rated.append((moved, rating.cycles, -sizes[0], -out_ch, order, tile))
    return [entry[-1] for entry in sorted(rated, key=lambda entry: entry[:-1])]


def _spatial(members: Sequence[XNode], stored: Iterable[str], path: Datapath) -> Iterator[tuple[int, int]]:
    outer = [node for node in members if node.name in set(stored)]
    height, width = max(n.shape[1] for n in outer), max(n.shape[2] for n in outer)
    lanes = path.row_lanes
    counts = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96, 128)
    rows = {min(height, blocks(blocks(height, count), lanes) * lanes) for count in counts}
    columns = {blocks(width, count) for count in (1, 2, 4, 8, 16)}
    for tall in sorted(rows, reverse=True):
        for wide in sorted(columns, reverse=True):
            if wide == width or tall <= 2 * lanes:
                yield tall, wide


def _channels(members: Sequence[XNode], path: Datapath) -> Iterator[tuple[int, str]]:
    step, most = channel_step(path), max(node.channels for node in members)
    orders = ORDERS if any(node.kind in CONVOLUTIONS for node in members) else ORDERS[1:]
    counts = sorted({min(blocks(most, step), count) for count in (1, 2, 3, 4, 6, 8, 11, 16, 22, 32, 43, 64, 128, 1024)})
    for count in counts:
        for order in orders:
            yield count * step, order


def _most_in(by_name: dict[str, XNode], members: Sequence[XNode]) -> int:
    return max(by_name[name].channels for node in members for name in node.inputs)


def _least(graph: XGraph, nodes: Sequence[str]) -> GroupTile:
    by_name = graph.by_name()
    members = [by_name[name] for name in nodes]
    return GroupTile(
        8, max(n.shape[2] for n in members), max(n.channels for n in members), _most_in(by_name, members), ORDERS[1]
    )
