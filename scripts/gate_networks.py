"""The networks of scripts/same_bits.sh: small, with weights from seeds, one for each kind of code that is generated.

Together they need convolutions by every algorithm that the engine has, depthwise ones, 8-bit products with static and
with dynamic scales, recurrences, attention, and the ONNX and the TFLite importer.
"""

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.derived_models import quantised
from bench.seeded_networks.encoders import albert, mobilebert
from bench.seeded_networks.writer import OnnxWriter
from bench.tflite_writer import tflite_model
from mavcg.importers.onnx_file import import_onnx
from scripts.floors import ROOT

if TYPE_CHECKING:
    import onnx

STEPS, FEATURES = 6, 32


def residual() -> "onnx.ModelProto":
    """Return residual blocks of 3x3 filters, which Winograd's algorithm computes, and of 1x1 and strided ones."""
    net = OnnxWriter("residual", seed=2)
    x = net.conv(net.image("input", 3, 56), 64, 7, stride=2)
    for out_ch, stride in ((64, 1), (96, 2)):
        y = net.conv(net.conv(x, out_ch, 3, stride), out_ch, 3, act="")
        shortcut = x if stride == 1 else net.conv(x, out_ch, 1, stride, act="")
        x = net.act(net.add(y, shortcut), "Relu")
    return net.classifier(x, 10)


def recurrent() -> "onnx.ModelProto":
    """Return an LSTM of both directions and a GRU on it: [steps, 1, features] -> [steps, 1, 1, features]."""
    net, each = OnnxWriter("recurrent", seed=3), FEATURES // 2

    def weights(gates: int, directions: int, inputs: int, hidden: int) -> "list[np.ndarray]":
        shapes = ((gates * hidden, inputs), (gates * hidden, hidden), (2 * gates * hidden,))
        return [net.draw((directions, *shape), 0.2) for shape in shapes]

    net.node("LSTM", ["input", *weights(4, 2, FEATURES, each)], 2, hidden_size=each, direction="bidirectional")
    both = net.node("Transpose", [f"{net.nodes[-1].name}.0"], perm=[0, 2, 1, 3])
    joined = net.node("Reshape", [both, np.array([STEPS, 1, FEATURES], np.int64)])
    net.node("GRU", [joined, *weights(3, 1, FEATURES, FEATURES)], 2, hidden_size=FEATURES, linear_before_reset=1)
    shape = (STEPS, 1, FEATURES)
    return net.model([("input", np.float32, shape)], [(f"{net.nodes[-1].name}.0", (STEPS, 1, 1, FEATURES))])


def small_cnn() -> "onnx.ModelProto":
    """Return the network of `make demo`."""
    path = ROOT / "examples/small_cnn/make_model.py"
    spec = importlib.util.spec_from_file_location("make_model", path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model: onnx.ModelProto = module.small_cnn()
    return model


def _onnx(make: "Callable[[], onnx.ModelProto]") -> Callable[[Path], Path]:
    def write(stem: Path) -> Path:
        path = stem.with_suffix(".onnx")
        path.write_bytes(make().SerializeToString())
        return path

    return write


def _static_8_bit(stem: Path) -> Path:
    path = stem.with_suffix(".onnx")
    quantised(_onnx(residual)(stem.with_name("plain")), {}, path)
    return path


def _dynamic_8_bit(stem: Path) -> Path:
    from onnxruntime.quantization import quantize_dynamic

    path = stem.with_suffix(".onnx")
    quantize_dynamic(_onnx(lambda: albert(1))(stem.with_name("plain")), path)
    return path


def _tflite(stem: Path) -> Path:
    path = stem.with_suffix(".tflite")
    path.write_bytes(tflite_model(import_onnx(_onnx(small_cnn)(stem.with_name("plain")), {})))
    return path


# name -> writes the model's file beside a stem and returns its path
NETWORKS: Mapping[str, Callable[[Path], Path]] = {
    "small_cnn": _onnx(small_cnn),
    "residual": _onnx(residual),
    "tflite": _tflite,
    "static_8_bit": _static_8_bit,
    "recurrent": _onnx(recurrent),
    "attention": _onnx(lambda: albert(1)),
    "mobilebert": _onnx(lambda: mobilebert(1)),
    "dynamic_8_bit": _dynamic_8_bit,
}
