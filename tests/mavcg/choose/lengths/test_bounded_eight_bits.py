"""8-bit models with a bounded dimension: onnxruntime's values, and the bits of kernels for each length."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.graph.counts import Dimension

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnxruntime.quantization import CalibrationDataReader, quantize_static  # noqa: E402

from tests.mavcg.choose.lengths.bounded_models import Images, Tokens, images_model  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import assert_same, results_of_lengths  # noqa: E402


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    """Random inputs of a shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(0)
        self.inputs = iter([{"x": rng.standard_normal(shape).astype(np.float32)} for _ in range(3)])

    def get_next(self) -> Any:
        return next(self.inputs, None)


def assert_right(path: Path, shape: tuple[int | None, ...], dimension: Dimension, lengths: tuple[int, ...]) -> None:
    def shaped(length: int) -> tuple[int, ...]:
        return tuple(length if d is None else d for d in shape)

    eight_bits = path.with_name("eight_bits.onnx")
    quantize_static(str(path), str(eight_bits), Calibration(shaped(dimension.most)))
    rng = np.random.default_rng(3)
    inputs = {n: {"x": rng.standard_normal(shaped(n)).astype(np.float32)} for n in lengths}
    assert_same(eight_bits, {"x": shape}, dimension, inputs, lengths[1:2])


def test_products_of_tokens(tmp_path: Path) -> None:
    net = Tokens(24)
    net.linear(40)
    net.activation("Relu")
    net.residual()
    assert_right(net.save(tmp_path / "m.onnx"), (1, None, 24), Dimension("tokens", 1, 67), (1, 7, 66, 67))


def test_windows_of_eight_bits(tmp_path: Path) -> None:
    """Borders are the zero point, behind the last row of every length too."""
    net = Images(1, 3, None)
    net.conv(12, 3, pads=[1, 1], strides=[2])
    net.conv(12, 3, group=12, pads=[1, 1])
    net.conv(9, 4, pads=[6, 0], dilations=[2])
    net.pool("MaxPool", 3, strides=[2], pads=[1, 1])
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("N", 9, 80), (9, 10, 11, 12, 79, 80))


def test_the_mean_of_an_image_of_any_height(tmp_path: Path) -> None:
    net = Images(1, 3, None, 10)
    net.conv(12, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    net.conv(12, 3, 3, group=12, pads=[1, 1, 1, 1])
    net.add("GlobalAveragePool", net.last)
    net.conv(7, 1, 1, act="")
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("height", 3, 40), (3, 4, 5, 39, 40))


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.long
def test_images_of_any_height_and_width(tmp_path: Path, rounded: bool) -> None:
    """Bits of kernels for the lengths; onnxruntime's values, too, but for sums and averages, of other roundings."""
    net = Images("batch", 3, "height", "width")
    net.conv(12, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    before = net.last
    net.conv(12, 3, 3, group=12, pads=[1, 1, 1, 1])
    if rounded:
        net.conv(12, 1, 1, act="")
        net.add("Add", before, net.last)
        net.pool("AveragePool", 3, 3, strides=[2, 1], pads=[1, 1, 1, 1])
        net.conv(12, 2, 3, group=2, act="")
    net.conv(40, 3, 3, pads=[1, 2, 1, 2], dilations=[1, 2])
    net.pool("MaxPool", 2, 2, strides=[1, 2])
    dimensions = [Dimension("batch", 1, 3), Dimension("height", 9, 40), Dimension("width", 9, 41)]
    eight_bits = tmp_path / "eight_bits.onnx"
    quantize_static(str(net.save(tmp_path / "m.onnx")), str(eight_bits), Calibration((2, 3, 20, 30)))
    rng = np.random.default_rng(3)
    lengths = [(1, 9, 9), (3, 40, 41), (2, 10, 33), (2, 31, 10), (1, 17, 16)]
    inputs = {each: {"x": rng.standard_normal((each[0], 3, *each[1:])).astype(np.float32)} for each in lengths}
    if rounded:
        for ours, fixed in results_of_lengths(eight_bits, {"x": net.shape}, dimensions, inputs, lengths[1:4]).values():
            assert ours == (fixed or ours)
    else:
        assert_same(eight_bits, {"x": net.shape}, dimensions, inputs, lengths[1:4])


@pytest.mark.long
def test_same_padding_of_eight_bits(tmp_path: Path) -> None:
    """Borders of zero points, which begin at other rows and columns for other remainders."""
    net = Images(1, 3, "height", "width")
    net.conv(12, 3, 3, strides=[2, 2], auto_pad="SAME_UPPER")
    net.conv(12, 3, 3, group=12, strides=[2, 2], auto_pad="SAME_LOWER")
    net.pool("MaxPool", 3, 3, strides=[2, 2], auto_pad="SAME_UPPER")
    net.conv(9, 2, 2, strides=[2, 2], auto_pad="SAME_UPPER")
    eight_bits = tmp_path / "eight_bits.onnx"
    quantize_static(str(net.save(tmp_path / "m.onnx")), str(eight_bits), Calibration((1, 3, 20, 30)))
    rng = np.random.default_rng(3)
    lengths = [(9, 9), (40, 41), (10, 33), (31, 10), (17, 16), (32, 32)]
    inputs = {each: {"x": rng.standard_normal((1, 3, *each)).astype(np.float32)} for each in lengths}
    dimensions = [Dimension("height", 9, 40), Dimension("width", 9, 41)]
    assert_same(eight_bits, {"x": net.shape}, dimensions, inputs, lengths[1:])


@pytest.mark.long
def test_images_with_a_bounded_batch(tmp_path: Path) -> None:
    path = images_model(tmp_path / "m.onnx")
    assert_right(path, (None, 3, 10, 10), Dimension("batch", 1, 5), (1, 2, 3, 4, 5))
