"""The output of scores, or of weights, of a GroupQueryAttention (qk_output), which its kernel does not store.

Source: onnxruntime, schema of GroupQueryAttention, version 1.32, and the results of its CPU provider: scores are scaled
and capped, with the bias; those of keys that a query does not see are 0.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from mavcg.importers.movement import cut
from mavcg.importers.onnx_ops.cache_forms import key_numbers
from mavcg.importers.onnx_ops.call import OnnxCall
from mavcg.importers.value import Value, constant

SCORES, WEIGHTS = 1, 2  # of the attribute qk_output
_LOWEST = -1e30


@dataclass(frozen=True)
class Scored:
    """The operands of an attention.

    query: f32 [batch, tokens, heads, size], rotated, times the scales of the cache. key: the cache with the run's keys,
    [batch, key heads, room, ..], in numbers of `form`. places: of the queries among the keys, i64 [batch or 1, tokens].
    keys: number of keys, i64 [batch]; None: all. bias: added to scores. sinks: scores of a key without a value.
    """

    query: Value
    key: Value
    form: str
    places: Value
    keys: Value | None
    bias: Value | None
    sinks: Value | None


def scores_output(call: OnnxCall, x: Scored) -> Value:
    """Return [batch, heads, tokens, keys], as many keys as total_sequence_length says if that is known, else the room
    of the cache."""
    batch, tokens, heads, size = x.query.shape
    key = key_numbers(call, x.key, x.form)
    kept, room = key.shape[1:3]
    rows = call.transpose(call.reshape(x.query, (batch, tokens, kept, heads // kept, size)), (0, 2, 3, 1, 4))
    rows = call.reshape(rows, (batch, kept, heads // kept * tokens, size))
    scale = constant(np.float32(call.attr_float("scale", 0.0) or 1 / sqrt(size)))
    scores = call.add("matmul", call.add("mul", rows, scale), key, transpose_b=True)
    scores, cap = call.reshape(scores, (batch, heads, tokens, room)), call.attr_float("softcap", 0.0)
    if cap:
        limit = constant(np.float32(cap))
        scores = call.add("mul", call.add("tanh", call.add("div", scores, limit)), limit)
    scores = scores if x.bias is None else call.add("add", scores, x.bias)
    seen, nothing = _find_seen_keys(call, x, room), constant(np.float32(0))
    if call.attr_int("qk_output") == WEIGHTS:
        scores = call.add("where", seen, scores, constant(np.float32(_LOWEST)))
        if x.sinks is not None:
            column = call.reshape(x.sinks, (1, heads, 1, 1))
            wide = call.add("broadcast_to", column, shape=(batch, heads, tokens, 1))
            scores = call.add("concat", scores, wide, axis=3)
        scores = cut(call, call.add("softmax", scores, axis=3), {3: (0, room, 1)})
    made, total = call.add("where", seen, scores, nothing), call.maybe(6)
    if total is None or total.array is None:
        return made
    columns = int(total.array.reshape(-1)[0]) if total.array.size == 1 else 0
    if not 0 < columns <= room:
        raise call.fail(f"total_sequence_length {total.array.tolist()} for {room} keys")
    return cut(call, made, {3: (0, columns, 1)})


def _find_seen_keys(call: OnnxCall, x: Scored, room: int) -> Value:
    """Return True for the keys that a query sees, [batch or 1, 1, tokens or 1, room]."""
    columns = constant(np.arange(room, dtype=np.int64).reshape(1, 1, 1, room))
    if not call.attr_bool("causal", True):
        ends = constant(np.int64(room)) if x.keys is None else call.reshape(x.keys, (x.keys.shape[0], 1, 1, 1))
        return call.add("less", columns, ends)
    places = call.reshape(x.places, (x.places.shape[0], 1, x.places.shape[1], 1))
    seen, window = call.add("less_equal", columns, places), call.attr_int("local_window_size", -1)
    if window < 1:
        return seen
    first = call.add("sub", places, constant(np.int64(window)))
    return call.add("and", seen, call.add("less", first, columns))
