"""Emitters of loops over contiguous f32 elements: by vectors, copies, zeros."""

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import (
    F32,
    address,
    const,
    f32_splat,
    load_vector,
    repeat,
    scale_index,
    store_vector,
    vector,
)
from mavcg.specs.primitive import F32_BYTES

Value: TypeAlias = ir.Value


def along(b: ir.IRBuilder, count: int, lanes: int, body: Callable[[Value, int], None]) -> None:
    """Emit body(index, lanes) over `count` elements: whole vectors, then powers of two of fewer lanes."""
    whole = count // lanes * lanes
    if whole:
        repeat(b, 0, whole, lambda i: body(i, lanes), "vector", lanes)
    at = whole
    while at < count:
        size = 1 << ((count - at).bit_length() - 1)
        body(const(at), size)
        at += size


def fill_zeros(b: ir.IRBuilder, pointer: Value, count: int, lanes: int) -> None:
    """Emit stores of `count` f32 zeros."""
    along(b, count, lanes, lambda i, n: store_vector(b, f32_splat(0.0, n), _element(b, pointer, i)))


def copy_run(b: ir.IRBuilder, source: Value, target: Value, count: int, lanes: int) -> None:
    """Emit a copy of `count` contiguous f32 elements."""

    def piece(i: Value, n: int) -> None:
        store_vector(b, load_vector(b, _element(b, source, i), vector(F32, n), name="run"), _element(b, target, i))

    along(b, count, lanes, piece)


def _element(b: ir.IRBuilder, base: Value, index: Value) -> Value:
    return address(b, base, scale_index(b, index, F32_BYTES))
