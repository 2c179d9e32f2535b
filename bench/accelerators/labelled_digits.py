"""A small network for handwritten digits, trained here: `python -m bench.accelerators.labelled_digits [--json]`.

The images and labels are those in scikit-learn's wheel (1,797 of 8 x 8 pixels, from the UCI repository), which is
fetched. Two convolutions and a fully connected layer are trained by Adam from seeded weights on 1,300 images,
in f32; 100 of these choose the radix positions. The other 497 count how many labels are right, in f32 and in 8 bits
with each granularity of the weights' scales.
"""

import argparse
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from bench.photographs import SKLEARN
from bench.record import facts
from bench.wheels import file_of_wheel
from mavcg.accelerators.fixed_point import evaluate
from mavcg.accelerators.float_reference import evaluate_f32
from mavcg.accelerators.layer_search import GRANULARITIES
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.quantise import quantise
from mavcg.accelerators.validate import integer_images
from mavcg.accelerators.xgraph import XGraph
from mavcg.graph import Array, Graph, TensorType
from mavcg.graph.builder import GraphBuilder

TRAINED, CALIBRATED = 1300, 100
CHANNELS, SIDE, CLASSES = (16, 32), 8, 10
_STEPS, _BATCH, _RATE = 600, 64, 3e-3
ROUNDING = "half_up"


def digits() -> tuple[Array, Array]:
    """Return the images [1797, 8, 8, 1], f32 from 0 to 1, and the labels, in a seeded order.

    Raises: MavcgError if scikit-learn's wheel cannot be had.
    """
    text = gzip.decompress(file_of_wheel(SKLEARN, "sklearn/datasets/data/digits.csv.gz")).decode()
    numbers = np.array([line.split(",") for line in text.splitlines()], np.float32)  # 64 pixels from 0 to 16, label
    numbers = numbers[np.random.default_rng(0).permutation(len(numbers))]
    return numbers[:, :-1].reshape(-1, SIDE, SIDE, 1) / 16, numbers[:, -1].astype(np.int64)


@dataclass(frozen=True)
class _Pass:
    """A forward pass: windows that each convolution reads, results before ReLU, and what the last layer reads."""

    windows: tuple[Array, ...]
    sums: tuple[Array, ...]
    flat: Array
    logits: Array


