"""VGG-16 (Simonyan and Zisserman 2014, configuration D): 13 convolutions and 3 fully connected layers."""

from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder

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
