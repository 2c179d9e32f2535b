"""AlexNet, VGG-B to VGG-E and GoogLeNet as Caffe's files, built and compared with OpenCV.

    python -m bench.caffe_networks --write FOLDER [NETWORK ..]      # prototxt and caffemodel alone, to be built
    python -m bench.caffe_networks [--record] [NETWORK ..]          # built by `mavcg build`, run, compared

The networks of the CGO 2018 paper on primitive selection, from the papers that describe them: AlexNet (Krizhevsky et
al., NIPS 2012, with its groups), VGG (Simonyan and Zisserman, ICLR 2015, table 1), GoogLeNet (Szegedy et al., CVPR
2015, table 1). Weights are seeded, of a scale that keeps activations from vanishing. Needs opencv-python-headless.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.record import facts, write
from mavcg import load
from mavcg.errors import MavcgError
from mavcg.graph.networks import INCEPTION
from mavcg.importers.caffe_weights import net_parameter

Shape = tuple[int, ...]


@dataclass
class CaffeWriter:
    """Builder of a prototxt and its weights. Blobs are named after their layers."""

    name: str
    size: int
    text: list[str] = field(default_factory=list)
    blobs: dict[str, tuple[Shape, Shape]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = f"shape {{ dim: 1 dim: 3 dim: {self.size} dim: {self.size} }}"
        self.text += [
            f'name: "{self.name}"',
            f'layer {{ name: "data" type: "Input" top: "data" input_param {{ {shape} }} }}',
        ]

    def layer(self, kind: str, name: str, bottoms: Sequence[str], parameters: str = "", in_place: bool = False) -> str:
        """Add a layer and return the name of its top blob."""
        top = bottoms[0] if in_place else name
        words = [f'name: "{name}"', f'type: "{kind}"', *(f'bottom: "{bottom}"' for bottom in bottoms), f'top: "{top}"']
        self.text.append(f"layer {{ {' '.join(words)}{' ' if parameters else ''}{parameters} }}")
        return top

    def conv(self, name: str, bottom: str, channels: tuple[int, int], kernel: int, **options: int) -> str:
        """Add a convolution and its ReLU. channels: in, out. options: pad, stride, group."""
        inputs, outputs = channels
        self.blobs[name] = ((outputs, inputs // options.get("group", 1), kernel, kernel), (outputs,))
        words = " ".join(f"{key}: {value}" for key, value in options.items())
        words = f"num_output: {outputs} kernel_size: {kernel} {words}".rstrip()
        self.layer("Convolution", name, [bottom], f"convolution_param {{ {words} }}")
        return self.layer("ReLU", f"{name}/relu", [name], in_place=True)

    def product(self, name: str, bottom: str, channels: tuple[int, int]) -> str:
        """Add a fully connected layer."""
        self.blobs[name] = ((channels[1], channels[0]), (channels[1],))
        return self.layer("InnerProduct", name, [bottom], f"inner_product_param {{ num_output: {channels[1]} }}")

    def hidden_layer(self, name: str, bottom: str, channels: tuple[int, int]) -> str:
        """Add a fully connected layer, its ReLU and dropout."""
        self.product(name, bottom, channels)
        self.layer("ReLU", f"{name}/relu", [name], in_place=True)
        return self.layer("Dropout", f"{name}/drop", [name], "dropout_param { dropout_ratio: 0.5 }", in_place=True)

    def pool(self, name: str, bottom: str, kernel: int, stride: int, pad: int = 0, pool: str = "MAX") -> str:
        """Add a pooling layer."""
        words = f"pool: {pool} kernel_size: {kernel} stride: {stride}" + (f" pad: {pad}" if pad else "")
        return self.layer("Pooling", name, [bottom], f"pooling_param {{ {words} }}")

    def norm(self, name: str, bottom: str) -> str:
        """Add the local response normalisation of AlexNet and GoogLeNet: both use the same parameters."""
        return self.layer("LRN", name, [bottom], "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }")

    def prototxt(self) -> str:
        """Return the text of the prototxt."""
        return "\n".join(self.text) + "\n"

    def caffemodel(self, seed: int = 0) -> bytes:
        """Return the caffemodel: weights of variance 2 over a sum's inputs (He et al., ICCV 2015), small biases."""
        source, net = np.random.default_rng(seed), net_parameter()()
        for name, shapes in self.blobs.items():
            layer = net.layer.add(name=name.encode())
            for shape in shapes:
                spread = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.01
                numbers = source.standard_normal(shape, np.float32) * np.float32(spread)
                layer.blobs.add(data=[numbers.tobytes()]).shape.dim.extend(shape)
        return bytes(net.SerializeToString())

    @property
    def parameters(self) -> int:
        """Return the number of weights and biases."""
        return sum(int(np.prod(shape)) for shapes in self.blobs.values() for shape in shapes)


