"""Random layers and kernels of GPUs that several tests run."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from mavcg.accelerators.gpu.conv_kernel import ConvKernel
from mavcg.accelerators.gpu.gpu_layer import GpuLayer, typed_layer
from mavcg.accelerators.gpu.kernel_plan import Kernel
from mavcg.accelerators.gpu.kernel_search import best_kernels
from mavcg.accelerators.gpu.kernel_time import predict
from mavcg.cost.layer import ConvLayer, Dataflow
from mavcg.hardware.gpu import Gpu
from mavcg.profiles.gpus import load_gpu

_KINDS = ("conv", "conv", "conv", "grouped", "depthwise", "fully_connected", "max_pool", "avg_pool", "elementwise")


def random_layer(rng: random.Random) -> GpuLayer:
    """A layer of any kind and type, with strides, dilations, uneven padding and channels that fill no word."""
    kind, type_name = rng.choice(_KINDS), rng.choice(("f32", "f16", "i8"))
    groups, ic, oc = 1, rng.randint(1, 40), rng.randint(1, 70)
    kernel = rng.choice([(1, 1), (3, 3), (1, 3), (5, 5), (2, 2), (3, 1)])
    stride, dilation = rng.choice([(1, 1), (1, 1), (2, 2), (1, 2)]), rng.choice([(1, 1), (1, 1), (2, 1), (2, 2)])
    image = (rng.randint(1, 20), rng.randint(1, 24))
    top, left, bottom, right = (rng.randint(0, min(kernel[axis] - 1, 2)) for axis in (0, 1, 0, 1))
    pads = (top, left, bottom, right)
    if kind == "grouped":
        groups, ic, oc = rng.randint(2, 5), rng.randint(1, 9), rng.randint(1, 10)
    elif kind == "fully_connected":
        kernel = stride = dilation = image = (1, 1)
        pads, ic = (0, 0, 0, 0), rng.randint(1, 3000)
    elif kind != "conv":
        groups, ic, oc = rng.randint(2, 40), 1, 1
    oh, ow = ((image[a] + pads[a] + pads[a + 2] - (kernel[a] - 1) * dilation[a] - 1) // stride[a] + 1 for a in (0, 1))
    if oh < 1 or ow < 1:
        return random_layer(rng)
    layer = ConvLayer("drawn", oc, ic, oh, ow, *kernel, *image, stride, pads, dilation, groups)
    if kind.endswith("_pool"):
        return typed_layer(layer, type_name, kind=kind)
    if kind == "elementwise":
        kind, act = rng.choice(("copy", "add", "sub", "mul", "max")), rng.choice(("", "relu"))
        shape = ConvLayer("drawn", 1, 1, *image, 1, 1, *image, groups=groups)
        return typed_layer(shape, type_name, kind=kind, act=act, residual=kind != "copy")
    if type_name == "i8" and rng.random() < 0.3:
        return typed_layer(layer, type_name, output="i32")
    act = rng.choice(["", "relu", "leaky_relu", "clip"])
    arguments = {"leaky_relu": (0.1,), "clip": (-1.0, 6.0)}.get(act, ())
    return typed_layer(layer, type_name, act=act, act_args=arguments, residual=rng.random() < 0.3)


def random_kernel(rng: random.Random) -> Kernel:
    """A kernel of a random layer: one that the search found for a GPU, or one with another operand stationary."""
    gpu = load_gpu(rng.choice(("h100", "jetson-tx2", "orin-nano")))
    kernel = rng.choice(best_kernels(random_layer(rng), gpu, 40)).kernel
    if isinstance(kernel, ConvKernel) and rng.random() < 0.5:
        stationary = rng.choice((Dataflow.WEIGHT, Dataflow.INPUT))
        other = replace(
            kernel, stationary=stationary, inner=rng.randint(2, 4), splits=1, tile_ic=min(2, kernel.tile_ic)
        )
        return other if _fits(other, gpu) else kernel
    return kernel


def _fits(kernel: Kernel, gpu: Gpu) -> bool:
    return predict(kernel, gpu) is not None


@pytest.fixture(scope="session")
def draw_kernels() -> Callable[[int, int], list[Kernel]]:
    """Draws so many kernels from a seed."""

    def draw(seed: int, count: int) -> list[Kernel]:
        rng = random.Random(seed)
        return [random_kernel(rng) for _ in range(count)]

    return draw
