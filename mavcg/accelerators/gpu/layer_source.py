"""CUDA C++ of a kernel's plan: the constants of a layer, an instance of a kernel template of csrc/, its launches."""

from collections.abc import Mapping
from dataclasses import dataclass

from mavcg.accelerators.gpu.conv_kernel import ConvKernel
from mavcg.accelerators.gpu.gpu_layer import ACTIVATIONS, ELEMENTWISE, PACK, GpuLayer
from mavcg.accelerators.gpu.kernel_plan import ElementwiseKernel, Kernel, ProductKernel, WindowKernel
from mavcg.cost.layer import Dataflow
from mavcg.text.safe_text import comment

ARGUMENTS = (
    "const void *input, const void *weights, void *output, const void *bias, const void *residual, void *partial"
)
SUM_THREADS = 256
_ENUM = {"f32": "F32", "f16": "F16", "i8": "I8", "i32": "I32"}
_STATIONARY = {
    Dataflow.OUTPUT: "OUTPUT_STATIONARY",
    Dataflow.WEIGHT: "WEIGHT_STATIONARY",
    Dataflow.INPUT: "INPUT_STATIONARY",
}
_WINDOW = {"conv": "DEPTHWISE", "max_pool": "MAXIMUM", "avg_pool": "AVERAGE"}
BUFFERS = ("input", "weights", "output", "bias", "residual", "partial")


def layer_source(kernel: Kernel, function: str) -> str:
    """Return the CUDA C++ of one layer: `function`, and `function`_sum if blocks share sums.

    Kernels take (input, weights, output, bias, residual, partial); a buffer that the layer lacks is null.
    """
    match kernel:
        case ConvKernel():
            header, call = "gpu_convolution.cuh", "convolution<L>(input, weights, output, bias, residual, partial)"
        case ProductKernel():
            header, call = (
                "gpu_fully_connected.cuh",
                "fully_connected<L>(input, weights, output, bias, residual, partial)",
            )
        case WindowKernel():
            header, call = "gpu_windows.cuh", "windows<L>(input, weights, output, bias, residual)"
        case ElementwiseKernel():
            header, call = "gpu_elementwise.cuh", "elementwise<L>(input, residual, output)"
    lines = [
        f"// {comment(kernel.layer.conv.name or 'a layer')}: {_description(kernel)}",
        f'#include "{header}"',
        f"namespace {function}_layer {{",
        "struct L {",
        *(f"    static constexpr {kind} {name} = {value};" for kind, name, value in _constants(kernel)),
        *_bounds(kernel.layer),
        "};",
        _shared_check(kernel),
        "}  // namespace",
        f'extern "C" __global__ void {_launch_bounds(kernel)}{function}({ARGUMENTS}) {{',
        f"    using {function}_layer::L;",
        f"    {call};",
        "}",
    ]
    if kernel.splits > 1:
        lines += [
            f'extern "C" __global__ void __launch_bounds__({SUM_THREADS}) {function}_sum({ARGUMENTS}) {{',
            f"    sum_of_splits<{function}_layer::L>(output, bias, residual, partial);",
            "}",
        ]
    return "\n".join(lines) + "\n"


