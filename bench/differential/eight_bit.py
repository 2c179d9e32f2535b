"""Random graphs of 8-bit operators, ONNX's own and Microsoft's."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.differential.images import (
    random_image,
)
from bench.differential.part import MICROSOFT, Part


def eight_bit(op: str) -> Callable[[Part], Any]:
    def add_to(p: Part) -> Any:
        dtype = p.pick(np.uint8, np.int8)
        scale, zero = p.constant(0.05, np.float32), p.constant(p.pick(0, 3), dtype)
        if op == "QuantizeLinear":
            return p.add(op, p.input(*p.shape(), dtype=np.float32), scale, zero)
        if op == "DequantizeLinear":
            return p.add(op, p.input(*p.shape(), dtype=dtype), scale, zero)
        if op == "DynamicQuantizeLinear":
            return p.add(op, p.input(*p.shape(), dtype=np.float32), outputs=3)
        if op == "MatMulInteger":
            w = p.constant(p.rng.integers(-127, 127, (9, 5)), np.int8)
            return p.add(op, p.input(4, 9, dtype=np.uint8), w, p.constant(2, np.uint8))
        if op == "QLinearMatMul":
            w, w_scale = p.constant(p.rng.integers(-60, 60, (9, 5)), np.int8), p.constant(0.02, np.float32)
            given = (p.input(4, 9, dtype=dtype), scale, zero, w, w_scale, p.constant(0, np.int8))
            return p.add(op, *given, p.constant(0.1, np.float32), p.constant(9, dtype))
        if op == "ConvInteger":
            w = p.constant(p.rng.integers(-60, 60, (5, 3, 3, 3)), np.int8)
            return p.add(op, p.input(1, 3, 6, 7, dtype=np.uint8), w, p.constant(3, np.uint8))
        x = p.input(1, 3, 6, 7, dtype=np.uint8)
        w = p.constant(p.rng.integers(-60, 60, (5, 3, 3, 3)), np.int8)
        w_scale, w_zero = p.constant(0.02, np.float32), p.constant(0, np.int8)
        x_zero, y_zero = p.constant(3, np.uint8), p.constant(100, np.uint8)
        return p.add(op, x, scale, x_zero, w, w_scale, w_zero, p.constant(0.1, np.float32), y_zero)

    return add_to


def microsoft(op: str) -> Callable[[Part], str]:
    """Return the operators of com.microsoft that the importer supports."""

    def eight_bits(p: Part, *shape: int) -> tuple[str, str, str]:
        dtype = p.memo.setdefault("dtype", p.pick(np.uint8, np.int8))
        return (
            p.input(*shape, dtype=dtype),
            p.constant(p.rng.uniform(0.01, 0.1), np.float32),
            p.constant(p.pick(0, 3), dtype),
        )

    def real(p: Part) -> str:
        if op == "FusedMatMul":
            a, b = p.pick((), (2,)), p.pick(1, 8, 31)
            transposed_a, transposed_b = p.pick(0, 1), p.pick(0, 1)
            x = p.input(*a, *((7, 5) if transposed_a else (5, 7)))
            w = p.input(*a, *((b, 7) if transposed_b else (7, b)))
            return str(
                p.add(op, x, w, domain=MICROSOFT, transA=transposed_a, transB=transposed_b, alpha=p.pick(1.0, 0.3))
            )
        if op == "FusedConv":
            x, n = random_image(p)
            act = p.pick("Relu", "Sigmoid", "Tanh", "LeakyRelu")
            params: dict[str, Any] = {"activation_params": [0.1]} if act == "LeakyRelu" else {}
            w = p.weights(5, n, 3, 3)
            return str(p.add(op, x, w, p.weights(5), domain=MICROSOFT, pads=[1] * 4, activation=act, **params))
        shape = p.shape()
        bias = [p.weights(shape[-1])] if op == "BiasGelu" or (op == "FastGelu" and p.pick(0, 1)) else []
        more: dict[str, Any] = {"alpha": p.pick(1.702, 1.0)} if op == "QuickGelu" else {}
        return str(p.add(op, p.input(*shape), *bias, domain=MICROSOFT, **more))

    def add_to(p: Part) -> str:
        if not op.startswith("Q") or op == "QuickGelu":
            return real(p)
        scale = p.constant(p.rng.uniform(0.02, 0.2), np.float32)
        shape = p.shape(4)
        given = [*eight_bits(p, *shape)]
        zero = p.constant(p.pick(0, 5), p.memo["dtype"])
        more: dict[str, Any] = {}
        if op in ("QLinearAdd", "QLinearMul"):
            given += eight_bits(p, *shape[p.pick(0, 2) :])
        elif op == "QLinearConcat":
            given = [scale, zero, *given, *eight_bits(p, *shape)]
            return str(p.add(op, *given, domain=MICROSOFT, axis=p.pick(0, 1, 3)))
        elif op == "QLinearAveragePool":
            more = {"kernel_shape": [1, min(2, shape[3])], "strides": [1, 1]}
        elif op == "QLinearLeakyRelu":
            more = {"alpha": 0.1}
        elif op == "QLinearSoftmax":
            more = {"axis": p.pick(-1, 1), "opset": 13}
        elif op == "QLinearGlobalAveragePool":
            more = {"channels_last": 0}
        elif op == "QGemm":
            rows, inner, columns = p.pick(1, 5), p.pick(7, 33), p.pick(8, 31)
            x_zero, w_zero = p.constant(p.pick(0, 3), np.uint8), p.constant(0, np.int8)
            x_scale, w_scale = p.constant(0.03, np.float32), p.constant(0.02, np.float32)
            w = p.constant(p.rng.integers(-60, 60, (inner, columns)), np.int8)
            bias = p.constant(p.rng.integers(-500, 500, columns), np.int32)
            p.inputs.clear()
            x = p.input(rows, inner, dtype=np.uint8)
            out = p.constant(100, np.uint8)
            return str(p.add(op, x, x_scale, x_zero, w, w_scale, w_zero, bias, scale, out, domain=MICROSOFT, alpha=1.0))
        return str(p.add(op, *given, scale, zero, domain=MICROSOFT, **more))

    return add_to


MICROSOFTS = (
    "BiasGelu",
    "FastGelu",
    "Gelu",
    "QuickGelu",
    "FusedConv",
    "FusedMatMul",
    "QGemm",
    "QLinearAdd",
    "QLinearMul",
    "QLinearAveragePool",
    "QLinearConcat",
    "QLinearGlobalAveragePool",
    "QLinearLeakyRelu",
    "QLinearSigmoid",
    "QLinearSoftmax",
)
