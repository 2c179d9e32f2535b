"""Corners of operators: scalars, vectors in products, empty lists of axes, lengths that are parts of a Shape."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.chains.growing import Growing, Kind, UnsuitableError


def scalar(p: Growing) -> None:
    """Reduce to a scalar, and combine it with another result."""
    x = p.real()
    y = p.add("ReduceMean", x, keepdims=0)
    p.add(p.pick("Sub", "Mul", "Max", "Min"), *p.pick((x, y), (y, p.real())))


def vector_product(p: Growing) -> None:
    """MatMul with a vector on one side, or on both."""
    x = p.real(p.pick(1, 2, 3))
    shape = p.shape_of(x)
    scale = 1 / np.sqrt(shape[-1])
    if p.pick(0, 1) or len(shape) == 1:
        right = (shape[-1],) if p.pick(0, 1) else (shape[-1], 3)
        p.add("MatMul", x, p.constant(p.rng.uniform(-scale, scale, right), p.dtype))
    else:
        p.add("MatMul", p.constant(p.rng.uniform(-scale, scale, shape[-2]), p.dtype), x)


def gemm(p: Growing) -> None:
    """Gemm with a transposed result, and a third operand that broadcasts in each of its forms."""
    a = p.real(2)
    turned = p.pick(0, 1)
    rows, inner = p.shape_of(a)[:: -1 if turned else 1]
    columns, other = p.pick(1, 3, 8), p.pick(0, 1)
    b = p.constant(p.rng.uniform(-1, 1, (columns, inner) if other else (inner, columns)) / np.sqrt(inner), p.dtype)
    c = p.weights(*p.pick((), (1,), (columns,), (1, columns), (rows, 1), (rows, columns)))
    given = (a, b) if p.opset >= 11 and p.pick(0, 1) else (a, b, c)
    p.add("Gemm", *given, transA=turned, transB=other, alpha=p.pick(1.0, 0.5), beta=p.pick(1.0, 2.0))


def noop_reduction(p: Growing) -> None:
    """Reduce along an empty list of axes: along all, or along none."""
    op = p.pick("ReduceSum", "ReduceMax", "ReduceMean", "ReduceL1")
    if p.opset < (13 if op == "ReduceSum" else 18):
        raise UnsuitableError("axes are an attribute")
    axes = [p.constant([], np.int64)] if p.pick(0, 1) else []
    p.add(op, p.real(), *axes, keepdims=p.pick(0, 1), noop_with_empty_axes=p.pick(0, 1))


def expand_both_ways(p: Growing) -> None:
    """Expand to a shape with ones where the tensor is long, and of another rank."""
    x = p.real()
    shape = [n if n > 1 and p.pick(0, 1) else (1 if n > 1 else p.pick(1, 2, 3)) for n in p.shape_of(x)]
    target = p.pick(shape, [p.pick(1, 2), *shape], shape[1:] or shape)
    p.add("Expand", x, p.constant(target, np.int64))


def part_of_shape(p: Growing) -> None:
    """Expand or reshape by a part of a Shape, by its start and end."""
    x = p.real(p.pick(2, 3, 4))
    rank = len(p.shape_of(x))
    start = int(p.rng.integers(-rank, rank - 1))
    more: dict[str, Any] = {"end": rank} if p.pick(0, 1) else {}
    y = p.add("Shape", x, start=start, **more)
    if p.pick(0, 1):
        p.add("Expand", p.constant([0.5], p.dtype) if p.pick(0, 1) else p.add("ReduceMax", x, keepdims=0), y)
    else:
        p.add("Reshape", x, p.add("Concat", p.constant([-1], np.int64), y, axis=0))


def size_of(p: Growing) -> None:
    """Divide a sum by the Size of the tensor, as a mean is written by some exporters."""
    from onnx import helper

    x = p.real()
    size = p.add("Cast", p.add("Size", x), to=helper.np_dtype_to_tensor_dtype(np.dtype(p.dtype)))
    p.add("Div", p.add("ReduceSum", x, keepdims=p.pick(0, 1)), size)


def gather_nd(p: Growing) -> None:
    """GatherND with batch_dims, and indices that count from the end."""
    x = p.real(p.pick(2, 3, 4))
    shape = p.shape_of(x)
    batch = p.pick(0, 1) if p.opset >= 12 else 0
    depth = p.size(len(shape) - batch)
    leading = (*shape[:batch], p.pick(1, 3)) if batch else p.pick((2,), (2, 3), ())
    lengths = shape[batch : batch + depth]
    indices = np.stack([p.rng.integers(-n, n, leading) for n in lengths], -1)
    more: dict[str, Any] = {"batch_dims": batch} if p.opset >= 12 else {}
    p.add("GatherND", x, p.constant(indices, np.int64), **more)


def pad_axes(p: Growing) -> None:
    x = p.real()
    rank = len(p.shape_of(x))
    axes = [int(a) - p.pick(0, rank) for a in p.rng.permutation(rank)[: p.size(rank)]]
    pads = [p.pick(0, 1, 2) for _ in axes * 2]
    p.add("Pad", x, p.constant(pads, np.int64), "", p.constant(axes, np.int64), mode="constant")


def split_unevenly(p: Growing) -> None:
    """Split into a number of parts of which the last is shorter."""
    x = p.real()
    axis = int(np.argmax(p.shape_of(x)))
    length = p.shape_of(x)[axis]
    parts = p.pick(2, 3, 4)
    if parts > length or (parts - 1) * -(-length // parts) >= length:
        raise UnsuitableError("a part without elements")
    p.add("Split", x, outputs=parts, axis=axis - p.pick(0, len(p.shape_of(x))), num_outputs=parts)


def transposed_to_shape(p: Growing) -> None:
    """ConvTranspose with output_shape."""
    x = p.real(4)
    channels, height, width = p.shape_of(x)[1:]
    strides = [p.pick(1, 2), p.pick(1, 2)]
    kernel = [max(s, p.size(3)) for s in strides]
    whole = [(n - 1) * s + k for n, s, k in zip((height, width), strides, kernel, strict=True)]
    shape = [max(1, n - p.pick(0, 1, 2)) for n in whole]
    w = p.weights(channels, p.pick(1, 3), *kernel)
    p.add("ConvTranspose", x, w, strides=strides, output_shape=shape)


def scatter_old(p: Growing) -> None:
    """ScatterElements along a negative axis, by indices that count from the end."""
    x = p.real()
    shape = p.shape_of(x)
    axis = int(p.rng.integers(len(shape)))
    small = [1 if at == axis else p.size(n) for at, n in enumerate(shape)]
    indices = p.rng.integers(-shape[axis], shape[axis], small)
    p.add("ScatterElements", x, p.constant(indices, np.int32), p.weights(*small), axis=axis - len(shape))


def moments(p: Growing) -> None:
    """Normalise by mean and variance that the graph computes, as layer norms are exported."""
    x = p.real()
    axis = int(p.rng.integers(len(p.shape_of(x))))
    given = [p.constant([axis], np.int64)] if p.opset >= 18 else []
    more: dict[str, Any] = {} if p.opset >= 18 else {"axes": [axis]}
    centred = p.add("Sub", x, p.add("ReduceMean", x, *given, **more))
    square = p.pick(("Mul", centred), ("Pow", p.constant(2, p.dtype)))
    if p.dtype == np.float64:
        square = ("Mul", centred)
    variance = p.add("ReduceMean", p.add(square[0], centred, square[1]), *given, **more)
    p.add("Div", centred, p.add("Sqrt", p.add("Add", variance, p.constant(1e-2, p.dtype))))


def logic(p: Growing) -> None:
    """Combine comparisons, and select or count by them."""
    from onnx import helper

    x = p.real()
    a = p.add("Greater", x, p.constant(0.0, p.dtype))
    b = p.add("Less", x, p.constant(1.0, p.dtype))
    c = p.add(p.pick("And", "Or", "Xor"), a, b)
    whole = p.add("Cast", c, to=helper.np_dtype_to_tensor_dtype(np.dtype(p.pick(np.int32, np.int64))))
    if p.opset >= 13:
        p.add("ReduceSum", whole, p.constant([-1], np.int64), keepdims=p.pick(0, 1))
    else:
        p.add("ReduceSum", whole, axes=[len(p.shape_of(x)) - 1], keepdims=p.pick(0, 1))


KINDS: Mapping[str, tuple[int, Kind]] = {
    "Scalar": (9, scalar),
    "MatMul of vectors": (9, vector_product),
    "Gemm in all forms": (9, gemm),
    "Reduction of no axes": (13, noop_reduction),
    "Expand both ways": (8, expand_both_ways),
    "Part of a Shape": (15, part_of_shape),
    "Size": (13, size_of),
    "GatherND": (11, gather_nd),
    "Pad of some axes": (18, pad_axes),
    "Split unevenly": (18, split_unevenly),
    "ConvTranspose to a shape": (9, transposed_to_shape),
    "ScatterElements from the end": (11, scatter_old),
    "Mean and variance": (9, moments),
    "Logic": (9, logic),
}
