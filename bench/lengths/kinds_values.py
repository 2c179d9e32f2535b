"""Operators of random graphs with a symbolic dimension that compute: element by element, products, sums, norms."""

from typing import Any

import numpy as np

from bench.lengths.growing import SYMBOL, LengthPart, Shape, an_inner_axis, fixed_end

UNARY = ("Relu", "Sigmoid", "Tanh", "Erf", "Neg", "Abs", "LeakyRelu", "Softsign", "HardSigmoid", "Elu", "Floor", "Sin")


def unary(part: LengthPart) -> None:
    part.unary(part.pick(*UNARY), part.tensor(most_symbols=3))


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


def batch_norm(part: LengthPart) -> None:
    x = part.tensor(lambda shape: len(shape) >= 2 and shape[1] != SYMBOL)
    channels = int(part.shapes[x][1])
    variance = part.constant(part.rng.uniform(0.5, 2, channels), np.float32)
    given = [part.weights(channels) for _ in range(3)]
    part.made(part.add("BatchNormalization", x, *given, variance), part.shapes[x])


def divided_by_length(part: LengthPart) -> None:
    """A value that follows from the length."""
    x = part.tensor(lambda shape: SYMBOL in shape)
    at = part.shapes[x].index(SYMBOL)
    length = part.add("Cast", part.add("Gather", part.add("Shape", x), part.constant(at, np.int64)), to=1)
    part.made(part.add("Div", x, length), part.shapes[x])


def summed(part: LengthPart) -> None:
    """Running sums along any axis, from its end too, with or without the element itself."""
    x = part.tensor()
    axis = int(part.rng.integers(len(part.shapes[x])))
    ends = {"exclusive": part.pick(0, 1), "reverse": part.pick(0, 1)}
    part.made(part.add("CumSum", x, part.constant(axis, np.int64), **ends), part.shapes[x])


def gram(part: LengthPart) -> None:
    """Products of a tensor's columns, summed over its rows, as in the attention of channels and of styles."""
    x = part.tensor(lambda s: len(s) in (3, 4) and fixed_end(s) and s[-2] == SYMBOL)
    *outer, _, width = part.shapes[x]
    turned = part.add("Transpose", x, perm=[*range(len(outer)), len(outer) + 1, len(outer)])
    y = part.tensor(lambda s: s[:-1] == part.shapes[x][:-1])
    made = part.made(part.add("MatMul", turned, y), (*outer, width, part.shapes[y][-1]))
    part.unary("Softsign", made)


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
