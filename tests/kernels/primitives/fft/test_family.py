"""The fft family: its transforms against NumPy's, lengths, packed weights, and the scenarios that it applies to."""

import ctypes

import numpy as np
import pytest
from llvmlite import ir

from mavcg.kernels.builder.emit import F32, PTR, address
from mavcg.kernels.primitives.fft.family import LENGTHS, PRIMITIVES, best_length
from mavcg.kernels.primitives.fft.lanes import forward, inverse
from mavcg.kernels.primitives.fft.specs import Transforms, transformed_weights
from mavcg.specs.primitive import Scenario
from tests.kernels.host_engine import host_engine


@pytest.mark.parametrize("length", [1, 2, 4, *LENGTHS[:-1]])
def test_transforms_are_those_of_numpy(length: int) -> None:
    """Forward into interleaved coefficients, and back."""
    module = ir.Module("transforms")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, PTR, PTR]), "both")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    x, coefficients, back = function.args

    def element_address(base: ir.Value, index: int) -> ir.Value:
        return address(b, base, 4 * index)

    spectrum_values = forward(b, [b.load(element_address(x, i), typ=F32, align=4) for i in range(length)])
    for f, (re, im) in enumerate(spectrum_values):
        b.store(re, element_address(coefficients, 2 * f), align=4)
        b.store(ir.Constant(F32, 0.0) if im is None else im, element_address(coefficients, 2 * f + 1), align=4)
    for i, value in enumerate(inverse(b, spectrum_values)):
        b.store(value, element_address(back, i), align=4)
    b.ret_void()

    engine = host_engine(module)
    numbers = np.random.default_rng(length).uniform(-1, 1, length).astype(np.float32)
    spectrum, again = np.zeros(length // 2 + 1, np.complex64), np.zeros(length, np.float32)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(engine.get_function_address("both"))
    call(numbers.ctypes.data, spectrum.ctypes.data, again.ctypes.data)
    expected = np.fft.rfft(numbers.astype(np.float64)) if length > 1 else numbers
    np.testing.assert_allclose(spectrum, expected, atol=2e-7 * length)
    np.testing.assert_allclose(again / length, numbers, atol=1e-6)


def test_weights_are_transformed_when_built() -> None:
    """Unpacked and transformed back they are the taps, `dilation` apart, from the row's beginning."""
    scenario = Scenario(4, 8, 8, 1, 3, 6, groups=2, dilation=2)
    weights = np.random.default_rng(1).uniform(-1, 1, (6, 2, 3, 3)).astype(np.float32)
    packed = transformed_weights(Transforms(scenario, 16), weights)
    assert packed.shape == (9, 2, 1, 3 * 2 * 2, 16)
    rows = packed[:, :, 0, :, :3].transpose(0, 1, 3, 2).reshape(9, 6, 12)
    spectrum = np.zeros((9, 6, 3, 2), np.complex128)
    parts = rows.reshape(9, 6, 3, 2, 2)
    spectrum[1:-1] = parts[1:-1, ..., 0, :] + 1j * parts[1:-1, ..., 1, :]
    spectrum[[0, -1]] = rows[[0, -1], :, :6].reshape(2, 6, 3, 2)
    taps = np.fft.irfft(spectrum * 16, 16, axis=0).transpose(1, 3, 2, 0)
    expected = np.zeros((6, 2, 3, 16))
    expected[..., 0:5:2] = weights
    np.testing.assert_allclose(taps, expected, atol=1e-6)


@pytest.mark.parametrize(
    "k, w, length",
    [(3, 6, 8), (3, 14, 16), (5, 28, 32), (11, 28, 32), (11, 500, 64), (64, 100, 128), (65, 200, 0)],
)
def test_length_of_transforms(k: int, w: int, length: int) -> None:
    scenario = Scenario(3, k, w, 1, k, 4, pad=k // 2)
    assert best_length(scenario) == length
    if length:
        transforms = Transforms(scenario, length)
        assert transforms.tile == length - k + 1 and (transforms.tiles - 1) * transforms.tile < scenario.out_w
        assert transforms.tiles * transforms.tile >= scenario.out_w


def test_applies_to_kernels_of_3_or_more_with_stride_1() -> None:
    for primitive in PRIMITIVES:
        assert primitive.applies(Scenario(16, 8, 8, 1, 3, 16))
        assert not primitive.applies(Scenario(16, 8, 8, 1, 2, 16))
        assert not primitive.applies(Scenario(16, 8, 8, 2, 3, 16))
        assert primitive.applies(Scenario(16, 20, 20, 1, 9, 16)) != primitive.name.startswith("fft16")
