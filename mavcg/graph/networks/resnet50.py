"""ResNet-50 (He et al. 2015) with a block's stride on its 3x3 convolution, as in Darknet and "v1.5"."""

from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder

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
