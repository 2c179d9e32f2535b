"""Predicted time of a kernel on a GPU: a roofline of arithmetic, shared memory, L2 cache and memory, in waves."""

from dataclasses import dataclass

from mavcg.accelerators.gpu.conv_kernel import ConvKernel
from mavcg.accelerators.gpu.gpu_layer import WORD_BYTES
from mavcg.accelerators.gpu.kernel_plan import ElementwiseKernel, Kernel, ProductKernel, WindowKernel
from mavcg.cost.layer import Dataflow
from mavcg.hardware.gpu import Gpu

# Constants of the model. FRAME_REGISTERS is read off machine code; the others down to L2_OVER_MEMORY are fitted to the
# times of some 650 kernels of five networks' layers on an H100 (bench.accelerators.gpu); they absorb the rest.
FRAME_REGISTERS = 40  # addresses and loop counters, beside sums and operands
MANY_SUMS, CONVERTED_REGISTERS = 64, 30  # f16, with MANY_SUMS: operands that the compiler keeps converted, or it spills
PACKED_REGISTERS = 4  # f16, int8: packing of several elements into a word before the store
LOADED_REGISTERS = 40  # int8 without cp.async, with MANY_SUMS: operands that the compiler loads early, or it spills
MOVING_OUTPUT_REGISTERS = 40  # input-stationary: sums that are read and written tile by tile; with fewer it spills
COPY_INSTRUCTIONS = 46  # per word or vector copied into shared memory: its row, column, bounds and address
STEP_INSTRUCTIONS = 117  # per step of the pipeline, without the copies
STORE_INSTRUCTIONS = 81  # per output of a thread
STEP_LATENCY_CYCLES = 358  # a barrier and the first operands of a step
BLOCK_CYCLES = 183  # a block's start, its first tile and its end
LAUNCH_SECONDS = 1.3e-6
WARPS_FOR_FULL_RATE = 11
L2_OVER_MEMORY = 1.8  # bandwidth of the level-2 cache over the memory's, where the profile has none
COPY_LATENCY_CYCLES = 700  # assumed: latency of a tile from memory without double buffering
SCHEDULERS = 4
MEMORY_SHARE = 0.88  # fraction of the peak bandwidth that a stream reaches


@dataclass(frozen=True)
class KernelTime:
    """Seconds of a kernel by cause. resident: blocks per multiprocessor at once. registers: estimated, per thread."""

    compute: float
    l2: float
    memory: float
    overhead: float
    resident: int
    registers: int

    @property
    def seconds(self) -> float:
        """Seconds of the layer: the slowest of compute, L2 and memory, plus the overhead that does not overlap."""
        return max(self.compute, self.l2, self.memory) + self.overhead

    @property
    def bound(self) -> str:
        """The slowest resource: "compute", "l2" or "memory"."""
        return max(("compute", "l2", "memory"), key=lambda name: float(getattr(self, name)))


