"""Transposed convolutions and Resize over a bounded dimension: onnxruntime's values, and the bits of each length."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.graph.counts import Dimension

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Images  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import assert_right  # noqa: E402


def transposed(net: Images, channels: int, *kernel: int, group: int = 1, **attributes: Any) -> None:
    """Add a ConvTranspose with a bias, and an activation."""
    scale = (net.channels * np.prod(kernel)) ** -0.5
    weights = net.rng.standard_normal((net.channels, channels // group, *kernel)) * scale
    w, bias = net.constant(weights.astype(np.float32)), net.constant(np.full(channels, 0.1, np.float32))
    net.add("ConvTranspose", net.last, w, bias, group=group, kernel_shape=kernel, **attributes)
    net.channels = channels
    net.add("Relu", net.last)


FORMS: dict[str, tuple[int, Mapping[str, Any]]] = {  # the kernel along time, and attributes
    "two by two": (2, {"strides": [2]}),
    "four by two": (4, {"strides": [2], "pads": [1, 1]}),
    "with a row more": (3, {"strides": [2], "pads": [1, 1], "output_padding": [1]}),
    "dilated": (3, {"strides": [3], "dilations": [2], "pads": [2, 0]}),
    "of stride one": (5, {"pads": [2, 2]}),
    "in groups": (4, {"strides": [2], "pads": [0, 2], "group": 4}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.sample(2)
def test_transposed_convolutions_over_time(tmp_path: Path, form: str) -> None:
    kernel, attributes = FORMS[form]
    net = Images(1, 8, None)
    transposed(net, 12, kernel, **attributes)
    net.conv(5, 3, pads=[1, 1])
    lengths = (1, 2, 3, 15, 16, 17, 39, 40)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("N", 1, 40), lengths, (2, 17, 39))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.sample(1)
def test_transposed_convolutions_of_images(tmp_path: Path, form: str) -> None:
    """Images of any height, which the layers double, have the bits of fixed ones; the same along the width."""
    kernel, attributes = FORMS[form]
    both: dict[str, Any] = {
        name: value if name == "group" else [v for v in value for _ in "hw"] for name, value in attributes.items()
    }
    net = Images(1, 8, None, 7)
    net.conv(8, 3, 3, pads=[1, 1, 1, 1])
    transposed(net, 12, kernel, kernel, **both)
    lengths = (1, 2, 3, 19, 20)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("height", 1, 20), lengths, (2, 19))


def test_transposed_convolutions_of_a_batch(tmp_path: Path) -> None:
    net = Images(None, 3, 5, 6)
    transposed(net, 9, 4, 3, strides=[2, 2], pads=[1, 1, 1, 1])
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("batch", 1, 5), (1, 2, 5), (2,))


RULES = ("half_pixel", "asymmetric", "pytorch_half_pixel")


@pytest.mark.parametrize("factor", [2.0, 3.0, 1.5, 0.5, 4.0])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.sample(2)
def test_images_of_any_height_by_a_factor(tmp_path: Path, rule: str, mode: str, factor: float) -> None:
    """Rows at the end are those of the last row of a run."""
    net = Images(1, 3, None, 8)
    scales = net.constant(np.array([1, 1, factor, factor], np.float32))
    net.add("Resize", "x", "", scales, mode=mode, coordinate_transformation_mode=rule)
    net.conv(4, 3, 3, pads=[1, 1, 1, 1])
    lengths = (4, 5, 6, 7, 8, 38, 39, 40)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("height", 4, 40), lengths, (5, 8, 38, 39))


def test_time_by_a_factor(tmp_path: Path) -> None:
    """The axis of a bounded length is the last one, and rows of work lie along it."""
    net = Images(1, 6, None)
    net.add("Resize", "x", "", net.constant(np.array([1, 1, 2], np.float32)), mode="linear")
    net.conv(4, 3, pads=[1, 1])
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("N", 2, 70), (2, 3, 33, 69, 70), (3, 69))


def test_cubic_resizes_of_few_rows(tmp_path: Path) -> None:
    """Fewer than a kernel is compared for: sampled lengths exceed the longest."""
    net = Images(1, 3, None, 4)
    scales = net.constant(np.array([1, 1, 2, 1], np.float32))
    for _ in range(2):
        net.add("Resize", net.last, "", scales, mode="cubic")
        net.pool("AveragePool", 2, 1, strides=[2, 1])
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("height", 1, 5), (1, 2, 5), (5,))
