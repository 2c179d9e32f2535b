"""Search for a layer's fastest kernel on a GPU: all kernels of a grid of tiles, by predicted time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from mavcg.accelerators.gpu.conv_kernel import ConvKernel
from mavcg.accelerators.gpu.gpu_layer import GpuLayer
from mavcg.accelerators.gpu.kernel_plan import ElementwiseKernel, Kernel, ProductKernel, WindowKernel
from mavcg.accelerators.gpu.kernel_time import KernelTime, predict
from mavcg.accelerators.plans.space import NoTiling
from mavcg.cost.layer import Dataflow
from mavcg.hardware.gpu import Gpu

CHANNELS_OF_THREAD, PIXELS_OF_THREAD = (4, 8), (1, 2, 4, 8)
THREADS = (64, 128, 256)
LEAST_PIXEL_THREADS = 8
WORDS_OF_TILE = (2, 4, 8, 16, 32)
SPLITS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
INNER_TILES = (2, 4)


@dataclass(frozen=True)
class FoundKernel:
    """A kernel with its predicted time, and the number of kernels that the search compared."""

    kernel: Kernel
    time: KernelTime
    candidates: int


def best_kernel(layer: GpuLayer, gpu: Gpu) -> FoundKernel:
    """Return the kernel of least predicted time. Raises: NoTiling if no block fits the GPU."""
    return best_kernels(layer, gpu, 1)[0]


def best_kernels(layer: GpuLayer, gpu: Gpu, count: int) -> tuple[FoundKernel, ...]:
    """Return up to `count` kernels in order of predicted time. Raises: NoTiling if none fits the GPU."""
    unnamed = replace(layer, conv=layer.conv.key)
    ranked = _rank(unnamed, gpu)[:count]
    if not ranked:
        raise NoTiling(
            f"layer {layer.conv.name}: no block of a CUDA kernel fits the {gpu.shared_bytes_of_block} bytes of shared "
            f"memory and {gpu.registers_of_sm} registers of {gpu.name}; run it by the CPU library"
        )
    return tuple(
        replace(candidate, kernel=_bound_registers(replace(candidate.kernel, layer=layer), candidate.time))
        for candidate in ranked
    )


def _bound_registers(kernel: Kernel, time: KernelTime) -> Kernel:
    """Return the kernel with the planned number of resident blocks as its min_blocks, which bounds its registers."""
    return replace(kernel, min_blocks=time.resident) if isinstance(kernel, ConvKernel) else kernel


@lru_cache(maxsize=512)
def _rank(layer: GpuLayer, gpu: Gpu) -> tuple[FoundKernel, ...]:
    candidates: Iterator[Kernel]
    if layer.is_elementwise:
        candidates = iter((ElementwiseKernel(layer),))
    elif layer.kind != "conv" or layer.is_depthwise:
        candidates = _windows(layer)
    elif layer.is_fully_connected:
        candidates = _products(layer, gpu)
    else:
        candidates = _convolutions(layer, gpu)
    timed = [(kernel, time) for kernel in candidates if (time := predict(kernel, gpu)) is not None]
    # Ties go to the kernel that takes less of a multiprocessor.
    timed.sort(key=lambda pair: (pair[1].seconds, pair[0].shared_bytes, pair[1].registers))
    return tuple(FoundKernel(kernel, time, len(timed)) for kernel, time in timed[:64])


def _shapes(layer: GpuLayer, pixels: int) -> Iterator[tuple[int, int]]:
    """Yield (rows, columns) of tiles of at most `pixels` pixels: some widths, each with the most rows possible."""
    conv = layer.conv
    widths = {min(conv.ow, width) for width in (4, 8, 16, 32, 64, pixels, *(-(-conv.ow // n) for n in (1, 2, 3, 4)))}
    for width in sorted(widths):
        if width <= pixels:
            rows = min(conv.oh, pixels // width)
            # Rows are spread evenly over the tiles, so that the last kernel is not almost empty.
            yield -(-conv.oh // -(-conv.oh // rows)), width


def _convolutions(layer: GpuLayer, gpu: Gpu) -> Iterator[ConvKernel]:
    conv = layer.conv
    stages = (2, 3) if gpu.has_async_copies else (1,)
    seen = set()
    for rm, rn, threads in product(CHANNELS_OF_THREAD, PIXELS_OF_THREAD, THREADS):
        for threads_oc in (1, 2, 4, 8, 16, 32):
            threads_pixels, tile_oc = threads // threads_oc, rm * threads_oc
            if threads_pixels < LEAST_PIXEL_THREADS or (tile_oc > 4 and tile_oc >= 2 * conv.oc):
                continue
            for tile_oh, tile_ow in _shapes(layer, threads_pixels * rn):
                if tile_oh * tile_ow <= threads_pixels * rn // 2 and tile_oh * tile_ow < conv.oh * conv.ow:
                    continue
                if tile_oh * tile_ow <= threads_pixels * (rn - 1):
                    continue
                for tile_ic, stage in product(WORDS_OF_TILE, stages):
                    words = min(tile_ic, layer.ic_words)
                    kernel = ConvKernel(
                        layer, tile_oc, words, tile_oh, tile_ow, rm, rn, threads_oc, threads_pixels, stages=stage
                    )
                    if kernel.shared_bytes <= gpu.shared_bytes_of_block and kernel not in seen:
                        seen.add(kernel)
                        yield from _variants(kernel, gpu)


def _variants(kernel: ConvKernel, gpu: Gpu) -> Iterator[ConvKernel]:
    """Yield the kernel as it is, with its sums split over blocks, and with other stationary operands."""
    yield kernel
    blocks = kernel.grid[0] * kernel.grid[1]
    if blocks < 2 * gpu.sms:
        for splits in SPLITS:
            if splits <= kernel.reductions and blocks * splits <= 8 * gpu.sms:
                yield replace(kernel, splits=splits)
    if blocks >= 4 * gpu.sms:
        for inner in INNER_TILES:
            if kernel.pixel_tiles >= inner:
                yield replace(kernel, stationary=Dataflow.WEIGHT, inner=inner)
            if kernel.oc_tiles >= inner:
                yield replace(kernel, stationary=Dataflow.INPUT, inner=inner)


def _products(layer: GpuLayer, gpu: Gpu) -> Iterator[ProductKernel]:
    for rm, threads_oc, words in product((1, 2, 4), (1, 2, 4, 8), (512, 1024, 2048, 4096)):
        if rm * threads_oc >= 2 * layer.conv.oc and rm * threads_oc > 1:
            continue
        kernel = ProductKernel(layer, min(words, layer.ic_words), rm, threads_oc)
        if kernel.shared_bytes <= gpu.shared_bytes_of_block:
            yield kernel
            for splits in SPLITS:
                if splits <= kernel.reductions:
                    yield replace(kernel, splits=splits)


def _windows(layer: GpuLayer) -> Iterator[WindowKernel]:
    words = -(-layer.conv.groups // layer.pack)
    for threads_pixels, tile_c, rn in product((16, 32, 64, 128, 256), (1, 2, 4, 8, 16), (1, 2, 4)):
        if not 64 <= threads_pixels * tile_c <= 256 or tile_c >= 2 * words > 1:
            continue
        for tile_oh, tile_ow in _shapes(layer, threads_pixels * rn):
            if tile_oh * tile_ow > threads_pixels * (rn - 1):
                yield WindowKernel(layer, tile_c, tile_oh, tile_ow, threads_pixels, rn)
