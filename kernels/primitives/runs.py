"""Emitters of loops over contiguous f32 elements: by vectors, copies, zeros."""

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import F32, address, const, lanes_and_element, repeat, scale_index, vector
from mavcg.kernels.builder.lanes import f32_splat, load_vector, store_vector
from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.specs.kernel import Machine
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


def copy_run_of(
    b: ir.IRBuilder, machine: Machine, source: Value, target: Value, count: Value, source_step: int, target_step: int
) -> None:
    """Emit a copy of `count` elements, a number known at run time, in vectors if both sides are contiguous.

    source_step, target_step: from an element to the next, in bytes.
    """

    def move(index: Value, typ: ir.Type) -> None:
        value = load_vector(b, address(b, source, scale_index(b, index, source_step)), typ, name="value")
        b.store(value, address(b, target, scale_index(b, index, target_step)), align=F32_BYTES)

    _run(b, machine, count, source_step == target_step == F32_BYTES, move)


def zero_run_of(b: ir.IRBuilder, machine: Machine, target: Value, count: Value, step: int) -> None:
    """Emit stores of `count` zeros, a number known at run time. step: from an element to the next, in bytes."""

    def clear(index: Value, typ: ir.Type) -> None:
        lanes, _ = lanes_and_element(typ)
        b.store(f32_splat(0.0, lanes), address(b, target, scale_index(b, index, step)), align=F32_BYTES)

    _run(b, machine, count, step == F32_BYTES, clear)


def _run(b: ir.IRBuilder, machine: Machine, count: Value, dense: bool, body: Callable[[Value, ir.Type], None]) -> None:
    first: Value = const(0)
    if dense:
        lanes = lanes_f32(machine)
        first = b.and_(count, const(-lanes), name="whole")
        repeat(b, 0, first, lambda i: body(i, ir.VectorType(F32, lanes)), "vector", lanes)
    repeat(b, first, count, lambda i: body(i, F32), "element")
