"""Machines as accelerators of the planner: a core of a board, and a block of threads of a GPU."""

from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.gpu import Gpu

# A block of 16 x 16 threads, output channels along one side and pixels of a row along the other.
_SIDE = 16
_SUM_BYTES = 4
# Sums per thread that leave registers for operands and addresses: 8 channels x 8 pixels.
SUMS_OF_THREAD = 64


def core_accelerator(board: str, core: CoreModel) -> Accelerator:
    """Return a core in the terms of an accelerator, for `mavcg plan --board`. board: its name, for the accelerator's.

    The array has a column for each lane of an f32 vector, along OC (a vector of packed weights is output channels), and
    a row for each vector multiply-add of a cycle, along OW (each pipe computes another pixel of the row). L1, L2 and L3
    are levels, each one memory for all operands, with the bandwidth behind it. A cycle of the array is thus a cycle of
    the core with every multiply-add pipe busy; what else limits an in-order core is the pipeline model's concern.
    A core with less than one multiply-add of a vector per cycle has a shorter vector: pipes of half the width take two
    cycles.
    """
    columns = min(core.lanes, core.macs_per_cycle)
    array = columns, core.macs_per_cycle // columns
    name = f"{board}: {core.cluster.core}"
    return Accelerator(name, core.ghz, core.levels, array, (("OC",), ("OW",)), any_outputs=True)


def block_machine(gpu: Gpu) -> Accelerator:
    """Return the accelerator whose tiles fit one block of threads.

    Half of the block's shared memory holds input, half weights; sums are in registers. An element's rate is the GPU's
    peak over the number of elements, and the bandwidth is the GPU's: all blocks run at the same time.
    """
    half = gpu.shared_bytes_of_block // 2
    level = MemoryLevel(
        "shared memory and registers of a block",
        gpu.memory_gb_per_s,
        input_bytes=half,
        weight_bytes=half,
        output_bytes=_SIDE * _SIDE * SUMS_OF_THREAD * _SUM_BYTES,
    )
    elements = _SIDE * _SIDE
    return Accelerator(
        gpu.name, gpu.peak_gmac_per_s / elements, (level,), (_SIDE, _SIDE), (("OW",), ("OC",)), any_outputs=True
    )


def machine_assumptions(gpu: Gpu) -> tuple[str, ...]:
    """Return the assumptions of `block_machine`, as sentences for messages."""
    return (
        f"{gpu.name}: a block has {gpu.shared_bytes_of_block // 2} bytes of shared memory for its input, as many for "
        f"its weights, and {_SIDE * _SIDE * SUMS_OF_THREAD} sums in registers; all blocks together reach its peaks",
    )
