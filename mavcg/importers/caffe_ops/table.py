"""Table of all layer types, by their name in a prototxt."""

from collections.abc import Mapping
from types import MappingProxyType

from mavcg.importers.caffe_ops import convolution, movement, pointwise
from mavcg.importers.caffe_ops.call import LayerType

# Each family is a module with a mapping LAYERS; a new family is added here.
FAMILIES = (convolution, pointwise, movement)

LAYERS: Mapping[str, LayerType] = MappingProxyType(
    {name: layer for family in FAMILIES for name, layer in family.LAYERS.items()}
)
# Layers whose tops are inputs of the network: Input declares their shapes, the others read a data set.
DATA = ("Input", "Data", "ImageData", "HDF5Data", "MemoryData", "WindowData", "DummyData")
TRAINING = (
    "Accuracy",
    "ContrastiveLoss",
    "EuclideanLoss",
    "HingeLoss",
    "InfogainLoss",
    "MultinomialLogisticLoss",
    "SigmoidCrossEntropyLoss",
    "SoftmaxWithLoss",
)
