"""Kernels run by emulation against the plan interpreter, and faults that the emulation has to see."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.accelerators.gpu.check_project import check_kernel
from mavcg.accelerators.gpu.conv_kernel import ConvKernel
from mavcg.accelerators.gpu.emulation import HEADERS, EmulatedKernels
from mavcg.accelerators.gpu.gpu_layer import typed_layer
from mavcg.accelerators.gpu.kernel_plan import ElementwiseKernel, Kernel, ProductKernel, WindowKernel
from mavcg.accelerators.gpu.kernel_search import best_kernel
from mavcg.accelerators.gpu.layer_source import layer_source
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.cost.layer import ConvLayer, Dataflow
from mavcg.graph.networks import NAMES, network
from mavcg.profiles.gpus import load_gpu

Draw = Callable[[int, int], list[Kernel]]
WAIT = "            wait_for_copies<L::STAGES - 2>();\n"
BARRIER = "            __syncthreads();\n"
LOAD = "            load_step(step + L::STAGES - 1);"
# Several blocks, reductions and steps, in a kernel small enough to read: 2 x 2 sums of a thread, 2 stages.
SMALL = ConvKernel(
    typed_layer(ConvLayer("small", 6, 5, 6, 7, 3, 3, 6, 7, pads=(1, 1, 1, 1)), "f32"),
    tile_oc=4,
    tile_ic=2,
    tile_oh=4,
    tile_ow=4,
    rm=4,
    rn=2,
    threads_oc=1,
    threads_pixels=8,
    stages=2,
)


def wrong_kernels(kernels: list[Kernel], folder: Path) -> dict[int, str]:
    named = [(f"k{number}", kernel) for number, kernel in enumerate(kernels)]
    emulated = EmulatedKernels([layer_source(kernel, name) for name, kernel in named], folder)
    checked = (check_kernel(emulated, kernel, name) for name, kernel in named)
    return {number: message for number, (wrong, message) in enumerate(checked) if wrong}


def test_random_kernels_are_as_the_plan_interpreter_has_them(draw_kernels: Draw, tmp_path: Path) -> None:
    kernels = draw_kernels(34, 7)

    assert {type(kernel) for kernel in kernels} == {ConvKernel, ElementwiseKernel, ProductKernel, WindowKernel}
    assert wrong_kernels(kernels, tmp_path) == {}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 22))
def test_500_random_kernels(seed: int, draw_kernels: Draw, tmp_path: Path) -> None:
    kernels = draw_kernels(seed, 25)

    assert wrong_kernels(kernels, tmp_path) == {}


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("stationary", Dataflow)
def test_every_dataflow_with_partial_sums(stationary: Dataflow, tmp_path: Path) -> None:
    inner = 1 if stationary is Dataflow.OUTPUT else 2
    kernel = replace(SMALL, stationary=stationary, inner=inner)

    assert kernel.reductions == 3 and (kernel.partial_bytes > 0) == (inner > 1)
    assert wrong_kernels([kernel, replace(kernel, stages=1), replace(kernel, stages=3)], tmp_path) == {}


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        # Each is one slip that a GPU may well let pass.
        (WAIT + BARRIER, BARRIER, "differ"),
        (WAIT + BARRIER, WAIT, "differ"),
        ("filters = shared + T::INPUT_WORDS", "filters = shared + 8 + T::INPUT_WORDS", "shared memory"),
        ("if (p >= T::PIXELS || row >= L::OH || column >= L::OW) continue;", "if (p >= T::PIXELS) continue;", ""),
        (BARRIER + LOAD, BARRIER.replace("__s", "if (threadIdx.x) __s") + LOAD, ""),
        ("- L::LEFT;", ";", "differ"),
    ],
    ids=["no wait", "no barrier", "more shared memory", "no bound", "divergent barrier", "no padding"],
)
def test_the_emulation_sees_a_slip(line: str, instead: str, message: str, tmp_path: Path) -> None:
    for path in HEADERS.iterdir():
        (tmp_path / path.name).write_text(path.read_text())
    header = tmp_path / "gpu_convolution.cuh"
    assert header.read_text().count(line) == 1
    header.write_text(header.read_text().replace(line, instead))
    source = layer_source(SMALL, "k").replace("static_assert", "//")

    emulated = EmulatedKernels([source], tmp_path, tmp_path)
    wrong, found = check_kernel(emulated, SMALL, "k")

    assert wrong and message in found


@pytest.mark.long
@pytest.mark.parametrize("type_name", ["f32", "f16", "i8"])
@pytest.mark.parametrize("name", NAMES)
def test_all_layers_of_a_network(name: str, type_name: str, tmp_path: Path) -> None:
    layers = {layer.key: layer for layer in layers_of(network(name))}
    gpu = load_gpu("jetson-tx2" if type_name == "f32" else "h100")
    kernels: list[Kernel] = [best_kernel(typed_layer(layer, type_name), gpu).kernel for layer in layers.values()]

    assert wrong_kernels(kernels, tmp_path) == {}
