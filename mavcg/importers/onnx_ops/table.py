"""Table of all handlers, by domain and operator."""

from collections.abc import Mapping
from types import MappingProxyType

from mavcg.importers.onnx_ops import (
    attention,
    block_weights,
    cached_attention,
    convolution,
    counting,
    counts_of_words,
    einsum,
    elementwise,
    features,
    fourier,
    grouped_attention,
    indexing,
    inverses,
    known,
    microsoft,
    normalisation,
    placing,
    pooling,
    quantized,
    recurrent,
    resize,
    sampling,
    scans,
    selecting,
    selecting_boxes,
    shape,
    training,
    transformers,
    trees,
)
from mavcg.importers.onnx_ops.call import DefinedHandler

# Each family is a module with a mapping HANDLERS; a new family is added here.
FAMILIES = (
    cached_attention,
    convolution,
    counting,
    counts_of_words,
    einsum,
    elementwise,
    fourier,
    indexing,
    inverses,
    known,
    normalisation,
    placing,
    pooling,
    quantized,
    recurrent,
    resize,
    sampling,
    scans,
    selecting,
    selecting_boxes,
    shape,
)
MICROSOFT = "com.microsoft"
MICROSOFT_FAMILIES = (attention, block_weights, grouped_attention, microsoft, transformers)
ML = "ai.onnx.ml"
TRAINING = "ai.onnx.preview.training"
ML_FAMILIES = (features, trees)

HANDLERS: Mapping[tuple[str, str], DefinedHandler] = MappingProxyType(
    {("", op): handler for family in FAMILIES for op, handler in family.HANDLERS.items()}
    | {(MICROSOFT, op): handler for family in MICROSOFT_FAMILIES for op, handler in family.HANDLERS.items()}
    | {(ML, op): handler for family in ML_FAMILIES for op, handler in family.HANDLERS.items()}
    | {(TRAINING, op): handler for op, handler in training.HANDLERS.items()}
)
