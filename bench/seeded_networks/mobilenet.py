"""MobileNet v1 (Howard et al., 2017, table 1) and MnasNet-B1 (Tan et al., 2019, figure 7 without gates)."""

from typing import TYPE_CHECKING

from bench.seeded_networks.writer import OnnxWriter

if TYPE_CHECKING:
    import onnx

# Output channels and stride of each depthwise separable block.
MOBILENET_V1 = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)
# Expansion, kernel, channels, blocks, stride of the first.
_MNASNET = (
    (3, 3, 24, 3, 2),
    (3, 5, 40, 3, 2),
    (6, 5, 80, 3, 2),
    (6, 3, 96, 2, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)
_RESIDUAL_GAIN = 0.25


def mobilenet_v1() -> "onnx.ModelProto":
    """Return MobileNet v1, width 1, [1, 3, 224, 224] -> [1, 1000]; padding is even, as PyTorch's."""
    net = OnnxWriter("mobilenet_v1")
    x = net.conv(net.image("input", 3, 224), 32, 3, 2, "Relu6", "EVEN")
    for out_ch, stride in MOBILENET_V1:
        in_ch = net.shape[x][0]
        x = net.conv(x, in_ch, 3, stride, "Relu6", "EVEN", groups=in_ch)
        x = net.conv(x, out_ch, 1, 1, "Relu6")
    return net.classifier(x, 1000)


def mnasnet(width: float) -> "onnx.ModelProto":
    """Return MnasNet-B1, [1, 3, 224, 224] -> [1, 1001]. width: factor of all channels, rounded to multiples of 8."""
    net = OnnxWriter("mnasnet")
    x = net.conv(net.image("input", 3, 224), _wide(32, width), 3, 2)
    x = net.conv(net.conv(x, net.shape[x][0], 3, groups=net.shape[x][0]), _wide(16, width), 1, act="", gain=1)
    for expansion, kernel, channels, blocks, first_stride in _MNASNET:
        for block in range(blocks):
            inside, stride = net.shape[x][0] * expansion, first_stride if block == 0 else 1
            y = net.conv(net.conv(x, inside, 1), inside, kernel, stride, groups=inside)
            residual = net.shape[y][1] == net.shape[x][1] and _wide(channels, width) == net.shape[x][0]
            y = net.conv(y, _wide(channels, width), 1, act="", gain=_RESIDUAL_GAIN if residual else 1)
            x = net.add(y, x) if residual else y
    return net.classifier(net.conv(x, 1280, 1), 1001)


def _wide(channels: int, width: float) -> int:
    """Return the nearest multiple of 8, at most a tenth below (the published networks' rule)."""
    rounded = max(8, int(channels * width + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels * width else rounded
