"""Handlers of matrix products."""

from collections.abc import Mapping

from mavcg.importers.emitter import Value
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once


def matmul(call: OnnxCall) -> Results:
    """Import MatMul."""
    return multiply(call, call.input(0), call.input(1))


def multiply(call: OnnxCall, a: Value, b: Value) -> Value:
    """Return the product as NumPy's matmul defines it, including vectors."""
    if not a.rank or not b.rank:
        raise call.fail(f"a product of {a.type} and {b.type}; each needs a dimension")
    row, column = a.rank == 1, b.rank == 1
    if row:
        a = call.reshape(a, (1, *a.shape))
    if column:
        b = call.reshape(b, (*b.shape, 1))
    made = call.add("matmul", a, b)
    shape = list(made.shape)
    if column:
        del shape[-1]
    if row:
        del shape[-1 if column else -2]
    return call.reshape(made, shape)


@round_once
def gemm(call: OnnxCall) -> Results:
    """Import Gemm: alpha * A' * B' + beta * C."""
    return gemm_of(call, call.input(0, rank=2), call.input(1, rank=2), call.maybe(2))


def gemm_of(call: OnnxCall, a: Value, b: Value, c: Value | None) -> Value:
    """Return alpha * A' * B' + beta * C, with A and B transposed if transA and transB are set."""
    alpha, beta = call.attr_float("alpha", 1.0), call.attr_float("beta", 1.0)
    if call.attr_bool("transA"):
        a = call.transpose(a, (1, 0))
    transposed = call.attr_bool("transB")
    if transposed and b.is_constant:
        b, transposed = call.transpose(b, (1, 0)), False
    if alpha != 1.0:
        if b.is_constant:
            b = call.add("mul", b, call.scalar(alpha, b))
        else:
            a = call.add("mul", a, call.scalar(alpha, a))
    if c is None or beta == 0.0:
        return call.add("matmul", a, b, transpose_b=transposed)
    if beta != 1.0:
        c = call.add("mul", c, call.scalar(beta, c))
    width = b.shape[0 if transposed else 1]
    if c.shape == (width,) or (c.shape == (1, width) and c.is_constant):
        return call.add("matmul", a, b, call.reshape(c, (width,)), transpose_b=transposed)
    made = call.add("matmul", a, b, transpose_b=transposed)
    total = call.add("add", made, c)
    if total.shape != made.shape:
        raise call.fail(f"C {c.type} does not broadcast to the product's {made.type}")
    return total


HANDLERS: Mapping[str, Handler] = {"MatMul": matmul, "Gemm": gemm}
