"""A detector like YOLOv3-tiny (Redmon and Farhadi 2018), with leaky ReLU, upsampling, concat and space to depth."""

from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder


def yolo_small(side: int = 208) -> Graph:
    """Return the detector.

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
