"""Dynamically quantized models with a bounded dimension: the range of a tensor is that of a run's tokens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.graph.counts import Dimension

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: E402

from tests.mavcg.choose.lengths.bounded_models import Tokens, images_model  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import results_of_lengths  # noqa: E402

LENGTHS = (1, 2, 33, 67)


def compared(path: Path, shape: tuple[int | None, ...], dimension: Dimension, lengths: tuple[int, ...]) -> float:
    """Assert equal bits of kernels for each length; returns the largest difference from onnxruntime of a maximum.

    The inputs behind the length are the largest numbers: none of them may count.
    """
    quantized = path.with_name("dynamic.onnx")
    # Weights of 7 bits: without VNNI, onnxruntime adds two products of u8 and s8 in 16 bits, which 8 bits overflow.
    quantize_dynamic(path, quantized, weight_type=QuantType.QInt8, reduce_range=True)
    rng = np.random.default_rng(3)
    inputs: dict[int, Any] = {
        n: {"x": (rng.standard_normal([n if d is None else d for d in shape]) * (1 + n % 5)).astype(np.float32)}
        for n in lengths
    }
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    reference = onnxruntime.InferenceSession(str(quantized), options)
    worst = 0.0
    results = results_of_lengths(quantized, {"x": shape}, dimension, inputs, [n for n in lengths if n > 1])
    for length, (ours, fixed) in results.items():
        assert ours == (fixed or ours), f"the bits of length {length}"
        for have, want in zip(ours, reference.run(None, inputs[length]), strict=True):
            near = np.frombuffer(have, np.float32).reshape(want.shape)
            worst = max(worst, float(np.abs(near - want).max() / np.abs(want).max()))
    return worst


def test_products_of_tokens(tmp_path: Path) -> None:
    net = Tokens(24)
    net.linear(40)
    net.activation("Relu")
    net.residual()
    net.norm()
    assert compared(net.save(tmp_path / "m.onnx"), (1, None, 24), Dimension("tokens", 1, 67), LENGTHS) < 1e-5


def test_pieces(tmp_path: Path) -> None:
    """Pieces of 4,096 elements, of which a run has a part or none, and lines of a part of each token."""
    net = Tokens(130)
    net.linear(5)
    assert compared(net.save(tmp_path / "m.onnx"), (1, None, 130), Dimension("tokens", 1, 64), (1, 31, 64)) < 1e-5
    net = Tokens(6)
    bounds = (net.constant(np.array([i])) for i in (1, 5, 2))
    net.add("Slice", net.last, *bounds)
    net.width = 4
    net.linear(9)
    assert compared(net.save(tmp_path / "m.onnx"), (1, None, 6), Dimension("tokens", 1, 9), (1, 4, 9)) < 1e-5


def test_images_with_a_bounded_batch(tmp_path: Path) -> None:
    path = images_model(tmp_path / "m.onnx")
    assert compared(path, (None, 3, 10, 10), Dimension("batch", 1, 5), (1, 2, 5)) < 1e-5


def test_attention(tmp_path: Path) -> None:
    """Its kernel rounds otherwise than a product, a softmax and a product: a number of 8 bits may be another one."""
    net = Tokens(16)
    net.linear(16)
    net.attention()
    net.residual()
    assert compared(net.save(tmp_path / "m.onnx"), (1, None, 16), Dimension("tokens", 1, 40), (2, 9, 40)) < 0.02
