"""A GPU as the planner's accelerator: one block's shared memory and registers, the whole chip's rates."""

from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from mavcg.hardware.gpu import Gpu

# A block of 16 x 16 threads, output channels along one side and pixels of a row along the other.
_SIDE = 16
_SUM_BYTES = 4
# Sums of a thread that leave room for operands and addresses among its registers: 8 channels x 8 pixels.
SUMS_OF_THREAD = 64


def block_machine(gpu: Gpu) -> Accelerator:
    """Return the machine whose tiles fit one block: half of its shared memory each for input and weights, sums in
    registers.

    Its elements' rate is the GPU's peak over their number, its bandwidth the GPU's: all blocks are at work alike.
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
    return Accelerator(gpu.name, gpu.peak_gmac_per_s / elements, (level,), (_SIDE, _SIDE), (("OW",), ("OC",)))


def machine_assumptions(gpu: Gpu) -> tuple[str, ...]:
    """Return what `block_machine` assumes, for people."""
    return (
        f"{gpu.name}: a block has {gpu.shared_bytes_of_block // 2} bytes of shared memory for its input, as many for "
        f"its weights, and {_SIDE * _SIDE * SUMS_OF_THREAD} sums in registers; all blocks together reach its peaks",
    )
