"""Handlers of Attention and MultiHeadAttention of the domain com.microsoft: scores, a softmax, a product with values.

Source: onnxruntime, "Contrib operators" (docs/ContribOperators.md), version 1.32. ONNX's own Attention is expanded by
the standard's definition.
"""

from collections.abc import Mapping
from math import sqrt

import numpy as np

from mavcg.graph import DTYPES
from mavcg.importers.movement import cut
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.value import Value, constant

_MASKED = -10000.0  # onnxruntime's default score of a masked key


def _heads(call: OnnxCall, x: Value, heads: int) -> Value:
    """Return [batch, tokens, hidden] as [batch, heads, tokens, hidden / heads]."""
    batch, tokens, hidden = x.shape
    if heads < 1 or hidden % heads:
        raise call.fail(f"{heads} heads of {x.type}")
    return call.transpose(call.reshape(x, (batch, tokens, heads, hidden // heads)), (0, 2, 1, 3))


def _attend(call: OnnxCall, query: Value, key: Value, value: Value, added: list[Value]) -> Value:
    """Return the attention, [batch, tokens, heads * size], of heads [batch, heads, tokens, size].

    added: to the scores [batch, heads, tokens, keys]. The attributes scale and unidirectional are the node's.
    """
    batch, heads, tokens, size = query.shape
    scale = call.attr_float("scale", 0.0) or 1 / sqrt(size)
    scores = call.add("matmul", call.add("mul", query, call.scalar(scale, query)), key, transpose_b=True)
    for each in added:
        shape = scores.shape
        scores = call.add("add", scores, each)
        if scores.shape != shape:
            raise call.fail(f"{each.type} added to scores {list(shape)}")
    if call.attr_bool("unidirectional"):
        keys = key.shape[2]
        seen = np.arange(keys)[None, :] <= np.arange(tokens)[:, None] + keys - tokens
        scores = call.add("where", constant(seen), scores, call.scalar(np.finfo(DTYPES[scores.dtype]).min, scores))
    made = call.add("matmul", call.add("softmax", scores, axis=3), value)
    return call.reshape(call.transpose(made, (0, 2, 1, 3)), (batch, tokens, heads * value.shape[3]))


def _mask(call: OnnxCall, mask: Value | None, batch: int, tokens: int, keys: int, like: Value) -> list[Value]:
    """Return what a mask adds to the scores.

    mask: lengths [batch], or 1 at the keys that count, [batch, keys] or [batch, tokens, keys].
    """
    if mask is None:
        return []
    if mask.shape == (batch,):
        numbers = constant(np.arange(keys, dtype=DTYPES[mask.dtype]))
        counts = call.add("less", numbers, call.reshape(mask, (batch, 1)))
        shape: tuple[int, ...] = (batch, 1, 1, keys)
    elif mask.shape in ((batch, keys), (batch, tokens, keys)):
        counts = call.add("equal", mask, call.scalar(1, mask))
        shape = (batch, 1, mask.shape[1] if mask.rank == 3 else 1, keys)
    else:
        raise call.unsupported(f"a mask {mask.type}", f"[{batch}], [{batch}, {keys}] and [{batch}, {tokens}, {keys}]")
    masked = call.scalar(call.attr_float("mask_filter_value", _MASKED), like)
    return [call.add("where", call.reshape(counts, shape), call.scalar(0, like), masked)]


def _after_past(call: OnnxCall, past: Value | None, present: Value) -> Value:
    """Return keys or values after those of the past, along the tokens."""
    return present if past is None else call.add("concat", past, present, axis=2)


@round_once
def attention(call: OnnxCall) -> Results:
    """Import Attention: products of the input with the weights of query, key and value, then attention."""
    x, weights, bias, mask, past, added = (
        call.input(0, rank=3),
        call.input(1, rank=2),
        *(call.maybe(i) for i in range(2, 6)),
    )
    heads = call.attr_int("num_heads")
    if call.attr_int("do_rotary", 0) or call.attr_int("past_present_share_buffer", 0):
        raise call.unsupported("do_rotary or past_present_share_buffer", "neither")
    sizes = call.attr_ints("qkv_hidden_sizes", (weights.shape[1] // 3,) * 3, length=3)
    if sum(sizes) != weights.shape[1] or min(sizes) < 1:
        raise call.fail(f"weights {weights.type} for {list(sizes)} elements of query, key and value")
    batch, tokens, _ = x.shape
    made = call.add("matmul", x, weights, bias)
    ends = np.cumsum(sizes).tolist()
    query, key, value = (
        _heads(call, cut(call, made, {2: (end - size, end, 1)}), heads) for size, end in zip(sizes, ends, strict=True)
    )
    if past is not None:
        if past.rank != 5 or past.shape[0] != 2:
            raise call.fail(f"past {past.type} where [2, {batch}, {heads}, past, size] is needed")
        before = (call.reshape(cut(call, past, {0: (i, i + 1, 1)}), past.shape[1:]) for i in (0, 1))
        key, value = (_after_past(call, old, new) for old, new in zip(before, (key, value), strict=True))
    masks = _mask(call, mask, batch, tokens, key.shape[2], x)
    result = _attend(call, query, key, value, [*masks, *([added] if added is not None else [])])
    if len(call.required) < 2 or not call.required[1]:
        return result
    both = [call.reshape(each, (1, *each.shape)) for each in (key, value)]
    return result, call.add("concat", *both, axis=0)


@round_once
def multi_head_attention(call: OnnxCall) -> Results:
    """Import MultiHeadAttention of separate query, key and value, with those of the past before them."""
    query = call.input(0)
    key, value, bias, mask, added, past_key, past_value = (call.maybe(i) for i in range(1, 8))
    heads = call.attr_int("num_heads")
    if query.rank != 3 or key is None or value is None or key.rank != 3 or value.rank != 3:
        raise call.unsupported("packed or transposed inputs", "query, key and value [batch, tokens, hidden]")
    parts = [query, key, value]
    if bias is not None:
        ends = np.cumsum([part.shape[2] for part in parts]).tolist()
        if bias.shape != (ends[-1],):
            raise call.fail(f"bias {bias.type} where {ends[-1]} elements are needed")
        biases = [cut(call, bias, {0: (end - part.shape[2], end, 1)}) for part, end in zip(parts, ends, strict=True)]
        parts = [call.add("add", part, each) for part, each in zip(parts, biases, strict=True)]
    query, key, value = (_heads(call, part, heads) for part in parts)
    key, value = _after_past(call, past_key, key), _after_past(call, past_value, value)
    masks = _mask(call, mask, query.shape[0], query.shape[2], key.shape[2], query)
    result = _attend(call, query, key, value, [*masks, *([added] if added is not None else [])])
    return result, key, value


HANDLERS: Mapping[str, Handler] = {"Attention": attention, "MultiHeadAttention": multi_head_attention}
