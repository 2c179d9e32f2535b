"""Table of all handlers, by domain and operator."""

from collections.abc import Mapping
from types import MappingProxyType

from mavcg.importers.onnx_ops import (
    attention,
    bits,
    block_weights,
    cached_attention,
    convolution,
    counting,
    counts_of_words,
    determinant,
    einsum,
    elementwise,
    features,
    fourier,
    grouped_attention,
    indexing,
    inverses,
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
    sequences,
    shape,
    training,
    transformers,
    trees,
)
from mavcg.importers.onnx_ops.call import DefinedHandler

ONNX, MICROSOFT, ML, TRAINING = "", "com.microsoft", "ai.onnx.ml", "ai.onnx.preview.training"  # domains

# Each family is a module with a mapping HANDLERS; a new one is added to its domain.
FAMILIES = {
    ONNX: (
        bits,
        cached_attention,
        convolution,
        counting,
        counts_of_words,
        determinant,
        einsum,
        elementwise,
        fourier,
        indexing,
        inverses,
        normalisation,
        placing,
        pooling,
        quantized,
        recurrent,
        resize,
        sampling,
        scans,
        selecting,
        sequences,
        shape,
    ),
    MICROSOFT: (attention, block_weights, grouped_attention, microsoft, transformers),
    ML: (features, trees),
    TRAINING: (training,),
}

HANDLERS: Mapping[tuple[str, str], DefinedHandler] = MappingProxyType(
    {
        (domain, op): handler
        for domain, families in FAMILIES.items()
        for family in families
        for op, handler in family.HANDLERS.items()
    }
)
