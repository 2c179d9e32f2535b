"""Random weights for networks whose weights are inputs of the graph."""

from collections.abc import Sequence
from math import prod

import numpy as np

from mavcg.graph import Array, Graph

WEIGHTS_SEED = 20261123


def drawn_constants(graph: Graph, names: Sequence[str]) -> dict[str, Array]:
    """Return seeded random weights for these inputs of a graph: normal, of variance 2 / fan-in (He et al., 2015)."""
    rng = np.random.default_rng(WEIGHTS_SEED)
    constants: dict[str, Array] = {}
    for name in sorted(names):
        shape = graph.types[name].shape
        fan_in = prod(shape[1:]) if len(shape) > 1 else 1
        scale = (2 / fan_in) ** 0.5 if len(shape) > 1 else 0.1
        constants[name] = (rng.standard_normal(shape, np.float32) * np.float32(scale)).astype(np.float32)
    return constants
