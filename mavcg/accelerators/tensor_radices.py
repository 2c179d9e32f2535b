"""Choose radix positions of tensors from their f32 values: the same for tensors with the same data, only moved."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mavcg.accelerators.concats import placements
from mavcg.accelerators.float_reference import evaluate_f32
from mavcg.accelerators.samples import Sample
from mavcg.accelerators.shapes import MOST_ALIGNMENT
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.graph import Array


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
