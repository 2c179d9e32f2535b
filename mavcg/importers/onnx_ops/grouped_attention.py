"""Handler of GroupQueryAttention of the domain com.microsoft: attention over caches of keys and values.

Source: onnxruntime, "Contrib operators" (docs/ContribOperators.md), version 1.32, and the results of its CPU provider.

A cache has room for a number of keys that the file fixes; a run writes its new keys behind those that are there and
reads no others. As a state (docs/states.md) it is updated in place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

import numpy as np

from mavcg.importers import indices
from mavcg.importers.movement import cut
from mavcg.importers.onnx_ops.attention_scores import SCORES, WEIGHTS, Scored, scores_output
from mavcg.importers.onnx_ops.cache_forms import (
    FLOAT8,
    UINT4,
    as_output,
    cache_form,
    cache_scale,
    quantise_rows,
    stored_bits,
)
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.onnx_ops.normalisation import over_mean_square
from mavcg.importers.onnx_ops.transformers import rotate
from mavcg.importers.value import Value, constant
from mavcg.importers.window_cache import CACHE_AXES, WindowRows, append_rows, rows_of_window

_UNSEEN = -1e30  # added to a score, it leaves nothing of the key; finite, as a query that is no token may see no other


@dataclass(frozen=True)
class _TokenPlaces:
    """Places of the tokens of a run in their sequences.

    places: i64 [batch or 1, tokens]. keys: i64 [batch], those of a sequence with this run's; None: this run's alone.
    window: rows of a cache of a window's length, whose keys are those that are in it; None for other caches.
    """

    places: Value
    keys: Value | None
    window: WindowRows | None = None


@round_once
def group_query_attention(call: OnnxCall) -> Results:
    """Import GroupQueryAttention: with norms and rotation of queries and keys, a window, a soft cap, sinks, caches of
    f32, 8 or 4 bits, and scores as an output."""
    _check_form(call)
    query, key, value = _split_heads(call)
    batch, tokens, heads, size = query.shape
    form = cache_form(call)
    caches = stored_bits(call.maybe(3)), stored_bits(call.maybe(4))
    if form == UINT4 and size % 2:
        raise call.fail(f"heads of {size} numbers in caches of 4 bits; an even number is needed")
    times = _token_places(call, caches, query, key.shape[2], size // 2 if form == UINT4 else size)
    query, key = _normalise_heads(call, query, key)
    if call.attr_bool("do_rotary"):
        query, key = _rotate_heads(call, query, key, times.places)
    scales = [cache_scale(call, number, key.shape[2], size) if form else None for number in (0, 1)]
    rows = [quantise_rows(call, x, scale, form) for x, scale in zip((key, value), scales, strict=True)]
    read, present = zip(
        *(_write_cache(call, cache, x, times) for cache, x in zip(caches, rows, strict=True)), strict=True
    )
    causal, window = call.attr_bool("causal", True), call.attr_int("local_window_size", -1)
    query, bias, sinks = _scale_heads(call, query, scales[0]), _bias(call, read[0], times), _sinks(call, heads)
    made = call.add(
        "attention",
        query,
        *read,
        bias,
        times.keys,
        sinks,
        scale=call.attr_float("scale", 0.0) or 1 / sqrt(size),
        causal=causal,
        heads_first=True,
        window=max(0, window),
        softcap=call.attr_float("softcap", 0.0),
        stored=form if form in (UINT4, FLOAT8) else "",
    )
    made = call.reshape(_scale_heads(call, made, scales[1]), (batch, tokens, heads * size))
    scored = Scored(query, read[0], form, times.places, times.keys, bias, sinks)
    scores = scores_output(call, scored) if _wants_scores(call) else None
    return made, *(as_output(call, cache, form) for cache in present), scores


def _check_form(call: OnnxCall) -> None:
    """Check that the node has no option without an implementation. Raises: UnsupportedOp."""
    output, wanted = call.attr_int("qk_output", 0), _wants_scores(call)
    if output not in (0, SCORES, WEIGHTS) or (wanted and not output):
        raise call.fail(f"qk_output {output}; 1 or 2 is needed for its output 3")
    if wanted and call.attr_bool("sliding_window_cache"):
        raise call.unsupported("qk_output with sliding_window_cache", "one of both")
    smooth = call.attr_int("smooth_softmax", 0)
    if smooth not in (-1, 0, 1):
        raise call.fail(f"smooth_softmax {smooth}; -1, 0 or 1 is needed")


def _wants_scores(call: OnnxCall) -> bool:
    return len(call.required) > 3 and call.required[3]


def _normalise_heads(call: OnnxCall, query: Value, key: Value) -> tuple[Value, Value]:
    """Return query and key divided by the roots of their heads' mean squares, if the node has weights for these."""
    made = []
    for x, number, which in ((query, 14, "q"), (key, 15, "k")):
        weight = call.maybe(number)
        if (weight is None) != (call.maybe(29 - number) is None) or (weight and weight.shape != (x.shape[3],)):
            raise call.fail(f"{which}_norm_weight {weight and weight.type}; both or none of [{x.shape[3]}] are needed")
        if weight is not None:
            epsilon = call.attr_float(f"{which}_norm_epsilon", call.attr_float("qk_norm_epsilon", 1e-6))
            x = over_mean_square(call, x, weight, 3, epsilon)
        made.append(x)
    return made[0], made[1]


