"""Kernels on this machine's GPU, where there is one: the checks of the emulation on silicon (`make test-gpu`)."""

import shutil
from collections.abc import Callable

import pytest

from bench.accelerators.gpu_driver import Driver, compile_with_nvcc, gpu_present
from mavcg.accelerators.gpu.check_layer import layer_case
from mavcg.accelerators.gpu.emulation import HEADERS
from mavcg.accelerators.gpu.kernel_plan import Kernel
from mavcg.accelerators.gpu.layer_source import launches_of, layer_source
from mavcg.accelerators.gpu.nvidia_compilers import compile_cuda, compilers_present

pytestmark = pytest.mark.skipif(
    not gpu_present() or not (compilers_present() or shutil.which("nvcc")),
    reason="not run: no NVIDIA GPU, or neither the extra cuda nor nvcc",
)


@pytest.mark.parametrize("seed", range(4))
def test_random_kernels_on_the_gpu(seed: int, draw_kernels: Callable[[int, int], list[Kernel]]) -> None:
    driver = Driver()
    for number, kernel in enumerate(draw_kernels(seed, 6)):
        function = f"k{number}"
        source = layer_source(kernel, function)
        if compilers_present():
            code = compile_cuda(source, {path.name: path.read_text() for path in HEADERS.glob("*.cuh")}, driver.arch)
        else:
            code = compile_with_nvcc(source, HEADERS, driver.arch)
        launches = launches_of(kernel, function)
        functions = driver.load(code.cubin, [launch.function for launch in launches])
        for whole in (True, False):
            case = layer_case(kernel, seed, whole)
            driver.run(launches, functions, case.buffers)
            assert case.mismatches() == 0, kernel