def sum_blocks(kernel: Kernel) -> int:
    """Return the number of blocks of the kernel that adds splits: one thread per output word, at most 4096 blocks."""
    conv = kernel.layer.conv
    words = conv.groups * -(-conv.oc // PACK[kernel.layer.output]) * conv.oh * conv.ow
    return max(1, min(4096, -(-words // SUM_THREADS)))


def _launch_bounds(kernel: Kernel) -> str:
    least = f", {kernel.min_blocks}" if isinstance(kernel, ConvKernel) and kernel.min_blocks > 1 else ""
    return f"__launch_bounds__({kernel.threads}{least}) "


def _shared_check(kernel: Kernel) -> str:
    tiles = {ConvKernel: "ConvTile", ProductKernel: "ProductTile", WindowKernel: "WindowTile", ElementwiseKernel: ""}
    tile = tiles[type(kernel)]
    return tile and f'static_assert({tile}<L>::SHARED_BYTES == {kernel.shared_bytes}, "shared memory as planned");'


def _description(kernel: Kernel) -> str:
    conv, tile = kernel.layer.conv, kernel.tiling.tile
    sizes = " ".join(f"{name} {factor}/{conv.loops[name]}" for name, factor in tile.factors.items())
    return f"{kernel.layer.type}, tile of {sizes}, {kernel.tiling.dataflow}"


def _bounds(layer: GpuLayer) -> list[str]:
    values = {"leaky_relu": (*layer.act_args, 0.0), "clip": layer.act_args}.get(layer.act, (0.0, 0.0))
    return [
        f"    __host__ __device__ static constexpr float {name}() {{ return {float(value).hex()}f; }}"
        for name, value in zip(("low", "high"), values, strict=True)
    ]


def _constants(kernel: Kernel) -> list[tuple[str, str, object]]:
    layer, conv = kernel.layer, kernel.layer.conv
    bools: Mapping[str, bool] = {"RESIDUAL": layer.residual}
    values: dict[str, object] = {
        "TYPE": _ENUM[layer.type],
        "OUTPUT": _ENUM[layer.output],
        "ACTIVATION": ACTIVATIONS[layer.act],
        "GROUPS": conv.groups,
        "IC": layer.ic_words,
        "IC_ELEMENTS": conv.ic,
        "OC": conv.oc,
        "IH": conv.ih,
        "IW": conv.iw,
        "OH": conv.oh,
        "OW": conv.ow,
        "KH": conv.kh,
        "KW": conv.kw,
        "SH": conv.stride[0],
        "SW": conv.stride[1],
        "DH": conv.dilation[0],
        "DW": conv.dilation[1],
        "TOP": conv.pads[0],
        "LEFT": conv.pads[1],
        "SPLITS": kernel.splits,
    }
    match kernel:
        case ConvKernel():
            values |= {
                "TILE_OC": kernel.tile_oc,
                "TILE_IC": kernel.tile_ic,
                "TILE_OH": kernel.tile_oh,
                "TILE_OW": kernel.tile_ow,
                "RM": kernel.rm,
                "RN": kernel.rn,
                "THREADS_OC": kernel.threads_oc,
                "THREADS_PIXELS": kernel.threads_pixels,
                "STATIONARY": _STATIONARY[kernel.stationary],
                "INNER": kernel.inner,
                "STAGES": kernel.stages,
            }
            bools = {**bools, "GATHER": layer.gathers}
        case ElementwiseKernel():
            values |= {"OPERATOR": ELEMENTWISE[layer.kind], "COUNT": kernel.words}
        case ProductKernel():
            values |= {"TILE_IC": kernel.tile_ic, "RM": kernel.rm, "THREADS_OC": kernel.threads_oc}
        case WindowKernel():
            values |= {
                "IC": kernel.channel_words,
                "TILE_IC": kernel.tile_c,
                "TILE_OH": kernel.tile_oh,
                "TILE_OW": kernel.tile_ow,
                "THREADS_PIXELS": kernel.threads_pixels,
                "RN": kernel.rn,
                "WINDOW": _WINDOW[layer.kind],
            }
    constants: list[tuple[str, str, object]] = [("int", name, value) for name, value in values.items()]
    return constants + [("bool", name, str(value).lower()) for name, value in bools.items()]


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel. arguments: names of its six buffers; "" is a null pointer."""

    function: str
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    arguments: tuple[str, ...]


def launches_of(kernel: Kernel, function: str) -> tuple[Launch, ...]:
    """Return the launches that compute a layer, with its buffers by the names of BUFFERS."""
    layer = kernel.layer
    present = {
        "input": True,
        "output": True,
        "weights": layer.kind == "conv",
        "bias": layer.kind == "conv",
        "residual": layer.residual,
        "partial": kernel.partial_bytes > 0,
    }
    arguments = tuple(name if present[name] else "" for name in BUFFERS)
    first = Launch(function, kernel.grid, kernel.threads, kernel.shared_bytes, arguments)
    if kernel.splits == 1:
        return (first,)
    return first, Launch(f"{function}_sum", (sum_blocks(kernel), 1, 1), SUM_THREADS, 0, arguments)
