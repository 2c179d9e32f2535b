"""YOLOv2 (Redmon and Farhadi 2016), Darknet's cfg/yolov2.cfg: 23 convolutions."""

from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder

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
