"""Convolutions, cores and plans of the tests of tiles."""

import numpy as np

from mavcg.choose.lowering.lower import lower_graph
from mavcg.cost.kernel_work import KernelWork, work_of
from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.hardware.core_model import CoreModel
from mavcg.specs.kernel import KernelSpec, Machine, Packing
from tests.mavcg.hardware.some_core import some_core

X86 = Machine("x86", "x86_64", "znver3", vector_bytes=32, vector_registers=16)


def core_with(machine: Machine, ghz: float, fma: int, l1: int, l2: int, rates: tuple[float, float]) -> CoreModel:
    """A core of such caches, in KiB, and bytes a cycle from level 2 and from behind it."""
    return some_core(machine, ghz, fma, [(size << 10, rate * ghz) for size, rate in zip((l1, l2), rates, strict=True)])


ZEN3 = core_with(X86, 3.0, 2, 32, 512, (32, 8))


def conv(
    size: int, in_ch: int, out_ch: int, kernel: int, lanes: int, groups: int = 1, residual: bool = False
) -> KernelSpec:
    """The spec of a convolution of stride 1 with so many rows and columns of output pixels."""
    b = GraphBuilder("g")
    side = size + kernel - 1
    x = b.input("x", TensorType("f32", (1, side, side, in_ch)))
    w = b.constant(np.ones((out_ch, kernel, kernel, in_ch // groups), np.float32))
    names = [x, w]
    if residual:
        names += ["", b.input("residual", TensorType("f32", (1, size, size, out_ch)))]
    graph = b.finish([b.add("conv2d", names, pads=(0, 0, 0, 0), groups=groups)])
    (spec,) = lower_graph(graph, Packing(lanes)).specs
    return spec


def known(spec: KernelSpec) -> KernelWork:
    work = work_of(spec)
    assert work is not None
    return work
