"""Costs of groups by their generated code, run with a few tiles: by cycle-accurate simulation, or on a device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from mavcg.accelerators.codegen.choose_tile import tiled_group
from mavcg.accelerators.codegen.objective import Objective
from mavcg.accelerators.costs.kept import GroupKeys
from mavcg.accelerators.fusion.costs import GroupCost
from mavcg.accelerators.groups import FusedGroup, GroupTooLarge
from mavcg.accelerators.host.runtime import DeviceDriver, DeviceProgram
from mavcg.accelerators.image.elf_file import write_elf
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.toolchain.codegen import default_workers

Progress = Callable[[str], None]
RUNS = 3  # runs of each program; the minimum counts, because disturbances only add cycles


@dataclass
class SimulatedGroupCosts:
    """A provider of costs that generates each group's code with a few tiles, and simulates it.

    Groups with the same parameters are simulated once. A group by itself starts on an idle machine, so the sum over a
    network is an upper bound of its time, a few per cent too high: transfers of consecutive groups overlap. objective:
    what costs count.
    """

    target: IsaTarget
    objective: Objective = "time"
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
        """Return the simulated cost with the cheapest tile; None if the group does not fit on chip."""
        key = self._keys.key(graph, nodes)
        if key not in self._known:
            self._known[key] = self._simulate(graph, nodes)
        return self._known[key]

    def _simulate(self, graph: XGraph, nodes: Sequence[str]) -> GroupCost | None:
        return _with_tile(lambda: tiled_group(graph, nodes, "cost", self.target, objective=self.objective))


@dataclass
class DeviceGroupCosts:
    """A provider that measures each group with the tiles that are fastest by estimate. Graphs must be quantised.

    driver: driver of the device; None for the simulated device, which counts no cycles. runs: runs of each program.
    """

    target: IsaTarget
    driver: DeviceDriver | None
    runs: int = RUNS
    _known: dict[object, GroupCost | None] = field(default_factory=dict)
    _keys: GroupKeys = field(default_factory=GroupKeys)

    def prepare(self, graph: XGraph, groups: Sequence[Sequence[str]], progress: Callable[[str], None]) -> None:
        """Measure all groups whose costs are not known, one after the other. Raises: MavcgError, as `cost`."""
        for number, nodes in enumerate(groups, 1):
            progress(f"groups on the device: {number} of {len(groups)}")
            self.cost(graph, nodes)

    def cost(self, graph: XGraph, nodes: Sequence[str]) -> GroupCost | None:
        """Return the measured cost with the fastest tile; None if no tile fits.

        Raises: MavcgError if the device fails, is not the target, or counts no cycles.
        """
        key = self._keys.key(graph, nodes)
        if key not in self._known:
            self._known[key] = _with_tile(lambda: tiled_group(graph, nodes, "cost", self.target, cost_of=self._cycles))
        return self._known[key]

    def _cycles(self, program: AccelProgram) -> int:
        with scratch_folder("mavcg-device-") as folder:
            path = Path(folder) / "group.elf"
            write_elf(replace(program, network="group"), path)
            with DeviceProgram(path, driver=self.driver) as device:
                inputs = {name: np.zeros(shape, np.float32) for name, shape in device.inputs.items()}
                counts = []
                for _ in range(self.runs):
                    device.run(inputs)
                    counts.append(device.cycles)
        if 0 in counts:
            name = "the simulated device" if self.driver is None else str(self.driver.library)
            raise MavcgError(f"{name}: does not count cycles (register CYCLES); give --driver of a device that does")
        return min(counts)


def _with_tile(tiled: Callable[[], FusedGroup]) -> GroupCost | None:
    """Return the cost of a group with its tile; None if it does not fit on chip."""
    try:
        group = tiled()
    except GroupTooLarge:
        return None
    return GroupCost(group.cost, group.tile)
