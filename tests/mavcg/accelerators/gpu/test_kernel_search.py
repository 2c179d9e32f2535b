"""The search for kernels: every block fits, and its tile is one of the planner's."""

import pytest

from mavcg.accelerators.gpu.conv_kernel import ConvKernel
from mavcg.accelerators.gpu.gpu_layer import typed_layer
from mavcg.accelerators.gpu.kernel_search import best_kernels
from mavcg.accelerators.plans import exact
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.loop_order import traffic_with_halo
from mavcg.accelerators.plans.machines import block_machine
from mavcg.cost.layer import ConvLayer
from mavcg.graph.networks import network
from mavcg.profiles.gpus import gpu_names, load_gpu

LAYER = ConvLayer("c", 96, 64, 27, 27, 3, 3, 27, 27, pads=(1, 1, 1, 1))


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", gpu_names())
@pytest.mark.parametrize("type_name", ["f32", "i8"])
def test_blocks_fit_the_gpu(name: str, type_name: str) -> None:
    gpu = load_gpu(name)

    for found in best_kernels(typed_layer(LAYER, type_name), gpu, 20):
        kernel = found.kernel
        assert isinstance(kernel, ConvKernel)
        assert kernel.shared_bytes <= gpu.shared_bytes_of_block and kernel.threads <= 1024
        assert gpu.resident_blocks(kernel.threads, found.time.registers, kernel.shared_bytes) >= kernel.min_blocks >= 1
        assert kernel.stages == 1 or gpu.has_async_copies  # two buffers are of no use where copies wait
        assert kernel.rn * kernel.threads_pixels >= kernel.tile_oh * kernel.tile_ow
        assert kernel.rm * kernel.threads_oc == kernel.tile_oc


def test_the_exact_search_finds_tiles_for_a_block_that_move_no_more() -> None:
    """The planner's search on the block's memories is no worse in bytes than any kernel's tile."""
    gpu = load_gpu("jetson-tx2")
    machine = block_machine(gpu)
    planned = exact.search(LAYER, machine, options=exact.ExactOptions(model="halo", grid="full"))

    for found in best_kernels(typed_layer(LAYER, "f32"), gpu, 20):
        moved = traffic_with_halo(LAYER, found.kernel.tiling)
        assert planned.reached.traffic.total_bytes <= moved.total_bytes


@pytest.mark.long
@pytest.mark.parametrize("name", gpu_names())
def test_every_layer_of_resnet50_has_a_kernel(name: str) -> None:
    gpu = load_gpu(name)

    for layer in {layer.key: layer for layer in layers_of(network("resnet50"))}.values():
        assert best_kernels(typed_layer(layer, "f16"), gpu, 1)[0].time.seconds > 0
