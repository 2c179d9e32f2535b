"""Measure the accuracy of a quantised network against f32: signal-to-noise ratio, and agreement of classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.accelerators.fixed_point import evaluate, to_integers, to_reals
from mavcg.accelerators.float_reference import evaluate_f32
from mavcg.accelerators.quantise import sqnr_db
from mavcg.accelerators.xgraph import XGraph
from mavcg.graph import Array


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


def integer_images(graph: XGraph, image: Mapping[str, Array]) -> dict[str, Array]:
    """Return the int8 inputs of a quantised graph for f32 inputs. image: arrays in the graph's order of dimensions."""
    return {node.name: to_integers(image[node.name], node.radix or 0) for node in graph.inputs()}


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
