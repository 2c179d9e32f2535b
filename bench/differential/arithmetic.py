"""Random graphs of operators that compute: element by element, reductions, products, comparisons and casts."""

from collections.abc import Callable

import numpy as np

from bench.differential.part import FLOAT_TYPES, WHOLE_TYPES, Part


def binary(op: str) -> Callable[[Part], str]:
    def add_to(p: Part) -> str:
        shape = p.shape()
        operand_shape = tuple(p.pick(n, n, 1) for n in shape)[p.pick(0, 0, len(shape) // 2) :]
        whole = op not in ("Pow", "PRelu", "Mean", "Sum", "Div")
        types = (np.int32, np.int64, np.uint32, np.uint64) if op in ("Max", "Min") else (np.int32, np.int64)
        dtype = p.pick(p.dtype, p.dtype, *types) if whole and p.opset >= 12 else p.dtype
        low = 0.1 if op == "Pow" else -3
        return str(p.add(op, p.input(*shape, dtype=dtype, low=low), p.input(*operand_shape, dtype=dtype)))

    return add_to


def comparison(op: str) -> Callable[[Part], str]:
    def add_to(p: Part) -> str:
        shape = p.shape()
        dtype = p.pick(p.dtype, p.dtype, np.int32, np.int64)
        return str(p.add(op, p.input(*shape, dtype=dtype), p.input(*shape, dtype=dtype)))

    return add_to


def logic(op: str) -> Callable[[Part], str]:
    def add_to(p: Part) -> str:
        shape = p.shape()
        inputs = [p.input(*shape, dtype=np.bool_) for _ in range(1 if op == "Not" else 2)]
        return str(p.add(op, *inputs))

    return add_to


def modulo(p: Part) -> str:
    shape, dtype = p.shape(), p.pick(p.dtype, *WHOLE_TYPES)
    fmod = int(np.dtype(dtype).kind == "f") or p.pick(0, 1)
    divisor = p.constant(p.rng.integers(1, 90, shape), dtype)
    return str(p.add("Mod", p.input(*shape, dtype=dtype), divisor, fmod=fmod))


def reduction(op: str) -> Callable[[Part], str]:
    def add_to(p: Part) -> str:
        shape = p.shape()
        axes = sorted({int(p.rng.integers(len(shape))) for _ in range(2)})
        low = 0.1 if op in ("ReduceLogSum", "ReduceProd") else -3
        whole = op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare")
        dtype = p.pick(p.dtype, p.dtype, np.int32, np.int64) if whole else p.dtype
        x, keep = p.input(*shape, low=low, dtype=dtype), {"keepdims": p.pick(0, 1)}
        if p.opset >= 18 or (op == "ReduceSum" and p.opset >= 13):
            return str(p.add(op, x, p.constant(axes, np.int64), **keep))
        return str(p.add(op, x, axes=axes, **keep))

    return add_to


def matmul(p: Part) -> str:
    rows, inner, columns = p.pick(1, 5, 17), p.pick(1, 7, 33), p.pick(1, 8, 31)
    batch = p.pick((), (2,), (2, 3))
    b = p.weights(inner, columns) if p.rng.random() < 0.6 else p.input(*batch, inner, columns)
    return str(p.add("MatMul", p.input(*batch, rows, inner), b))


def gemm(p: Part) -> str:
    rows, inner, columns = p.pick(1, 5, 17), p.pick(1, 7, 33), p.pick(1, 8, 31)
    w = p.weights(columns, inner)
    return str(p.add("Gemm", p.input(rows, inner), w, p.weights(columns), transB=1, alpha=0.5, beta=p.pick(1.0, 2.0)))


def where(p: Part) -> str:
    shape = p.shape()
    condition = p.add("Less", p.input(*shape), p.input(*shape))
    return str(p.add("Where", condition, p.input(*shape), p.input(*shape)))


def clip(p: Part) -> str:
    dtype = p.pick(p.dtype, p.dtype, np.int32, np.int64, np.uint8, np.int8) if p.opset >= 12 else p.dtype
    low, high = (-0.5, 1.5) if np.dtype(dtype).kind == "f" else (3, 90)
    return str(p.add("Clip", p.input(*p.shape(), dtype=dtype), p.constant(low, dtype), p.constant(high, dtype)))


def cast(p: Part) -> str:
    from onnx import helper

    types = (*FLOAT_TYPES, *WHOLE_TYPES, np.bool_)
    source, target = p.pick(*types), p.pick(*types)
    p.hard = False  # the integer that NaN, or a number out of its range, becomes is not defined
    low = 0 if np.dtype(target).kind == "u" else -3
    return str(
        p.add("Cast", p.input(*p.shape(), dtype=source, low=low), to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))
    )


def cast_like(p: Part) -> str:
    p.hard = False
    return str(p.add("CastLike", p.input(*p.shape()), p.constant([1], p.pick(*FLOAT_TYPES, np.int32, np.int8))))


def sum_of_whole(op: str) -> Callable[[Part], str]:
    def add_to(p: Part) -> str:
        x = p.input(*p.shape(), dtype=p.pick(np.int32, np.int64, np.int8))
        return str(p.add(op, x))

    return add_to


def unary(op: str) -> Callable[[Part], str]:
    return lambda p: str(p.add(op, p.input(*p.shape(), low=-30 if op in ("Sin", "Cos", "Tan") else -3)))
