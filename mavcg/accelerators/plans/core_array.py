"""A core in the terms of an accelerator, for plans of the paper's kind: `mavcg plan --board`.

    lanes of an f32 vector           columns of the array, along OC: a vector of packed weights is output channels
    vector multiply-adds per cycle   rows of the array, along OW: each pipe computes another pixel of the output row
    L1, L2, L3                       levels, each one memory for all operands, with the bandwidth behind it
A cycle of the array is thus a cycle of the core with every multiply-add pipe busy. The other instructions of a cycle,
in which in-order cores differ, are the pipeline model's concern.
"""

from mavcg.hardware.accelerator import Accelerator
from mavcg.hardware.core_model import CoreModel


def core_accelerator(board: str, core: CoreModel) -> Accelerator:
    """Return the core's accelerator. board: its name, for the accelerator's.

    A core with less than one multiply-add of a vector per cycle has a shorter vector: pipes of half the width take two
    cycles.
    """
    columns = min(core.lanes, core.macs_per_cycle)
    array = columns, core.macs_per_cycle // columns
    name = f"{board}: {core.cluster.core}"
    return Accelerator(name, core.ghz, core.levels, array, (("OC",), ("OW",)), any_outputs=True)
