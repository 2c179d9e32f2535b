"""Handlers of the operators that onnxruntime's tools fuse in transformers (domain com.microsoft), attention apart.

Source: onnxruntime, "Contrib operators" (docs/ContribOperators.md), version 1.32.
"""

from collections.abc import Mapping

import numpy as np

from mavcg.importers import indices
from mavcg.importers.movement import cut
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.onnx_ops.normalisation import over_mean_square
from mavcg.importers.value import Value, constant

_EPSILON = 1e-12  # onnxruntime's default for the fused norms


def _normalise(call: OnnxCall, x: Value, gamma: Value, beta: Value | None, simplified: bool) -> Value:
    """Return x normalised over its last axis; simplified: by the root of the mean square alone."""
    epsilon = call.attr_float("epsilon", _EPSILON)
    if gamma.shape != x.shape[-1:] or (beta is not None and beta.shape != gamma.shape):
        raise call.fail(f"gamma {gamma.type} for {x.type}; {x.shape[-1]} elements are needed")
    if not simplified:
        return call.add("layer_norm", x, gamma, beta, axis=x.rank - 1, epsilon=epsilon)
    return over_mean_square(call, x, gamma, x.rank - 1, epsilon)


@round_once
def skip_layer_normalization(call: OnnxCall) -> Results:
    """Import SkipLayerNormalization and SkipSimplifiedLayerNormalization; the sum that is normalised is output 3."""
    x, skip, gamma = call.input(0, rank_min=2), call.input(1), call.input(2)
    simplified = call.op.endswith("SkipSimplifiedLayerNormalization")
    beta, bias = (None, call.maybe(3)) if simplified else (call.maybe(3), call.maybe(4))
    total = call.add("add", x, skip)
    if total.shape != x.shape:
        raise call.fail(f"skip {skip.type} does not broadcast to {x.type}")
    total = total if bias is None else call.add("add", total, bias)
    return _normalise(call, total, gamma, beta, simplified), None, None, total


@round_once
def embed_layer_normalization(call: OnnxCall) -> Results:
    """Import EmbedLayerNormalization: sums of two or three embeddings, normalised; the number of tokens; the sums."""
    ids = call.input(0, rank=2)
    segments, words, positions = call.maybe(1), call.input(2, rank=2), call.input(3, rank=2)
    segment_rows, gamma, beta, mask, position_ids = (call.maybe(i) for i in range(4, 9))
    batch, length = ids.shape
    total = indices.gather_along(call, words, ids, 0)
    if position_ids is not None:
        place = indices.gather_along(call, positions, position_ids, 0)
    elif length <= positions.shape[0]:
        place = cut(call, positions, {0: (0, length, 1)})
    else:
        raise call.fail(f"{length} tokens where position_embedding has {positions.shape[0]} rows")
    total = call.add("add", total, place)
    if segments is not None:
        if segment_rows is None:
            raise call.fail("segment_ids without segment_embedding")
        total = call.add("add", total, indices.gather_along(call, segment_rows, segments, 0))
    counted = constant(np.zeros(batch, np.int32))
    if mask is not None:
        ones = call.cast(call.add("equal", mask, call.scalar(1, mask)), "i32")
        counted = call.add("reduce_sum", ones, axes=(1,), keepdims=False)
    if gamma is None or total.rank != 3:
        raise call.fail(f"gamma is missing, or {total.type} where three dimensions are needed")
    return _normalise(call, total, gamma, beta, False), counted, total


def rotate(call: OnnxCall, x: Value, cos: Value, sin: Value, interleaved: bool) -> Value:
    """Return x [a, b, c, size] with its first elements rotated; the others stay.

    cos, sin: of half as many elements as are rotated; they broadcast to [a, b, c, half]. interleaved: pairs are
    neighbours, else element i and element half + i.
    """
    *outer, size = x.shape
    half = cos.shape[-1]
    last = x.rank - 1
    if interleaved:
        pairs = call.reshape(cut(call, x, {last: (0, 2 * half, 1)}), (*outer, half, 2))
        first, second = (call.reshape(cut(call, pairs, {last + 1: (i, i + 1, 1)}), (*outer, half)) for i in (0, 1))
    else:
        first, second = cut(call, x, {last: (0, half, 1)}), cut(call, x, {last: (half, 2 * half, 1)})
    turned = [
        call.add("sub_products", first, cos, second, sin),
        call.add("add_products", second, cos, first, sin),
    ]
    if interleaved:
        columns = [call.reshape(part, (*part.shape, 1)) for part in turned]
        turned = [call.reshape(call.add("concat", *columns, axis=last + 1), (*outer, 2 * half))]
    rest = [cut(call, x, {last: (2 * half, size, 1)})] if 2 * half < size else []
    return call.add("concat", *turned, *rest, axis=last) if len(turned) + len(rest) > 1 else turned[0]


@round_once
def rotary_embedding(call: OnnxCall) -> Results:
    """Import RotaryEmbedding of [batch, tokens, hidden] or [batch, heads, tokens, head]; the rest of a head stays."""
    x, position_ids = call.input(0, rank_min=3), call.input(1)
    cos, sin = call.input(2, rank=2), call.input(3, rank=2)
    rotated, heads = call.attr_int("rotary_embedding_dim", 0), call.attr_int("num_heads", 0)
    if call.attr_bool("is_packed_batching"):
        raise call.unsupported("is_packed_batching is 1", "0")
    head = 2 * cos.shape[1]
    shape = x.shape
    if x.rank == 3:
        head = shape[2] // heads if rotated and heads else head
        if not head or shape[2] % head:
            raise call.fail(f"{x.type} in heads of {head}")
        x = call.transpose(call.reshape(x, (*shape[:2], shape[2] // head, head)), (0, 2, 1, 3))
    batch, count, length, head = x.shape
    rotated = rotated or head
    if cos.shape != sin.shape or 2 * cos.shape[1] != rotated or rotated > head:
        raise call.fail(f"caches {cos.type} and {sin.type} for {rotated} of {head} elements of a head")
    if position_ids.type.elements == 1 and position_ids.shape != (batch, length):
        offsets = constant(np.arange(length, dtype=np.int64))
        position_ids = call.reshape(
            call.add("add", call.reshape(call.cast(position_ids, "i64"), (1,)), offsets), (1, length)
        )
    elif position_ids.shape != (batch, length):
        raise call.fail(f"position_ids {position_ids.type} where [{batch}, {length}] is needed")
    angles = []
    for cache in (cos, sin):
        rows = indices.gather_along(call, cache, position_ids, 0)
        angles.append(call.reshape(rows, (rows.shape[0], 1, length, rotated // 2)))
    made = rotate(call, x, angles[0], angles[1], call.attr_bool("interleaved"))
    if len(shape) == 3:
        made = call.reshape(call.transpose(made, (0, 2, 1, 3)), shape)
    return made


HANDLERS: Mapping[str, Handler] = {
    "SkipLayerNormalization": skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": skip_layer_normalization,
    "EmbedLayerNormalization": embed_layer_normalization,
    "RotaryEmbedding": rotary_embedding,
}
