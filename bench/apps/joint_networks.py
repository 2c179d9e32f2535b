"""Networks that only the evaluation of joint memory needs, as published, with seeded weights.

EfficientNet-B0 (Tan and Le 2019), MobileNet v1 of any width (Howard et al. 2017), DenseNet-121 (Huang et al. 2017) and
Inception v2 (Ioffe and Szegedy 2015, with the separable first convolution of TensorFlow's models), all at 224x224 with
1000 classes. MobileNet v2 and ResNet-50 are those of mavcg.accelerators.networks.
"""

from bench.seeded_networks.mobilenet import MOBILENET_V1
from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder

_ONE_EACH_SIDE = (1, 1, 1, 1)
# Expansion, kernel, channels, blocks, stride of the first.
_EFFICIENTNET = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)
_DENSE_BLOCKS, _GROWTH = (6, 12, 24, 16), 32
# 1x1; 3x3's reduction, 3x3; double 3x3's reduction, 3x3; the pool's projection. None: a module of stride 2.
_INCEPTION: dict[str, tuple[int | None, int, int, int, int, int | None]] = {
    "3b": (64, 64, 64, 64, 96, 32),
    "3c": (64, 64, 96, 64, 96, 64),
    "4a": (None, 128, 160, 64, 96, None),
    "4b": (224, 64, 96, 96, 128, 128),
    "4c": (192, 96, 128, 96, 128, 128),
    "4d": (160, 128, 160, 128, 160, 96),
    "4e": (96, 128, 192, 160, 192, 96),
    "5a": (None, 128, 192, 192, 256, None),
    "5b": (352, 192, 320, 160, 224, 128),
    "5c": (352, 192, 320, 192, 224, 128),
}


class _Builder(NetworkBuilder):
    """Builder with the layers that only these networks have."""

    def silu(self, x: str) -> str:
        """x * sigmoid(x)."""
        return self.product(x, self._graph.add("sigmoid", (x,)))

    def product(self, a: str, b: str) -> str:
        """Return the element-wise product; b may be broadcast over rows and columns."""
        return self._graph.add("mul", (a, b))

    def mean_pool(self, x: str, kernel: int, stride: int, pad: int) -> str:
        """Add a mean pool with square windows; the mean leaves pads out."""
        return self._graph.add(
            "avg_pool2d", (x,), kernel=(kernel, kernel), stride=(stride, stride), pads=(pad, pad, pad, pad)
        )

    def normalise(self, x: str, name: str) -> str:
        """Add a batch normalisation that cannot be folded into a convolution before it, as a depthwise 1x1 one, with
        its ReLU."""
        channels = self.shape(x)[3]
        return self.conv(x, name, channels, 1, groups=channels)

    def classes(self, x: str) -> Graph:
        """Return the graph, ended by a mean, a fully connected layer of 1000 classes and a softmax."""
        return self.finish(self.softmax(self.dense(self.mean(x), "fc", 1000, act="")))


def efficientnet_b0() -> Graph:
    """16 inverted residuals, each with a gate over channels (squeeze and excite)."""
    return _efficientnet(_Builder("efficientnet_b0", 224, 224), lite=False)


def efficientnet_lite0(side: int = 224) -> Graph:
    """EfficientNet-Lite0 (the authors' later release for devices): B0 with ReLU6 and without gates."""
    return _efficientnet(_Builder("efficientnet_lite0", side, side), lite=True)


