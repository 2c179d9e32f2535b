"""Operators of a chain on sequences: LSTM, GRU, RNN, and those of com.microsoft for transformers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.chains.growing import Growing, Kind, UnsuitableError
from bench.differential.part import MICROSOFT

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(p: Growing) -> None:
    op = p.pick(*GATES)
    x = p.real(3)
    steps, batch, inner = p.shape_of(x)
    if steps > 12 or p.dtype == np.float64:
        raise UnsuitableError("long")
    hidden, direction = p.pick(2, 3, 8), p.pick("forward", "reverse", "bidirectional")
    directions = 2 if direction == "bidirectional" else 1
    gates = GATES[op]
    scale = 1 / np.sqrt(inner)

    def weights(*shape: int) -> str:
        return p.constant(p.rng.uniform(-scale, scale, shape), p.dtype)

    given = [x, weights(directions, gates * hidden, inner), weights(directions, gates * hidden, hidden)]
    more: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if p.pick(0, 1):
        given.append(weights(directions, 2 * gates * hidden))
        if p.pick(0, 1):
            first = p.tensor(lambda v: v.dtype == p.dtype and v.shape == (directions, batch, hidden))
            given += ["", first or p.fresh(directions, batch, hidden)]
    if op == "GRU":
        more["linear_before_reset"] = p.pick(0, 1)
    y, last = p.add(op, *given, outputs=2, **more)
    if p.pick(0, 1):  # as networks go on: the directions beside each other
        turned = p.add("Transpose", y, perm=[0, 2, 1, 3])
        p.add("Reshape", turned, p.constant([0, 0, -1], np.int64))


def attention(p: Growing) -> None:
    x = p.real(3)
    batch, length, width = p.shape_of(x)
    heads = p.pick(*(n for n in (1, 2, 3, 4) if width % n == 0))
    if p.pick(0, 1):
        w = p.constant(p.rng.uniform(-1, 1, (width, 3 * width)) / np.sqrt(width), p.dtype)
        p.add("Attention", x, w, p.weights(3 * width), domain=MICROSOFT, num_heads=heads)
        return
    key = p.tensor(lambda v: v.dtype == p.dtype and v.ndim == 3 and v.shape[::2] == (batch, width)) or x
    p.add("MultiHeadAttention", x, key, key, domain=MICROSOFT, num_heads=heads)


def skip_normalization(p: Growing) -> None:
    x = p.real(3)
    width = p.shape_of(x)[-1]
    skip = p.tensor(lambda v: v.dtype == p.dtype and v.shape == p.shape_of(x)) or x
    if p.pick(0, 1):
        p.add("SkipLayerNormalization", x, skip, p.weights(width), p.weights(width), domain=MICROSOFT, epsilon=1e-3)
    else:
        p.add("SkipSimplifiedLayerNormalization", x, skip, p.weights(width), domain=MICROSOFT, epsilon=1e-3)


def activation(p: Growing) -> None:
    op = p.pick("BiasGelu", "FastGelu", "Gelu", "QuickGelu")
    x = p.real()
    bias = [p.weights(p.shape_of(x)[-1])] if op == "BiasGelu" else []
    p.add(op, x, *bias, domain=MICROSOFT, **({"alpha": p.pick(1.702, 1.0)} if op == "QuickGelu" else {}))


def fused_matmul(p: Growing) -> None:
    x = p.real(p.pick(2, 3))
    shape = p.shape_of(x)
    turned = p.pick(0, 1)
    inner = shape[-2] if turned else shape[-1]
    w = p.constant(p.rng.uniform(-1, 1, (inner, 5)) / np.sqrt(inner), p.dtype)
    p.add("FusedMatMul", x, w, domain=MICROSOFT, transA=turned, alpha=p.pick(1.0, 0.3))


def fused_conv(p: Growing) -> None:
    x = p.real(4)
    act = p.pick("Relu", "Sigmoid", "Tanh", "LeakyRelu")
    params: dict[str, Any] = {"activation_params": [0.1]} if act == "LeakyRelu" else {}
    w = p.constant(p.rng.uniform(-0.5, 0.5, (3, p.shape_of(x)[1], 3, 3)), p.dtype)
    p.add("FusedConv", x, w, p.weights(3), domain=MICROSOFT, pads=[1, 1, 1, 1], activation=act, **params)


KINDS: Mapping[str, tuple[int, Kind]] = {
    "LSTM, GRU, RNN": (9, recurrent),
    "Attention": (11, attention),
    "SkipLayerNormalization": (11, skip_normalization),
    "Gelu": (11, activation),
    "FusedMatMul": (11, fused_matmul),
    "FusedConv": (11, fused_conv),
}
