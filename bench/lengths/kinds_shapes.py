"""Operators of random graphs with a symbolic dimension that move or choose elements."""

import numpy as np

from bench.lengths.growing import SYMBOL, LengthPart, Shape, UnsuitableError, an_inner_axis, changed, ranked


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


def last(part: LengthPart) -> None:
    """The last index of the symbolic dimension, or all from the last one back."""
    x = part.tensor(lambda shape: SYMBOL in shape)
    axis, shape = part.shapes[x].index(SYMBOL), part.shapes[x]
    kind = part.pick("slice", "gather", "back")
    if kind == "slice":
        made = part.add("Slice", x, part.whole(-1), part.whole(2**31 - 1), part.whole(axis))
        part.made(made, changed(shape, axis, 1))
    elif kind == "gather":
        made = part.add("Gather", x, part.constant(-1, np.int64), axis=axis)
        part.made(made, (*shape[:axis], *shape[axis + 1 :]))
    else:
        bounds = (part.whole(i) for i in (-1, -(2**31), axis, -1))
        part.made(part.add("Slice", x, *bounds), shape)


def shifted(part: LengthPart) -> None:
    """Rows behind those of the symbolic dimension, or in front of them; as many are cut off at the other end."""
    x = part.tensor(lambda shape: SYMBOL in shape)
    axis, shape = part.shapes[x].index(SYMBOL), part.shapes[x]
    count = part.pick(1, 2)
    rows = part.weights(*(count if d == SYMBOL else int(d) for d in shape))
    if part.rng.random() < 0.3:  # twice the rows, of which the second half is taken
        y = part.tensor(lambda other: other == shape)
        joined = part.add("Concat", y, x, axis=axis)
        length = part.add("Gather", part.add("Shape", x), part.whole(axis))
        made = part.add("Slice", joined, length, part.whole(2**31 - 1), part.whole(axis))
    elif part.rng.random() < 0.7:
        joined = part.add("Concat", x, rows, axis=axis)
        made = part.add("Slice", joined, part.whole(count), part.whole(2**31 - 1), part.whole(axis))
    else:
        joined = part.add("Concat", rows, x, rows, axis=axis)
        made = part.add("Slice", joined, part.whole(0), part.whole(-2 * count), part.whole(axis))
    part.made(made, shape)


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
    axis, shape = int(part.rng.integers(len(part.shapes[x]))), part.shapes[x]
    index = part.add(part.pick("ArgMax", "ArgMin"), x, axis=axis, keepdims=1)
    part.made(part.add("Cast", index, to=1), changed(shape, axis, 1))


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


def top(part: LengthPart) -> None:
    x = part.tensor()
    axis, shape = int(part.rng.integers(len(part.shapes[x]))), part.shapes[x]
    values, indices = part.add("TopK", x, part.whole(1), outputs=2, axis=axis)
    part.made(values, changed(shape, axis, 1))
    part.made(part.add("Cast", indices, to=1), changed(shape, axis, 1))
