"""A GPU as an accelerator of the planner: the shared memory and registers of one block, the rates of the whole chip."""

from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from mavcg.hardware.gpu import Gpu

# A block of 16 x 16 threads, output channels along one side and pixels of a row along the other.
_SIDE = 16
_SUM_BYTES = 4
# Sums per thread that leave registers for operands and addresses: 8 channels x 8 pixels.
SUMS_OF_THREAD = 64


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
