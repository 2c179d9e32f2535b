"""Windows inside of a bounded dimension: images of any height and width, of any number, and batches of any time.

Values are compared with onnxruntime's, and bits with those of kernels for the lengths.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from tests.conftest import NO_SHRINKING, examples

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Images, small_cnn  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import assert_images  # noqa: E402
from tests.mavcg.choose.lengths.bounded_windows import OPERATORS, front_end, images, pyramid, tcn  # noqa: E402

Bounds = Mapping[str, tuple[int, int]]
NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def up_and_down(net: Images) -> None:
    """Down by two and up by two, as in networks for segmentation."""
    net.conv(8, 2, 2, strides=[2, 2])
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    net.add("Resize", net.last, "", scales, **NEAREST)
    net.conv(20, 3, 3, pads=[1, 1, 1, 1], act="")


def excited(net: Images) -> None:
    """Channels scaled by what the mean of the image says, 5x5 filters of each, and maps beside each other."""
    net.conv(16, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    image = net.last
    net.add("GlobalAveragePool", image)
    net.conv(4, 1, 1)
    net.conv(16, 1, 1, act="Sigmoid")
    wide = net.add("Mul", image, net.last)
    net.conv(16, 5, 5, group=16, pads=[2, 2, 2, 2])
    net.add("Concat", net.last, wide, axis=1)
    net.channels = 32
    net.conv(24, 3, 3, pads=[1, 1, 1, 1], group=2, act="")
    net.pool("AveragePool", 2, 2, strides=[2, 2], ceil_mode=1)


SQUARE = {"height": (5, 40), "width": (5, 40)}


def test_height_and_width(tmp_path: Path) -> None:
    lengths = [(5, 5), (6, 9), (40, 40), (39, 5), (7, 33), (17, 16), (5, 40)]
    assert_images(tmp_path, images(small_cnn, 1, 3, "height", "width"), SQUARE, lengths, lengths[1:4])


@pytest.mark.parametrize("write", [up_and_down, excited])
@pytest.mark.long
def test_networks_of_images(tmp_path: Path, write: Callable[[Images], None]) -> None:
    lengths = [(5, 6), (6, 5), (40, 40), (39, 8), (31, 30), (7, 9)]
    assert_images(tmp_path, images(write, 1, 3, "height", "width"), SQUARE, lengths, lengths[2:4])


@pytest.mark.parametrize("write", [small_cnn, excited])
@pytest.mark.long
def test_a_batch_of_images_of_any_size(tmp_path: Path, write: Callable[[Images], None]) -> None:
    bounds = {"batch": (1, 4), "height": (5, 30), "width": (5, 50)}
    lengths = [(1, 5, 5), (2, 6, 9), (4, 30, 50), (3, 17, 33), (1, 30, 5)]
    assert_images(tmp_path, images(write, "batch", 3, "height", "width"), bounds, lengths, lengths[1:4])


@pytest.mark.long
def test_the_width_of_lines(tmp_path: Path) -> None:
    """Images of one height, as lines of text are."""
    lengths = [(5,), (6,), (7,), (50,), (49,), (33,), (18,)]
    assert_images(tmp_path, images(small_cnn, 1, 3, 16, "width"), {"width": (5, 50)}, lengths, lengths[1:4])


@pytest.mark.long
def test_the_height_of_two_images(tmp_path: Path) -> None:
    lengths = [(5,), (6,), (49,), (50,)]
    assert_images(tmp_path, images(small_cnn, 2, 3, "height", 16), {"height": (5, 50)}, lengths, lengths[1:])


@pytest.mark.parametrize("write", [tcn, front_end, pyramid])
@pytest.mark.sample(1)
def test_time_in_a_batch(tmp_path: Path, write: Callable[[Images], None]) -> None:
    bounds = {"batch": (1, 6), "time": (13, 60)}
    lengths = [(1, 13), (2, 14), (6, 60), (3, 33), (5, 17), (6, 13)]
    assert_images(tmp_path, images(write, "batch", 10, "time"), bounds, lengths, lengths[1:4])


@pytest.mark.parametrize("channels", [1, 4, 64, 80])
@pytest.mark.long
def test_widths_around_register_tiles(tmp_path: Path, channels: int) -> None:
    """Tails of all lengths, of few channels and of chunks of many, with residuals."""

    def write(net: Images) -> None:
        net.conv(channels, 3, 3, pads=[1, 1, 1, 1])
        before = net.last
        net.conv(channels, 3, 3, pads=[1, 1, 1, 1], act="")
        net.add("Add", before, net.last)
        net.conv(channels, 3, 3, group=channels, pads=[1, 1, 1, 1])
        net.conv(5, 1, 1, act="")

    widths = (1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 14, 15, 16, 17, 27, 28, 29, 31, 32, 33)
    lengths = [(3, width) for width in widths]
    bounds = {"height": (1, 4), "width": (1, 33)}
    assert_images(tmp_path, images(write, 1, 2, "height", "width"), bounds, lengths, [(3, 2), (3, 15), (3, 33)])


@pytest.mark.long
def test_tiles_continue_in_the_next_row_where_weights_are_many(tmp_path: Path) -> None:
    """Maps of few columns and several images, with a residual, and 1x1 convolutions into padded images."""

    def write(net: Images) -> None:
        net.conv(96, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
        before = net.last
        net.conv(96, 3, 3, pads=[1, 1, 1, 1], act="")
        net.add("Add", before, net.last)
        net.conv(700, 1, 1)
        net.conv(70, 1, 2, pads=[0, 1, 0, 0])

    lengths = [(1, 3, 4), (2, 4, 5), (2, 12, 18), (3, 7, 9), (3, 5, 18)]
    bounds = {"batch": (1, 3), "height": (3, 12), "width": (4, 18)}
    assert_images(tmp_path, images(write, "batch", 3, "height", "width"), bounds, lengths, lengths[1:])


@pytest.mark.sample(1)
@pytest.mark.parametrize("most", [41, 40])
def test_every_second_row(tmp_path: Path, most: int) -> None:
    """The slices by which detectors begin. At an even height the last row is followed by the next channel's first, so
    that a kernel of the longest height would see all channels as one image; at an odd one it does not."""

    def write(net: Images) -> None:
        starts, ends, axes, steps = (net.constant(np.array(n)) for n in ([1, 0], [1 << 31] * 2, [2, 3], [2, 2]))
        net.add("Slice", "x", starts, ends, axes, steps)
        net.conv(4, 3, 3, pads=[1, 1, 1, 1])

    bounds = {"height": (9, most), "width": (9, 41)}
    lengths = [(9, 11), (most, 41), (12, 33), (17, 16)]
    net = images(write, 1, 3, "height", "width")
    if most % 2:
        assert_images(tmp_path, net, bounds, lengths, lengths[2:])
        return
    with pytest.raises(MavcgError, match="follow each other at some lengths only"):
        assert_images(tmp_path, net, bounds, lengths, [])


PLANES: dict[str, Callable[[Images, Any], object]] = {
    "conv": lambda net, draw: net.conv(
        draw(st.integers(1, 40)),
        *(kernel := draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))),
        strides=draw(st.tuples(st.integers(1, 2), st.integers(1, 3))),
        dilations=draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        pads=[draw(st.integers(0, size)) for size in (*kernel, *kernel)],
    ),
    "depthwise": lambda net, draw: net.conv(
        net.channels,
        *draw(st.tuples(st.integers(1, 5), st.integers(1, 5))),
        group=net.channels,
        strides=draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        pads=[2, draw(st.integers(0, 3)), 3, 2],
    ),
    "maximum": lambda net, draw: net.pool(
        "MaxPool", 3, 2, strides=[draw(st.integers(1, 2)), draw(st.integers(1, 2))], pads=[1, 0, 1, 1]
    ),
    "average": lambda net, draw: net.pool(
        "AveragePool", 2, 3, strides=[1, draw(st.integers(1, 2))], pads=[0, 1, 1, 1], count_include_pad=1
    ),
    "up": lambda net, draw: net.add(
        "Resize", net.last, "", net.constant(np.array([1, 1, 2, draw(st.integers(1, 3))], np.float32)), **NEAREST
    ),
    "residual": lambda net, draw: _residual(net),
    "excited": lambda net, draw: _scaled(net),
}


def _residual(net: Images) -> None:
    before = net.last
    net.conv(net.channels, 3, 3, pads=[1, 1, 1, 1], act="")
    net.add("Add", before, net.last)


def _scaled(net: Images) -> None:
    before = net.last
    net.add("GlobalAveragePool", before)
    net.conv(net.channels, 1, 1, act="Sigmoid")
    net.add("Mul", before, net.last)


@settings(max_examples=examples(300, 1), phases=NO_SHRINKING)
@given(
    batch=st.sampled_from([1, 2, "batch"]),
    channels=st.integers(1, 20),
    pieces=st.lists(st.sampled_from(sorted(PLANES)), min_size=1, max_size=4),
    most=st.tuples(st.integers(50, 70), st.integers(50, 70)),
    data=st.data(),
)
def test_random_stacks_of_windows_over_images(
    tmp_path: Path, batch: int | str, channels: int, pieces: list[str], most: tuple[int, int], data: Any
) -> None:
    net = Images(batch, channels, "height", "width")
    for piece in ["conv", *pieces]:
        PLANES[piece](net, data.draw)
    bounds = {"batch": (1, 3), "height": (40, most[0]), "width": (40, most[1])}
    drawn = data.draw(st.tuples(st.integers(2, 3), st.integers(41, most[0]), st.integers(41, most[1])))
    lengths = [(1, 40, 40), (3, *most), drawn, (2, 40, most[1]), (1, most[0], 41)]
    if batch != "batch":
        bounds, drawn, lengths = dict(list(bounds.items())[1:]), drawn[1:], [each[1:] for each in lengths]
    assert_images(tmp_path, net, bounds, lengths, [drawn])


@settings(max_examples=examples(200, 1), phases=NO_SHRINKING)
@given(
    channels=st.integers(1, 20),
    pieces=st.lists(st.sampled_from(sorted(OPERATORS)), min_size=1, max_size=4),
    most=st.integers(90, 150),
    data=st.data(),
)
def test_random_stacks_of_windows_over_time_in_a_batch(
    tmp_path: Path, channels: int, pieces: list[str], most: int, data: Any
) -> None:
    net = Images("batch", channels, "time")
    for piece in ["conv", *pieces]:
        OPERATORS[piece](net, data.draw)
    drawn = data.draw(st.tuples(st.integers(2, 5), st.integers(61, most)))
    lengths = [(1, 60), (5, 61), (5, most), (2, most - 1), drawn]
    assert_images(tmp_path, net, {"batch": (1, 5), "time": (60, most)}, lengths, [drawn])
