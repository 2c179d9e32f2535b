"""GoogLeNet (Szegedy et al. 2015): 57 convolutions, with pools that round up as in Caffe.

It lacks the two local response normalisations: DNNVM's table III has 137 nodes, which are 57 convolutions, as many
ReLUs, 14 pools and 9 concats.
"""

from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder

# Output channels of each module: 1x1; reduction before 3x3, 3x3; reduction before 5x5, 5x5; projection after the pool.
_MODULES = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
_POOLED_BEFORE = ("3a", "4a", "5a")
_ROUNDED_UP = (0, 0, 1, 1)  # pads at bottom and right, so that a window of stride 2 begins at every second position


def googlenet() -> Graph:
    """Return GoogLeNet for images of 224x224."""
    net = NetworkBuilder("googlenet", 224, 224)
    x = net.max_pool(net.conv(net.image, "conv1", 64, 7, stride=2, pad=3), 3, 2, _ROUNDED_UP)
    x = net.conv(net.conv(x, "conv2_reduce", 64, 1), "conv2", 192, 3, pad=1)
    for name, (direct, reduce3, three, reduce5, five, pooled) in _MODULES.items():
        if name in _POOLED_BEFORE:
            x = net.max_pool(x, 3, 2, _ROUNDED_UP)
        part = f"inception_{name}"
        x = net.concat(
            net.conv(x, f"{part}_1x1", direct, 1),
            net.conv(net.conv(x, f"{part}_3x3_reduce", reduce3, 1), f"{part}_3x3", three, 3, pad=1),
            net.conv(net.conv(x, f"{part}_5x5_reduce", reduce5, 1), f"{part}_5x5", five, 5, pad=2),
            net.conv(net.max_pool(x, 3, 1, (1, 1, 1, 1)), f"{part}_pool", pooled, 1),
        )
    return net.finish(net.softmax(net.dense(net.mean(x), "fc", 1000, act="")))
