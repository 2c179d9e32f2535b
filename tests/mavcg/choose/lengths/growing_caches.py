"""A decoder whose caches are inputs that grow by the tokens of each run, as exporters write GPT-2."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.mavcg.choose.lengths.bert_models import LEAST_F32, Encoder
from tests.mavcg.choose.lengths.bounded_models import save_model

HEADS, SIZE = 2, 8
WIDTH = HEADS * SIZE
CACHE = (1, HEADS, "past", SIZE)


def decoder(path: Path, layers: int = 1, joined: bool = False) -> Path:
    """A GPT-2 as exporters write it: keys and values are appended to those of the past, and all of them are results.

    joined: causal and padding masks are one tensor before attention, and places of tokens follow from the lengths.
    """
    net = Encoder(heads=HEADS, size=SIZE)
    value = onnx.helper.make_tensor_value_info
    more = [value("keys_seen", 7, [1, "past + tokens"])]
    past, tokens, keys = (
        net.add("Gather", net.add("Shape", name), np.array(axis), axis=0)
        for name, axis in (("past.0.key", 2), ("x", 1), ("keys_seen", 1))
    )
    places = net.add("Gather", net.normal(96, WIDTH), "position_ids")
    if joined:
        numbers = net.add("Cast", net.add("Range", past, net.add("Add", past, tokens), np.array(1)), to=1)
        places = net.add("Add", places, net.add("Unsqueeze", numbers, np.array([0, 2])))
    x = net.add("Add", net.linear("x", WIDTH, WIDTH), places)
    more += [value("x", 1, [1, "tokens", WIDTH]), value("position_ids", 7, [1, "tokens"])]
    seen = net.add("Unsqueeze", net.add("Unsqueeze", "keys_seen", np.array([1])), np.array([2]))
    mask = net.add("Mul", net.add("Sub", 1.0, net.add("Cast", seen, to=1)), LEAST_F32)
    if joined:
        rows = net.add("Unsqueeze", net.add("Range", past, net.add("Add", past, tokens), np.array(1)), np.array([1]))
        columns = net.add("Range", np.array(0), keys, np.array(1))
        causal = net.add("Unsqueeze", net.add("LessOrEqual", columns, rows), np.array([0, 1]))
        both = net.add("And", causal, net.add("Cast", seen, to=9))
        mask = net.add("Where", both, 0.0, LEAST_F32)
    presents = list[str]()
    for layer in range(layers):
        query, key, val = (net.in_heads(net.linear(x, WIDTH, WIDTH), (0, 2, 1, 3)) for _ in range(3))
        for name, new in (("key", key), ("value", val)):
            more.append(value(f"past.{layer}.{name}", 1, list(CACHE)))
            presents.append(net.add("Concat", f"past.{layer}.{name}", new, axis=2))
        keys, values = presents[-2:]
        scores = net.add("MatMul", query, net.add("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = net.add("Div", scores, float(SIZE**0.5))
        if not joined:
            of_query, of_keys = (
                net.add("Unsqueeze", net.add("Gather", net.add("Shape", t), np.array(2), axis=0), np.array([0]))
                for t in (query, keys)
            )
            bias = np.tri(96, dtype=bool)[None, None]
            rows = net.add("Slice", bias, net.add("Sub", of_keys, of_query), of_keys, np.array([2]))
            causal = net.add("Slice", rows, np.array([0]), of_keys, np.array([3]))
            scores = net.add("Where", causal, scores, LEAST_F32)
        scores = net.add("Add", scores, mask)
        made = net.add("MatMul", net.add("Softmax", scores, axis=-1), values)
        made = net.add("Reshape", net.add("Transpose", made, perm=(0, 2, 1, 3)), np.array([0, 0, WIDTH]))
        x = net.norm(net.add("Add", x, net.linear(made, WIDTH, WIDTH)))
    outputs = [value(name, 1, None) for name in (net.linear(x, WIDTH, 11), *presents)]
    save_model(path, net.nodes, more, outputs, net.arrays)
    return path


def steps_of(past: int, tokens: int, layers: int = 1) -> dict[str, Any]:
    """The inputs of a step of a decoder."""
    rng = np.random.default_rng([past, tokens])
    seen = np.ones((1, past + tokens), np.int64)
    seen[0, : past // 4] = 0
    inputs = {"keys_seen": seen, "x": rng.standard_normal((1, tokens, WIDTH)).astype(np.float32)}
    inputs["position_ids"] = np.arange(past, past + tokens)[None]
    for layer in range(layers):
        for name in ("key", "value"):
            shape = (1, HEADS, past, SIZE)
            inputs[f"past.{layer}.{name}"] = rng.standard_normal(shape).astype(np.float32)
    return inputs
