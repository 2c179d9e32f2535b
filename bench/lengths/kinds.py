"""The operators of random graphs with a symbolic dimension: each function adds one, or some that belong together."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.differential.part import MICROSOFT
from bench.lengths.growing import SYMBOL, LengthPart, Shape, UnsuitableError

Kind = Callable[[LengthPart], Any]
UNARY = ("Relu", "Sigmoid", "Tanh", "Erf", "Neg", "Abs", "LeakyRelu", "Softsign", "HardSigmoid", "Elu", "Floor", "Sin")


def ranked(*ranks: int) -> Callable[[Shape], bool]:
    return lambda shape: len(shape) in ranks


def fixed_end(shape: Shape) -> bool:
    """True if the last length is known."""
    return bool(shape) and shape[-1] != SYMBOL


def inner(shape: Shape) -> list[int]:
    """Return the axes of a known length above 1."""
    return [i for i, d in enumerate(shape) if d != SYMBOL and int(d) > 1]


def changed(shape: Shape, axis: int, length: int) -> Shape:
    return (*shape[:axis], length, *shape[axis + 1 :])


def an_inner_axis(part: LengthPart, x: str) -> int:
    axes = inner(part.shapes[x])
    if not axes:
        raise UnsuitableError
    return int(part.pick(*axes))


def unary(part: LengthPart) -> None:
    part.unary(part.pick(*UNARY), part.tensor())


def with_constant(part: LengthPart) -> None:
    """x + c, where c is a scalar, a bias, or has a length of another inner axis."""
    x = part.tensor()
    shape = part.shapes[x]
    lengths = [
        1 if d == SYMBOL or part.rng.random() < 0.5 else int(d) for d in shape[int(part.rng.integers(len(shape) + 1)) :]
    ]
    c = part.weights(*lengths)
    op = part.pick("Add", "Mul", "Sub", "Max", "Min")
    pair = (x, c) if part.rng.random() < 0.7 else (c, x)
    part.made(part.add(op, *pair), shape)


def with_tensor(part: LengthPart) -> None:
    """Two tensors of one shape; a product is bounded."""
    x = part.tensor()
    shape = part.shapes[x]
    y = part.tensor(lambda other: other == shape)
    op = part.pick("Add", "Sub", "Mul", "Max")
    result = part.made(part.add(op, x, y), shape)
    if op == "Mul":
        part.unary("Tanh", result)


def with_broadcast(part: LengthPart) -> None:
    """A tensor and one whose shape is broadcast to it."""
    x = part.tensor(lambda shape: len(shape) > 1)
    shape = part.shapes[x]

    def fits(other: Shape) -> bool:
        tail = shape[len(shape) - len(other) :]
        return (
            len(other) <= len(shape) and other != shape and all(a in (b, 1) for a, b in zip(other, tail, strict=True))
        )

    part.made(part.add(part.pick("Add", "Sub", "Max"), x, part.tensor(fits)), shape)


def select(part: LengthPart) -> None:
    """Numbers chosen by a comparison with a constant."""
    x = part.tensor()
    above = part.add(part.pick("Greater", "Less"), x, part.constant(part.rng.uniform(-1, 1), np.float32))
    part.made(part.add("Where", above, x, part.constant(part.rng.uniform(-1, 1), np.float32)), part.shapes[x])


def clip(part: LengthPart) -> None:
    x = part.tensor()
    low, high = (part.constant(value, np.float32) for value in (-0.5, 1.5))
    part.made(part.add("Clip", x, low, high), part.shapes[x])


def product(part: LengthPart) -> None:
    x = part.tensor(lambda shape: fixed_end(shape) and len(shape) > 1)
    shape, width = part.shapes[x], part.pick(1, 3, 4, 8, 16, 17)
    result = part.add("MatMul", x, part.weights(int(shape[-1]), width))
    if part.rng.random() < 0.6:
        result = part.add("Add", result, part.weights(width))
    part.made(result, (*shape[:-1], width))


def gemm(part: LengthPart) -> None:
    x = part.tensor(lambda shape: len(shape) == 2 and fixed_end(shape))
    shape, width = part.shapes[x], part.pick(4, 5, 16)
    made = part.add("Gemm", x, part.weights(int(shape[-1]), width), part.weights(width), alpha=0.5)
    part.made(made, (shape[0], width))


def normalised(part: LengthPart) -> None:
    x = part.tensor(lambda shape: len(shape) > 1 and fixed_end(shape) and int(shape[-1]) > 1)
    width = int(part.shapes[x][-1])
    part.made(part.add("LayerNormalization", x, part.weights(width), part.weights(width), axis=-1), part.shapes[x])


def rms(part: LengthPart) -> None:
    x = part.tensor(lambda shape: len(shape) > 1 and fixed_end(shape) and int(shape[-1]) > 1)
    width = int(part.shapes[x][-1])
    part.made(part.add("RMSNormalization", x, part.weights(width), axis=-1), part.shapes[x])


def softmax(part: LengthPart) -> None:
    x = part.tensor()
    axis = an_inner_axis(part, x) if part.rng.random() < 0.9 else int(part.rng.integers(len(part.shapes[x])))
    part.made(part.add(part.pick("Softmax", "LogSoftmax"), x, axis=axis), part.shapes[x])


def reduction(part: LengthPart) -> None:
    """Along an inner axis, the symbolic one, or several."""
    x = part.tensor()
    shape = part.shapes[x]
    axes = sorted({int(part.rng.integers(len(shape))) for _ in range(part.pick(1, 1, 2))})
    keep = bool(part.rng.random() < 0.6)
    op = part.pick(
        "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"
    )
    if part.opset >= 18 or op == "ReduceSum":
        made = part.add(op, x, part.whole(*axes), keepdims=int(keep))
    else:
        made = part.add(op, x, axes=axes, keepdims=int(keep))
    lengths = tuple(1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes)
    part.made(made, lengths)


def centred(part: LengthPart) -> None:
    """x - its mean along some axis."""
    x = part.tensor()
    axis = int(part.rng.integers(len(part.shapes[x])))
    given = (x, part.whole(axis)) if part.opset >= 18 else (x,)
    attributes: dict[str, Any] = {} if part.opset >= 18 else {"axes": [axis]}
    part.made(part.add("Sub", x, part.add("ReduceMean", *given, keepdims=1, **attributes)), part.shapes[x])


def concatenated(part: LengthPart) -> None:
    """Beside itself or another tensor, along an inner axis."""
    x = part.tensor()
    axis, shape = an_inner_axis(part, x), part.shapes[x]
    y = part.tensor(lambda other: len(other) == len(shape) and changed(other, axis, int(shape[axis])) == shape)
    total = int(shape[axis]) + int(part.shapes[y][axis])
    part.made(part.add("Concat", x, y, axis=axis), changed(shape, axis, total))


def sliced(part: LengthPart) -> None:
    x = part.tensor()
    axis, shape = an_inner_axis(part, x), part.shapes[x]
    length, step = int(shape[axis]), part.pick(1, 1, 2, -1)
    start = int(part.rng.integers(length))
    end = int(part.rng.integers(start + 1, length + 1)) if step > 0 else -length - 1
    count = len(range(length)[start : end if step > 0 else None : step])
    made = part.add("Slice", x, part.whole(start), part.whole(end), part.whole(axis), part.whole(step))
    part.made(made, changed(shape, axis, count))


def first(part: LengthPart) -> None:
    """The first index of the symbolic dimension, as of a class token."""
    x = part.tensor(lambda shape: SYMBOL in shape)
    axis, shape = part.shapes[x].index(SYMBOL), part.shapes[x]
    if part.rng.random() < 0.5:
        made = part.add("Slice", x, part.whole(0), part.whole(1), part.whole(axis))
        part.made(made, changed(shape, axis, 1))
    else:
        made = part.add("Gather", x, part.constant(0, np.int64), axis=axis)
        part.made(made, (*shape[:axis], *shape[axis + 1 :]))


def split(part: LengthPart) -> None:
    x = part.tensor()
    axis, shape = an_inner_axis(part, x), part.shapes[x]
    length = int(shape[axis])
    cut = int(part.rng.integers(1, length))
    names = part.add("Split", x, part.whole(cut, length - cut), outputs=2, axis=axis)
    for name, part_length in zip(names, (cut, length - cut), strict=True):
        part.made(name, changed(shape, axis, part_length))


def transposed(part: LengthPart) -> None:
    """The symbolic axis stays, mostly."""
    x = part.tensor(ranked(2, 3, 4))
    shape = part.shapes[x]
    order = [int(i) for i in part.rng.permutation(len(shape))]
    if SYMBOL in shape and part.rng.random() < 0.8:
        at = shape.index(SYMBOL)
        others = [i for i in order if i != at]
        order = [*others[:at], at, *others[at:]]
    part.made(part.add("Transpose", x, perm=order), tuple(shape[i] for i in order))


def reshaped(part: LengthPart) -> None:
    """The axes behind the symbolic one joined, or the last one divided."""
    x = part.tensor(lambda shape: SYMBOL in shape)
    shape = part.shapes[x]
    at = shape.index(SYMBOL)
    rest = int(np.prod([int(d) for d in shape[at + 1 :]]))
    divisors = [d for d in range(1, rest + 1) if rest % d == 0]
    width = int(part.pick(*divisors))
    head = [0] * (at + 1)
    tail: Shape = (width, rest // width) if part.rng.random() < 0.6 else (rest,)
    if part.rng.random() < 0.2:
        made = part.add("Reshape", x, part.whole(-1, *[int(d) for d in tail]))
        if any(d != 1 for d in shape[:at]):
            raise UnsuitableError
        part.made(made, (SYMBOL, *tail))
        return
    part.made(part.add("Reshape", x, part.whole(*head, *[int(d) for d in tail])), (*shape[: at + 1], *tail))


def squeezed(part: LengthPart) -> None:
    x = part.tensor(lambda shape: 1 in shape and len(shape) > 1)
    shape = part.shapes[x]
    axis = shape.index(1)
    part.made(part.add("Squeeze", x, part.whole(axis)), (*shape[:axis], *shape[axis + 1 :]))


def unsqueezed(part: LengthPart) -> None:
    x = part.tensor(ranked(1, 2, 3))
    shape = part.shapes[x]
    axis = int(part.rng.integers(len(shape) + 1))
    part.made(part.add("Unsqueeze", x, part.whole(axis)), (*shape[:axis], 1, *shape[axis:]))


def embedded(part: LengthPart) -> None:
    """Rows of a table, by a new input of indices."""
    indices = part.given(part.pick((1, SYMBOL), (SYMBOL,), (SYMBOL, 3)), part.pick(np.int64, np.int32))
    width = part.pick(3, 8)
    part.made(part.add("Gather", part.weights(7, width), indices), (*part.shapes[indices], width))


def gathered(part: LengthPart) -> None:
    """Some indices of an inner axis."""
    x = part.tensor()
    axis, shape = an_inner_axis(part, x), part.shapes[x]
    numbers = [int(i) for i in part.rng.integers(int(shape[axis]), size=part.pick(1, 3))]
    part.made(part.add("Gather", x, part.whole(*numbers), axis=axis), changed(shape, axis, len(numbers)))


def largest(part: LengthPart) -> None:
    x = part.tensor()
    axis, shape = an_inner_axis(part, x), part.shapes[x]
    index = part.add(part.pick("ArgMax", "ArgMin"), x, axis=axis, keepdims=1)
    part.made(part.add("Cast", index, to=1), changed(shape, axis, 1))


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


def pooled(part: LengthPart) -> None:
    x = part.tensor(lambda shape: len(shape) == 4 and SYMBOL not in shape[1:] and min(map(int, shape[2:])) >= 2)
    n, channels, height, width = part.shapes[x]
    if part.rng.random() < 0.3:
        part.made(part.add(part.pick("GlobalAveragePool", "GlobalMaxPool"), x), (n, channels, 1, 1))
        return
    made = part.add(part.pick("MaxPool", "AveragePool"), x, kernel_shape=[2, 2], strides=[2, 2])
    part.made(made, (n, channels, int(height) // 2, int(width) // 2))


def batch_norm(part: LengthPart) -> None:
    x = part.tensor(lambda shape: len(shape) >= 2 and shape[1] != SYMBOL)
    channels = int(part.shapes[x][1])
    variance = part.constant(part.rng.uniform(0.5, 2, channels), np.float32)
    given = [part.weights(channels) for _ in range(3)]
    part.made(part.add("BatchNormalization", x, *given, variance), part.shapes[x])


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


def divided_by_length(part: LengthPart) -> None:
    """A value that follows from the length."""
    x = part.tensor(lambda shape: SYMBOL in shape)
    at = part.shapes[x].index(SYMBOL)
    length = part.add("Cast", part.add("Gather", part.add("Shape", x), part.constant(at, np.int64)), to=1)
    part.made(part.add("Div", x, length), part.shapes[x])


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


def padded(part: LengthPart) -> None:
    x = part.tensor()
    axis, shape = an_inner_axis(part, x), part.shapes[x]
    before, after = part.pick((1, 0), (0, 2), (1, 1))
    pads = [0] * (2 * len(shape))
    pads[axis], pads[axis + len(shape)] = before, after
    made = part.add("Pad", x, part.whole(*pads), part.constant(0.5, np.float32))
    part.made(made, changed(shape, axis, int(shape[axis]) + before + after))


def tiled(part: LengthPart) -> None:
    x = part.tensor()
    axis, shape = an_inner_axis(part, x), part.shapes[x]
    repeats = [1] * len(shape)
    repeats[axis] = 2
    part.made(part.add("Tile", x, part.whole(*repeats)), changed(shape, axis, 2 * int(shape[axis])))


def summed(part: LengthPart) -> None:
    x = part.tensor()
    axis = an_inner_axis(part, x) if part.rng.random() < 0.8 else int(part.rng.integers(len(part.shapes[x])))
    part.made(part.add("CumSum", x, part.constant(axis, np.int64)), part.shapes[x])


def top(part: LengthPart) -> None:
    x = part.tensor()
    axis, shape = an_inner_axis(part, x), part.shapes[x]
    values, indices = part.add("TopK", x, part.whole(1), outputs=2, axis=axis)
    part.made(values, changed(shape, axis, 1))
    part.made(part.add("Cast", indices, to=1), changed(shape, axis, 1))


def recurrent(part: LengthPart) -> None:
    """A GRU over a known number of steps, whose batch is the symbolic dimension."""
    x = part.tensor(lambda s: len(s) == 3 and s[1] == SYMBOL and s[0] != SYMBOL and fixed_end(s) and int(s[0]) <= 4)
    steps, n, width = part.shapes[x]
    given = [part.weights(1, 3 * 4, int(width)), part.weights(1, 3 * 4, 4)]
    y, _ = part.add("GRU", x, *given, outputs=2, hidden_size=4)
    part.made(part.add("Squeeze", y, part.whole(1)), (steps, n, 4))


def einsum(part: LengthPart) -> None:
    x = part.tensor(lambda shape: len(shape) == 3 and fixed_end(shape))
    shape = part.shapes[x]
    part.made(part.add("Einsum", x, part.weights(int(shape[-1]), 5), equation="abc,cd->abd"), (*shape[:-1], 5))


def of_heads(part: LengthPart) -> None:
    """Products of matrices inside of each index, both computed."""
    x = part.tensor(lambda s: len(s) == 3 and s[0] == SYMBOL and fixed_end(s))
    n, rows, _ = part.shapes[x]
    made = part.add("MatMul", x, part.add("Transpose", x, perm=[0, 2, 1]))
    part.made(part.unary("Softsign", part.made(made, (n, rows, rows))), (n, rows, rows))


# In one library with dynamic quantization, attention of one length has another order of sums than that of any length.
ATTENTION = frozenset({"attention", "attention node", "multi head"})
DYNAMIC = frozenset({"dynamic"})
KINDS: Mapping[str, tuple[int, Kind]] = {  # name: (first opset, function)
    **{f"unary {i}": (17, unary) for i in range(3)},
    **{f"constant {i}": (17, with_constant) for i in range(3)},
    **{f"product {i}": (17, product) for i in range(3)},
    "tensor": (17, with_tensor),
    "broadcast": (17, with_broadcast),
    "select": (17, select),
    "clip": (17, clip),
    "gemm": (17, gemm),
    "norm": (17, normalised),
    "rms": (23, rms),
    "softmax": (17, softmax),
    "reduction": (17, reduction),
    "centred": (17, centred),
    "concat": (17, concatenated),
    "slice": (17, sliced),
    "first": (17, first),
    "split": (17, split),
    "transpose": (17, transposed),
    "reshape": (17, reshaped),
    "squeeze": (17, squeezed),
    "unsqueeze": (17, unsqueezed),
    "embedding": (17, embedded),
    "gather": (17, gathered),
    "largest": (17, largest),
    "convolution": (17, convolution),
    "window": (17, window),
    "pool": (17, pooled),
    "batch norm": (17, batch_norm),
    "attention": (17, attention),
    "attention node": (23, attention_node),
    "multi head": (17, multi_head),
    "divided": (17, divided_by_length),
    "dynamic": (17, dynamic_product),
    "quantised": (17, quantised_product),
    "pad": (17, padded),
    "tile": (17, tiled),
    "cumsum": (17, summed),
    "top": (17, top),
    "recurrent": (17, recurrent),
    "einsum": (17, einsum),
    "of heads": (17, of_heads),
}
