"""Networks of windows and levels of features over bounded dimensions, for the tests of several test modules."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.mavcg.choose.lengths.bounded_models import Images


def images(write: Callable[[Images], None], *shape: Any) -> Images:
    net = Images(*shape)
    write(net)
    return net


def tcn(net: Images) -> None:
    """Dilated causal convolutions with residuals, depthwise ones among them."""
    net.conv(16, 3, pads=[2, 0])
    for dilation in (2, 4):
        before = net.last
        net.conv(16, 3, pads=[2 * dilation, 0], dilations=[dilation])
        net.conv(16, 5, group=16, pads=[4, 0])
        net.add("Add", before, net.last)


def front_end(net: Images) -> None:
    """Two convolutions of stride 2 along time, as in front of a speech encoder, and one along frequencies too."""
    net.conv(24, 3, strides=[2], pads=[1, 1])
    net.conv(40, 3, strides=[2], pads=[1, 1])
    net.conv(16, 1)


def pyramid(net: Images) -> None:
    """Pools of all kinds, some with more windows in ceil mode."""
    net.pool("MaxPool", 3, strides=[2], pads=[1, 1], ceil_mode=1)
    net.pool("AveragePool", 3, strides=[1], pads=[1, 1], count_include_pad=1)
    net.pool("AveragePool", 2, strides=[3], ceil_mode=1)
    net.conv(6, 2)
    net.pool("MaxPool", 2, strides=[2], ceil_mode=1)


def to_the_size_of(net: Images, like: str, **attributes: Any) -> None:
    """Resize the last tensor to height and width of another one, as exporters compute sizes."""
    made = net.last
    sizes = []
    for name, ends in ((made, (0, 2)), (like, (2, 4))):
        whole = net.add("Shape", name)
        bounds = [net.constant(np.array([end])) for end in ends]
        sizes.append(net.add("Slice", whole, *bounds))
    both = net.add("Concat", *sizes, axis=0)
    net.add("Resize", made, "", "", both, **attributes)


def pyramid_of_features(net: Images, **attributes: Any) -> None:
    """Two levels of features at strides of 2 and 4, of which the smaller one is added to the larger one."""
    net.conv(8, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    large = net.last
    net.conv(8, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    to_the_size_of(net, large, **attributes)
    net.add("Add", large, net.last)
    net.conv(4, 3, 3, pads=[1, 1, 1, 1], act="")


def atrous_pyramid(net: Images, **attributes: Any) -> None:
    """Dilated windows beside the mean of the image, which is resized to its size (DeepLab's ASPP)."""
    net.conv(6, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    before, branches = net.last, list[str]()
    for dilation in (1, 2, 3):
        net.last, net.channels = before, 6
        net.conv(4, 3, 3, pads=[dilation] * 4, dilations=[dilation] * 2)
        branches.append(net.last)
    net.add("GlobalAveragePool", before)
    net.channels = 6
    net.conv(4, 1, 1)
    to_the_size_of(net, before, **attributes)
    net.add("Concat", *branches, net.last, axis=1)
    net.channels = 16
    net.conv(5, 1, 1)
    to_the_size_of(net, "x", **attributes)


OPERATORS: dict[str, Callable[[Images, Any], None]] = {
    "conv": lambda net, draw: net.conv(
        draw(st.integers(1, 20)),
        kernel := draw(st.integers(1, 4)),
        strides=[draw(st.integers(1, 3))],
        dilations=[draw(st.integers(1, 3))],
        pads=[draw(st.integers(0, 3 * kernel)), draw(st.integers(0, 3 * kernel))],
    ),
    "depthwise": lambda net, draw: net.conv(
        net.channels, draw(st.integers(1, 5)), group=net.channels, strides=[draw(st.integers(1, 2))], pads=[2, 3]
    ),
    "maximum": lambda net, draw: net.pool(
        "MaxPool", 3, strides=[draw(st.integers(1, 3))], pads=[1, 1], ceil_mode=draw(st.integers(0, 1))
    ),
    "average": lambda net, draw: net.pool(
        "AveragePool",
        draw(st.integers(2, 3)),
        strides=[draw(st.integers(1, 3))],
        pads=[1, draw(st.integers(0, 1))],
        count_include_pad=draw(st.integers(0, 1)),
    ),
}
