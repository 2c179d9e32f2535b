"""The interface of providers of groups' costs, and the provider that uses the analytic model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Protocol

from mavcg.accelerators.codegen.vta_nodes import is_refused_group
from mavcg.accelerators.fusion.group_shape import GraphFacts, GroupShape, group_shape
from mavcg.accelerators.fusion.tiling import best_tile, paper_tile, whole_tile
from mavcg.accelerators.fusion.work import GroupWork
from mavcg.accelerators.groups import GroupTile
from mavcg.accelerators.target import VTA, IsaTarget
from mavcg.accelerators.xgraph import XGraph

MOST_TILED = 3  # up to this many nodes, tiles are searched even if the group fits on chip whole


@dataclass(frozen=True)
class GroupCost:
    """Cost of a group for a batch, in cycles, or in the unit of another objective. tile: the tile with this cost."""

    cost: float
    tile: GroupTile


class GroupCosts(Protocol):
    """A provider of groups' costs: a model, a simulator or a device."""

    def prepare(self, graph: XGraph, groups: Sequence[Sequence[str]], progress: Callable[[str], None]) -> None:
        """Compute and store the costs of these groups for `cost`. groups: nodes in the graph's order."""
        ...

    def cost(self, graph: XGraph, nodes: Sequence[str]) -> GroupCost | None:
        """Return the cost of a group; None if it cannot run. nodes: in the graph's order."""
        ...


@dataclass
class ModelledGroupCosts:
    """A provider that uses the analytic model of work.py, with the faster of the paper's tile and the best of a grid.

    Groups with the same parameters are modelled once. paper_tiles_only: True to use only the tiles of equations 5 and
    6.
    """

    target: IsaTarget
    paper_tiles_only: bool = False
    _known: dict[object, tuple[GroupTile, GroupWork] | None] = field(default_factory=dict)
    _facts: GraphFacts | None = None

    def prepare(self, graph: XGraph, groups: Sequence[Sequence[str]], progress: Callable[[str], None]) -> None:
        """Do nothing, because `cost` is fast."""

    def cost(self, graph: XGraph, nodes: Sequence[str]) -> GroupCost | None:
        """Return the modelled cost; 0 for a concat that copies nothing."""
        tile_and_work = self.work(graph, nodes)
        return None if tile_and_work is None else GroupCost(tile_and_work[1].cycles(self.target), tile_and_work[0])

    def work(self, graph: XGraph, nodes: Sequence[str]) -> tuple[GroupTile, GroupWork] | None:
        """Return the tile and the work of a group; None if it does not fit on chip."""
        if self._facts is None or self._facts.graph is not graph:
            self._facts = GraphFacts(graph)
        if self.target.isa == VTA and is_refused_group(graph, nodes):
            return None
        shape = group_shape(self._facts, nodes)
        if len(nodes) == 1 and shape.nodes[0].kind == "concat":
            return self._concat(self._facts, shape)
        if shape.key not in self._known:
            self._known[shape.key] = self._search(shape)
        return self._known[shape.key]

    def _search(self, shape: GroupShape) -> tuple[GroupTile, GroupWork] | None:
        if self.paper_tiles_only:
            return paper_tile(shape, self.target) or whole_tile(shape, self.target)
        # A large group that fits whole transfers each byte once: no tile is better.
        whole = whole_tile(shape, self.target) if len(shape.nodes) > MOST_TILED else None
        return whole or best_tile(shape, self.target)

    def _concat(self, facts: GraphFacts, shape: GroupShape) -> tuple[GroupTile, GroupWork]:
        """Return the tile and the work of a concat by itself, which loads and saves the inputs that lie elsewhere."""
        (node,) = shape.nodes
        moved = 0
        for at in facts.copied_parts[node.name]:
            part = facts.nodes[node.inputs[at]]
            moved += prod(part.shape)
        tile = GroupTile(
            min(self.target.rows_parallel, node.shape[1]),
            node.shape[2],
            node.channels,
            self.target.macs_in_channels,
            "rows_columns_channels",
        )
        cycles = -(-moved // self.target.misc_parallel)
        tiles = node.shape[0] * max(1, -(-node.shape[1] // tile.rows))
        return tile, GroupWork(moved, moved, 0, 0, 0, cycles, moved // tiles, moved // tiles, tiles)
