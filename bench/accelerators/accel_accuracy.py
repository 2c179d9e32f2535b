"""Accuracy of 8-bit radix positions against f32: `python -m bench.accelerators.accel_accuracy [MODEL ..]`.

Networks are quantised over calibration inputs by the search of mavcg.accelerators.quantise: one radix position for each
tensor, without and with corrected biases; positions for channels of depthwise convolutions, which is the default; and
for each output channel of all. They are compared with f32 on other inputs: signal to quantisation noise of the output,
and how often the first class agrees. No images ship with the models. Inputs are seeded, of two kinds: white noise, and
noise whose amplitude falls with frequency, as that of natural images does (Field, J. Opt. Soc. Am. A 4(12), 1987). So
the figures say how near the integers are, not how well images are classified.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.models import model_path, shapes_of
from bench.record import facts, write
from mavcg.accelerators.fixed_point import evaluate, to_reals
from mavcg.accelerators.float_reference import evaluate_f32
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.networks import NAMES, network
from mavcg.accelerators.quantise import quantise, sqnr_db
from mavcg.accelerators.validate import integer_images
from mavcg.accelerators.xgraph import XGraph
from mavcg.graph import Array
from mavcg.importers.load import import_model

MODELS = ("mobilenet_v2.onnx", "squeezenet-random.onnx", "yolo_small")
CALIBRATION, TESTED = 2, 8
# Names with granularity and correction of biases.
CHOICES = {
    "per tensor, biases as they are": ("tensor", False),
    "per tensor": ("tensor", True),
    "per channel of depthwise": ("depthwise", True),
    "per channel": ("channel", True),
}
TRAINED = ("mobilenet_v2.onnx",)
ROUNDING = "half_up"


def graph_of(model: str) -> XGraph:
    """Return the graph of a built-in network or of a model of bench.models."""
    if model in NAMES:
        return xgraph_of(network(model))
    name = model.removesuffix(".onnx")
    return xgraph_of(import_model(Path(model_path(name)), shapes_of(name)))


def white_noise(shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Return uncorrelated standard normal numbers, f32."""
    return random.standard_normal(shape).astype(np.float32)


def natural_noise(shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Return normal numbers [N, H, W, C], f32, of variance 1, whose amplitude falls with spatial frequency."""
    height, width = shape[1:3]
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None, :])
    amplitude = 1 / np.maximum(frequency, 1 / max(height, width))
    spectrum = np.fft.fft2(random.standard_normal(shape), axes=(1, 2)) * amplitude[None, :, :, None]
    values = np.fft.ifft2(spectrum, axes=(1, 2)).real
    return np.asarray(values / values.std(), np.float32)


KINDS: Mapping[str, Callable[[tuple[int, ...], np.random.Generator], Array]] = {
    "white": white_noise,
    "1/f": natural_noise,
}


def images_of(graph: XGraph, kind: str, seed: int) -> dict[str, Array]:
    """Return seeded inputs in the graph's order."""
    random = np.random.default_rng(seed)
    return {node.name: KINDS[kind](node.shape, random) for node in graph.inputs()}


@dataclass(frozen=True)
class Accuracy:
    """Comparison of a quantised network with the f32 network over some inputs.

    inputs: number of inputs compared. sqnr_db: signal to quantisation noise of each output, in dB. top1_agreement:
    fraction of images for which the first output has its largest element at the same index; images of a batch count
    separately.
    """

    inputs: int
    sqnr_db: Mapping[str, float]
    top1_agreement: float


def real_output(graph: XGraph, values: Mapping[str, Array], name: str) -> Array:
    """Return a tensor of a quantised graph as real numbers in f32. values: int8 tensors by name."""
    radix = graph.by_name()[name].radix
    return values[name] if radix is None else to_reals(values[name], radix)


def accuracy_of(real: XGraph, quantised: XGraph, images: Sequence[Mapping[str, Array]], rounding: str) -> Accuracy:
    """Compare a quantised graph with the f32 graph that it was made from.

    images: f32, as float_reference.arrange_inputs returns them. rounding: one of fixed_point.ROUNDINGS.
    """
    pairs: dict[str, list[tuple[Array, Array]]] = {name: [] for name in real.outputs}
    for image in images:
        expected = evaluate_f32(real, image)
        made = evaluate(quantised, integer_images(quantised, image), rounding)
        for name in pairs:
            pairs[name].append((expected[name], real_output(quantised, made, name)))
    first = pairs[real.outputs[0]]
    agree = [bool(same) for a, b in first for same in _classes(a) == _classes(b)]
    noise = {name: sqnr_db([a for a, _ in tensors], [b for _, b in tensors]) for name, tensors in pairs.items()}
    return Accuracy(len(images), noise, sum(agree) / len(agree))


def _classes(output: Array) -> Array:
    rows = output.reshape(output.shape[0] if output.ndim else 1, -1)
    return np.asarray(rows.argmax(axis=1))


def row(model: str, graph: XGraph, kind: str, choice: str) -> dict[str, Any]:
    """Return a model's row of the record. kind: one of KINDS; choice: one of CHOICES."""
    images = [images_of(graph, kind, seed) for seed in range(CALIBRATION + TESTED)]
    granularity, correct = CHOICES[choice]
    start = time.process_time()
    quantised = quantise(graph, images[:CALIBRATION], ROUNDING, granularity, correct_bias=correct)
    seconds = time.process_time() - start
    accuracy = accuracy_of(graph, quantised.graph, images[CALIBRATION:], ROUNDING)
    worst = min(quantised.layers, key=lambda layer: layer.sqnr_db)
    return {
        "model": model,
        "trained": model in TRAINED,
        "inputs_of": kind,
        "weights": choice,
        "sqnr_db": round(min(accuracy.sqnr_db.values()), 2),
        "top1_agreement": round(accuracy.top1_agreement, 3),
        "inputs": accuracy.inputs,
        "worst_layer": worst.node,
        "worst_layer_db": round(worst.sqnr_db, 2),
        "cpu_seconds": round(seconds, 1),
    }


def main() -> None:
    """Quantise, compare, print; for all models write bench/results/accel_accuracy.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}, or a built-in network; default: all")
    parser.add_argument("--json", action="store_true", help="print the record instead of a table")
    args = parser.parse_args()
    rows = []
    for model in args.models or MODELS:
        graph = graph_of(model)
        rows += [row(model, graph, kind, choice) for kind in KINDS for choice in CHOICES]
    record = {**facts("counted", "bench.accelerators.accel_accuracy"), "calibration_inputs": CALIBRATION, "rows": rows}
    if not args.models:
        write("accel_accuracy", record)
    if args.json:
        print(json.dumps(record, indent=2))
        return
    table = Table(title="8-bit radix positions against f32, on seeded inputs", box=None, title_justify="left")
    for title in ("model", "inputs", "weights", "SQNR, dB", "top 1 agrees", "worst layer, dB", "CPU s"):
        table.add_column(title, justify="left" if title in ("model", "inputs", "weights") else "right")
    for entry in rows:
        table.add_row(
            entry["model"],
            entry["inputs_of"],
            entry["weights"],
            str(entry["sqnr_db"]),
            f"{entry['top1_agreement']:.0%}",
            f"{entry['worst_layer_db']} ({entry['worst_layer']})",
            str(entry["cpu_seconds"]),
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