def alexnet() -> CaffeWriter:
    """AlexNet with its two groups, on 227 x 227 pixels."""
    m = CaffeWriter("alexnet", 227)
    x = m.pool("pool1", m.norm("norm1", m.conv("conv1", "data", (3, 96), 11, stride=4)), 3, 2)
    x = m.pool("pool2", m.norm("norm2", m.conv("conv2", x, (96, 256), 5, pad=2, group=2)), 3, 2)
    x = m.conv("conv3", x, (256, 384), 3, pad=1)
    x = m.conv("conv4", x, (384, 384), 3, pad=1, group=2)
    x = m.pool("pool5", m.conv("conv5", x, (384, 256), 3, pad=1, group=2), 3, 2)
    x = m.hidden_layer("fc7", m.hidden_layer("fc6", x, (9216, 4096)), (4096, 4096))
    m.layer("Softmax", "prob", [m.product("fc8", x, (4096, 1000))])
    return m


VGG: Mapping[str, Sequence[Sequence[tuple[int, int]]]] = {  # table 1: output channels, kernel; a stage a list
    "b": [[(n, 3)] * 2 for n in (64, 128, 256, 512, 512)],
    "c": [[(64, 3)] * 2, [(128, 3)] * 2, *([(n, 3), (n, 3), (n, 1)] for n in (256, 512, 512))],
    "d": [[(64, 3)] * 2, [(128, 3)] * 2, *([(n, 3)] * 3 for n in (256, 512, 512))],
    "e": [[(64, 3)] * 2, [(128, 3)] * 2, *([(n, 3)] * 4 for n in (256, 512, 512))],
}


