"""The five networks of the e-PlaNNer thesis, as graphs built by code."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.networks.alexnet import alexnet
from mavcg.graph.networks.resnet50 import resnet50
from mavcg.graph.networks.squeezenet import squeezenet
from mavcg.graph.networks.vgg16 import vgg16
from mavcg.graph.networks.yolov2 import yolov2

_NETWORKS: Mapping[str, Callable[[bool], Graph]] = MappingProxyType(
    {
        "vgg16": vgg16,
        "resnet50": resnet50,
        "alexnet": alexnet,
        "squeezenet": squeezenet,
        "yolov2": yolov2,
    }
)
NAMES: tuple[str, ...] = tuple(_NETWORKS)


def network(name: str, paper_variant: bool = False) -> Graph:
    """Return one of NAMES as published, or in the variant of the paper's tables. Weights are inputs of the graph.

    Raises: MavcgError for another name.
    """
    build = _NETWORKS.get(name)
    if build is None:
        raise MavcgError(f"network {name}: unknown; choose one of {', '.join(NAMES)}")
    return build(paper_variant)
