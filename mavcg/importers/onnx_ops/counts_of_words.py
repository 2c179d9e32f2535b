"""Handler of TfIdfVectorizer of numbers: how often each n-gram of a list occurs."""

from collections.abc import Iterator, Mapping

import numpy as np

from mavcg.graph import Array
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.value import Value, constant

MOST_COMPARED = 1 << 24  # numbers that are compared with each other, at one distance


def tf_idf(call: OnnxCall) -> Results:
    """Import TfIdfVectorizer: TF, IDF or TFIDF of n-grams, whose numbers may be apart by up to a distance."""
    x = call.input(0, rank_min=1)
    if x.rank > 2 or x.dtype not in ("i32", "i64"):
        raise call.fail(f"{x.type}; one or two dimensions of i32 or i64 are needed")
    mode = call.attr_str("mode")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise call.fail(f"mode {mode!r}; there are TF, IDF and TFIDF")
    if "pool_strings" in call.attrs:
        raise call.unsupported("n-grams of strings", "of numbers")
    places = np.array(call.attr_ints("ngram_indexes"), np.int64)
    grams = list(_grams(call, len(places)))
    if len(places) < 1 or places.min() < 0 or places.max() >= 1 << 20:
        raise call.fail(f"ngram_indexes from {places.min() if len(places) else 0}; each is 0 to {(1 << 20) - 1}")
    weights = np.array(call.attr_floats("weights", np.ones(len(places)).tolist()), np.float32)
    if weights.shape != places.shape:
        raise call.fail(f"{weights.size} weights of {len(places)} n-grams")
    lines = call.reshape(x, (1 if x.rank == 1 else x.shape[0], x.shape[-1]))
    total: Value | None = None
    for first, numbers in grams:
        found = _occurrences(call, lines, numbers)
        if mode != "TF":
            some = call.cast(call.add("less", call.scalar(0, found), found), "f32")
            share = constant(weights[first : first + len(numbers)])
            found = call.add("mul", some if mode == "IDF" else found, share)
        chosen = np.zeros((len(numbers), places.max() + 1), np.float32)
        chosen[np.arange(len(numbers)), places[first : first + len(numbers)]] = 1
        made = call.add("matmul", found, constant(chosen))
        total = made if total is None else call.add("add", total, made)
    if total is None:
        total = constant(np.zeros((lines.shape[0], places.max() + 1), np.float32))
    return call.reshape(total, (*x.shape[:-1], int(places.max()) + 1))


def _grams(call: OnnxCall, count: int) -> Iterator[tuple[int, Array]]:
    """Yield, for each length of n-grams that counts, the number of the first one and all of them, [n-grams, length]."""
    pool, starts = np.array(call.attr_ints("pool_int64s"), np.int64), call.attr_ints("ngram_counts")
    least, most = call.attr_int("min_gram_length"), call.attr_int("max_gram_length")
    ends = (*starts[1:], len(pool))
    if not 1 <= least <= most or any(not 0 <= a <= b <= len(pool) for a, b in zip(starts, ends, strict=True)):
        raise call.fail(f"n-grams of {least} to {most}, which begin at {list(starts)} of {len(pool)} numbers")
    number = 0
    for length, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        own = (end - start) // length
        if (end - start) % length or number + own > count:
            raise call.fail(f"{end - start} numbers of n-grams of {length}, {count} n-grams in all")
        if least <= length <= most and own:
            yield number, pool[start:end].reshape(own, length)
        number += own


def _occurrences(call: OnnxCall, lines: Value, grams: Array) -> Value:
    """Return how often each n-gram occurs in each line, f32 [lines, n-grams]."""
    count, (number, length) = lines.shape[1], grams.shape
    total: Value = constant(np.zeros((lines.shape[0], number), np.float32))
    for distance in range(1, 2 + (call.attr_int("max_skip_count") if length > 1 else 0)):
        room = count - (length - 1) * distance
        if room < 1:
            break
        if lines.shape[0] * room * number > MOST_COMPARED:
            raise call.unsupported(f"{number} n-grams in {lines.type}", f"at most {MOST_COMPARED} comparisons")
        same: Value | None = None
        for i in range(length):
            stops = (lines.shape[0], i * distance + room)
            part = call.add("slice", lines, starts=(0, i * distance), stops=stops, steps=(1, 1))
            column = call.reshape(part, (lines.shape[0], room, 1))
            equal = call.add("equal", column, constant(grams[:, i], lines.dtype))
            same = equal if same is None else call.add("and", same, equal)
        assert same is not None
        found = call.add("reduce_sum", call.cast(same, "f32"), axes=(1,), keepdims=False)
        total = call.add("add", total, found)
    return total


HANDLERS: Mapping[str, Handler] = {"TfIdfVectorizer": tf_idf}
