"""Accelerators and layers that several of the planner's tests use."""

from collections.abc import Callable

import pytest

from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.cost.layer import ConvLayer
from mavcg.graph.networks import NAMES, network
from mavcg.hardware.accelerator import Accelerator, MemoryLevel

# Table 8.2, KiB of input, weights and output; chapter 8.1: 60 GB/s, 1.02 GHz. The array is 16 x 16, mapped as in
# figure 6.1: with nothing else do table 8.5's figures come out.
_SETUPS_KIB = {"A": (256, 128, 256), "B": (512, 256, 512), "C": (256, 256, 256), "D": (256, 512, 256)}


@pytest.fixture(scope="session")
def setups() -> dict[str, Accelerator]:
    """Setups A to D by their letters."""
    return {
        name: Accelerator(
            f"setup {name}",
            1.02,
            (MemoryLevel("on-chip", 60.0, *(1024 * kib for kib in sizes)),),
            (16, 16),
            (("IC",), ("OC",)),
        )
        for name, sizes in _SETUPS_KIB.items()
    }


@pytest.fixture(scope="session")
def small_array() -> Callable[..., Accelerator]:
    """Makes an accelerator of 2 x 3 elements, IC and OC, with memories of so many bytes."""

    def make(input_bytes: int = 0, weight_bytes: int = 0, output_bytes: int = 0, shared: int = 0) -> Accelerator:
        level = MemoryLevel("sram", 8.0, input_bytes, weight_bytes, output_bytes, shared)
        return Accelerator("small", 1.0, (level,), (2, 3), (("IC",), ("OC",)))

    return make


@pytest.fixture(scope="session")
def paper_layers() -> dict[str, tuple[ConvLayer, ...]]:
    """The five networks' layers in the variants of the paper's tables, fully connected ones among them."""
    return {name: layers_of(network(name, paper_variant=True)) for name in NAMES}


@pytest.fixture(scope="session")
def paper_convolutions() -> dict[str, tuple[ConvLayer, ...]]:
    """Their convolutions only."""
    return {name: layers_of(network(name, paper_variant=True), fully_connected=False) for name in NAMES}
