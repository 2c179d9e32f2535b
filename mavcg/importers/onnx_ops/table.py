"""Table of all handlers, by domain and operator."""

from collections.abc import Mapping
from types import MappingProxyType

from mavcg.importers.onnx_ops import (
    convolution,
    elementwise,
    gathering,
    indexing,
    known,
    linear,
    microsoft,
    normalisation,
    pooling,
    quantized,
    recurrent,
    recurrent_quantized,
    reduction,
    resize,
    shape,
)
from mavcg.importers.onnx_ops.call import Handler

# Each family is a module with a mapping HANDLERS; a new family is added here.
FAMILIES = (
    convolution,
    elementwise,
    gathering,
    indexing,
    known,
    linear,
    normalisation,
    pooling,
    quantized,
    recurrent,
    reduction,
    resize,
    shape,
)
MICROSOFT = "com.microsoft"
MICROSOFT_FAMILIES = (microsoft, recurrent_quantized)

HANDLERS: Mapping[tuple[str, str], Handler] = MappingProxyType(
    {("", op): handler for family in FAMILIES for op, handler in family.HANDLERS.items()}
    | {(MICROSOFT, op): handler for family in MICROSOFT_FAMILIES for op, handler in family.HANDLERS.items()}
)
