"""Networks as instances of the selection, by their published tables: scenarios, and which node reads which image.

No weights and no files: `mavcg.choose.algorithms` asks for no more than this. As after the passes of a build, batch
norms and activations are part of their convolutions, and so are sums of a residual.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from mavcg.choose.algorithms.dt_graph import LAYOUTS, Size
from mavcg.choose.algorithms.network import Kind, Link, Network, NetworkNode
from mavcg.graph.networks import INCEPTION, INVERTED_RESIDUALS
from mavcg.specs.primitive import Scenario


@dataclass(frozen=True)
class Made:
    """An image: the node that writes it, and its size."""

    node: str
    size: Size


@dataclass
class Net:
    """Builder of a network."""

    name: str
    nodes: dict[str, NetworkNode] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)

    def input(self, c: int, side: int) -> Made:
        """Add an input image, in the engine's layout."""
        return self._add(NetworkNode("input", "input", Kind.FIXED), (), Size(c, side, side))

    def conv(
        self,
        name: str,
        x: Made,
        m: int,
        k: int,
        stride: int = 1,
        pad: int = 0,
        groups: int = 1,
        residual: Made | None = None,
    ) -> Made:
        """Add a convolution of m output channels, activation and batch norm included."""
        scenario = Scenario(x.size.c, x.size.h, x.size.w, stride, k, m, pad, groups)
        made = self._add(
            NetworkNode(name, "conv2d", Kind.CONVOLUTION, scenario), (x,), Size(m, scenario.out_h, scenario.out_w)
        )
        if residual is not None:
            self.links.append(Link(residual.node, name, residual.node, residual.size, True))
        return made

    def depthwise(self, name: str, x: Made, k: int, stride: int = 1) -> Made:
        """Add a depthwise convolution."""
        return self.conv(name, x, x.size.c, k, stride, k // 2, x.size.c)

    def pool(self, name: str, x: Made, k: int, stride: int, pad: int = 0, upwards: bool = False) -> Made:
        """Add a pool. upwards: True if a last, partial window counts too (as in Caffe)."""
        side = -((x.size.h + 2 * pad - k) // -stride) + 1 if upwards else (x.size.h + 2 * pad - k) // stride + 1
        return self._add(NetworkNode(name, "pool", Kind.ANY_LAYOUT, layouts=LAYOUTS), (x,), Size(x.size.c, side, side))

    def same(self, name: str, x: Made) -> Made:
        """Add an operator that keeps an image's size and takes any layout."""
        return self._add(NetworkNode(name, "same", Kind.ANY_LAYOUT, layouts=LAYOUTS), (x,), x.size)

    def concat(self, name: str, *images: Made) -> Made:
        """Concatenate images along their channels."""
        size = Size(sum(image.size.c for image in images), images[0].size.h, images[0].size.w)
        return self._add(NetworkNode(name, "concat", Kind.ANY_LAYOUT, layouts=LAYOUTS), images, size)

    def end(self, x: Made) -> Network:
        """End the network: what follows (a fully connected layer, or the user) reads the engine's layout."""
        self._add(NetworkNode("output", "output", Kind.FIXED), (x,), x.size)
        return Network(self.name, self.nodes, tuple(self.links))

    def _add(self, node: NetworkNode, reads: Sequence[Made], size: Size) -> Made:
        assert node.name not in self.nodes, node.name
        self.nodes[node.name] = node
        self.links += [Link(read.node, node.name, read.node, read.size) for read in reads]
        return Made(node.name, size)


def alexnet() -> Network:
    """Return AlexNet (Krizhevsky et al., NIPS 2012) as Caffe has it: 227 x 227, two groups in three layers."""
    net = Net("alexnet")
    x = net.conv("conv1", net.input(3, 227), 96, 11, 4)
    x = net.pool("pool1", net.same("norm1", x), 3, 2)
    x = net.conv("conv2", x, 256, 5, 1, 2, 2)
    x = net.pool("pool2", net.same("norm2", x), 3, 2)
    x = net.conv("conv3", x, 384, 3, 1, 1)
    x = net.conv("conv4", x, 384, 3, 1, 1, 2)
    x = net.conv("conv5", x, 256, 3, 1, 1, 2)
    return net.end(net.pool("pool5", x, 3, 2))


# Kernels' sides of each stage; the stages have 64, 128, 256, 512 and 512 channels.
_VGG = {
    "vgg_b": ((3, 3),) * 5,
    "vgg_c": ((3, 3), (3, 3), (3, 3, 1), (3, 3, 1), (3, 3, 1)),
    "vgg_d": ((3, 3), (3, 3), (3, 3, 3), (3, 3, 3), (3, 3, 3)),
    "vgg_e": ((3, 3), (3, 3), (3, 3, 3, 3), (3, 3, 3, 3), (3, 3, 3, 3)),
}


def _vgg(name: str) -> Network:
    """Return a VGG network (Simonyan and Zisserman, ICLR 2015, table 1)."""
    net = Net(name)
    x = net.input(3, 224)
    for stage, (channels, sides) in enumerate(zip((64, 128, 256, 512, 512), _VGG[name], strict=True), 1):
        for number, k in enumerate(sides, 1):
            x = net.conv(f"conv{stage}_{number}", x, channels, k, 1, k // 2)
        x = net.pool(f"pool{stage}", x, 2, 2)
    return net.end(x)


def vgg_b() -> Network:
    """Return VGG-B: ten convolutions."""
    return _vgg("vgg_b")


def vgg_c() -> Network:
    """Return VGG-C: thirteen convolutions, three of them 1x1."""
    return _vgg("vgg_c")


def vgg_d() -> Network:
    """Return VGG-D, which is VGG-16."""
    return _vgg("vgg_d")


def vgg_e() -> Network:
    """Return VGG-E, which is VGG-19."""
    return _vgg("vgg_e")


def googlenet() -> Network:
    """Return GoogLeNet (Szegedy et al., CVPR 2015, table 1); pools as in Caffe."""
    net = Net("googlenet")
    x = net.pool("pool1", net.conv("conv1", net.input(3, 224), 64, 7, 2, 3), 3, 2, upwards=True)
    x = net.conv("conv2", net.conv("conv2_reduce", net.same("norm1", x), 64, 1), 192, 3, 1, 1)
    x = net.pool("pool2", net.same("norm2", x), 3, 2, upwards=True)
    for name, (direct, three_in, three, five_in, five, after_pool) in INCEPTION.items():
        if name in ("4a", "5a"):
            x = net.pool(f"pool{name}", x, 3, 2, upwards=True)
        a = net.conv(f"{name}_1x1", x, direct, 1)
        b = net.conv(f"{name}_3x3", net.conv(f"{name}_3x3_reduce", x, three_in, 1), three, 3, 1, 1)
        c = net.conv(f"{name}_5x5", net.conv(f"{name}_5x5_reduce", x, five_in, 1), five, 5, 1, 2)
        d = net.conv(f"{name}_pool_proj", net.pool(f"{name}_pool", x, 3, 1, 1), after_pool, 1)
        x = net.concat(f"{name}_concat", a, b, c, d)
    return net.end(net.pool("pool", x, 7, 1))


def resnet50() -> Network:
    """Return ResNet-50 (He et al., CVPR 2016, table 1); the stride is in the 3x3 convolution."""
    net = Net("resnet50")
    x = net.pool("pool1", net.conv("conv1", net.input(3, 224), 64, 7, 2, 3), 3, 2, 1)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            name, width, stride = f"{stage + 2}_{i}", 64 << stage, 2 if stage and not i else 1
            y = net.conv(f"{name}_b", net.conv(f"{name}_a", x, width, 1), width, 3, stride, 1)
            shortcut = x if i else net.conv(f"{name}_projection", x, 4 * width, 1, stride)
            x = net.conv(f"{name}_c", y, 4 * width, 1, residual=shortcut)
    return net.end(net.pool("pool", x, 7, 1))


def densenet121() -> Network:
    """Return DenseNet-121 (Huang et al., CVPR 2017, table 1); each layer's concatenation reads the one before it."""
    return _densenet121("densenet121", False)


def densenet121_joined() -> Network:
    """Return DenseNet-121 where each layer's concatenation reads all layers of the block before it."""
    return _densenet121("densenet121_joined", True)


def _densenet121(title: str, joined: bool) -> Network:
    net = Net(title)
    x = net.pool("pool1", net.conv("conv1", net.input(3, 224), 64, 7, 2, 3), 3, 2, 1)
    for block, layers in enumerate((6, 12, 24, 16)):
        made = [x]
        for i in range(layers):
            name = f"{block}_{i}"
            # Batch norm and relu come before the convolution here: a node that takes any layout.
            y = net.conv(f"{name}_1x1", net.same(f"{name}_norm", x), 128, 1)
            made.append(net.conv(f"{name}_3x3", y, 32, 3, 1, 1))
            x = net.concat(f"{name}_concat", *(made if joined else (x, made[-1])))
        if block < 3:
            x = net.conv(f"{block}_transition", net.same(f"{block}_norm", x), x.size.c // 2, 1)
            x = net.pool(f"{block}_pool", x, 2, 2)
    return net.end(net.pool("pool", net.same("norm", x), 7, 1))


def mobilenet_v2() -> Network:
    """Return MobileNet v2 (Sandler et al., CVPR 2018, table 2)."""
    net = Net("mobilenet_v2")
    x = net.conv("conv1", net.input(3, 224), 32, 3, 2, 1)
    number = 0
    for expand, channels, repeats, first in INVERTED_RESIDUALS:
        for i in range(repeats):
            number, stride = number + 1, first if i == 0 else 1
            y = x if expand == 1 else net.conv(f"{number}_expand", x, expand * x.size.c, 1)
            y = net.depthwise(f"{number}_depthwise", y, 3, stride)
            same = x if stride == 1 and x.size.c == channels else None
            x = net.conv(f"{number}_project", y, channels, 1, residual=same)
    return net.end(net.pool("pool", net.conv("conv_last", x, 1280, 1), 7, 1))


def squeezenet() -> Network:
    """Return SqueezeNet 1.0 (Iandola et al., 2016); pools as in Caffe."""
    net = Net("squeezenet")
    x = net.pool("pool1", net.conv("conv1", net.input(3, 224), 96, 7, 2), 3, 2, upwards=True)
    fires = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    for number, (squeezed, expanded) in enumerate(fires, 2):
        y = net.conv(f"fire{number}_squeeze", x, squeezed, 1)
        a, b = net.conv(f"fire{number}_1x1", y, expanded, 1), net.conv(f"fire{number}_3x3", y, expanded, 3, 1, 1)
        x = net.concat(f"fire{number}", a, b)
        if number in (4, 8):
            x = net.pool(f"pool{number}", x, 3, 2, upwards=True)
    x = net.conv("conv10", x, 1000, 1)
    return net.end(net.pool("pool10", x, x.size.h, 1))


NETWORKS: Mapping[str, Callable[[], Network]] = MappingProxyType(
    {
        made.__name__: made
        for made in (
            alexnet,
            vgg_b,
            vgg_c,
            vgg_d,
            vgg_e,
            googlenet,
            resnet50,
            densenet121,
            densenet121_joined,
            mobilenet_v2,
            squeezenet,
        )
    }
)
