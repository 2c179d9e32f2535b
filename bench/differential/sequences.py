"""Definitions in NumPy, in the type of their arguments, of operators on sequences: LSTM, GRU, RNN, attention.

ONNX's reference implementation lacks directions of the recurrent ones, and has none of com.microsoft.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bench.differential.part import Array


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e / (1 + e), 1 / (1 + e))


def _lstm_step(x: Array, r: Array, bias: Array, h: Array, c: Array, _: int) -> tuple[Array, Array]:
    """x: W x of this step. r: [4 * hidden, hidden]. bias: of W and of R. Gates: input, output, forget, cell."""
    i, o, f, g = np.split(x + h @ r.T + bias[0] + bias[1], 4, -1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(c), c


def _gru_step(x: Array, r: Array, bias: Array, h: Array, c: Array, reset_after: int) -> tuple[Array, Array]:
    """Gates: update, reset, hidden."""
    hidden = h.shape[-1]
    xz, xr, xh = np.split(x + bias[0], 3, -1)
    z = _sigmoid(xz + h @ r[:hidden].T + bias[1][:hidden])
    s = _sigmoid(xr + h @ r[hidden : 2 * hidden].T + bias[1][hidden : 2 * hidden])
    last = bias[1][2 * hidden :]
    inner = s * (h @ r[2 * hidden :].T + last) if reset_after else (s * h) @ r[2 * hidden :].T + last
    return (1 - z) * np.tanh(xh + inner) + z * h, c


def _rnn_step(x: Array, r: Array, bias: Array, h: Array, c: Array, _: int) -> tuple[Array, Array]:
    return np.tanh(x + h @ r.T + bias[0] + bias[1]), c


def _recurrent(step: Callable[..., tuple[Array, Array]]) -> Callable[..., tuple[Array, ...]]:
    def define(
        x: Array,
        w: Array,
        r: Array,
        b: Array | None = None,
        lengths: Array | None = None,
        initial_h: Array | None = None,
        **attributes: Any,
    ) -> tuple[Array, ...]:
        """Return Y [steps, directions, batch, hidden] and Y_h [directions, batch, hidden]."""
        directions, hidden = r.shape[0], r.shape[-1]
        steps, batch = x.shape[:2]
        y = np.zeros((steps, directions, batch, hidden), x.dtype)
        last = np.zeros((directions, batch, hidden), x.dtype)
        for d in range(directions):
            backwards = d == 1 or attributes.get("direction") in (b"reverse", "reverse")
            bias = b[d].reshape(2, -1) if b is not None and b.size else np.zeros((2, w.shape[1]), x.dtype)
            h = initial_h[d] if initial_h is not None and initial_h.size else np.zeros((batch, hidden), x.dtype)
            c = np.zeros((batch, hidden), x.dtype)
            for t in reversed(range(steps)) if backwards else range(steps):
                h, c = step(x[t] @ w[d].T, r[d], bias, h, c, attributes.get("linear_before_reset", 0))
                y[t, d] = h
            last[d] = h
        return y, last

    return define


def _heads(x: Array, heads: int) -> Array:
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).swapaxes(1, 2)


def _attend(q: Array, k: Array, v: Array, heads: int) -> Array:
    q, k, v = (_heads(x, heads) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(-1, keepdims=True))
    y = (e / e.sum(-1, keepdims=True)) @ v
    return np.asarray(y.swapaxes(1, 2).reshape(y.shape[0], y.shape[2], -1))


def _attention(x: Array, w: Array, b: Array, num_heads: int) -> Array:
    q, k, v = np.split(x @ w + b, 3, -1)
    return _attend(q, k, v, num_heads)


def _normalised(x: Array, gamma: Array, beta: Array | float, epsilon: float) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * gamma + beta)


def _root_normalised(x: Array, gamma: Array, epsilon: float) -> Array:
    return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * gamma)


def _multi_head(q: Array, k: Array, v: Array, num_heads: int) -> Array:
    return _attend(q, k, v, num_heads)


Definition = Callable[..., Array | Sequence[Array]]
DEFINITIONS: Mapping[str, Definition] = {
    "LSTM": _recurrent(_lstm_step),
    "GRU": _recurrent(_gru_step),
    "RNN": _recurrent(_rnn_step),
    "Attention": _attention,
    "MultiHeadAttention": _multi_head,
    "SkipLayerNormalization": lambda x, skip, gamma, beta, epsilon: _normalised(x + skip, gamma, beta, epsilon),
    "SkipSimplifiedLayerNormalization": lambda x, skip, gamma, epsilon: _root_normalised(x + skip, gamma, epsilon),
}
