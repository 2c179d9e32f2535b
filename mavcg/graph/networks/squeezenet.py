"""SqueezeNet 1.1 (Iandola et al. 2016 and their later release): 26 convolutions."""

from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder

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
