"""The five networks of the e-PlaNNer thesis, as graphs built by code.

INVERTED_RESIDUALS and INCEPTION are tables of publications, by which accelerators, benches and tests build others.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder

# MobileNet v2 (Sandler et al., CVPR 2018, table 2): expansion, channels, blocks, stride of the first.
INVERTED_RESIDUALS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
# GoogLeNet (Szegedy et al., CVPR 2015, table 1): output channels of each module: 1x1; reduction before 3x3, 3x3;
# reduction before 5x5, 5x5; projection behind the pool.
INCEPTION = {
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

_BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels, convolutions; a pool behind each


def vgg16(paper_variant: bool = False) -> Graph:
    """Return VGG-16 at 224x224. e-PlaNNer's variant is the same network."""
    net = NetworkBuilder("vgg16", 224, 224)
    x = net.image
    for block, (channels, count) in enumerate(_BLOCKS, 1):
        for number in range(1, count + 1):
            x = net.conv(x, f"conv{block}_{number}", channels, 3, pad=1)
        x = net.max_pool(x, 2, 2)
    x = net.dense(x, "fc6", 4096)
    x = net.dense(x, "fc7", 4096)
    return net.finish(net.softmax(net.dense(x, "fc8", 1000, act="")))


_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels inside a block, blocks


def resnet50(paper_variant: bool = False) -> Graph:
    """Return ResNet-50 at 224x224: 54 layers, with a projection (1x1 convolution) in the first block of each stage.

    paper_variant: e-PlaNNer's 50 layers, those of Darknet's cfg/resnet50.cfg: at 256x256, a 2x2 pool, no projections. A
    shortcut between different shapes then is Darknet's: every other row and column if the block has a stride, and zeros
    for the missing channels. The last layer is fully connected, as table 8.1 counts it (Darknet's is a 1x1 convolution
    before the mean).
    """
    side = 256 if paper_variant else 224
    net = NetworkBuilder("resnet50", side, side)
    x = net.conv(net.image, "conv1", 64, 7, stride=2, pad=3)
    x = net.max_pool(x, 2, 2) if paper_variant else net.max_pool(x, 3, 2, (1, 1, 1, 1))
    for stage, (channels, blocks) in enumerate(_STAGES, 2):
        for block in range(blocks):
            stride = 2 if stage > 2 and block == 0 else 1
            x = _block(net, x, f"res{stage}{'abcdef'[block]}", channels, stride, projected=not paper_variant)
    return net.finish(net.softmax(net.dense(net.mean(x), "fc", 1000, act="")))


def _block(net: NetworkBuilder, x: str, name: str, channels: int, stride: int, projected: bool) -> str:
    y = net.conv(x, f"{name}_1x1a", channels, 1)
    y = net.conv(y, f"{name}_3x3", channels, 3, stride, pad=1)
    y = net.conv(y, f"{name}_1x1b", 4 * channels, 1, act="")
    if net.shape(x) != net.shape(y):
        if projected:
            x = net.conv(x, f"{name}_projection", 4 * channels, 1, stride, act="")
        else:
            x = net.widen(x, 4 * channels, stride)
    return net.add(y, x, name, act="relu")


def alexnet(paper_variant: bool = False) -> Graph:
    """Return AlexNet at 227x227 as published: two groups in conv2, conv4 and conv5, and response normalisation.

    paper_variant: e-PlaNNer's, without groups (and without normalisation, which the paper does not mention).
    """
    groups = 1 if paper_variant else 2
    net = NetworkBuilder("alexnet", 227, 227)

    def pool(x: str) -> str:
        if not paper_variant:
            x = net.lrn(x, size=5, alpha=5e-4, beta=0.75, bias=2.0)  # ONNX divides alpha by size: 1e-4 a term
        return net.max_pool(x, 3, 2)

    x = pool(net.conv(net.image, "conv1", 96, 11, stride=4))
    x = pool(net.conv(x, "conv2", 256, 5, pad=2, groups=groups))
    x = net.conv(x, "conv3", 384, 3, pad=1)
    x = net.conv(x, "conv4", 384, 3, pad=1, groups=groups)
    x = net.max_pool(net.conv(x, "conv5", 256, 3, pad=1, groups=groups), 3, 2)
    x = net.dense(x, "fc6", 4096)
    x = net.dense(x, "fc7", 4096)
    return net.finish(net.softmax(net.dense(x, "fc8", 1000, act="")))


_FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))  # squeezed, each branch
_POOLED_BEFORE = (2, 4, 6)


def squeezenet(paper_variant: bool = False, side: int = 224) -> Graph:
    """Return SqueezeNet at 224x224 (or side x side), with pools that round up: maps of 111, 55, 27 and 13.

    paper_variant: e-PlaNNer's, at 227x227 with pools padded by one on all sides as in Darknet: 113, 57, 29, 15.
    """
    side = 227 if paper_variant else side
    net = NetworkBuilder("squeezenet", side, side)
    x = net.conv(net.image, "conv1", 64, 3, stride=2)
    for number, (squeezed, expanded) in enumerate(_FIRES, 2):
        if number in _POOLED_BEFORE:
            x = net.max_pool(x, 3, 2, (1, 1, 1, 1) if paper_variant else (0, 0, 0, 0))
        x = net.conv(x, f"fire{number}_squeeze", squeezed, 1)
        parts = [net.conv(x, f"fire{number}_expand{k}x{k}", expanded, k, pad=k // 2) for k in (1, 3)]
        x = net.concat(*parts)
    x = net.mean(net.conv(x, "conv10", 1000, 1))
    return net.finish(net.softmax(net.flat(x)))


_OUTPUTS = 5 * (80 + 5)  # anchors x (COCO's classes, box and confidence)
# Channels of Darknet-19's convolutions, 3x3 and 1x1 alternating; a pool before each group but the first.
_GROUPS = ((32,), (64,), (128, 64, 128), (256, 128, 256), (512, 256, 512, 256, 512), (1024, 512, 1024, 512, 1024))


def yolov2(paper_variant: bool = False, conv2_kernel: int = 3) -> Graph:
    """Return YOLOv2 at 416x416 with 80 classes.

    Its output is the map of 425 values per cell from which boxes are decoded. The passthrough takes blocks of 2x2
    positions as channels in row-major order; Darknet's `reorg` has another order, which only permutes the next layer's
    weights. paper_variant: e-PlaNNer's, at 608x608. conv2_kernel: kernel size of the second convolution, 1 in table 8.1
    and 3 in table 8.5.
    """
    side = 608 if paper_variant else 416
    net = NetworkBuilder("yolov2", side, side)
    x, number = net.image, 0

    def conv(x: str, out_ch: int, kernel: int, act: str = "leaky") -> str:
        nonlocal number
        number += 1
        return net.conv(x, f"conv{number}", out_ch, kernel, pad=kernel // 2, act=act)

    passthrough = x
    for group, channels in enumerate(_GROUPS):
        if group:
            passthrough = x  # after the loop: the input of the last pool
            x = net.max_pool(x, 2, 2)
        for index, out_ch in enumerate(channels):
            kernel = conv2_kernel if number == 1 else (3, 1)[index % 2]
            x = conv(x, out_ch, kernel)
    x = conv(conv(x, 1024, 3), 1024, 3)
    x = net.concat(net.space_to_depth(conv(passthrough, 64, 1), 2), x)
    return net.finish(conv(conv(x, 1024, 3), _OUTPUTS, 1, act=""))


_NETWORKS: Mapping[str, Callable[[bool], Graph]] = MappingProxyType(
    {
        "vgg16": vgg16,
        "resnet50": resnet50,
        "alexnet": alexnet,
        "squeezenet": squeezenet,
        "yolov2": yolov2,
    }
)
NAMES: tuple[str, ...] = tuple(_NETWORKS)


def network(name: str, paper_variant: bool = False) -> Graph:
    """Return one of NAMES as published, or in the variant of the paper's tables. Weights are inputs of the graph.

    Raises: MavcgError for another name.
    """
    build = _NETWORKS.get(name)
    if build is None:
        raise MavcgError(f"network {name}: unknown; choose one of {', '.join(NAMES)}")
    return build(paper_variant)