def _windows(x: Array, stride: int) -> Array:
    """Return the 3 x 3 windows [N, H, W, 9 C] of images with a pad of 1."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    seen = sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::stride, ::stride]
    return seen.transpose(0, 1, 2, 4, 5, 3).reshape(*seen.shape[:3], -1)


def _forward(weights: Sequence[Array], x: Array) -> _Pass:
    first = _windows(x, 1)
    one = first @ weights[0] + weights[1]
    second = _windows(np.maximum(one, 0), 2)
    two = second @ weights[2] + weights[3]
    flat = np.maximum(two, 0).reshape(len(x), -1)
    return _Pass((first, second), (one, two), flat, flat @ weights[4] + weights[5])


def _gradients(weights: Sequence[Array], x: Array, labels: Array) -> list[Array]:
    """Return the gradient of the mean cross-entropy for each array of weights."""
    made = _forward(weights, x)
    likely = np.exp(made.logits - made.logits.max(axis=1, keepdims=True))
    wrong = likely / likely.sum(axis=1, keepdims=True)
    wrong[np.arange(len(x)), labels] -= 1
    wrong /= len(x)
    after = (wrong @ weights[4].T).reshape(made.sums[1].shape) * (made.sums[1] > 0)
    spread = (after @ weights[2].T).reshape(*after.shape[:3], 3, 3, CHANNELS[0])
    before = np.zeros((len(x), SIDE + 2, SIDE + 2, CHANNELS[0]), np.float32)
    for row in range(3):
        for column in range(3):
            before[:, row : row + SIDE : 2, column : column + SIDE : 2] += spread[:, :, :, row, column]
    middle = before[:, 1:-1, 1:-1] * (made.sums[0] > 0)
    grads = []
    for seen, error in zip(made.windows, (middle, after), strict=True):
        rows = error.reshape(-1, error.shape[-1])
        grads += [seen.reshape(len(rows), -1).T @ rows, rows.sum(axis=0)]
    return [*grads, made.flat.T @ wrong, wrong.sum(axis=0)]


def train(images: Array, labels: Array) -> list[Array]:
    """Return trained weights and biases of the three layers (Kingma and Ba, "Adam", 2015)."""
    random = np.random.default_rng(1)
    sizes = [(9, CHANNELS[0]), (9 * CHANNELS[0], CHANNELS[1]), (CHANNELS[1] * (SIDE // 2) ** 2, CLASSES)]
    weights: list[Array] = []
    for size in sizes:
        weights += [(random.standard_normal(size) * np.sqrt(2 / size[0])).astype(np.float32)]
        weights += [np.zeros(size[1], np.float32)]
    first, second = [[np.zeros_like(w) for w in weights] for _ in range(2)]
    for step in range(1, _STEPS + 1):
        chosen = random.choice(len(images), _BATCH, replace=False)
        for at, grad in enumerate(_gradients(weights, images[chosen], labels[chosen])):
            first[at] = 0.9 * first[at] + 0.1 * grad
            second[at] = 0.999 * second[at] + 0.001 * grad**2
            moved = first[at] / (1 - 0.9**step) / (np.sqrt(second[at] / (1 - 0.999**step)) + 1e-8)
            weights[at] = (weights[at] - _RATE * moved).astype(np.float32)
    return weights


def network_of(weights: Sequence[Array]) -> Graph:
    """Return the trained network as a graph of one image."""
    b = GraphBuilder("digits")
    x = b.input("image", TensorType("f32", (1, SIDE, SIDE, 1)))
    for at, (channels, stride) in enumerate(zip(CHANNELS, (1, 2), strict=True)):
        kernel = weights[2 * at].reshape(3, 3, -1, channels).transpose(3, 0, 1, 2)
        operands = (x, b.constant(np.ascontiguousarray(kernel)), b.constant(weights[2 * at + 1]))
        x = b.add("relu", (b.add("conv2d", operands, f"conv{at}", pads=(1, 1, 1, 1), stride=(stride, stride)),))
    flat = b.add("reshape", (x,), shape=(1, len(weights[4])))
    return b.finish((b.add("matmul", (flat, b.constant(weights[4]), b.constant(weights[5])), "fc"),))


def right_labels(graph: XGraph, images: Array, labels: Array, quantised: bool) -> float:
    """Return the fraction of images whose largest output is that of their label."""
    (source,), right = graph.inputs(), 0
    for image, label in zip(images, labels, strict=True):
        given = {source.name: image[None]}
        if quantised:
            output = evaluate(graph, integer_images(graph, given), ROUNDING)[graph.outputs[0]]
        else:
            output = evaluate_f32(graph, given)[graph.outputs[0]]
        right += int(output.argmax()) == int(label)
    return right / len(labels)


def rows() -> list[dict[str, Any]]:
    """Return the fraction of right labels in f32 and with each granularity."""
    images, labels = digits()
    real = xgraph_of(network_of(train(images[:TRAINED], labels[:TRAINED])), dense_on_host=False)
    (source,) = real.inputs()
    tested = images[TRAINED:], labels[TRAINED:]
    made: list[dict[str, Any]] = [{"weights": "f32", "right": right_labels(real, *tested, quantised=False)}]
    calibration = [{source.name: image[None]} for image in images[:CALIBRATED]]
    for granularity in GRANULARITIES:
        graph = quantise(real, calibration, ROUNDING, granularity).graph
        made.append({"weights": granularity, "right": right_labels(graph, *tested, quantised=True)})
    return [{**row, "right": round(row["right"], 4), "images": len(tested[1])} for row in made]


def main() -> None:
    """Train, quantise and count; print the fractions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print a record instead of lines")
    if parser.parse_args().json:
        print(json.dumps({**facts("counted", "bench.accelerators.labelled_digits"), "rows": rows()}, indent=2))
        return
    for row in rows():
        print(f"{row['weights']:<10} {row['right']:.2%} of {row['images']} labels")


if __name__ == "__main__":
    main()