def vgg(letter: str) -> CaffeWriter:
    """A VGG network by the letter of its column."""
    m = CaffeWriter(f"vgg_{letter}", 224)
    x, channels = "data", 3
    for stage, convolutions in enumerate(VGG[letter], 1):
        for i, (outputs, kernel) in enumerate(convolutions, 1):
            x = m.conv(f"conv{stage}_{i}", x, (channels, outputs), kernel, pad=kernel // 2)
            channels = outputs
        x = m.pool(f"pool{stage}", x, 2, 2)
    x = m.hidden_layer("fc7", m.hidden_layer("fc6", x, (25088, 4096)), (4096, 4096))
    m.layer("Softmax", "prob", [m.product("fc8", x, (4096, 1000))])
    return m


def googlenet() -> CaffeWriter:
    """GoogLeNet without its auxiliary classifiers, which are for training."""
    m = CaffeWriter("googlenet", 224)
    x = m.norm("norm1", m.pool("pool1", m.conv("conv1", "data", (3, 64), 7, pad=3, stride=2), 3, 2))
    x = m.conv("conv2", m.conv("conv2_reduce", x, (64, 64), 1), (64, 192), 3, pad=1)
    x, channels = m.pool("pool2", m.norm("norm2", x), 3, 2), 192
    for name, (direct, three_in, three, five_in, five, pooled) in INCEPTION.items():
        if name in ("4a", "5a"):
            x = m.pool(f"pool_{name}", x, 3, 2)
        branches = [
            m.conv(f"{name}/1x1", x, (channels, direct), 1),
            m.conv(
                f"{name}/3x3", m.conv(f"{name}/3x3_reduce", x, (channels, three_in), 1), (three_in, three), 3, pad=1
            ),
            m.conv(f"{name}/5x5", m.conv(f"{name}/5x5_reduce", x, (channels, five_in), 1), (five_in, five), 5, pad=2),
            m.conv(f"{name}/pool_proj", m.pool(f"{name}/pool", x, 3, 1, 1), (channels, pooled), 1),
        ]
        x, channels = m.layer("Concat", f"{name}/output", branches), direct + three + five + pooled
    x = m.pool("pool5", x, 7, 1, pool="AVE")
    x = m.layer("Dropout", "drop", [x], "dropout_param { dropout_ratio: 0.4 }", in_place=True)
    m.layer("Softmax", "prob", [m.product("classifier", x, (1024, 1000))])
    return m


NETWORKS: Mapping[str, Callable[[], CaffeWriter]] = {
    "alexnet": alexnet,
    **{f"vgg_{letter}": lambda letter=letter: vgg(letter) for letter in VGG},  # type: ignore[misc]
    "googlenet": googlenet,
}


def write_network(name: str, folder: Path) -> CaffeWriter:
    """Write NAME.prototxt and NAME.caffemodel."""
    network = NETWORKS[name]()
    (folder / f"{name}.prototxt").write_text(network.prototxt())
    (folder / f"{name}.caffemodel").write_bytes(network.caffemodel())
    return network


def compared(name: str, folder: Path) -> dict[str, Any]:
    """Build a network, run it, compare its outputs with OpenCV's, and return the row of the record."""
    import cv2

    network = write_network(name, folder)
    library = folder / f"lib{name}.so"
    subprocess.run(
        [sys.executable, "-m", "mavcg.cli", "build", f"{name}.prototxt", "--board", "host", "-o", library.name],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    x = np.random.default_rng(1).standard_normal((1, 3, network.size, network.size), np.float32)
    (made,) = load(library).run(x)
    net = cv2.dnn.readNetFromCaffe(str(folder / f"{name}.prototxt"), str(folder / f"{name}.caffemodel"))
    net.enableWinograd(False)
    net.setInput(x)
    expected = net.forward()
    row = {
        "network": name,
        "layers": network.prototxt().count("\nlayer {"),
        "products": len(network.blobs),
        "parameters": network.parameters,
        "prototxt_bytes": len(network.prototxt()),
        "largest_output": float(expected.max()),
        "largest_difference": float(np.abs(made - expected).max()),
        "same_class": bool(made.argmax() == expected.argmax()),
    }
    for path in folder.iterdir():
        path.unlink()
    return row


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.caffe_networks", description="Networks as Caffe's files")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the files there; no more")
    parser.add_argument("--record", action="store_true", help="into bench/results/caffe_networks.json")
    arguments = parser.parse_args()
    for name in arguments.networks:
        if name not in NETWORKS:
            raise MavcgError(f"{name}: there is no such network; there are {', '.join(NETWORKS)}")
    names = arguments.networks or list(NETWORKS)
    if arguments.write:
        arguments.write.mkdir(parents=True, exist_ok=True)
        for name in names:
            network = write_network(name, arguments.write)
            print(f"{arguments.write / name}.prototxt, .caffemodel: {network.parameters} parameters")
        return
    rows = []
    with tempfile.TemporaryDirectory(prefix="mavcg-caffe-") as folder:
        for name in names:
            rows.append(compared(name, Path(folder)))
            print(rows[-1], flush=True)
    if arguments.record:
        import cv2

        write(
            "caffe_networks",
            facts("counted", "bench.caffe_networks --record") | {"opencv": cv2.__version__, "networks": rows},
        )


if __name__ == "__main__":
    main()
