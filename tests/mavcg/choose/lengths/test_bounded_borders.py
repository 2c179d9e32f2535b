"""Pads that copy elements, LRN across channels and norms of each channel, of images of any height and width.

Values are compared with onnxruntime's, and bits with those of kernels for the lengths.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph.counts import Dimension

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Images  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import assert_images, assert_right, lowered_for_lengths  # noqa: E402
from tests.mavcg.choose.lengths.bounded_windows import images  # noqa: E402

BATCH = {"batch": (1, 3), "height": (4, 12), "width": (4, 12)}
LENGTHS = [(1, 4, 4), (3, 12, 12), (2, 5, 11), (3, 11, 4)]


def padded(net: Images, mode: str) -> None:
    net.add("Pad", net.last, net.constant(np.array([0, 0, 1, 3, 0, 0, 2, 1])), mode=mode)


@pytest.mark.parametrize("between", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.sample(1)
def test_pads(tmp_path: Path, mode: str, between: bool) -> None:
    """Between convolutions they read and write images inside of padded ones."""

    def write(net: Images) -> None:
        if between:
            net.conv(6, 3, 3, pads=[1, 1, 1, 1])
        padded(net, mode)
        if between:
            net.conv(5, 3, 3)

    assert_images(tmp_path, images(write, "batch", 2, "height", "width"), BATCH, LENGTHS, LENGTHS[1:3])


@pytest.mark.parametrize("mode", ["reflect", "edge"])
@pytest.mark.sample(1)
def test_pads_of_time(tmp_path: Path, mode: str) -> None:
    net = Images(1, 3, None)
    net.add("Pad", net.last, net.constant(np.array([0, 0, 3, 0, 0, 2])), mode=mode)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("N", 4, 40), (4, 5, 39, 40))


@pytest.mark.parametrize(
    "shape, pads",
    [
        ((2, None, 4), [0, 0, 0, 0, 0, 2]),
        ((2, 3, None), [0, 1, 0, 0, 1, 0]),
        ((2, 3, None), [0, 1, 2, 0, 1, 3]),
        ((None, 5, 2), [1, 0, 2, 0, 1, 3]),
    ],
)
def test_constant_pads_along_every_axis(tmp_path: Path, shape: tuple[Any, ...], pads: list[int]) -> None:
    """Also along the last one, whose length is fixed or that of the run."""
    net = Images(*shape)
    net.add("Pad", net.last, net.constant(np.array(pads)), net.constant(np.array(0.5, np.float32)))
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("N", 1, 17), (1, 2, 11, 17))


@pytest.mark.parametrize("shape", [("batch", 6, "height", "width"), (1, 6, 5, "width"), (2, 6, "height", 4)])
@pytest.mark.parametrize("between", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.sample(1)
def test_lrn(tmp_path: Path, shape: tuple[Any, ...], between: bool) -> None:
    def write(net: Images) -> None:
        if between:
            net.conv(7, 1, 1)
        net.add("LRN", net.last, size=5)
        if between:
            net.conv(5, 3, 3, pads=[1, 1, 1, 1])

    bounds = {name: (1, BATCH[name][1]) for name in shape if isinstance(name, str)}
    places = [list(BATCH).index(name) for name in bounds]
    lengths = [tuple(each[at] for at in places) for each in [*LENGTHS, (2, 1, 3)]]
    assert_images(tmp_path, images(write, *shape), bounds, lengths, lengths[1:3])


@pytest.mark.parametrize("between", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("groups", [0, 2])
@pytest.mark.sample(1)
def test_norms_of_images(tmp_path: Path, groups: int, between: bool) -> None:
    """InstanceNormalization, also of groups of channels as exporters write it."""

    def write(net: Images) -> None:
        if between:
            net.conv(6, 3, 3, pads=[1, 1, 1, 1])
        before, shape = net.last, net.add("Shape", net.last)
        scale, bias = (net.constant(np.full(groups or 6, value, np.float32)) for value in (0.7, 0.1))
        net.last = before
        if groups:
            net.add("Reshape", before, net.constant(np.array([0, groups, -1])))
        net.add("InstanceNormalization", net.last, scale, bias)
        if groups:
            net.add("Reshape", net.last, shape)
        if between:
            net.conv(5, 3, 3)

    assert_images(tmp_path, images(write, "batch", 6, "height", "width"), BATCH, LENGTHS, LENGTHS[1:3])


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.sample(1)
def test_the_operator_of_group_norms(tmp_path: Path, opset: int) -> None:
    """GroupNormalization, whose scale is of groups before opset 21, of channels from then on."""

    def write(net: Images) -> None:
        net.conv(6, 3, 3, pads=[1, 1, 1, 1])
        given = [net.constant(np.linspace(-1, 1, 6 if opset == 21 else 3, dtype=np.float32)) for _ in range(2)]
        net.add("GroupNormalization", net.last, *given, num_groups=3)
        net.opset = opset

    assert_images(tmp_path, images(write, "batch", 2, "height", "width"), BATCH, LENGTHS, LENGTHS[1:3])


def test_a_norm_over_two_loops_is_refused(tmp_path: Path) -> None:
    net = Images(1, None, 5)
    net.add("LayerNormalization", "x", net.constant(np.ones(5, np.float32)), axis=1)
    path = net.save(tmp_path / "m.onnx")
    with pytest.raises(MavcgError, match=r"no kernel of it \(layer_norm_f32\) takes all lengths"):
        lowered_for_lengths(path, {"x": net.shape}, Dimension("N", 2, 9))
