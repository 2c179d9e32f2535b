"""Networks with seeded weights, for accelerators: the paper's four, and newer ones that it was not tuned for."""

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph
from mavcg.graph.networks import INCEPTION, INVERTED_RESIDUALS, squeezenet, vgg16
from mavcg.graph.networks.builder import NetworkBuilder

# Weights of the last convolution of a residual block are scaled down: sums over dozens of blocks must fit into 8 bits.
_RESIDUAL_END, _RESIDUAL_GAIN = "_end.w", 0.25
_RESIDUAL_CHANNELS = (64, 128, 256, 512)
_POOLED_BEFORE = ("3a", "4a", "5a")
_ROUNDED_UP = (0, 0, 1, 1)  # pads at bottom and right, so that a window of stride 2 begins at every second position


def resnet50() -> Graph:
    """Return ResNet-50 (He et al. 2015), with 53 convolutions and 16 sums."""
    return _residual_network("resnet50", (3, 4, 6, 3))


def resnet152() -> Graph:
    """Return ResNet-152, with 155 convolutions and 50 sums."""
    return _residual_network("resnet152", (3, 8, 36, 3))


def _residual_network(name: str, blocks: tuple[int, ...]) -> Graph:
    """Return a residual network with the stride in the first convolution of a block, as in Caffe."""
    net = NetworkBuilder(name, 224, 224)
    x = net.max_pool(net.conv(net.image, "conv1", 64, 7, stride=2, pad=3), 3, 2, (1, 1, 1, 1))
    for stage, (channels, count) in enumerate(zip(_RESIDUAL_CHANNELS, blocks, strict=True), 2):
        for block in range(count):
            stride = 2 if stage > 2 and block == 0 else 1
            part = f"res{stage}_{block}"
            y = net.conv(x, f"{part}_1x1", channels, 1, stride)
            y = net.conv(y, f"{part}_3x3", channels, 3, pad=1)
            y = net.conv(y, f"{part}_end", 4 * channels, 1, act="")
            if block == 0:
                x = net.conv(x, f"{part}_projection", 4 * channels, 1, stride, act="")
            x = net.add(y, x, part, act="relu")
    return net.finish(net.softmax(net.dense(net.mean(x), "fc", 1000, act="")))


def googlenet() -> Graph:
    """Return GoogLeNet (Szegedy et al. 2015) for images of 224x224, with pools that round up as in Caffe.

    It lacks the two local response normalisations: DNNVM's table III has 137 nodes, which are 57 convolutions, as many
    ReLUs, 14 pools and 9 concats.
    """
    net = NetworkBuilder("googlenet", 224, 224)
    x = net.max_pool(net.conv(net.image, "conv1", 64, 7, stride=2, pad=3), 3, 2, _ROUNDED_UP)
    x = net.conv(net.conv(x, "conv2_reduce", 64, 1), "conv2", 192, 3, pad=1)
    for name, (direct, reduce3, three, reduce5, five, pooled) in INCEPTION.items():
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


def mobilenet_v2(side: int = 224) -> Graph:
    """Return MobileNet v2 (Sandler et al. 2018) of width 1. side: height and width of the image.

    It has 52 convolutions, 17 of them depthwise, and 10 sums.
    """
    net = NetworkBuilder("mobilenet_v2", side, side)
    x = net.relu6(net.conv(net.image, "conv1", 32, 3, stride=2, pad=1, act=""))
    for stage, (expansion, channels, blocks, first_stride) in enumerate(INVERTED_RESIDUALS, 1):
        for block in range(blocks):
            part, stride = f"block{stage}_{block}", first_stride if block == 0 else 1
            y, inside = x, net.shape(x)[3] * expansion
            if expansion > 1:
                y = net.relu6(net.conv(y, f"{part}_expand", inside, 1, act=""))
            y = net.relu6(net.conv(y, f"{part}_depthwise", inside, 3, stride, pad=1, groups=inside, act=""))
            y = net.conv(y, f"{part}_end", channels, 1, act="")
            x = net.add(y, x, part) if net.shape(x) == net.shape(y) else y
    x = net.relu6(net.conv(x, "conv_last", 1280, 1, act=""))
    return net.finish(net.softmax(net.dense(net.mean(x), "fc", 1000, act="")))


def yolo_small(side: int = 208) -> Graph:
    """Return a detector like YOLOv3-tiny (Redmon and Farhadi 2018): leaky ReLU, upsampling, concat, space to depth.

    side: height and width of the image, a multiple of 16; for 208, it has 255 outputs for each position of 13x13 and
    26x26 maps, joined as one 13x13 map.
    """
    net = NetworkBuilder("yolo_small", side, side)
    x = net.image
    for number, channels in enumerate((16, 32, 64), 1):
        x = net.max_pool(net.conv(x, f"conv{number}", channels, 3, pad=1, act="leaky"), 2, 2)
    fine = net.conv(x, "conv4", 128, 3, pad=1, act="leaky")
    x = net.conv(net.max_pool(fine, 2, 2), "conv5", 256, 3, pad=1, act="leaky")
    x = net.conv(x, "conv6", 128, 1, act="leaky")
    coarse = net.conv(net.conv(x, "conv7", 256, 3, pad=1, act="leaky"), "coarse", 255, 1, act="")
    x = net.concat(net.upsample(net.conv(x, "conv8", 64, 1, act="leaky"), 2), fine)
    detailed = net.conv(net.conv(x, "conv9", 128, 3, pad=1, act="leaky"), "fine", 255, 1, act="")
    return net.finish(net.concat(coarse, net.space_to_depth(detailed, 2)))


_NETWORKS: Mapping[str, Callable[[], Graph]] = MappingProxyType(
    {
        "vgg16": vgg16,
        "resnet50": resnet50,
        "resnet152": resnet152,
        "googlenet": googlenet,
        "squeezenet": squeezenet,
        "mobilenet_v2": mobilenet_v2,
        "yolo_small": yolo_small,
    }
)
NAMES: tuple[str, ...] = tuple(_NETWORKS)


def network(name: str) -> Graph:
    """Return one of NAMES with seeded weights, which are drawn so that activations keep their scale (He et al., 2015).

    Raises: MavcgError for another name.
    """
    made = _NETWORKS.get(name)
    if made is None:
        raise MavcgError(f"network {name}: no such network; known: {', '.join(NAMES)}")
    return with_seeded_weights(made())


def with_seeded_weights(graph: Graph) -> Graph:
    """Return the graph with seeded weights: a constant for each input but the first, from names and shapes only."""
    constants = {name: _draw(name, graph.types[name].shape) for name in graph.inputs[1:]}
    return replace(graph, inputs=graph.inputs[:1], constants={**graph.constants, **constants})


def _draw(name: str, shape: tuple[int, ...]) -> Array:
    random = np.random.default_rng(zlib.crc32(name.encode()))
    values = random.standard_normal(shape, np.float32)
    if len(shape) == 1:
        return values * np.float32(0.1)
    deviation = math.sqrt(2 / math.prod(shape[1:]))
    return values * np.float32(deviation * (_RESIDUAL_GAIN if name.endswith(_RESIDUAL_END) else 1.0))
