"""Compute costs of groups by code generation and cycle-accurate simulation; exact for a group that runs alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from mavcg.accelerators.codegen.choose_tile import tiled_group
from mavcg.accelerators.codegen.group_key import GroupKeys
from mavcg.accelerators.fusion.costs import GroupCost
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.toolchain.codegen import default_workers

Progress = Callable[[str], None]


@dataclass
class SimulatedGroupCosts:
    """A provider of costs that generates each group's code with a few tiles, and simulates it.

    Groups with the same parameters are simulated once. A group by itself starts on an idle machine, so the sum over a
    network is an upper bound of its time, a few per cent too high: transfers of consecutive groups overlap.
    """

    target: IsaTarget
    _known: dict[object, GroupCost | None] = field(default_factory=dict)
    _keys: GroupKeys = field(default_factory=GroupKeys)

    def prepare(self, graph: XGraph, groups: Sequence[Sequence[str]], progress: Progress) -> None:
        """Simulate all groups whose costs are not known yet, in parallel processes."""
        unlike: dict[object, Sequence[str]] = {}
        for nodes in groups:
            key = self._keys.key(graph, nodes)
            if key not in self._known:
                unlike.setdefault(key, nodes)
        tasks = [
            Task(f"costs of groups: {number} of {len(unlike)}", partial(self._simulate, graph, nodes), len(nodes))
            for number, nodes in enumerate(unlike.values(), 1)
        ]
        self._known.update(zip(unlike, run_tasks(tasks, default_workers(), progress), strict=True))

    def cost(self, graph: XGraph, nodes: Sequence[str]) -> GroupCost | None:
        """Return the simulated cost with the fastest tile; None if the group does not fit on chip."""
        key = self._keys.key(graph, nodes)
        if key not in self._known:
            self._known[key] = self._simulate(graph, nodes)
        return self._known[key]

    def _simulate(self, graph: XGraph, nodes: Sequence[str]) -> GroupCost | None:
        try:
            group = tiled_group(graph, nodes, "cost", self.target)
        except MavcgError as error:
            if "does not fit on chip" not in str(error):
                raise
            return None
        return GroupCost(group.cost, group.tile)
