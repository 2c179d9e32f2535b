"""Definition of attention."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mavcg.graph import Array, Node
from mavcg.graph.reference.block_weights import unpack_bits


def stored_numbers(bytes: Array, stored: str) -> Array:
    """Return the numbers of keys or values of a cache, f64: uint4, two in a byte, less 8, or float8e4m3fn."""
    if stored == "uint4":
        return unpack_bits(bytes, 4, 2 * bytes.shape[-1]).astype(np.float64) - 8
    return np.asarray(bytes.view(ml_dtypes.float8_e4m3fn), np.float64)


def _attention(node: Node, inputs: Sequence[Any]) -> Array:
    """Return softmax(scale * query key^T + mask) value, of the first `count` keys, as [batch, tokens, heads, width].

    sink: scores of a key of each head that has no value. zero_unseen: a query that sees no key gives 0, else NaN.
    """
    query, key, value, mask, count, sink = inputs
    if node.attr("stored"):
        key, value = (stored_numbers(part, node.attr("stored")) for part in (key, value))
    if node.attr("heads_first"):
        key, value = key.swapaxes(1, 2), value.swapaxes(1, 2)
    batch, tokens, heads, _ = query.shape
    keys, shared = key.shape[1], heads // key.shape[2]
    scores = np.einsum("bthd,bkhd->bhtk", query, np.repeat(key, shared, axis=2)) * node.attr("scale")
    cap, window = node.attr("softcap"), node.attr("window")
    scores = cap * np.tanh(scores / cap) if cap else scores
    scores = scores if mask is None else scores + mask
    counts = np.full(batch, keys) if count is None else np.broadcast_to(np.clip(count, 0, keys), batch)
    ends = counts[:, None] + (np.arange(tokens) + 1 - tokens if node.attr("causal") else np.zeros(tokens, np.int64))
    unseen = np.arange(keys) >= ends[:, None, :, None]
    if window:
        unseen |= np.arange(keys) < ends[:, None, :, None] - window
    scores = np.where(unseen, -np.inf, scores)
    largest = scores.max(axis=3, keepdims=True)
    sinks = None if sink is None else sink.reshape(1, heads, 1, 1)
    largest = largest if sinks is None else np.maximum(largest, sinks)
    zero_unseen = node.attr("zero_unseen")
    largest = np.where(np.isneginf(largest), 0.0, largest) if zero_unseen else largest
    powers = np.where(unseen, 0.0, np.exp(scores - largest))
    total = powers.sum(axis=3, keepdims=True) + (0.0 if sinks is None else np.exp(sinks - largest))
    weights = powers / (np.where(total == 0, 1.0, total) if zero_unseen else total)
    read = np.arange(keys)[None, :, None, None] < counts[:, None, None, None]
    return np.asarray(np.einsum("bhtk,bkhw->bthw", weights, np.repeat(np.where(read, value, 0), shared, axis=2)))


DEFINITIONS: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = {"attention": _attention}
