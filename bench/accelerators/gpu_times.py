"""Times on a GPU: of mavcg's kernels and of the vendor's library; its bandwidth and peak rates."""

import statistics
from typing import Any

from bench.accelerators.gpu_driver import Driver
from mavcg.accelerators.gpu.conv_kernel import ConvKernel
from mavcg.accelerators.gpu.gpu_layer import GpuLayer
from mavcg.accelerators.gpu.kernel_search import FoundKernel
from mavcg.accelerators.gpu.layer_source import launches_of

REPLAYS, LAUNCHES, SETS_BYTES, MOST_SETS = 7, 20, 200 << 20, 12


def graph_ms(torch: Any, call: Any) -> float:
    """Return the median milliseconds of one call, by replays of a CUDA graph of LAUNCHES calls.

    call: takes its number.
    """
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(3):
            call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(LAUNCHES):
            call(i)
    graph.replay()
    times = []
    for _ in range(REPLAYS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / LAUNCHES)
    return float(statistics.median(times))


def own_ms(torch: Any, driver: Driver, candidate: FoundKernel, cubin: bytes) -> float:
    """Return the milliseconds of a kernel on random data; several data sets alternate so that no cache keeps them."""
    launches = launches_of(candidate.kernel, "layer")
    functions = driver.load(cubin, [launch.function for launch in launches])
    sizes = buffer_bytes(candidate)
    sets = max(1, min(MOST_SETS, SETS_BYTES // max(1, sum(sizes.values()))))
    buffers = [
        {
            name: torch.randint(-64, 64, (max(16, size),), dtype=torch.int8, device="cuda")
            for name, size in sizes.items()
        }
        for _ in range(sets)
    ]

    def call(i: int) -> None:
        at = buffers[i % sets]
        stream = torch.cuda.current_stream().cuda_stream
        for launch in launches:
            driver.launch(
                launch, functions[launch.function], [at[n].data_ptr() if n else 0 for n in launch.arguments], stream
            )

    return graph_ms(torch, call)


def buffer_bytes(candidate: FoundKernel) -> dict[str, int]:
    """Return the bytes of a layer's buffers, by their names."""
    layer, conv, kernel = candidate.kernel.layer, candidate.kernel.layer.conv, candidate.kernel
    pack = layer.pack
    channels = -(-conv.groups * conv.ic // pack) * 4
    sizes = {"input": channels * conv.ih * conv.iw}
    sizes["output"] = -(-conv.groups * conv.oc // pack) * 4 * conv.oh * conv.ow
    if layer.kind == "conv":
        if isinstance(kernel, ConvKernel):
            sizes["weights"] = conv.groups * kernel.oc_tiles * kernel.reductions * kernel.weight_words * 4
        else:
            sizes["weights"] = conv.groups * conv.oc * layer.ic_words * conv.kh * conv.kw * 4
        sizes["bias"] = conv.groups * conv.oc * 8
    if layer.residual:
        sizes["residual"] = sizes["output"]
    if kernel.partial_bytes:
        sizes["partial"] = kernel.partial_bytes
    return sizes


def library_ms(torch: Any, layer: GpuLayer, tf32: bool, channels_last: bool) -> float | None:
    """Return the milliseconds of the layer in PyTorch: cuDNN for a convolution, cuBLAS for a product; None for int8."""
    if layer.type == "i8":
        return None
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    conv = layer.conv
    kind = torch.float16 if layer.type == "f16" else torch.float32
    sizes = conv.input_elements + conv.weight_elements + conv.output_elements
    sets = max(1, min(MOST_SETS, SETS_BYTES // (sizes * conv.items.input)))
    top, left, bottom, right = conv.pads

    def tensor(*shape: int) -> Any:
        made = torch.randn(*shape, device="cuda").to(kind)
        return made.contiguous(memory_format=torch.channels_last) if channels_last and len(shape) == 4 else made

    # Without bias, which PyTorch adds by a kernel of its own after cuDNN's; ours have it in theirs.
    channels = conv.groups * conv.oc
    if layer.is_fully_connected:
        data = [(tensor(1, conv.ic), tensor(channels, conv.ic)) for _ in range(sets)]
        return graph_ms(torch, lambda i: torch.nn.functional.linear(*data[i % sets]))
    images = (1, conv.groups * conv.ic, conv.ih, conv.iw)
    data = [(tensor(*images), tensor(channels, conv.ic, conv.kh, conv.kw)) for _ in range(sets)]
    # Where the sides differ PyTorch has one number for both: the larger one, whose layer is no smaller.
    padding = (max(top, bottom), max(left, right))
    return graph_ms(
        torch,
        lambda i: torch.nn.functional.conv2d(*data[i % sets], None, conv.stride, padding, conv.dilation, conv.groups),
    )


def ceilings(torch: Any) -> dict[str, float]:
    """Return this GPU's measured ceilings: GB/s of a copy, read and written bytes; GMAC/s of f32 and f16 products."""
    source = torch.empty(1 << 30, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    copy = graph_ms(torch, lambda i: target.copy_(source))
    rates = {"copy_gb_per_s": 2 * (1 << 30) / copy / 1e6}
    for name, kind, tf32 in (
        ("f32", torch.float32, False),
        ("tf32", torch.float32, True),
        ("f16", torch.float16, False),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.randn(4096, 4096, device="cuda").to(kind) for _ in range(2))
        rates[f"{name}_gmac_per_s"] = 4096**3 / graph_ms(torch, lambda i, a=a, b=b: a @ b) / 1e6
    return rates
