"""Measure costs of groups on a device: the runtime runs each group's program, and the device counts cycles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mavcg.accelerators.codegen.choose_tile import tiled_group
from mavcg.accelerators.codegen.group_key import GroupKeys
from mavcg.accelerators.fusion.costs import GroupCost
from mavcg.accelerators.host.runtime import DeviceDriver, DeviceProgram
from mavcg.accelerators.image.elf_file import write_elf
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder

RUNS = 3  # runs of each program; the minimum counts, because disturbances only add cycles


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
            self._known[key] = self._measure(graph, nodes)
        return self._known[key]

    def _measure(self, graph: XGraph, nodes: Sequence[str]) -> GroupCost | None:
        try:
            group = tiled_group(graph, nodes, "cost", self.target, cycles_of=self._cycles)
        except MavcgError as error:
            if "does not fit on chip" not in str(error):
                raise
            return None
        return GroupCost(group.cost, group.tile)

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
