"""Networks with seeded weights, for accelerators: the paper's four, and newer ones that it was not tuned for."""

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from mavcg.accelerators.networks.detection import yolo_small
from mavcg.accelerators.networks.googlenet import googlenet
from mavcg.accelerators.networks.mobilenet import mobilenet_v2
from mavcg.accelerators.networks.residual import resnet50, resnet152
from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph
from mavcg.graph.networks.squeezenet import squeezenet
from mavcg.graph.networks.vgg16 import vgg16

_NETWORKS: Mapping[str, Callable[[], Graph]] = MappingProxyType(
    {
        "vgg16": vgg16,
        "resnet50": resnet50,
        "resnet152": resnet152,
        "googlenet": googlenet,
        "squeezenet": squeezenet,
        "mobilenet_v2": mobilenet_v2,
        "yolo_small": yolo_small,
    }
)
NAMES: tuple[str, ...] = tuple(_NETWORKS)
# Weights of the last convolution of a residual block are scaled down: sums over dozens of blocks must fit into 8 bits.
_RESIDUAL_END, _RESIDUAL_GAIN = "_end.w", 0.25


def network(name: str) -> Graph:
    """Return one of NAMES with seeded weights, which are drawn so that activations keep their scale (He et al., 2015).

    Raises: MavcgError for another name.
    """
    made = _NETWORKS.get(name)
    if made is None:
        raise MavcgError(f"network {name}: no such network; known: {', '.join(NAMES)}")
    return with_seeded_weights(made())


def with_seeded_weights(graph: Graph) -> Graph:
    """Return the graph with seeded weights: a constant for each input but the first, from names and shapes only."""
    constants = {name: _draw(name, graph.types[name].shape) for name in graph.inputs[1:]}
    return replace(graph, inputs=graph.inputs[:1], constants={**graph.constants, **constants})


def _draw(name: str, shape: tuple[int, ...]) -> Array:
    random = np.random.default_rng(zlib.crc32(name.encode()))
    values = random.standard_normal(shape, np.float32)
    if len(shape) == 1:
        return values * np.float32(0.1)
    deviation = math.sqrt(2 / math.prod(shape[1:]))
    return values * np.float32(deviation * (_RESIDUAL_GAIN if name.endswith(_RESIDUAL_END) else 1.0))
