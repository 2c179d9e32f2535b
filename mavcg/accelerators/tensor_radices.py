"""Choose radix positions of tensors from samples of their f32 values; tensors with the same data have the same."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.accelerators.concats import placements
from mavcg.accelerators.fixed_point import to_integers, to_reals
from mavcg.accelerators.float_reference import evaluate_f32
from mavcg.accelerators.shapes import LEAST_RADIX, MOST_ALIGNMENT, MOST_RADIX
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.graph import Array

LARGEST = 256  # number of values of greatest magnitude to keep: they decide the error by saturation
EVENLY = 4096  # maximum number of other values, evenly spaced


@dataclass(frozen=True)
class Sample:
    """Sampled values of a tensor. counts: number of the tensor's values that each sampled value represents."""

    values: Array
    counts: Array

    @staticmethod
    def of(tensor: Array) -> "Sample":
        """Return a sample of a tensor: its values of greatest magnitude, and evenly spaced other values."""
        flat = np.asarray(tensor, np.float32).reshape(-1)
        if flat.size <= LARGEST + EVENLY:
            return Sample(flat, np.ones(flat.size))
        order = np.argpartition(np.abs(flat), flat.size - LARGEST)
        largest = flat[order[-LARGEST:]]
        rest = flat[np.sort(order[:-LARGEST])]
        step = -(-rest.size // EVENLY)
        some = rest[::step]
        return Sample(
            np.concatenate([largest, some]),
            np.concatenate([np.ones(LARGEST), np.full(some.size, rest.size / some.size)]),
        )

    @staticmethod
    def concatenate(samples: Iterable["Sample"]) -> "Sample":
        """Return the samples of several tensors as one."""
        kept = list(samples)
        return Sample(np.concatenate([s.values for s in kept]), np.concatenate([s.counts for s in kept]))

    def error(self, radix: int) -> float:
        """Return the sum of squared differences between the tensor and its integers at a radix position."""
        difference = self.values.astype(np.float64) - to_reals(to_integers(self.values, radix), radix)
        return float((self.counts * difference * difference).sum())

    def best_radix(self) -> int:
        """Return the radix position with the least error; of equal ones, the smallest."""
        widest = widest_radix(self.values)
        return min(range(widest, min(widest + 6, MOST_RADIX) + 1), key=lambda r: (self.error(r), r))


def widest_radix(values: Array) -> int:
    """Return the largest radix position within the limits at which no value saturates."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0 or not np.isfinite(largest):
        return MOST_RADIX if largest == 0 else LEAST_RADIX
    radix = int(np.clip(np.floor(np.log2(127.5 / largest)), LEAST_RADIX, MOST_RADIX))
    return radix


def radix_classes(graph: XGraph) -> dict[str, str]:
    """Return the representative of each tensor's class, by name; tensors of a class share a radix position."""
    parent = {node.name: node.name for node in graph.nodes}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    places = placements(graph)
    for node in graph.nodes:
        if node.kind in ("max_pool", "upsample", "reorganise"):
            parent[root(node.name)] = root(node.inputs[0])
        if places[node.name].root != node.name:
            parent[root(node.name)] = root(places[node.name].root)
    return {name: root(name) for name in parent}


def tensor_radices(
    graph: XGraph, images: Sequence[Mapping[str, Array]], progress: Callable[[str], None]
) -> dict[str, int]:
    """Return the radix position of each tensor with the least error for its f32 values, the same within a class.

    images: calibration inputs, as float_reference.arrange_inputs returns them.
    Raises: MavcgError for values that are not finite.
    """
    classes = radix_classes(graph)
    samples: dict[str, list[Sample]] = {}
    for number, image in enumerate(images, 1):
        progress(f"f32 results of calibration input {number} of {len(images)}")
        for name, value in evaluate_f32(graph, image).items():
            if value.dtype.kind == "f":
                if not np.isfinite(value).all():
                    raise MavcgError(f"{graph.name}: {name} has values that are not finite; give other inputs")
                samples.setdefault(classes[name], []).append(Sample.of(value))
    best = {root: Sample.concatenate(kept).best_radix() for root, kept in samples.items()}
    # Element-wise operations can align their inputs by at most MOST_ALIGNMENT bits.
    least = min(best.values())
    return {name: min(best[root], least + MOST_ALIGNMENT) for name, root in classes.items() if root in best}