def _sinks(call: OnnxCall, heads: int) -> Value | None:
    """Return scores of a key without a value, one for each head: the file's, or 0 with smooth_softmax."""
    sink = call.maybe(11)
    if sink is not None and sink.shape != (heads,):
        raise call.fail(f"head_sink {sink.type} where [{heads}] is needed")
    if sink is None and call.attr_int("smooth_softmax", 0) == 1:
        return constant(np.zeros(heads, np.float32))
    return sink


def _scale_heads(call: OnnxCall, x: Value, scale: Value | None) -> Value:
    """Return x [batch, tokens, heads, size] times the scale of the head of keys that each head shares."""
    if scale is None:
        return x
    batch, tokens, heads, size = x.shape
    kept = scale.shape[0]
    split = call.reshape(x, (batch, tokens, kept, heads // kept, size))
    return call.reshape(call.add("mul", split, call.reshape(scale, (1, 1, kept, 1, scale.shape[1]))), x.shape)


def _split_heads(call: OnnxCall) -> tuple[Value, Value, Value]:
    """Return query, key and value as [batch, tokens, heads, size], of one packed input or of three."""
    heads, key_heads = call.attr_int("num_heads"), call.attr_int("kv_num_heads")
    if heads < 1 or key_heads < 1 or heads % key_heads:
        raise call.fail(f"num_heads {heads} and kv_num_heads {key_heads}")
    query, key, value = call.input(0, rank=3), call.maybe(1), call.maybe(2)
    packed = key is None and value is None
    batch, tokens, hidden = query.shape
    count = heads + 2 * key_heads if packed else heads
    size = hidden // count
    if not size or hidden % count:
        raise call.fail(f"{query.type} in {count} heads")
    query = call.reshape(query, (batch, tokens, count, size))
    if packed:
        ends = (0, heads, heads + key_heads, count)
        first, second, third = (cut(call, query, {2: (begin, end, 1)}) for begin, end in pairwise(ends))
        return first, second, third
    if key is None or value is None or any(x.shape != (batch, tokens, key_heads * size) for x in (key, value)):
        raise call.unsupported(
            f"key {key and key.type} and value {value and value.type}", f"[{batch}, {tokens}, {key_heads * size}]"
        )
    shape = (batch, tokens, key_heads, size)
    return query, call.reshape(key, shape), call.reshape(value, shape)


def _token_places(
    call: OnnxCall, caches: tuple[Value | None, Value | None], query: Value, key_heads: int, row: int
) -> _TokenPlaces:
    """Return the places of the run's tokens, and the numbers of keys. row: elements of a head of a cache.

    Raises: MavcgError for caches of other shapes.
    """
    batch, tokens, _, _ = query.shape
    steps = constant(np.arange(tokens, dtype=np.int64).reshape(1, tokens))
    windowed, window = call.attr_bool("sliding_window_cache"), call.attr_int("local_window_size", -1)
    if not windowed and all(cache is None or not cache.type.elements for cache in caches):
        return _TokenPlaces(steps, None)
    if windowed and window < 1:
        raise call.fail(f"sliding_window_cache with a local_window_size of {window}; at least 1 is needed")
    least = window if windowed else tokens
    for cache in caches:
        room = cache.shape[2] if cache is not None and cache.rank == 4 else 0
        if cache is None or cache.shape != (batch, key_heads, room, row) or room < least:
            need = f"[{batch}, {key_heads}, at least {least}, {row}]"
            raise call.fail(f"a cache {cache and cache.type} where {need} is needed")
    last, valid = call.input(5), call.maybe(16)
    if last.type.elements != batch or (valid is not None and valid.type.elements != batch):
        raise call.fail(f"seqlens_k {last.type} for {batch} sequences")
    total = call.add("add", _column(call, last), call.scalar(1, constant(np.int64(0))))
    if valid is not None:
        begin = call.add("sub", total, _column(call, valid))
    else:  # of a first prompt fewer tokens than these may count
        begin = call.add("max", call.add("sub", total, constant(np.int64(tokens))), constant(np.int64(0)))
    keys = call.add("add", begin, constant(np.int64(tokens)))
    places = call.add("add", begin, steps)
    if windowed:
        rows = rows_of_window(call, begin, total, tokens, (room, window))
        return _TokenPlaces(places, rows.keys, rows)
    return _TokenPlaces(places, call.reshape(keys, (batch,)))


def _column(call: OnnxCall, lengths: Value) -> Value:
    return call.reshape(call.cast(lengths, "i64"), (lengths.type.elements, 1))


def _rotate_heads(call: OnnxCall, query: Value, key: Value, places: Value) -> tuple[Value, Value]:
    """Return query and key rotated by the angles of their tokens' places, or of the input position_ids."""
    cos, sin, ids = call.input(7, rank=2), call.input(8, rank=2), call.maybe(9)
    batch, tokens, _, size = query.shape
    if cos.shape != sin.shape or not 0 < 2 * cos.shape[1] <= size:
        raise call.fail(f"caches {cos.type} and {sin.type} for heads of {size}")
    if ids is not None and ids.shape != (batch, tokens):
        raise call.fail(f"position_ids {ids.type} where [{batch}, {tokens}] is needed")
    angles = []
    for cache in (cos, sin):
        rows = indices.gather_along(call, cache, places if ids is None else ids, 0)
        angles.append(call.reshape(rows, (rows.shape[0], tokens, 1, rows.shape[2])))
    interleaved, heads = call.attr_bool("rotary_interleaved"), query.shape[2]
    cos, sin = angles
    packed = call.maybe(1) is None and call.maybe(14) is None
    if not packed:
        return rotate(call, query, cos, sin, interleaved), rotate(call, key, cos, sin, interleaved)
    # Both lie side by side and have the same angles: half as many operators.
    count = heads + key.shape[2]
    whole = call.reshape(call.input(0), (batch, tokens, count + key.shape[2], size))
    both = rotate(call, cut(call, whole, {2: (0, count, 1)}), cos, sin, interleaved)
    return cut(call, both, {2: (0, heads, 1)}), cut(call, both, {2: (heads, count, 1)})


def _write_cache(call: OnnxCall, cache: Value | None, x: Value, times: _TokenPlaces) -> tuple[Value, Value]:
    """Return a cache with the keys or values of the run, x [batch, tokens, heads, size], as attention reads it, and as
    the next run does."""
    if cache is None or times.keys is None:
        new = call.transpose(x, (0, 2, 1, 3))
        return new, new
    if times.window is not None:
        return append_rows(call, cache, x, times.window)
    places = call.reshape(times.places, (*times.places.shape, 1))
    written = indices.write_rows(call, cache, places, x, CACHE_AXES)
    return written, written


def _bias(call: OnnxCall, key: Value, times: _TokenPlaces) -> Value | None:
    """Return what is added to the scores of the keys that are read. The file's is for the first keys of a sequence."""
    bias = call.maybe(10)
    if bias is None:
        return None
    if bias.rank != 4:
        raise call.fail(f"attention_bias {bias.type} where 4 dimensions are needed")
    length, keys = bias.shape[3], key.shape[2]
    if times.window is not None:
        steps = constant(np.arange(keys, dtype=np.int64).reshape(1, keys))
        columns = call.add("min", call.add("add", times.window.first, steps), constant(np.int64(length - 1)))
        shape = (max(bias.shape[0], columns.shape[0]), *bias.shape[1:3], keys)
        columns = call.add("broadcast_to", call.reshape(columns, (columns.shape[0], 1, 1, keys)), shape=shape)
        wide = call.add("broadcast_to", bias, shape=(shape[0], *bias.shape[1:]))
        return indices.gather_elements(call, wide, columns, 3)
    if length > keys:
        return cut(call, bias, {3: (0, keys, 1)})
    if length < keys:
        unseen = np.full((*bias.shape[:3], keys - length), _UNSEEN)
        return call.add("concat", bias, constant(unseen, bias.dtype), axis=3)
    return bias


HANDLERS: Mapping[str, Handler] = {"GroupQueryAttention": group_query_attention}
