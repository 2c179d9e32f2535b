"""The IR of small kernels, before LLVM optimises it: two lines, a block of eight terms and a panel of channels."""

import pytest
from llvmlite import ir

from mavcg.kernels.block_weights.packing import BlockFormat
from mavcg.kernels.block_weights.spec import BlockProduct, Lines, QuantizedBlocks
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.registry import emit
from mavcg.specs.kernel import Machine
from tests.conftest import Golden

TERMS = 8
MACHINES = {
    "smmla": (Machine("x2", "aarch64", "cortex-x2", (), dot_product=True, matrix_product=True), 4),
    "sdot": (Machine("a76", "aarch64", "cortex-a76", (), dot_product=True), 4),
    "mull": (Machine("a53", "aarch64", "cortex-a53", ()), 4),
    "vnni": (
        Machine("icl", "x86_64", "icelake-server", (), vector_bytes=64, vector_registers=32, dot_product=True),
        16,
    ),
    "maddubs": (Machine("hsw", "x86_64", "haswell", (), vector_bytes=32, vector_registers=16), 8),
}


def text(spec: BlockProduct | QuantizedBlocks, machine: Machine) -> str:
    module = ir.Module("block_weights")
    emit(module, spec, machine)
    return str(module).replace(kernel_name(spec), spec.family)


@pytest.mark.parametrize("kind", MACHINES)
def test_products_of_quantised_activations(kind: str, golden: Golden) -> None:
    machine, panel = MACHINES[kind]
    form = BlockFormat(4, TERMS, panel, "f16", False)
    spec = BlockProduct(Lines(2, TERMS, 0, 1), Lines(2, panel, panel, 1), form, quantize=True, bias=False)
    assert golden == text(spec, machine)


def test_products_of_8_bits_with_zero_points(golden: Golden) -> None:
    machine, panel = MACHINES["smmla"]
    form = BlockFormat(8, TERMS, panel, "f32", True)
    spec = BlockProduct(Lines(2, TERMS, 0, 1), Lines(2, panel, panel, 1), form, quantize=True, bias=False)
    assert golden == text(spec, machine)


@pytest.mark.parametrize("kind", ["smmla", "maddubs"])
def test_products_of_2_bits(kind: str, golden: Golden) -> None:
    machine, panel = MACHINES[kind]
    form = BlockFormat(2, 16, panel, "f16", False)
    spec = BlockProduct(Lines(2, 16, 0, 1), Lines(2, panel, panel, 1), form, quantize=True, bias=False)
    assert golden == text(spec, machine)


def test_products_of_floats(golden: Golden) -> None:
    machine, panel = MACHINES["sdot"]
    form = BlockFormat(4, TERMS, panel, "f16", False)
    spec = BlockProduct(Lines(1, TERMS, TERMS, 1), Lines(1, panel, panel, 1), form, quantize=False, bias=True)
    assert golden == text(spec, machine)


def test_quantised_activations(golden: Golden) -> None:
    spec = QuantizedBlocks(Lines(2, TERMS, TERMS, 1), TERMS, -8)
    assert golden == text(spec, MACHINES["sdot"][0])
