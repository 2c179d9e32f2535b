"""Table of all handlers, by the operator's name in the TFLite schema."""

from collections.abc import Mapping
from types import MappingProxyType

from mavcg.importers.tflite_ops import convolution, images, indexing, movement, pointwise, recurrent, selecting, slices
from mavcg.importers.tflite_ops.call import Handler

# A family is a module with a mapping HANDLERS; a new one is added here.
FAMILIES = (convolution, pointwise, movement, slices, indexing, images, recurrent, selecting)

HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {name: handler for family in FAMILIES for name, handler in family.HANDLERS.items()}
)
