"""Accuracy of trained networks by precision: `python -m bench.precision_accuracy [--record]`.

The precisions of Minakova's thesis, Tables 6.7 and 6.8, with the accuracy that its Figure 6.3 shows: fp32; fp16; mixed,
data in fp16 and weights in 8 bits; int8, data and weights. No labels ship with the networks: counted are the crops of
two photographs (which scikit-learn ships) whose first class is that of fp32, and the signal to quantisation noise of
the scores. fp32, fp16 and int8 are libraries that mavcg builds. There are no kernels for mixed: its weights are rounded
to 8 bits for each output channel, and computed as fp16. int8 files are calibrated on other crops, weights of 7 bits
(bench/derived_models.py).
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mavcg
from bench import photographs
from bench.derived_models import quantised
from bench.host_library import build_for_host
from bench.models import model_path
from bench.record import facts, write
from mavcg.accelerators.quantise import sqnr_db
from mavcg.graph import Array
from mavcg.text.terminal import say

NETWORKS = ("mobilenet_v2", "efficientnet_lite0")  # trained on ImageNet
PRECISIONS = ("fp32", "fp16", "mixed", "int8")
CROPS, CALIBRATION, SIDE = 64, 16, 224
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's training


def crops(count: int, seed: int = 0) -> list[Array]:
    """Return square crops of the photographs, of random places and sizes, as [1, 3, 224, 224] f32."""
    return [for_imagenet(crop) for crop in photographs.crops(photographs.LANDSCAPES, count, (SIDE, SIDE), seed)]


def for_imagenet(pixels: Array) -> Array:
    """Return [height, width, 3] u8 as networks of ImageNet take them, [1, 3, height, width] f32."""
    scaled = (pixels.astype(np.float32) / 255 - np.array(MEAN)) / np.array(DEVIATION)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None], np.float32)


def with_8_bit_weights(array: Array) -> Array:
    """Round weights [out_ch, ..] to 8 bits with a scale for each output channel, and back to f32."""
    scale = np.abs(array).reshape(array.shape[0], -1).max(axis=1) / 127
    scale = np.where(scale == 0, 1, scale).reshape(-1, *(1,) * (array.ndim - 1))
    return np.asarray(np.clip(np.rint(array / scale), -127, 127) * scale, np.float32)


def file_of(network: str, precision: str, folder: Path) -> Path:
    """Return the network's file in a precision; inputs and outputs are f32."""
    if precision == "fp32":
        return model_path(network)
    path = folder / f"{network}-{precision}.onnx"
    if precision == "int8":
        quantised(model_path(network), {}, path, crops(CALIBRATION, seed=1))
        return path
    import onnx
    from onnx import numpy_helper
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.load(model_path(network))
    if precision == "mixed":
        weights = {node.input[1] for node in model.graph.node if node.op_type in ("Conv", "Gemm")}
        for tensor in model.graph.initializer:
            if tensor.name in weights:
                rounded = with_8_bit_weights(numpy_helper.to_array(tensor))
                tensor.CopyFrom(numpy_helper.from_array(rounded, tensor.name))
    onnx.save(convert_float_to_float16(model, keep_io_types=True), path)
    return path


def scores_of(network: str, precision: str, images: Sequence[Array]) -> list[Array]:
    """Build the network in a precision for this machine, and return its first output for each image."""
    with tempfile.TemporaryDirectory(prefix="mavcg-precision-") as folder:
        model = file_of(network, precision, Path(folder))
        library = build_for_host(model, Path(folder) / "libnet.so")
        with mavcg.load(library) as loaded:
            return [np.array(loaded.run(image)[0], np.float64).reshape(-1) for image in images]


def compared(scores: Sequence[Array], exact: Sequence[Array]) -> dict[str, float]:
    """Return how near scores are to those of fp32: share of equal first classes, of the exact class among the first
    five, and the signal to noise ratio in dB (infinite where they are equal)."""
    pairs = list(zip(scores, exact, strict=True))
    first = [int(own.argmax()) == int(right.argmax()) for own, right in pairs]
    among_five = [int(right.argmax()) in np.argsort(-own)[:5] for own, right in pairs]
    same = all(np.array_equal(own, right) for own, right in pairs)
    return {
        "top1_agreement": sum(first) / len(first),
        "top5_agreement": sum(among_five) / len(among_five),
        "sqnr_db": float("inf") if same else round(float(sqnr_db(list(exact), list(scores))), 2),
    }


def main() -> None:
    """Compare all precisions of all networks; record them if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write bench/results/precision_accuracy.json")
    options = parser.parse_args()
    images, rows = crops(CROPS), list[dict[str, Any]]()
    for network in NETWORKS:
        exact = scores_of(network, "fp32", images)
        for precision in PRECISIONS[1:]:
            result = compared(scores_of(network, precision, images), exact)
            rows.append({"network": network, "precision": precision, **result})
            say(f"{network}, {precision}: {result}")
    if options.record:
        head = facts("counted", "bench.precision_accuracy --record") | {"images": CROPS}
        say(f"the record is {write('precision_accuracy', head | {'rows': rows})}")


if __name__ == "__main__":
    main()
