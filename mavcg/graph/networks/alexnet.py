"""AlexNet (Krizhevsky et al. 2012): 5 convolutions and 3 fully connected layers."""

from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder


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
