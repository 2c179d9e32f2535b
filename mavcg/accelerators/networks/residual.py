"""ResNet-50 and ResNet-152 (He et al. 2015), with the stride in the first convolution of a block as in Caffe."""

from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder

_CHANNELS = (64, 128, 256, 512)


def resnet50() -> Graph:
    """Return ResNet-50, with 53 convolutions and 16 sums."""
    return _residual_network("resnet50", (3, 4, 6, 3))


def resnet152() -> Graph:
    """Return ResNet-152, with 155 convolutions and 50 sums."""
    return _residual_network("resnet152", (3, 8, 36, 3))


def _residual_network(name: str, blocks: tuple[int, ...]) -> Graph:
    net = NetworkBuilder(name, 224, 224)
    x = net.max_pool(net.conv(net.image, "conv1", 64, 7, stride=2, pad=3), 3, 2, (1, 1, 1, 1))
    for stage, (channels, count) in enumerate(zip(_CHANNELS, blocks, strict=True), 2):
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