def predict(kernel: Kernel, gpu: Gpu) -> KernelTime | None:
    """Return the time of a kernel; None if one of its blocks does not fit a multiprocessor."""
    match kernel:
        case ConvKernel():
            return _convolution(kernel, gpu)
        case ProductKernel():
            return _product(kernel, gpu)
        case WindowKernel():
            return _window(kernel, gpu)
        case ElementwiseKernel():
            moved = kernel.words * WORD_BYTES * (3 if kernel.layer.residual else 2)
            memory, l2 = moved / (gpu.memory_gb_per_s * 1e9 * MEMORY_SHARE), moved / _l2_rate(gpu)
            return KernelTime(0.0, l2, memory, LAUNCH_SECONDS, gpu.threads_of_sm // kernel.threads, FRAME_REGISTERS)


def estimated_registers(kernel: ConvKernel, gpu: Gpu) -> int:
    """Return the estimated registers per thread: sums, operands, pixel offsets and the frame.

    f16 operands are converted to floats and count twice.
    """
    operands = (kernel.rm + 1) * (2 if kernel.layer.type == "f16" else 1) + kernel.rm
    if kernel.layer.type == "f16" and kernel.rm * kernel.rn >= MANY_SUMS:
        operands += CONVERTED_REGISTERS
    if kernel.layer.type != "f32":
        operands += PACKED_REGISTERS
    if kernel.layer.type == "i8" and kernel.rm * kernel.rn >= MANY_SUMS and not gpu.has_async_copies:
        operands += LOADED_REGISTERS
    if kernel.stationary is Dataflow.INPUT:
        operands += MOVING_OUTPUT_REGISTERS
    return kernel.rm * kernel.rn + operands + 2 * kernel.rn + FRAME_REGISTERS


def _convolution(kernel: ConvKernel, gpu: Gpu) -> KernelTime | None:
    layer, conv = kernel.layer, kernel.layer.conv
    registers = estimated_registers(kernel, gpu)
    resident = gpu.resident_blocks(kernel.threads, registers, kernel.shared_bytes)
    if resident < kernel.min_blocks:
        return None
    blocks_x, blocks_y, blocks_z = kernel.grid
    blocks = blocks_x * blocks_y * blocks_z
    steps = -(-kernel.reductions // kernel.splits) * kernel.inner
    warps = -(-kernel.threads // 32)
    taps = kernel.tile_ic * conv.kh * conv.kw
    macs = kernel.rm * kernel.rn * (2 if layer.type == "f16" else 1)
    lanes = gpu.dp4a if layer.type == "i8" else gpu.lanes
    arithmetic = macs * SCHEDULERS * 32 / lanes
    reads = kernel.rn + (kernel.rm / 4 if kernel.rm % 4 == 0 and kernel.tile_oc % 4 == 0 else kernel.rm)
    converted = (2.0 * (kernel.rn + kernel.rm)) if layer.type == "f16" else 0.0
    issue = max(arithmetic, macs + reads + converted, arithmetic * 0.6 + reads + converted)
    # Threads of a warp read different weights if their channels differ, and the same word if their pixels are the same.
    distinct_pixels = min(32, kernel.threads_pixels)
    bank_cycles = kernel.rn * max(1.0, distinct_pixels * _conflicts(kernel) / 32) + kernel.rm / 4 * max(
        1.0, 32 / distinct_pixels / 8
    )
    copied = _copies(kernel)
    step_cycles = (
        max(warps * taps * issue / SCHEDULERS, warps * taps * bank_cycles)
        + warps * (copied * COPY_INSTRUCTIONS + STEP_INSTRUCTIONS) / SCHEDULERS
    )
    at_once = min(resident, -(-blocks // gpu.sms))
    busy = min(1.0, at_once * warps / WARPS_FOR_FULL_RATE)
    latency = STEP_LATENCY_CYCLES + (COPY_LATENCY_CYCLES if kernel.stages == 1 else 0)
    exposed = max(0.0, latency - step_cycles * (at_once - 1)) if kernel.stages == 1 else STEP_LATENCY_CYCLES / at_once
    stores = warps * kernel.rm * kernel.rn * STORE_INSTRUCTIONS * kernel.inner / SCHEDULERS
    block_cycles = steps * (step_cycles / busy + exposed) + stores + BLOCK_CYCLES / at_once
    rounds = blocks / (gpu.sms * at_once)
    whole = -(-blocks // (gpu.sms * at_once))
    # Blocks start as others end, so the partly filled last wave costs less than a whole one: take the mean of both.
    waves = max(1.0, 0.5 * (rounds + whole))
    compute = waves * at_once * block_cycles / (gpu.clock_mhz * 1e6)
    copied_bytes = blocks * steps * WORD_BYTES * _moved_words(kernel)
    partial = _partial_traffic(kernel)
    output = conv.output_elements * conv.items.output * (2 if layer.residual else 1)
    overhead = LAUNCH_SECONDS
    if kernel.splits > 1:
        overhead += LAUNCH_SECONDS + (kernel.partial_bytes + output) / _l2_rate(gpu)
    return KernelTime(
        compute,
        (copied_bytes + partial + output) / _l2_rate(gpu),
        (_compulsory_bytes(kernel) + output) / (gpu.memory_gb_per_s * 1e9 * MEMORY_SHARE),
        overhead,
        resident,
        registers,
    )


def _conflicts(kernel: ConvKernel) -> int:
    """Return the number of pixels of a warp in the same bank: the largest power of two that divides the row stride."""
    stride = kernel.layer.conv.stride[1]
    return max(1, stride & -stride)


def _copies(kernel: ConvKernel) -> float:
    """Return the copy instructions per thread and step: words of the input, vectors of weights."""
    return (
        kernel.input_words / kernel.threads / (4 if _vectors(kernel) else 1) + kernel.weight_words / 4 / kernel.threads
    )


def _vectors(kernel: ConvKernel) -> bool:
    conv, columns = kernel.layer.conv, kernel.rows_columns[1]
    return (
        conv.kw == 1
        and conv.stride[1] == 1
        and conv.pads[1] == 0
        and conv.iw % 4 == 0
        and columns % 4 == 0
        and not kernel.layer.gathers
        and conv.iw >= conv.ow
    )


def _moved_words(kernel: ConvKernel) -> float:
    """Return the mean number of words that a block copies per step; the stationary operand is copied once."""
    stays = 1 / kernel.inner
    inputs = kernel.input_words * (stays if kernel.inner > 1 and kernel.stationary.startswith("input") else 1)
    filters = kernel.weight_words * (stays if kernel.inner > 1 and kernel.stationary.startswith("weight") else 1)
    return inputs + filters


def _partial_traffic(kernel: ConvKernel) -> float:
    if kernel.splits > 1:
        return float(kernel.partial_bytes)
    return 2.0 * kernel.partial_bytes * (kernel.reductions - 1)


def _compulsory_bytes(kernel: ConvKernel | ProductKernel) -> int:
    conv = kernel.layer.conv
    return conv.input_elements * conv.items.input + conv.weight_elements * conv.items.weight


def _l2_rate(gpu: Gpu) -> float:
    return (gpu.l2_gb_per_s or gpu.memory_gb_per_s * L2_OVER_MEMORY) * 1e9


def _product(kernel: ProductKernel, gpu: Gpu) -> KernelTime | None:
    conv = kernel.layer.conv
    registers = FRAME_REGISTERS + 12 * kernel.rm
    resident = gpu.resident_blocks(kernel.threads, registers, kernel.shared_bytes)
    if not resident:
        return None
    blocks = kernel.grid[0] * kernel.grid[1] * kernel.grid[2]
    # A multiprocessor needs enough bytes in flight: too few blocks do not reach the memory's bandwidth.
    in_flight = min(1.0, blocks * kernel.threads * kernel.rm / (gpu.sms * 512.0))
    seconds = _compulsory_bytes(kernel) / (gpu.memory_gb_per_s * 1e9 * MEMORY_SHARE * in_flight)
    at_once = min(resident, -(-blocks // gpu.sms))
    waves = max(1.0, blocks / (gpu.sms * at_once))
    words = conv.oc * conv.groups * kernel.layer.ic_words / (gpu.sms * gpu.lanes)
    tail = waves * BLOCK_CYCLES + kernel.reductions / kernel.splits * 60
    compute = (words * 3 + tail) / (gpu.clock_mhz * 1e6)
    overhead = LAUNCH_SECONDS + (LAUNCH_SECONDS + kernel.partial_bytes / _l2_rate(gpu) if kernel.splits > 1 else 0.0)
    return KernelTime(compute, _compulsory_bytes(kernel) / _l2_rate(gpu), seconds, overhead, resident, registers)


def _window(kernel: WindowKernel, gpu: Gpu) -> KernelTime | None:
    conv = kernel.layer.conv
    registers = FRAME_REGISTERS + 8 * kernel.layer.pack
    resident = gpu.resident_blocks(kernel.threads, registers, kernel.shared_bytes)
    if not resident:
        return None
    blocks = kernel.grid[0] * kernel.grid[1]
    at_once = min(resident, -(-blocks // gpu.sms))
    warps = -(-kernel.threads // 32)
    tile_words = kernel.shared_bytes / WORD_BYTES
    cycles = (
        warps
        / SCHEDULERS
        * (
            tile_words / kernel.threads * COPY_INSTRUCTIONS
            + kernel.rn * (conv.kh * conv.kw * (2 + 2 * kernel.layer.pack) + 3 * STORE_INSTRUCTIONS)
        )
    )
    waves = max(1.0, 0.5 * (blocks / (gpu.sms * at_once) + -(-blocks // (gpu.sms * at_once))))
    compute = waves * (at_once * cycles + BLOCK_CYCLES) / (gpu.clock_mhz * 1e6)
    output = conv.output_elements * conv.items.output * (2 if kernel.layer.residual else 1)
    tensor_bytes = conv.input_elements * conv.items.input + output
    copied = blocks * kernel.shared_bytes + output
    memory = tensor_bytes / (gpu.memory_gb_per_s * 1e9 * MEMORY_SHARE)
    return KernelTime(compute, copied / _l2_rate(gpu), memory, LAUNCH_SECONDS, resident, registers)
