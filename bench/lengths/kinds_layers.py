"""Layers of random graphs with a symbolic dimension: convolutions, windows, attention, recurrences, 8-bit products."""

from typing import Any

import numpy as np

from bench.differential.part import MICROSOFT
from bench.lengths.growing import SYMBOL, LengthPart, fixed_end


def convolution(part: LengthPart) -> None:
    """A convolution of images, whose batch is the symbolic dimension."""
    x = part.tensor(lambda shape: len(shape) == 4 and SYMBOL not in shape[1:])
    n, channels, *size = part.shapes[x]
    out, kernel = part.pick(4, 8), part.pick(1, 3)
    pad = kernel // 2
    group = int(channels) if part.rng.random() < 0.3 else 1
    out = int(channels) if group > 1 else out
    weights = part.constant(part.rng.uniform(-0.4, 0.4, (out, int(channels) // group, kernel, kernel)), np.float32)
    made = part.add("Conv", x, weights, part.weights(out), pads=[pad] * 4, group=group)
    part.made(made, (n, out, *size))


def window(part: LengthPart) -> None:
    """A convolution of one dimension over the symbolic one."""
    x = part.tensor(lambda shape: len(shape) == 3 and shape[0] == 1 and shape[1] == SYMBOL and fixed_end(shape))
    width = int(part.shapes[x][-1])
    turned = part.add("Transpose", x, perm=[0, 2, 1])
    made = part.add("Conv", turned, part.constant(part.rng.uniform(-0.3, 0.3, (4, width, 3)), np.float32), pads=[1, 1])
    part.made(part.add("Transpose", made, perm=[0, 2, 1]), (1, SYMBOL, 4))


def plane(part: LengthPart) -> None:
    """A convolution or a pool over the height and width of images, or over time in a batch, each the symbolic one."""
    x = part.tensor(lambda s: len(s) in (3, 4) and SYMBOL in s[2:] and s[1] != SYMBOL, most_symbols=3)
    n, channels, *size = part.shapes[x]
    kernel = [part.pick(1, 3, 5) for _ in size]
    window: dict[str, Any] = {"kernel_shape": kernel, "pads": [k // 2 for k in kernel] * 2}
    if part.rng.random() < 0.3:
        part.made(part.add(part.pick("MaxPool", "AveragePool"), x, **window), (n, channels, *size))
        return
    group = int(channels) if part.rng.random() < 0.4 else 1
    out = int(channels) if group > 1 else part.pick(4, 8)
    weights = part.constant(part.rng.uniform(-0.3, 0.3, (out, int(channels) // group, *kernel)), np.float32)
    part.made(part.add("Conv", x, weights, part.weights(out), group=group, **window), (n, out, *size))


def pooled(part: LengthPart) -> None:
    x = part.tensor(lambda shape: len(shape) == 4 and SYMBOL not in shape[1:] and min(map(int, shape[2:])) >= 2)
    n, channels, height, width = part.shapes[x]
    if part.rng.random() < 0.3:
        part.made(part.add(part.pick("GlobalAveragePool", "GlobalMaxPool"), x), (n, channels, 1, 1))
        return
    made = part.add(part.pick("MaxPool", "AveragePool"), x, kernel_shape=[2, 2], strides=[2, 2])
    part.made(made, (n, channels, int(height) // 2, int(width) // 2))


def attention(part: LengthPart) -> None:
    """Attention between all tokens, as exporters write it."""
    x = part.tensor(lambda s: len(s) == 3 and s[0] in (1, SYMBOL) and SYMBOL in s[:2] and s[2] in (4, 8, 16))
    shape = part.shapes[x]
    heads = part.pick(1, 2)
    by_head = part.add("Reshape", x, part.whole(0, 0, heads, -1))
    straight, turned = (part.add("Transpose", by_head, perm=perm) for perm in ([0, 2, 1, 3], [0, 2, 3, 1]))
    scores = part.add("Mul", part.add("MatMul", straight, turned), part.constant(0.3, np.float32))
    made = part.add("MatMul", part.add("Softmax", scores, axis=-1), straight)
    made = part.add("Reshape", part.add("Transpose", made, perm=[0, 2, 1, 3]), part.whole(0, 0, -1))
    part.made(made, shape)


def attention_node(part: LengthPart) -> None:
    """The operator of opset 23, causal or not."""
    x = part.tensor(lambda s: len(s) == 3 and s[0] in (1, SYMBOL) and SYMBOL in s[:2] and s[2] in (4, 8, 16))
    heads = part.pick(1, 2)
    made = part.add("Attention", x, x, x, q_num_heads=heads, kv_num_heads=heads, is_causal=part.pick(0, 1))
    part.made(made, part.shapes[x])


def multi_head(part: LengthPart) -> None:
    x = part.tensor(lambda s: len(s) == 3 and s[0] in (1, SYMBOL) and SYMBOL in s[:2] and s[2] in (4, 8, 16))
    made = part.add("MultiHeadAttention", x, x, x, domain=MICROSOFT, num_heads=part.pick(1, 2))
    part.made(made, part.shapes[x])


def dynamic_product(part: LengthPart) -> None:
    """A product of 8 bits whose scale is found in the run."""
    x = part.tensor(lambda shape: len(shape) in (2, 3) and fixed_end(shape) and SYMBOL in shape)
    shape = part.shapes[x]
    q, scale, zero = part.add("DynamicQuantizeLinear", x, outputs=3)
    weights = part.constant(part.rng.integers(-100, 100, (int(shape[-1]), 8)), np.int8)
    whole = part.add("MatMulInteger", q, weights, zero, part.constant(0, np.int8))
    made = part.add("Mul", part.add("Cast", whole, to=1), part.add("Mul", scale, part.constant(0.01, np.float32)))
    part.made(made, (*shape[:-1], 8))


def quantised_product(part: LengthPart) -> None:
    """A static 8-bit product, as quantisers write it: DequantizeLinear in front, QuantizeLinear behind."""
    x = part.tensor(lambda shape: len(shape) in (2, 3) and fixed_end(shape))
    shape = part.shapes[x]
    scale, zero = part.constant(0.03, np.float32), part.constant(0, np.int8)

    def rounded(name: str) -> str:
        return str(part.add("DequantizeLinear", part.add("QuantizeLinear", name, scale, zero), scale, zero))

    weights = part.constant(part.rng.integers(-100, 100, (int(shape[-1]), 8)), np.int8)
    real = part.add("DequantizeLinear", weights, part.constant(0.005, np.float32), zero)
    part.made(rounded(part.add("MatMul", rounded(x), real)), (*shape[:-1], 8))


def recurrent(part: LengthPart) -> None:
    """A GRU over a known number of steps, whose batch is the symbolic dimension."""
    x = part.tensor(lambda s: len(s) == 3 and s[1] == SYMBOL and s[0] != SYMBOL and fixed_end(s) and int(s[0]) <= 4)
    steps, n, width = part.shapes[x]
    given = [part.weights(1, 3 * 4, int(width)), part.weights(1, 3 * 4, 4)]
    y, _ = part.add("GRU", x, *given, outputs=2, hidden_size=4)
    part.made(part.add("Squeeze", y, part.whole(1)), (steps, n, 4))
