"""Small kernels, steps and machines to predict with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from llvmlite import ir

from mavcg.choose.predict.kernel_cycles import WORK, KernelModel
from mavcg.choose.predict.latency import StepModel
from mavcg.choose.predict.memory import Distances
from mavcg.choose.predict.work import INPUT, OUTPUT, WEIGHT, StepWork, Touch
from mavcg.graph.layout import dense_strides
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.conv.spec import Conv2d
from mavcg.specs.kernel import Machine, View
from tests.mavcg.hardware.some_core import some_core

NEON = Machine("core", "aarch64", "generic", ("+neon",))
X86 = Machine("generic", "x86_64", "x86-64-v3", vector_bytes=32, vector_registers=16)


@dataclass(frozen=True)
class Make:
    """What tests are built from."""

    conv: Callable[..., Conv2d]
    step: Callable[..., StepWork]
    worker: Callable[..., CoreModel]
    model: Callable[..., StepModel]
    machine: Machine = X86


def view(*shape: int) -> View:
    return View("f32", shape, dense_strides(shape))


def conv(
    height: int = 6, width: int = 10, in_ch: int = 16, out_ch: int = 32, kernel: int = 3, lanes: int = 16
) -> Conv2d:
    """A convolution over an image that is padded already; its output is height x width."""
    return Conv2d(
        x=view(1, height + kernel - 1, width + kernel - 1, in_ch),
        out=view(1, height, width, out_ch),
        residual=None,
        kernel=(kernel, kernel),
        stride=(1, 1),
        dilation=(1, 1),
        groups=1,
        lanes=lanes,
        bias=True,
        packed=True,
        act="",
        act_args=(),
    )


def step(rows: int = 10, grain: int = 1, sizes: tuple[int, int, int] = (1000, 500, 800), **more: Any) -> StepWork:
    """A step that reads an input and weights and writes an output, of these bytes."""
    touches = (
        Touch(INPUT, "arena", 0, sizes[0], sizes[0]),
        Touch(WEIGHT, "constants", 0, sizes[1], sizes[1]),
        Touch(OUTPUT, "arena", sizes[0], sizes[2], sizes[2]),
    )
    return StepWork("s", "conv2d", "k", "conv2d_f32", rows, grain, 5000, 10000, touches, **more)


def worker(
    ghz: float = 2.0,
    bandwidths: tuple[float, ...] = (20.0, 10.0, 5.0),
    sizes: tuple[int, ...] = (1 << 10, 1 << 12, 1 << 14),
    cluster: int = 0,
) -> CoreModel:
    """A core with three levels of cache."""
    return some_core(NEON, ghz, 4, list(zip(sizes, bandwidths, strict=True)), cluster)


def model(work: StepWork, cycles_a_row: float = 1000.0, far: int = 1 << 20, slower: float = 1.0) -> StepModel:
    """A step whose kernel takes so many cycles a row on cluster 0, `slower` times as many on cluster 1."""
    function = ir.Function(ir.Module("m"), ir.FunctionType(ir.VoidType(), []), "k")
    models = (KernelModel("k", WORK, function, {}, {}, 0.0, cycles_a_row * factor) for factor in (1.0, slower))
    return StepModel(work, Distances((far,) * len(work.touches)), dict(enumerate(models)))


@pytest.fixture(scope="session")
def make() -> Make:
    return Make(conv, step, worker, model)