def _efficientnet(net: _Builder, lite: bool) -> Graph:
    act = net.relu6 if lite else net.silu
    x = act(net.conv(net.image, "conv1", 32, 3, 2, pad=1, act=""))
    for stage, (expansion, kernel, channels, blocks, first_stride) in enumerate(_EFFICIENTNET, 1):
        for block in range(blocks):
            part, before = f"block{stage}_{block}", net.shape(x)[3]
            stride, inside, y = first_stride if block == 0 else 1, before * expansion, x
            if expansion > 1:
                y = act(net.conv(y, f"{part}_expand", inside, 1, act=""))
            name = f"{part}_depthwise"
            y = act(net.conv(y, name, inside, kernel, stride, pad=kernel // 2, groups=inside, act=""))
            if not lite:
                gate = act(net.conv(net.mean(y), f"{part}_squeeze", before // 4, 1, act=""))
                y = net.product(y, net.conv(gate, f"{part}_excite", inside, 1, act="sigmoid"))
            y = net.conv(y, f"{part}_end", channels, 1, act="")
            x = net.add(y, x, part) if net.shape(x) == net.shape(y) else y
    return net.classes(act(net.conv(x, "conv_last", 1280, 1, act="")))


def mobilenet_v1(width: float = 1.0) -> Graph:
    """13 separable convolutions. width: of all channels, 8 at least."""
    net = _Builder(f"mobilenet_v1_{width:g}", 224, 224)

    def wide(channels: int) -> int:
        return max(8, int(channels * width))

    x = net.relu6(net.conv(net.image, "conv1", wide(32), 3, 2, pad=1, act=""))
    for number, (channels, stride) in enumerate(MOBILENET_V1, 1):
        inside = net.shape(x)[3]
        x = net.relu6(net.conv(x, f"depthwise{number}", inside, 3, stride, pad=1, groups=inside, act=""))
        x = net.relu6(net.conv(x, f"pointwise{number}", wide(channels), 1, act=""))
    return net.classes(x)


def densenet121() -> Graph:
    """Four dense blocks: each layer's 32 channels are joined to all before it in the block."""
    net = _Builder("densenet121", 224, 224)
    x = net.max_pool(net.conv(net.image, "conv1", 64, 7, 2, pad=3), 3, 2, _ONE_EACH_SIDE)
    for block, layers in enumerate(_DENSE_BLOCKS, 1):
        for layer in range(layers):
            part = f"dense{block}_{layer}"
            y = net.conv(net.normalise(x, f"{part}_norm"), f"{part}_1x1", 4 * _GROWTH, 1)
            x = net.concat(x, net.conv(y, f"{part}_3x3", _GROWTH, 3, pad=1, act=""))
        x = net.normalise(x, f"transition{block}_norm")
        if block < len(_DENSE_BLOCKS):
            half = net.shape(x)[3] // 2
            x = net.mean_pool(net.conv(x, f"transition{block}", half, 1, act=""), 2, 2, 0)
    return net.classes(x)


def inception_v2() -> Graph:
    """Ten modules of 1x1, 3x3 and two 3x3 convolutions and a pool, two of them with stride 2."""
    net = _Builder("inception_v2", 224, 224)
    x = net.conv(net.image, "conv1_depthwise", 24, 7, 2, pad=3, groups=3, act="")
    x = net.max_pool(net.conv(x, "conv1_pointwise", 64, 1), 3, 2, _ONE_EACH_SIDE)
    x = net.conv(net.conv(x, "conv2_reduce", 64, 1), "conv2", 192, 3, pad=1)
    x = net.max_pool(x, 3, 2, _ONE_EACH_SIDE)
    for name, (direct, reduce3, three, reduce_double, double, pooled) in _INCEPTION.items():
        part, stride = f"mixed_{name}", 1 if direct else 2
        branches = [net.conv(x, f"{part}_1x1", direct, 1)] if direct else []
        y = net.conv(x, f"{part}_3x3_reduce", reduce3, 1)
        branches.append(net.conv(y, f"{part}_3x3", three, 3, stride, pad=1))
        y = net.conv(net.conv(x, f"{part}_double_reduce", reduce_double, 1), f"{part}_double_a", double, 3, pad=1)
        branches.append(net.conv(y, f"{part}_double_b", double, 3, stride, pad=1))
        # The last module has the largest value, as those of stride 2 have.
        is_mean = pooled is not None and name != "5c"
        y = net.mean_pool(x, 3, 1, 1) if is_mean else net.max_pool(x, 3, stride, _ONE_EACH_SIDE)
        branches.append(y if pooled is None else net.conv(y, f"{part}_pool", pooled, 1))
        x = net.concat(*branches)
    return net.classes(x)
