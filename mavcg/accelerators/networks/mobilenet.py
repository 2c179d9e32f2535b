"""MobileNet v2 (Sandler et al. 2018): depthwise convolutions, ReLU6, inverted residuals."""

from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder

_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v2(side: int = 224) -> Graph:
    """Return MobileNet v2 of width 1, with 52 convolutions, 17 of them depthwise, and 10 sums. side: of the image."""
    net = NetworkBuilder("mobilenet_v2", side, side)
    x = net.relu6(net.conv(net.image, "conv1", 32, 3, stride=2, pad=1, act=""))
    for stage, (expansion, channels, blocks, first_stride) in enumerate(_STAGES, 1):
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
