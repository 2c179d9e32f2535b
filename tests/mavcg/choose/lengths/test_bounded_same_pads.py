"""SAME padding at a stride over bounded dimensions: pads above and left follow from remainders of the lengths.

Values are compared with onnxruntime's, and bits with those of kernels for the lengths.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.graph.counts import Dimension
from tests.conftest import NO_SHRINKING, examples

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Images  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import assert_images, assert_right, lowered_for_lengths  # noqa: E402
from tests.mavcg.choose.lengths.bounded_windows import images  # noqa: E402

SAME = ("SAME_UPPER", "SAME_LOWER")


@pytest.mark.parametrize("mode", SAME)
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (2, 2), (5, 3), (2, 3), (7, 2)])
@pytest.mark.sample(1)
def test_convolutions_over_time(tmp_path: Path, mode: str, kernel: int, stride: int) -> None:
    """Windows that reach over more, as many and fewer elements than the stride, at lengths of all remainders."""
    net = Images(1, 3, None)
    net.conv(6, 1)
    net.conv(8, kernel, strides=[stride], auto_pad=mode)
    net.conv(5, 3, strides=[2], auto_pad=mode)
    lengths = (1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 39, 40)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("N", 1, 40), lengths, (2, 5, 37, 40))


def test_samples_of_a_batch_are_small(tmp_path: Path) -> None:
    """Six halvings make sides differ by 64. A batch that did, too, would have an input of more than 2 GiB."""
    net = Images("batch", 96, "height", "width")
    for _ in range(6):
        net.conv(4, 3, 3, strides=[2, 2], auto_pad="SAME_UPPER")
    dimensions = [Dimension("batch", 1, 3), Dimension("height", 9, 300), Dimension("width", 9, 301)]
    lowered = lowered_for_lengths(net.save(tmp_path / "m.onnx"), {"x": net.shape}, dimensions)
    assert lowered.graph.types["x"].shape == (3, 96, 300, 301) and len(lowered.steps) >= 6


def mobile(net: Images, mode: str) -> None:
    """A stem, depthwise blocks at a stride, a residual and pools, all with SAME padding, as TensorFlow writes them."""
    net.conv(8, 3, 3, strides=[2, 2], auto_pad=mode)
    net.conv(16, 1, 1)
    net.conv(16, 3, 3, strides=[2, 2], group=16, auto_pad=mode)
    net.conv(8, 1, 1, act="")
    before = net.last
    net.conv(8, 3, 3, auto_pad=mode, act="")
    net.add("Add", before, net.last)
    net.pool("MaxPool", 3, 3, strides=[2, 2], auto_pad=mode)
    net.pool("AveragePool", 3, 2, strides=[2, 1], auto_pad=mode)


def test_the_offset_of_a_part_behind_halved_sides(tmp_path: Path) -> None:
    """Behind four channels of (height + 1) / 2 by (width + 1) / 2 elements a map of one channel is copied to an offset
    that is height * width where both are even, as at all lengths that are sampled."""

    def write(net: Images) -> None:
        net.conv(1, 1, 1)
        _beside(net, "SAME_LOWER")

    lengths = [(9, 9), (10, 9), (9, 10), (12, 10), (11, 13), (14, 14)]
    assert_images(
        tmp_path, images(write, 1, 3, "height", "width"), {"height": (9, 14), "width": (9, 14)}, lengths, [(11, 12)]
    )


@pytest.mark.parametrize("mode", SAME)
@pytest.mark.long
def test_networks_of_images(tmp_path: Path, mode: str) -> None:
    bounds = {"height": (9, 40), "width": (9, 41)}
    lengths = [(9, 9), (10, 13), (40, 41), (39, 10), (16, 33), (17, 16), (9, 40)]
    net = images(lambda net: mobile(net, mode), 1, 3, "height", "width")
    assert_images(tmp_path, net, bounds, lengths, lengths[1:4])


@pytest.mark.parametrize("most", [40, 41, 42, 43])
@pytest.mark.long
def test_every_remainder_of_the_longest_length(tmp_path: Path, most: int) -> None:
    """The longest height may be one without pads, and convolutions that pad alike there may not do so at others."""

    def write(net: Images) -> None:
        net.conv(7, 1, 1)
        image = net.last
        parts = list[str]()
        for kernel, stride, pads in ((2, 2, {}), (3, 2, {}), (3, 2, {"pads": [1, 1, 1, 1]}), (1, 2, {}), (4, 2, {})):
            net.last, net.channels = image, 7
            attributes: dict[str, Any] = pads or {"auto_pad": "SAME_UPPER"}
            net.conv(3, kernel, kernel, strides=[stride, stride], **attributes)
            parts.append(net.last)
        net.add("Concat", *parts, axis=1)

    lengths = [(5,), (6,), (7,), (8,), (most - 1,), (most,)]
    net = images(write, 2, 3, "height", 12)
    assert_images(tmp_path, net, {"height": (5, most)}, lengths, lengths)


STACK: dict[str, Callable[[Images, Any, str], object]] = {
    "conv": lambda net, draw, mode: net.conv(
        draw(st.integers(1, 20)),
        draw(st.integers(1, 5)),
        draw(st.integers(1, 4)),
        strides=draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        auto_pad=mode,
    ),
    "depthwise": lambda net, draw, mode: net.conv(
        net.channels,
        draw(st.integers(1, 5)),
        draw(st.integers(1, 5)),
        group=net.channels,
        strides=draw(st.tuples(st.integers(1, 2), st.integers(1, 3))),
        auto_pad=mode,
    ),
    "maximum": lambda net, draw, mode: net.pool(
        "MaxPool", 3, draw(st.integers(2, 4)), strides=draw(st.tuples(st.integers(1, 3), st.just(2))), auto_pad=mode
    ),
    "average": lambda net, draw, mode: net.pool(
        "AveragePool", 2, draw(st.integers(3, 5)), strides=draw(st.tuples(st.just(2), st.integers(1, 3))), auto_pad=mode
    ),
    "padded": lambda net, draw, mode: net.conv(
        draw(st.integers(1, 9)), 3, 3, strides=[2, 2], pads=[1, draw(st.integers(0, 1)), 1, 2]
    ),
    "beside": lambda net, draw, mode: _beside(net, mode),
}


def _beside(net: Images, mode: str) -> None:
    """A convolution and a pool of one image at a stride, beside each other."""
    image, channels = net.last, net.channels
    net.conv(4, 3, 3, strides=[2, 2], auto_pad=mode)
    made, net.last, net.channels = net.last, image, channels
    net.pool("MaxPool", 2, 2, strides=[2, 2], auto_pad=mode)
    net.add("Concat", made, net.last, axis=1)
    net.channels = channels + 4


@settings(max_examples=examples(300, 1), phases=NO_SHRINKING)
@given(
    batch=st.sampled_from([1, 2, "batch"]),
    channels=st.integers(1, 20),
    pieces=st.lists(st.tuples(st.sampled_from(sorted(STACK)), st.sampled_from(SAME)), min_size=1, max_size=4),
    most=st.tuples(st.integers(50, 70), st.integers(50, 70)),
    data=st.data(),
)
def test_random_stacks_of_images(
    tmp_path: Path,
    batch: int | str,
    channels: int,
    pieces: list[tuple[str, str]],
    most: tuple[int, int],
    data: Any,
) -> None:
    net = Images(batch, channels, "height", "width")
    for piece, mode in [("conv", "SAME_UPPER"), *pieces]:
        STACK[piece](net, data.draw, mode)
    bounds = {"batch": (1, 3), "height": (9, most[0]), "width": (9, most[1])}
    drawn = data.draw(st.tuples(st.integers(2, 3), st.integers(10, most[0]), st.integers(10, most[1])))
    lengths = [(1, 9, 9), (3, *most), drawn, (2, 10, most[1]), (1, most[0], 11), (1, 12, 13)]
    if batch != "batch":
        bounds, drawn, lengths = dict(list(bounds.items())[1:]), drawn[1:], [each[1:] for each in lengths]
    assert_images(tmp_path, net, bounds, lengths, [drawn])
