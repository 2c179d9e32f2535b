"""Kernels compiled by NVRTC and ptxas, where the extra `cuda` is installed."""

from collections.abc import Callable

import pytest

from mavcg.accelerators.gpu.emulation import HEADERS
from mavcg.accelerators.gpu.gpu_layer import typed_layer
from mavcg.accelerators.gpu.kernel_plan import Kernel
from mavcg.accelerators.gpu.kernel_search import best_kernel
from mavcg.accelerators.gpu.layer_source import layer_source
from mavcg.accelerators.gpu.nvidia_compilers import (
    KernelResources,
    compile_cuda,
    compilers_present,
    parse_resources,
)
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.cost.layer import ConvLayer
from mavcg.graph.networks import NAMES, network
from mavcg.profiles.gpus import gpu_names, load_gpu

REPORT = """\
ptxas info    : Compiling entry function 'conv_sum' for 'sm_62'
ptxas info    : Function properties for conv_sum
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, 368 bytes cmem[0]
ptxas info    : Compiling entry function 'conv' for 'sm_62'
ptxas info    : Function properties for conv
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 368 bytes cmem[0]
"""
needs_compilers = pytest.mark.skipif(not compilers_present(), reason="not run: the extra cuda is not installed")
HEADER_TEXTS = {path.name: path.read_text() for path in HEADERS.glob("*.cuh")}


def test_the_report_of_ptxas_is_read_by_kernel() -> None:
    assert parse_resources(REPORT) == {"conv_sum": KernelResources(32, 0, 0), "conv": KernelResources(128, 16, 20)}


@needs_compilers
@pytest.mark.parametrize("name", gpu_names())
def test_a_kernel_compiles_within_its_registers(name: str) -> None:
    gpu = load_gpu(name)
    fastest = best_kernel(typed_layer(ConvLayer("c", 64, 64, 28, 28, 3, 3, 28, 28, pads=(1, 1, 1, 1)), "f32"), gpu)

    code = compile_cuda(layer_source(fastest.kernel, "k"), HEADER_TEXTS, gpu.arch)

    kernel = fastest.kernel
    assert not any(used.spilled_bytes for used in code.resources.values())
    assert (
        gpu.resident_blocks(kernel.threads, code.resources["k"].registers, kernel.shared_bytes) >= fastest.time.resident
    )
    assert (b"cp.async" in code.ptx) == gpu.has_async_copies
    assert code.cubin[:4] == b"\x7fELF"


@needs_compilers
@pytest.mark.long
@pytest.mark.parametrize("arch", ["sm_62", "sm_70", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90"])
def test_random_kernels_compile_for_every_architecture(
    arch: str, draw_kernels: Callable[[int, int], list[Kernel]]
) -> None:
    for number, kernel in enumerate(draw_kernels(1, 10)):
        code = compile_cuda(layer_source(kernel, f"k{number}"), HEADER_TEXTS, arch)
        assert not any(used.spilled_bytes for used in code.resources.values())


@needs_compilers
@pytest.mark.long
@pytest.mark.parametrize("type_name", ["f32", "f16", "i8"])
@pytest.mark.parametrize("gpu_name", gpu_names())
@pytest.mark.parametrize("network_name", NAMES)
def test_all_layers_of_a_network_have_the_blocks_that_were_planned(
    network_name: str, gpu_name: str, type_name: str
) -> None:
    """No spills, and by the registers that ptxas gives as many blocks of a multiprocessor as the kernel promises."""
    gpu = load_gpu(gpu_name)
    layers = {layer.key: layer for layer in layers_of(network(network_name))}
    kernels = [best_kernel(typed_layer(layer, type_name), gpu).kernel for layer in layers.values()]
    source = "\n".join(layer_source(kernel, f"k{number}") for number, kernel in enumerate(kernels))

    code = compile_cuda(source, HEADER_TEXTS, gpu.arch)

    assert not any(used.spilled_bytes for used in code.resources.values())
    for number, kernel in enumerate(kernels):
        blocks = gpu.resident_blocks(kernel.threads, code.resources[f"k{number}"].registers, kernel.shared_bytes)
        assert blocks >= getattr(kernel, "min_blocks", 1) >= 1, kernel
