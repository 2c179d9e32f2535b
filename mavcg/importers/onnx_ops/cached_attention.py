"""Handler of ONNX's Attention over caches that TensorScatter writes, of which a run reads the keys that count.

Source: ONNX, operator Attention of opsets 23 and 24, and its reference implementation, which adds a mask to capped
scores. So are scores with a soft cap, and heads that share keys without a mask. Other forms are expanded by the
standard's definition, which computes scores of all keys of a cache, and repeats shared ones.
"""

from collections.abc import Mapping
from math import sqrt

import numpy as np

from mavcg.importers.onnx_ops.call import DefinedHandler, OnnxCall, Results
from mavcg.importers.value import Value, constant


def attention(call: OnnxCall) -> Results | None:
    """Import Attention with the input nonpad_kv_seqlen, with shared keys or with a soft cap; None for other forms."""
    past, counts, mask = (call.maybe(4), call.maybe(5)), call.maybe(6), call.maybe(3)
    softcap = call.attr_float("softcap", 0.0)
    windows = [call.attr_int(f"{side}_window_size", -1) for side in ("left", "right")]
    given = any(value is not None for value in past) or any(call.required[1:]) or "softmax_precision" in call.attrs
    direct = counts is not None or ((softcap or (mask is None and _shares_keys(call))) and _sees_by_last(call))
    if not direct or given or windows != [-1, -1]:
        return None
    return _attend(call, counts, mask, softcap)


def _shares_keys(call: OnnxCall) -> bool:
    """Return True for fewer heads of keys than of queries."""
    query, key = call.input(0), call.input(1)
    if query.rank == 4:
        return key.rank == 4 and query.shape[1] != key.shape[1]
    return bool(call.attr_int("q_num_heads", 0) != call.attr_int("kv_num_heads", 0))


def _sees_by_last(call: OnnxCall) -> bool:
    """Return True if the last query sees all keys: a causal one sees as many as come before it in its own sequence."""
    query, key = call.input(0), call.input(1)
    return not call.attr_bool("is_causal") or query.shape[-2] == key.shape[-2]


def _attend(call: OnnxCall, counts: Value | None, mask: Value | None, softcap: float) -> Value:
    query, key, value = (call.input(i) for i in range(3))
    flat = query.rank == 3
    heads, kept = (call.attr_int(name, 0) for name in ("q_num_heads", "kv_num_heads"))
    if flat:
        query = _split(call, query, heads)
        key, value = (_split(call, x, kept) for x in (key, value))
    elif {x.rank for x in (query, key, value)} != {4}:
        raise call.fail(f"{query.type}, {key.type} and {value.type}; all of 3 or all of 4 dimensions are needed")
    else:
        query = call.transpose(query, (0, 2, 1, 3))
    batch, tokens, _, size = query.shape
    if counts is not None and counts.shape != (batch,):
        raise call.fail(f"nonpad_kv_seqlen {counts.type} for {batch} sequences")
    made = call.add(
        "attention",
        query,
        key,
        value,
        None if mask is None else _bias(call, mask, key.shape[1 if flat else 2], query),
        counts,
        scale=call.attr_float("scale", 0.0) or 1 / sqrt(size),
        causal=call.attr_bool("is_causal"),
        heads_first=not flat,
        softcap=softcap,
        zero_unseen=True,
    )
    if flat:
        return call.reshape(made, (batch, tokens, made.shape[2] * made.shape[3]))
    return call.transpose(made, (0, 2, 1, 3))


def _split(call: OnnxCall, x: Value, heads: int) -> Value:
    """Return [batch, tokens, hidden] as [batch, tokens, heads, hidden / heads]."""
    if x.rank != 3 or heads < 1 or x.shape[2] % heads:
        raise call.fail(f"{x.type} in {heads} heads")
    return call.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))


def _bias(call: OnnxCall, mask: Value, keys: int, like: Value) -> Value:
    """Return what a mask adds to scores, of four dimensions; keys behind a shorter mask are not seen."""
    if mask.dtype == "bool":
        mask = call.add("where", mask, call.scalar(0.0, like), call.scalar(-np.inf, like))
    if not 1 <= mask.rank <= 4 or mask.shape[-1] > keys:
        raise call.fail(f"attn_mask {mask.type} for {keys} keys")
    missing = keys - mask.shape[-1]
    if missing:
        nothing = np.full((*mask.shape[:-1], missing), -np.inf)
        mask = call.add("concat", mask, constant(nothing, mask.dtype), axis=mask.rank - 1)
    return call.reshape(mask, (*(1,) * (4 - mask.rank), *mask.shape))


HANDLERS: Mapping[str, DefinedHandler] = {"Attention": attention}
