"""Networks whose weights no package ships: their published topology with seeded random weights, as ONNX."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bench.seeded_networks.encoders import albert, mobilebert
from bench.seeded_networks.inception import inception_resnet_v2, inception_v3, inception_v4
from bench.seeded_networks.mobilenet import mnasnet, mobilenet_v1
from bench.seeded_networks.nasnet import nasnet_large, nasnet_mobile
from bench.seeded_networks.resnet_v2 import resnet_v2_101

if TYPE_CHECKING:
    import onnx

NETWORKS: "Mapping[str, Callable[[], onnx.ModelProto]]" = {
    "mobilenet_v1": mobilenet_v1,
    "mnasnet_1.0": lambda: mnasnet(1.0),
    "mnasnet_1.3": lambda: mnasnet(1.3),
    "inception_v3": inception_v3,
    "inception_v4": inception_v4,
    "inception_resnet_v2": inception_resnet_v2,
    "resnet_v2_101": resnet_v2_101,
    "nasnet_mobile": nasnet_mobile,
    "nasnet_large": nasnet_large,
    "albert": albert,
    "mobilebert": mobilebert,
}
